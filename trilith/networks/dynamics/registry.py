"""Networks of learned transition models by name. To add one, write a file in this package and a line here."""

from __future__ import annotations

from collections.abc import Callable

from trilith.networks.config import DynamicsConfig
from trilith.networks.dynamics.attention import AttentionDynamics
from trilith.networks.dynamics.base import Dynamics
from trilith.networks.dynamics.graph import GraphDynamics
from trilith.utils.checks import require

NETWORKS: dict[str, Callable[[DynamicsConfig], Dynamics]] = {"attention": AttentionDynamics, "graph": GraphDynamics}


def make_dynamics(config: DynamicsConfig) -> Dynamics:
    """Makes the network that a config describes. The initial weights are drawn from torch's global random generator. Raises ValueError,
    with the known names, if there is no network of this name."""
    require(config.network in NETWORKS, f"there is no network {config.network!r} of a model: choose {', '.join(NETWORKS)}")
    return NETWORKS[config.network](config)
