"""A GRU cell for many rows. The CPU processes `CHUNK` rows at a time, as in `graph_edges`; other devices use tensor operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trilith.networks.kernels.graph_edges import CHUNK, sum_rows
from trilith.utils.compiled import compiled

Array = NDArray[np.float32]


def gru(cell: nn.GRUCell, x: Tensor, hidden: Tensor, code: Tensor | None = None) -> Tensor:
    """The new hidden states (E, width) of a GRU cell for the inputs x (E, width). `hidden` has the old hidden states, one row per input. If
    `code` (E,) is given, `hidden` is a table instead, and its row `code[i]` belongs to input i."""
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    if x.device.type == "cpu":
        return _GRU.apply(torch.is_grad_enabled(), x, hidden, *weights, code)
    return gru_plain(cell, x, hidden, code)


def gru_plain(cell: nn.GRUCell, x: Tensor, hidden: Tensor, code: Tensor | None = None) -> Tensor:
    """`gru` in tensor operations, for any device."""
    given, new = F.linear(hidden, cell.weight_hh, cell.bias_hh), F.linear(x, cell.weight_ih, cell.bias_ih)
    if code is not None:
        given, hidden = given.index_select(0, code), hidden.index_select(0, code)
    # A split is faster than slices: its gradient is one copy, while the gradient of each slice is a padded tensor.
    sizes = [2 * hidden.shape[1], hidden.shape[1]]
    (new_gates, new_part), (given_gates, given_part) = new.split(sizes, dim=1), given.split(sizes, dim=1)
    reset, keep = (new_gates + given_gates).sigmoid().chunk(2, dim=1)
    candidate = torch.addcmul(new_part, reset, given_part).tanh()
    return torch.lerp(candidate, hidden, keep)


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, learning: bool, x: Tensor, hidden: Tensor, of_x: Tensor, of_hidden: Tensor, bias_x: Tensor, bias_hidden: Tensor,
        code: Tensor | None,
    ) -> Tensor:  # fmt: skip
        n, width = len(x), hidden.shape[1]
        kept = learning and any(ctx.needs_input_grad)
        table = None if code is None else torch.addmm(bias_hidden, hidden, of_hidden.t())
        out, rows = x.new_empty(n, width), n if kept else min(n, CHUNK)
        gates, candidate, given_part = (x.new_empty(rows, k * width) for k in (2, 1, 1))
        new_, given_, old_ = (x.new_empty(min(n, CHUNK), k * width) for k in (3, 3, 1))
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            here = part if kept else slice(n - start)
            new, given = new_[: n - start], given_[: n - start]
            torch.addmm(bias_x, x[part], of_x.t(), out=new)
            if code is None or table is None:
                torch.addmm(bias_hidden, hidden[part], of_hidden.t(), out=given)
                old = hidden[part]
            else:
                torch.index_select(table, 0, code[part], out=given)
                old = torch.index_select(hidden, 0, code[part], out=old_[: n - start])
            torch.add(new[:, : 2 * width], given[:, : 2 * width], out=gates[here]).sigmoid_()
            reset, keep = gates[here].chunk(2, dim=1)
            given_part[here] = given[:, 2 * width :]
            value = torch.addcmul(new[:, 2 * width :], reset, given_part[here], out=candidate[here])
            value.mul_(2).sigmoid_().mul_(2).sub_(1)  # the tanh, in a fifth of the time of `tanh_`
            torch.lerp(value, old, keep, out=out[part])
        if kept:
            ctx.save_for_backward(x, hidden, of_x, of_hidden, code, gates, candidate, given_part)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, of_x, of_hidden, code, gates, candidate, given_part = ctx.saved_tensors
        n, width = candidate.shape
        grad = grad.contiguous()
        _, x_needed, hidden_needed, weights_needed, *_ = ctx.needs_input_grad
        of_x_grad, of_hidden_grad = torch.zeros_like(of_x), torch.zeros_like(of_hidden)
        x_grad = torch.empty_like(x) if x_needed else None
        hidden_grad, table_grad = torch.zeros_like(hidden), x.new_zeros(len(hidden) if code is not None else 0, 3 * width)
        bias_x_grad, bias_hidden_grad = x.new_zeros(3 * width), x.new_zeros(3 * width)
        new_, given_, old_, kept_ = (x.new_empty(min(n, CHUNK), k * width) for k in (3, 3, 1, 1))
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            new, given, kept = new_[: n - start], given_[: n - start], kept_[: n - start]
            old = hidden[part] if code is None else torch.index_select(hidden, 0, code[part], out=old_[: n - start])
            found = gates[part].numpy(), candidate[part].numpy(), given_part[part].numpy(), old.numpy()
            _back(grad[part].numpy(), *found, new.numpy(), given.numpy(), kept.numpy())
            if weights_needed:
                of_x_grad.addmm_(new.t(), x[part])
                bias_x_grad += new.sum(dim=0)
            if x_grad is not None:
                torch.mm(new, of_x, out=x_grad[part])
            if code is not None:
                sum_rows(table_grad.numpy(), given.numpy(), code[part].numpy())
                sum_rows(hidden_grad.numpy(), kept.numpy(), code[part].numpy())
                continue
            if weights_needed:
                of_hidden_grad.addmm_(given.t(), old)
                bias_hidden_grad += given.sum(dim=0)
            if hidden_needed:
                torch.addmm(kept, given, of_hidden, out=hidden_grad[part])
        if code is not None:
            of_hidden_grad, bias_hidden_grad = table_grad.t() @ hidden, table_grad.sum(dim=0)
            hidden_grad.addmm_(table_grad, of_hidden)
        return None, x_grad, hidden_grad, of_x_grad, of_hidden_grad, bias_x_grad, bias_hidden_grad, None


@compiled
def _back(grad: Array, gates: Array, candidate: Array, given_part: Array, old: Array, new: Array, given: Array, kept: Array) -> None:
    """Backward pass of the operations of a GRU between its matrix products, for E rows. `grad` (E, width) is the gradient of the new hidden
    states. Writes the gradients of the two products into `new` and `given` (E, 3 · width), and into `kept` (E, width) the gradient of the
    old hidden states that does not go through a product."""
    width = grad.shape[1]
    one = np.float32(1)
    for e in range(len(grad)):
        for k in range(width):
            reset, keep, value, above = gates[e, k], gates[e, width + k], candidate[e, k], grad[e, k]
            inner = above * (one - keep) * (one - value * value)
            of_keep = above * (old[e, k] - value) * keep * (one - keep)
            of_reset = inner * given_part[e, k] * reset * (one - reset)
            new[e, k], new[e, width + k], new[e, 2 * width + k] = of_reset, of_keep, inner
            given[e, k], given[e, width + k], given[e, 2 * width + k] = of_reset, of_keep, inner * reset
            kept[e, k] = above * keep
