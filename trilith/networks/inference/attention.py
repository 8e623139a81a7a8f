"""Code shared by the networks that act without torch. These networks compute the values of placing a kind of block at an object, by
attention over objects.

The networks consist of arrays and compiled loops, so they need no more packages than the tasks do. The torch modules `layers.attention` and
`q.base.BlockTypeQNetwork` compute the same functions, for learning.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.scene_batch import Floats32, Records, ReplaySchema, SceneBatch
from trilith.networks.kernels.forward import attention_forward, layer_norm, linear, mean_rows
from trilith.networks.parameters import check_weights
from trilith.networks.q.function import QFunction
from trilith.utils.checks import require
from trilith.world.scene import Bools

Shapes = dict[str, tuple[int, ...]]
"""Maps the name of each parameter of a network to its shape."""


class ActingBlockTypes(QFunction):
    """Base class of networks that compute the values of edges. An edge stands for placing a block of some kind relative to some object. All
    parameters are 0 until `load` is called."""

    by_kind = True

    def __init__(self, schema: ReplaySchema, mask: Mask, net: NetConfig, stops: bool = False) -> None:
        check_attention(schema, mask)
        super().__init__(schema, mask, stops)
        self._layers, self._heads = net.layers, net.heads
        self._shapes = self.shapes(net, self.outputs)
        self.load({name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()})

    @staticmethod
    @abstractmethod
    def shapes(net: NetConfig, outputs: int) -> Shapes:
        """Returns a dictionary from the name of each parameter to its shape, for a network with `outputs` actions per edge."""

    @abstractmethod
    def _encode(self, scenes: SceneBatch) -> Floats32:
        """Encodes the parts of scenes that do not depend on actions. Returns an array (n, decoder) with a row for each of the n objects,
        one scene after another. A subclass may append further rows."""

    @abstractmethod
    def _fill(self, values: Floats32, mask: Bools, scenes: SceneBatch, references: Floats32) -> None:
        """Fills in the values of all actions that `mask` allows. `values` and `mask` are (B, 3, R, outputs): for each of B scenes, three
        kinds of block and up to R objects, the actions of the edge. `references` is the result of `_encode`."""

    def weights(self) -> dict[str, Floats32]:
        return {name: value.copy() for name, value in self._weights.items()}

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        check_weights(self._shapes, weights)
        self._weights = {name: np.array(value) for name, value in weights.items()}
        self._linears: dict[str, tuple[Floats32, Floats32]] = {}
        """Maps the name of each linear layer to its matrix (inputs, outputs) and its bias (outputs,), as the function `linear` takes
        them."""
        for name in (each.removesuffix(".weight") for each, shape in self._shapes.items() if len(shape) == 2):
            matrix = self._weights[f"{name}.weight"]
            self._linears[name] = np.ascontiguousarray(matrix.T), self._weights.get(f"{name}.bias", np.zeros(len(matrix), np.float32))

    def values(self, records: Records) -> tuple[Floats32, Bools]:
        scenes = self.schema.unpack(records)
        mask = kind_mask(scenes, self.mask_rule, self.outputs)
        values = np.zeros(mask.shape, np.float32)
        self._fill(values, mask, scenes, self._encode(scenes))
        return values, mask

    def _linear(self, name: str, x: Floats32, rectify: bool = False) -> Floats32:
        return linear(x, *self._linears[name], rectify)

    def _norm(self, name: str, x: Floats32) -> Floats32:
        return layer_norm(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _attention(self, tokens: Floats32, pairs: Floats32, scenes: SceneBatch) -> tuple[Floats32, Floats32]:
        """Applies the attention layers to `tokens` (n, width), one for each object. `pairs` (p, pair) has the features of each pair of
        objects in the same scene, after a ReLU. Returns the encoded objects (n, decoder) and the encoded scenes (B, decoder)."""
        for i, weight in enumerate(np.split(self._weights["bias.weight"], self._layers)):
            qkv = self._linear(f"layers.{i}.qkv", self._norm(f"layers.{i}.norm", tokens))
            seen = np.zeros((len(tokens), tokens.shape[1] + self._heads * pairs.shape[1]), np.float32)
            shares = np.empty((len(pairs), self._heads), np.float32)
            by_head = qkv.reshape(len(tokens), 3, self._heads, -1)
            attention_forward(by_head, pairs, weight, scenes.first, scenes.first_pair, seen, shares)
            tokens = tokens + self._linear(f"layers.{i}.gather", seen)
            up = self._linear(f"layers.{i}.up", self._norm(f"layers.{i}.norm2", tokens), rectify=True)
            tokens = tokens + self._linear(f"layers.{i}.down", up)
        tokens = self._norm("norm", tokens)
        return self._linear("reference", tokens), self._linear("pooled", mean_rows(tokens, scenes.first))


def attention_shapes(net: NetConfig, own: Mapping[str, tuple[int, int]], without_bias: Collection[str]) -> Shapes:
    """Returns a dictionary from the name of each parameter of a network to its shape. `own` maps the name of each linear layer that
    `_attention` does not use to the shape (outputs, inputs) of its matrix. The layers in `without_bias` have no bias."""
    width = net.width
    matrices = {**own, "bias": (net.layers * net.heads, net.pair)}
    norms = ["norm"]
    for i in range(net.layers):
        matrices |= {
            f"layers.{i}.qkv": (3 * width, width),
            f"layers.{i}.gather": (width, width + net.heads * net.pair),
            f"layers.{i}.up": (2 * width, width),
            f"layers.{i}.down": (width, 2 * width),
        }
        norms += [f"layers.{i}.norm", f"layers.{i}.norm2"]
    matrices |= {"reference": (net.decoder, width), "pooled": (net.decoder, width)}
    shapes: Shapes = {f"{name}.weight": shape for name, shape in matrices.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in matrices.items() if name not in ("bias", "pooled", *without_bias)}
    return shapes | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def check_attention(schema: ReplaySchema, mask: Mask) -> None:
    """Raises ValueError if networks with attention do not support the action space of `schema`, or the mask. The message names the
    alternatives."""
    require(mask != "none", "this network values only edges from available blocks: choose mask edges or legal, or network graph")
    require(schema.codec.relative, "this network values edges, and absolute actions have no edges: choose network graph")


def kind_mask(batch: SceneBatch, rule: Mask, outputs: int) -> Bools:
    """Boolean mask (B, 3, R, outputs) of the actions that may be chosen: in each of B scenes, for each of three kinds of block and up to R
    objects. `rule` is "edges" or "legal", see `networks.config.Mask`. `outputs` is the number of actions per kind and object."""
    edges = (batch.left > 0)[:, :, None, None] & batch.present[:, None, :, None]
    if rule == "legal":
        assert batch.legal is not None
        return (edges & batch.legal).repeat(2, axis=-1)
    return edges.repeat(outputs, axis=-1)
