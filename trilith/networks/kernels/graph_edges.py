"""The edge function of a graph network, followed by the sum of edges into nodes. The CPU processes a few thousand edges at a time; other
devices use tensor operations.

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
CHUNK = 2048
"""Number of edges per chunk. With 64 units, the few tensors of a chunk fit into 2 MB."""


class EdgeInputs(NamedTuple):
    """The inputs of `edge_function` for E edges between V nodes.

    The edge function has two layers, each with a ReLU. The first layer is a sum of three parts: from the edge, from its sender and from its
    receiver. One of the parts includes the bias.
    """

    given: Tensor
    """(E, e): the features of the edges. If `of_edge` is None, `given` is a table (4, width) instead: the edge's part of the first layer,
    for each of the four possible inputs of an edge."""
    of_edge: Tensor | None
    """(width, e): the weights of the edge's part of the first layer, or None."""
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
    return _Edges.apply(torch.is_grad_enabled(), *inputs) if inputs.given.device.type == "cpu" else edges_plain(inputs)


def edges_plain(inputs: EdgeInputs) -> tuple[Tensor, Tensor]:
    """`edge_function` in tensor operations, for any device."""
    given, of_edge, send, receive, weight, bias, code, sender, receiver = inputs
    own = given.index_select(0, code) if of_edge is None else F.linear(given, of_edge)
    hidden = F.relu(own + send.index_select(0, sender) + receive.index_select(0, receiver))
    edges = F.relu(F.linear(hidden, weight, bias))
    return edges, torch.zeros_like(send).index_add(0, receiver, edges)


class _Edges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, learning: bool, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        given, of_edge, send, receive, weight, bias, code, sender, receiver = EdgeInputs(*inputs)
        given, send, receive = (each.contiguous() for each in (given, send, receive))
        n, width, kept = len(sender), weight.shape[0], learning and any(ctx.needs_input_grad)
        hidden, edges, arrived = send.new_empty(n if kept else CHUNK, width), send.new_empty(n, width), torch.zeros_like(send)
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            first, second = hidden[part] if kept else hidden[: n - start], edges[part]
            if of_edge is None:
                torch.index_select(given, 0, code[part], out=first)
            else:
                torch.mm(given[part], of_edge.t(), out=first)
            _gather(first.numpy(), send.numpy(), receive.numpy(), sender[part].numpy(), receiver[part].numpy())
            torch.addmm(bias, first, weight.t(), out=second)
            _collect(second.numpy(), arrived.numpy(), receiver[part].numpy())
        if kept:
            ctx.save_for_backward(given, of_edge, weight, code, sender, receiver, hidden, edges)
            ctx.set_materialize_grads(False)
            ctx.nodes = len(send)
        return edges, arrived

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        given, of_edge, weight, code, sender, receiver, hidden, edges = ctx.saved_tensors
        n, width = hidden.shape
        of_edges, of_arrived = grads
        of_arrived = hidden.new_zeros(ctx.nodes, width) if of_arrived is None else of_arrived.contiguous()
        send_grad, receive_grad = torch.zeros_like(of_arrived), torch.zeros_like(of_arrived)
        # If only the gradient of the actions is needed, the gradients of the weights are skipped. They are a third of the work.
        need = EdgeInputs(*ctx.needs_input_grad[1:])
        given_grad = torch.zeros_like(given) if need.given else None
        of_edge_grad = torch.zeros_like(of_edge) if need.of_edge else None
        weight_grad = torch.zeros_like(weight) if need.weight else None
        bias_grad = hidden.new_zeros(width) if need.bias else None
        above_, below_ = hidden.new_empty(CHUNK, width), hidden.new_empty(CHUNK, width)
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            above, below = above_[: n - start], below_[: n - start]
            if of_edges is None:
                above.zero_()
            else:
                above.copy_(of_edges[part])
            _collect_back(above.numpy(), edges[part].numpy(), of_arrived.numpy(), receiver[part].numpy())
            if bias_grad is not None:
                bias_grad += above.sum(dim=0)
            if weight_grad is not None:
                weight_grad.addmm_(above.t(), hidden[part])
            torch.mm(above, weight, out=below)
            ends = sender[part].numpy(), receiver[part].numpy()
            _gather_back(below.numpy(), hidden[part].numpy(), send_grad.numpy(), receive_grad.numpy(), *ends)
            if of_edge_grad is not None:
                of_edge_grad.addmm_(below.t(), given[part])
            if given_grad is not None and of_edge is not None:
                torch.mm(below, of_edge, out=given_grad[part])
            elif given_grad is not None:
                _sum_rows(given_grad.numpy(), below.numpy(), code[part].numpy())
        return None, given_grad, of_edge_grad, send_grad, receive_grad, weight_grad, bias_grad, None, None, None


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
def _sum_rows(table: Array, rows: Array, code: Ints) -> None:
    """Backward pass of a table lookup: adds each row of `rows` (E, width) to row `code` of `table` (4, width)."""
    for e in range(len(code)):
        at, row = table[code[e]], rows[e]
        for k in range(rows.shape[1]):
            at[k] += row[k]
