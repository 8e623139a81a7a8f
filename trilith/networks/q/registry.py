"""Networks of Q-values by their names: a new one is a file in this room and a line here."""

from __future__ import annotations

from collections.abc import Callable

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.scene_batch import ReplaySchema
from trilith.networks.q.base import QNet
from trilith.networks.q.graph import GraphNet
from trilith.networks.q.objects import ObjectsNet
from trilith.networks.q.pixel_attention import PixelAttentionNet
from trilith.networks.q.pixel_graph import PixelGraphNet

NETWORKS: dict[str, Callable[[ReplaySchema, Mask, NetConfig], QNet]] = {
    "objects": ObjectsNet,
    "graph": GraphNet,
    "pixels": PixelGraphNet,
    "pixel-attention": PixelAttentionNet,
}


def make_qnet(config: NetConfig, schema: ReplaySchema, mask: Mask) -> QNet:
    """The network of a config, with fresh weights from torch's generator. Raises ValueError naming those there are."""
    if config.network not in NETWORKS:
        raise ValueError(f"there is no network {config.network!r}: choose {', '.join(NETWORKS)}")
    return NETWORKS[config.network](schema, mask, config)
