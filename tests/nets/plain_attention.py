"""The attention network written to be read: padded, in plain tensor operations. The oracle of the compiled one, whose weights it takes."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KINDS, Batch
from trilith.nets.forecast import forecast
from trilith.world.scene import Role


def plain_q(net: AttentionNet, batch: Batch) -> Tensor:
    """(B, 3, R, outputs): the value of every action of `net`, whether it may be chosen or not."""
    b, r = batch.present.shape
    tokens = net.node(node_features(batch))
    pairs = F.relu(net.pair(pair_features(batch)))  # (B, R, R, pair)
    biases = net.bias(pairs).masked_fill(~batch.present[:, None, :, None], -torch.inf)
    for i, layer in enumerate(net.layers):
        q, k, v = layer.qkv(layer.norm(tokens)).view(b, r, 3, net.heads, -1).unbind(2)
        scores = torch.einsum("bihd,bjhd->bijh", q, k) / q.shape[-1] ** 0.5
        weights = (scores + biases[..., i * net.heads : (i + 1) * net.heads]).softmax(dim=2)
        seen = torch.einsum("bijh,bjhd->bihd", weights, v).flatten(2)
        beside = torch.einsum("bijh,bijp->bihp", weights, pairs).flatten(2)
        tokens = tokens + layer.gather(torch.cat([seen, beside], dim=-1))
        tokens = tokens + layer.down(F.relu(layer.up(layer.norm2(tokens))))
    tokens = net.norm(tokens)
    there = batch.present[..., None].float()
    pooled = (tokens * there).sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True)
    references = net.reference(tokens) + net.pooled(pooled)  # (B, R, decoder)

    widths = net.kind_widths.expand(b, -1)
    kinds = net.kind(torch.cat([torch.eye(KINDS).expand(b, -1, -1), batch.left[..., None] / 3, widths[..., None] / 4], dim=-1))
    more = (widths[:, :, None] - batch.size[:, None, :, 0].clamp(max=7)) / 4  # (B, 3, R)
    fit = net.fit(torch.stack([more, more.abs()], dim=-1))
    hidden = F.relu(net.hidden(F.relu(references[:, None] + kinds[:, :, None] + fit)))
    values: Tensor = net.out(hidden)
    if net.place is None or net.weigh is None:
        return values
    every = np.nonzero(np.ones((b, KINDS, r)))
    found = torch.from_numpy(forecast(net.layout, batch.arrays, *every, net.told))
    places = F.relu(net.place(found)).view(b, KINDS, r, net.layout.offsets, -1)
    told = torch.einsum("bkrop,bkrsp->bkros", places, net.weigh(hidden).view(b, KINDS, r, 2, -1))
    return values + told.flatten(3)


def node_features(batch: Batch) -> Tensor:
    """(B, R, 19)"""
    x, y, angle = batch.pose.unbind(-1)
    w = batch.size[..., 0].clamp(max=7)
    columns = [x / 7, y / 4, angle.cos() - 1, angle.sin(), w / 4, batch.size[..., 1], (x - w / 2) / 7, (x + w / 2) / 7]
    columns += [batch.sticky, batch.velocity[..., :2].square().sum(-1).clamp(max=1), batch.velocity[..., 2].clamp(-1, 1)]
    left = (batch.left / 3)[:, None].expand(-1, x.shape[1], -1)
    return torch.cat([torch.stack(columns, dim=-1), F.one_hot(batch.role, len(Role)).to(x.dtype), left], dim=-1)


def pair_features(batch: Batch) -> Tensor:
    """(B, R, R, 18)"""
    x, y, angle = batch.pose.unbind(-1)
    cos, sin = angle.cos().abs(), angle.sin().abs()
    w, h = batch.size.unbind(-1)
    across, up = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    left, right, bottom, top = x - across, x + across, y - up, y + up
    ends = [(x, x), (y, y), (left, left), (right, right), (left, right), (right, left), (bottom, top), (top, bottom)]
    lengths = torch.stack([a[:, :, None] - b[:, None, :] for a, b in ends], dim=-1)
    links = torch.stack([batch.touch, batch.glue], dim=-1)
    return torch.cat([lengths.clamp(-14, 14) / 4, (lengths * 4).tanh(), links], dim=-1)
