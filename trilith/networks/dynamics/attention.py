"""The network of our learned transition model: attention over the objects of a scene."""

from __future__ import annotations

from torch import Tensor

from trilith.networks.config import DynamicsConfig
from trilith.networks.dynamics.base import NODE_INPUTS, PAIR_INPUTS, Dynamics
from trilith.networks.layers.attention import AttentionTrunk, Rows


class AttentionDynamics(Dynamics, AttentionTrunk):
    """A transition model with attention layers: objects are tokens that attend to each other."""

    def __init__(self, config: DynamicsConfig) -> None:
        super().__init__()
        self.add_trunk(NODE_INPUTS, PAIR_INPUTS, config.width, config.layers, config.heads, config.pair)
        self.add_heads(config.width, config.pair)

    def tokens(self, objects: Tensor, relations: Tensor, pairs: tuple[Tensor, ...], rows: Rows) -> Tensor:
        return self.attention(self.node(objects), self.pair(relations), rows)
