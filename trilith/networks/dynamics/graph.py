"""The network of the paper's learned transition model (§E.3): a graph network like the paper's Q-network (§C.2), over a fully connected
graph.

It has the same inputs and predictions as our own network for this purpose, `AttentionDynamics`. The two differ only in how information
passes between objects.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trilith.networks.config import DynamicsConfig
from trilith.networks.dynamics.base import NODE_INPUTS, PAIR_INPUTS, Dynamics
from trilith.networks.layers.attention import Rows
from trilith.networks.layers.graph import MLP, Links, RecurrentGraph

INPUTS = (PAIR_INPUTS, NODE_INPUTS, 1)
"""Number of input features of an edge, of a node and of the globals. As in the paper, the globals have a single input, which is always
0."""


class GraphDynamics(Dynamics):
    """A transition model that is a recurrent graph network. The tokens are the hidden states of its nodes."""

    def __init__(self, config: DynamicsConfig) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(MLP(n, config.width) for n in INPUTS)
        self.core = RecurrentGraph(*INPUTS, config.width, config.recurrent)
        self.add_heads(config.width, config.pair)

    def tokens(self, objects: Tensor, relations: Tensor, pairs: tuple[Tensor, ...], rows: Rows) -> Tensor:
        scene, receiver, sender = (each[pairs[1] != pairs[2]] for each in pairs)
        first = torch.from_numpy(rows.first)
        count = first.diff()
        links = Links(
            torch.arange(len(count)).repeat_interleave(count),
            first[scene] + sender,
            first[scene] + receiver,
            torch.zeros_like(scene),
            torch.stack([count * (count - 1), count], dim=1).float(),
        )
        given = relations[pairs[1] != pairs[2]], objects, objects.new_zeros(len(count), 1)
        return self.core(given, tuple(encode(each) for encode, each in zip(self.encoders, given, strict=True)), links)[1]
