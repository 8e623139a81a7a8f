"""Configs of Q-networks, actor-critics and learned models. This module imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from trilith.utils.checks import require
from trilith.utils.config import check_least, check_most

Mask = Literal["none", "edges", "legal"]
"""Which actions may be chosen. none: all actions, also invalid ones. edges: actions that place an available block, relative ones at an
object of the scene. legal: as edges, but the placed block must also overlap nothing solid; only for relative actions."""


@dataclass(frozen=True)
class NetConfig:
    """Options of a Q-network."""

    network: str = "objects"
    """objects (placements attend to all objects; ours) or graph (the paper's graph network). pixel-attention (ours) and pixels (the
    paper's) see only a segmented image of each object. Or a class of your own from a module in the current folder, as
    my_module:MyNetwork."""
    width: int = 64
    """Graph and pixels: units of every layer of the graph network. Objects and pixel-attention: units of an object's token."""
    layers: int = 3
    """Objects and pixel-attention: number of attention layers."""
    heads: int = 4
    """Objects and pixel-attention: attention heads of each layer."""
    pair: int = 32
    """Objects and pixel-attention: features of a pair of objects."""
    decoder: int = 128
    """Objects and pixel-attention: features that are computed from an object's token after the last attention layer."""
    message: int = 32
    """Objects: number of features in the message from one object to a placement."""
    token: int = 64
    """Objects: features of a placement."""
    clock: bool = False
    """Objects: whether the number of steps left is an input (ours)."""
    recurrent: int = 3
    """Graph and pixels: number of recurrent steps, n_rec in the paper."""
    connectivity: Literal["full", "sparse", "sparse-both"] = "full"
    """Graph: full (edges between all objects), sparse (the edges of the paper's §C.2) or sparse-both (these edges and their reverses).
    Pixels: full only."""
    blank: bool = False
    """Pixels and pixel-attention: whether to replace all segmented images by empty ones, to measure how much is learned without them."""

    def __post_init__(self) -> None:
        check_least(self, width=1, layers=1, heads=1, pair=1, decoder=1, message=1, token=1, recurrent=1)
        check_most(
            self, width=2**16, pair=2**16, decoder=2**16, message=2**16, token=2**16, layers=1000, recurrent=1000
        )  # a damaged or foreign card can hold any number
        attends = self.network in ("objects", "pixel-attention")
        require(not attends or self.width % self.heads == 0, f"width {self.width}: must be a multiple of heads, {self.heads}")

    @property
    def pictures(self) -> bool:
        """Whether the network sees segmented images."""
        return self.network in ("pixels", "pixel-attention")


@dataclass(frozen=True)
class EncoderConfig:
    """Options of the network of an actor-critic. The default sizes are the paper's (§C.1, §C.2)."""

    encoder: Annotated[Literal["mlp", "rnn", "cnn", "cnn-rn", "gn", "attention"], arg(prefix_name=False)] = "gn"
    """mlp (a padded list of objects), rnn (objects one after another), cnn and cnn-rn (an image), gn (a graph), or attention (over
    objects; the policy points at them; ours)."""
    features: int = 100
    """mlp: number of features that the list of objects is mapped to."""
    embedding: int = 256
    """rnn: units of the GRU. cnn, cnn-rn: features of an image."""
    width: int = 256
    """mlp, rnn, cnn and cnn-rn: units of the hidden layers of actor and critic."""
    layers: int | None = None
    """mlp, rnn, cnn and cnn-rn: number of hidden layers of the actor, and of the critic. None: three for cnn and cnn-rn, else four."""
    graph: int = 64
    """gn: units of every layer."""
    recurrent: int = 1
    """gn: number of recurrent steps of actor and critic, 1 in the paper. With more than 1, both have GRUs."""
    clip: bool = True
    """rnn: for scenes with more objects than any scene of the curriculum, as in generalisation levels: True leaves out objects, False reads
    the longer list. Makes no difference in training."""

    def __post_init__(self) -> None:
        check_least(self, features=1, embedding=1, width=1, layers=1, graph=1, recurrent=1)
        check_most(self, recurrent=1000)  # a damaged or foreign card can hold any number


@dataclass(frozen=True)
class DynamicsConfig:
    """Options of the network of a learned model."""

    network: str = "attention"
    """attention (over the objects of a scene; ours) or graph (a graph network, as in the paper)."""
    width: int = 64
    """Attention: units of an object's token. Graph: units of every layer."""
    layers: int = 3
    """Attention: number of layers."""
    heads: int = 4
    """Attention: heads of a layer."""
    pair: int = 32
    """Units of the layer that predicts contacts. Attention: also features of a pair of objects."""
    recurrent: int = 3
    """Graph: number of recurrent steps, at least 2. With only one, the hidden states of edges and globals would never be read."""

    def __post_init__(self) -> None:
        check_least(self, width=1, layers=1, heads=1, pair=1, recurrent=2)
        check_most(self, width=4096, layers=100, pair=4096, recurrent=100)  # a damaged or foreign card can hold any number
        attends = self.network == "attention"
        require(not attends or self.width % self.heads == 0, f"width {self.width}: must be a multiple of heads, {self.heads}")
