"""The edge function of a graph network, followed by the sum of edges into nodes. The CPU processes `CHUNK` edges at a time; other devices
use tensor operations.

A batch has tens of thousands of edges, and their rows do not fit into a processor's caches. So edges are processed in chunks that
fit. Between two matrix products, all operations on a row are one compiled loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.utils.compiled import compiled
from trilith.world.scene import Ints

Array = NDArray[np.float32]
CHUNK = 1024
"""Number of edges per chunk. With 64 units, the few tensors of a chunk fit into 1 MB."""


class EdgeParts(NamedTuple):
    """The parts of the first layer that depend on the edges themselves. Parts that are None are left out. `table` or `edges` is required;
    `hidden` requires `edges`."""

    table: Tensor | None
    """(4, width): the part that depends on the input of an edge, for each of the four possible inputs."""
    edges: Tensor | None = None
    """(E, e): features of the edges."""
    of_edges: Tensor | None = None
    """(width, e): the weights that multiply `edges`."""
    hidden: Tensor | None = None
    """(E, h): further features of the edges."""
    of_hidden: Tensor | None = None
    """(width, h): the weights that multiply `hidden`."""

    @property
    def products(self) -> list[tuple[Tensor, Tensor]]:
        """`edges` and `hidden` with their weights, if they are given."""
        pairs = (self.edges, self.of_edges), (self.hidden, self.of_hidden)
        return [(features, weights) for features, weights in pairs if features is not None and weights is not None]


class EdgeInputs(NamedTuple):
    """The inputs of `edge_function` for E edges between V nodes.

    The edge function has two layers, each with a ReLU. The first layer is a sum of the parts of the edges, of their senders and of their
    receivers. The caller adds the bias to one of these parts.
    """

    known: EdgeParts
    send: Tensor
    """(V, width): the part of the first layer from each node as a sender."""
    receive: Tensor
    """(V, width): the part of the first layer from each node as a receiver."""
    weight: Tensor
    """(width, width): the weights of the second layer."""
    bias: Tensor
    """(width,): the bias of the second layer."""
    code: Tensor
    """(E,): the row of each edge in the table; not used if there is no table."""
    sender: Tensor
    """(E,): the row of the sender of each edge."""
    receiver: Tensor
    """(E,): the row of the receiver of each edge."""


def edge_function(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """Returns two tensors: the edges (E, width) after the two layers, and for each node the sum (V, width) of the edges that end there."""
    if inputs.send.device.type != "cpu":
        return edges_plain(inputs)
    return _Edges.apply(torch.is_grad_enabled(), *inputs.known, *inputs[1:])


def edges_plain(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """`edge_function` in tensor operations, for any device."""
    known, send, receive, weight, bias, code, sender, receiver = inputs
    first = send.index_select(0, sender) + receive.index_select(0, receiver)
    if known.table is not None:
        first = first + known.table.index_select(0, code)
    for features, weights in known.products:
        first = torch.addmm(first, features, weights.t())
    new = F.relu(F.linear(F.relu(first), weight, bias))
    return new, torch.zeros_like(send).index_add(0, receiver, new)


class _Edges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, learning: bool, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        known, rest = EdgeParts(*(each if each is None else each.contiguous() for each in inputs[:5])), inputs[5:]
        send, receive, weight, bias, code, sender, receiver = (each.contiguous() for each in rest)
        n, width, kept = len(sender), weight.shape[0], learning and any(ctx.needs_input_grad)
        between, new, arrived = send.new_empty(n if kept else CHUNK, width), send.new_empty(n, width), torch.zeros_like(send)
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            first, second = between[part] if kept else between[: n - start], new[part]
            if known.table is not None:
                torch.index_select(known.table, 0, code[part], out=first)
            for k, (features, weights) in enumerate(known.products):
                if known.table is None and not k:
                    torch.mm(features[part], weights.t(), out=first)
                else:
                    first.addmm_(features[part], weights.t())
            _gather(first.numpy(), send.numpy(), receive.numpy(), sender[part].numpy(), receiver[part].numpy())
            torch.addmm(bias, first, weight.t(), out=second)
            _collect(second.numpy(), arrived.numpy(), receiver[part].numpy())
        if kept:
            ctx.save_for_backward(*known, weight, code, sender, receiver, between, new)
            ctx.set_materialize_grads(False)
            ctx.nodes = len(send)
        return new, arrived

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *parts, weight, code, sender, receiver, between, new = ctx.saved_tensors
        known = EdgeParts(*parts)
        n, width = between.shape
        of_new, of_arrived = grads
        of_arrived = between.new_zeros(ctx.nodes, width) if of_arrived is None else of_arrived.contiguous()
        send_grad, receive_grad = torch.zeros_like(of_arrived), torch.zeros_like(of_arrived)
        # If only the gradient of the actions is needed, the gradients of the weights are skipped. They are a third of the work.
        needed = [*ctx.needs_input_grad[1:6], *ctx.needs_input_grad[8:10]]
        likes = [*parts, weight, between[0] if n else weight[0]]  # the last has the shape of the bias
        of_parts = [torch.zeros_like(like) if need else None for need, like in zip(needed, likes, strict=True)]
        table_grad, edges_grad, of_edges_grad, hidden_grad, of_hidden_grad, weight_grad, bias_grad = of_parts
        grads_of_products = (edges_grad, of_edges_grad), (hidden_grad, of_hidden_grad)
        above_, below_ = between.new_empty(CHUNK, width), between.new_empty(CHUNK, width)
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            above, below = above_[: n - start], below_[: n - start]
            if of_new is None:
                above.zero_()
            else:
                above.copy_(of_new[part])
            _collect_back(above.numpy(), new[part].numpy(), of_arrived.numpy(), receiver[part].numpy())
            if bias_grad is not None:
                bias_grad += above.sum(dim=0)
            if weight_grad is not None:
                weight_grad.addmm_(above.t(), between[part])
            torch.mm(above, weight, out=below)
            ends = sender[part].numpy(), receiver[part].numpy()
            _gather_back(below.numpy(), between[part].numpy(), send_grad.numpy(), receive_grad.numpy(), *ends)
            for (features, weights), (features_grad, weights_grad) in zip(known.products, grads_of_products, strict=False):
                if weights_grad is not None:
                    weights_grad.addmm_(below.t(), features[part])
                if features_grad is not None:
                    torch.mm(below, weights, out=features_grad[part])
            if table_grad is not None:
                sum_rows(table_grad.numpy(), below.numpy(), code[part].numpy())
        return None, *of_parts[:5], send_grad, receive_grad, weight_grad, bias_grad, None, None, None


@compiled
def _gather(hidden: Array, send: Array, receive: Array, sender: Ints, receiver: Ints) -> None:
    """Adds the parts of sender and receiver to `hidden` (E, width), and applies a ReLU, in place."""
    for e in range(len(sender)):
        row, one, other = hidden[e], send[sender[e]], receive[receiver[e]]
        for k in range(hidden.shape[1]):
            row[k] = max(row[k] + one[k] + other[k], np.float32(0))


@compiled
def _collect(edges: Array, arrived: Array, receiver: Ints) -> None:
    """Applies a ReLU to `edges` (E, width) in place, and adds each edge to the row of its receiver in `arrived` (V, width)."""
    for e in range(len(receiver)):
        row, at = edges[e], arrived[receiver[e]]
        for k in range(edges.shape[1]):
            row[k] = max(row[k], np.float32(0))
            at[k] += row[k]


@compiled
def _collect_back(grad: Array, edges: Array, arrived: Array, receiver: Ints) -> None:
    """Backward pass of `_collect`. `grad` (E, width) and `arrived` (V, width) are the gradients with respect to the two outputs. Replaces
    `grad` by the gradient with respect to the edges before the ReLU."""
    for e in range(len(receiver)):
        row, value, at = grad[e], edges[e], arrived[receiver[e]]
        for k in range(grad.shape[1]):
            row[k] = row[k] + at[k] if value[k] > 0 else np.float32(0)


@compiled
def _gather_back(grad: Array, hidden: Array, send: Array, receive: Array, sender: Ints, receiver: Ints) -> None:
    """Backward pass of `_gather`. Replaces `grad` (E, width) by the gradient before the ReLU. Adds each row of this gradient to the
    sender's row of `send` and the receiver's row of `receive`, both (V, width). The three loops are separate because one joint loop would
    compile to slower code."""
    for e in range(len(sender)):
        row, value, one, other = grad[e], hidden[e], send[sender[e]], receive[receiver[e]]
        for k in range(grad.shape[1]):
            row[k] = row[k] if value[k] > 0 else np.float32(0)
        for k in range(grad.shape[1]):
            one[k] += row[k]
        for k in range(grad.shape[1]):
            other[k] += row[k]


@compiled
def sum_rows(table: Array, rows: Array, code: Ints) -> None:
    """Backward pass of a table lookup: adds each row of `rows` (E, width) to row `code` of `table` (4, width)."""
    for e in range(len(code)):
        at, row = table[code[e]], rows[e]
        for k in range(rows.shape[1]):
            at[k] += row[k]
