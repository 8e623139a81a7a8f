"""Q-networks by name. To add one, write a file in this package and a line here, or use a class of your own as my_module:MyNetwork. Its
constructor takes (schema, mask, config)."""

from __future__ import annotations

from collections.abc import Callable

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.scene_batch import ReplaySchema
from trilith.networks.q.base import QNet
from trilith.networks.q.graph import GraphNet, PixelGraphNet
from trilith.networks.q.objects import ObjectsNet
from trilith.networks.q.pixel_attention import PixelAttentionNet
from trilith.utils.modules import imported, names_a_class

NETWORKS: dict[str, type[QNet]] = {
    "objects": ObjectsNet,
    "graph": GraphNet,
    "pixels": PixelGraphNet,
    "pixel-attention": PixelAttentionNet,
}


def make_qnet(config: NetConfig, schema: ReplaySchema, mask: Mask) -> QNet:
    """Makes the network that a config describes, for states in the format `schema`. The initial weights are drawn from torch's global
    random generator. Raises ValueError, with the known names, if there is no such network."""
    name = config.network
    if name not in NETWORKS and not names_a_class(name):
        raise ValueError(f"there is no network {name!r}: choose {', '.join(NETWORKS)}, or name a class as my_module:MyNetwork")
    kind = NETWORKS[name] if name in NETWORKS else imported(name, "network")
    if not (isinstance(kind, type) and issubclass(kind, QNet)):
        raise ValueError(f"{name} is not a network of Q-values: derive it from trilith.networks.q.base.QNet")
    make: Callable[[ReplaySchema, Mask, NetConfig], QNet] = kind
    return make(schema, mask, config)
