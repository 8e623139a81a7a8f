"""The network `objects` written to be read: padded, in plain tensor operations. The oracle of the compiled one, whose weights it takes."""

import torch
from torch import Tensor
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import KINDS, SceneBatch
from trilith.networks.q.objects import ObjectsNet
from trilith.world.scene import Role


def plain_q(net: ObjectsNet, batch: SceneBatch) -> Tensor:
    """(B, 3, R, outputs): the value of every action of `net`, whether it may be chosen or not."""
    later, reward, _ = plain_figures(net, batch).unbind(-1)
    return (later + reward).flatten(3)


def plain_v(net: ObjectsNet, batch: SceneBatch) -> Tensor:
    """(B,): the value of every scene."""
    seen = F.relu(plain_references(net, batch)) * batch.tensors.present[..., None]
    hidden = F.relu(net.state_hidden(torch.cat([seen.sum(dim=1) / 8, seen.amax(dim=1)], dim=-1)))
    value: Tensor = net.state_out(hidden).squeeze(-1)
    return value


def plain_references(net: ObjectsNet, batch: SceneBatch) -> Tensor:
    """(B, R, decoder): every object after the transformer, the whole scene included."""
    b, r = batch.tensors.present.shape
    heads = net.layers[0].heads
    tokens = net.node(node_features(batch))
    if net.clock is not None:
        assert batch.steps_left is not None
        left = batch.tensors.steps_left.clamp(1, 21)[:, None, None]
        tokens = tokens + net.clock(torch.cat([left / 10, (left / 4).tanh(), 1 / left], dim=-1))
    pairs = F.relu(net.pair(pair_features(batch)))  # (B, R, R, pair)
    biases = net.bias(pairs).masked_fill(~batch.tensors.present[:, None, :, None], -torch.inf)
    for i, layer in enumerate(net.layers):
        q, k, v = layer.qkv(layer.norm(tokens)).view(b, r, 3, heads, -1).unbind(2)
        scores = torch.einsum("bihd,bjhd->bijh", q, k) / q.shape[-1] ** 0.5
        weights = (scores + biases[..., i * heads : (i + 1) * heads]).softmax(dim=2)
        seen = torch.einsum("bijh,bjhd->bihd", weights, v).flatten(2)
        beside = torch.einsum("bijh,bijp->bihp", weights, pairs).flatten(2)
        tokens = tokens + layer.gather(torch.cat([seen, beside], dim=-1))
        tokens = tokens + layer.down(F.relu(layer.up(layer.norm2(tokens))))
    tokens = net.norm(tokens)
    there = batch.tensors.present[..., None].float()
    pooled = (tokens * there).sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True)
    references: Tensor = net.reference(tokens) + net.pooled(pooled)
    return references


def plain_figures(net: ObjectsNet, batch: SceneBatch) -> Tensor:
    """(B, 3, R, offsets, 2, 3): what `net` says of every placement, without and with glue."""
    b, references = len(batch), plain_references(net, batch)
    widths = net.kind_widths.expand(b, -1)
    kinds = net.kind(torch.cat([torch.eye(KINDS).expand(b, -1, -1), batch.tensors.left[..., None] / 3, widths[..., None] / 4], dim=-1))
    more = (widths[:, :, None] - batch.tensors.size[:, None, :, 0].clamp(max=7)) / 4  # (B, 3, R)
    fit = net.fit(torch.stack([more, more.abs()], dim=-1))
    edges = F.relu(net.edge(F.relu(references[:, None] + kinds[:, :, None] + fit)))  # (B, 3, R, decoder)

    seen = net.seen(placement_features(net.schema.offsets, net.kind_widths, batch))  # (B, 3, R, offsets, R, message)
    messages = F.relu(seen + net.object(references)[:, None, None, None]) * batch.tensors.present[:, None, None, None, :, None]
    placed = net.gather(torch.cat([messages.sum(dim=-2) / 8, messages.amax(dim=-2)], dim=-1))
    tokens = F.relu(placed + net.to_token(edges)[:, :, :, None])
    later, reward, end = net.out(F.relu(net.hidden(tokens))).unflatten(-1, (3, 2)).unbind(-2)
    return torch.stack([later + net.base(edges).unflatten(-1, (-1, 2)), reward, end], dim=-1)


def placement_features(offsets: int, widths: Tensor, batch: SceneBatch) -> Tensor:
    """(B, 3, R, offsets, R, 40): what a block of each width, put at each offset of each object, sees of every object."""
    x, y, angle = batch.tensors.pose.unbind(-1)
    w, h = batch.tensors.size.unbind(-1)
    beyond = 1 + max(1 / (offsets - 3), 0.04)
    along = torch.linspace(-1, 1, offsets) * beyond * (w[:, None, :, None] + widths[None, :, None, None]) / 2
    cx = (x[:, None, :, None] + along).clamp(-7.5, 7.5)[..., None]
    cy = (y + torch.where(batch.tensors.role == Role.TARGET, 0.0, (h + 0.7) / 2) + 0.04).clamp(0, 15)[:, None, :, None, None]
    half = widths[None, :, None, None, None] / 2
    cos, sin = angle.cos().abs(), angle.sin().abs()
    across, up = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    ox, oy, left, right, bottom, top = (each[:, None, None, None] for each in (x, y, x - across, x + across, y - up, y + up))
    ends = [(cx, ox), (cy, oy), (cx - half, left), (cx + half, right), (cx - half, right), (cx + half, left), (cx, left), (cx, right)]
    ends += [(cy - 0.35, top), (cy + 0.35, bottom)]
    lengths = torch.stack(torch.broadcast_tensors(*(mine - other for mine, other in ends)), dim=-1)
    return torch.cat([(lengths / 4).clamp(-3.5, 3.5), *((scale * lengths).clamp(-1, 1) for scale in (3, 15, 75))], dim=-1)


def node_features(batch: SceneBatch) -> Tensor:
    """(B, R, 19)"""
    scenes = batch.tensors
    x, y, angle = scenes.pose.unbind(-1)
    w = scenes.size[..., 0].clamp(max=7)
    columns = [x / 7, y / 4, angle.cos() - 1, angle.sin(), w / 4, scenes.size[..., 1], (x - w / 2) / 7, (x + w / 2) / 7]
    columns += [
        scenes.sticky,
        scenes.velocity[..., :2].square().sum(-1).clamp(max=1),
        scenes.velocity[..., 2].clamp(-1, 1),
    ]
    left = (scenes.left / 3)[:, None].expand(-1, x.shape[1], -1)
    return torch.cat([torch.stack(columns, dim=-1), F.one_hot(scenes.role, len(Role)).to(x.dtype), left], dim=-1)


def pair_features(batch: SceneBatch) -> Tensor:
    """(B, R, R, 18)"""
    x, y, angle = batch.tensors.pose.unbind(-1)
    cos, sin = angle.cos().abs(), angle.sin().abs()
    w, h = batch.tensors.size.unbind(-1)
    across, up = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    left, right, bottom, top = x - across, x + across, y - up, y + up
    ends = [(x, x), (y, y), (left, left), (right, right), (left, right), (right, left), (bottom, top), (top, bottom)]
    lengths = torch.stack([a[:, :, None] - b[:, None, :] for a, b in ends], dim=-1)
    links = torch.stack([batch.tensors.touch, batch.tensors.glue], dim=-1)
    return torch.cat([lengths.clamp(-14, 14) / 4, (lengths * 4).tanh(), links], dim=-1)
