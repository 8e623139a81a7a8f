"""The attention network: what must not matter does not."""

import numpy as np
import pytest
import torch
from nets.plain_attention import plain_q
from nets.scenes import states

from trilith.agents.dqn.policy import observe
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, Records
from trilith.nets.config import Mask
from trilith.nets.graph import GraphNet
from trilith.nets.qnet import QNet
from trilith.world.actions import DiscreteRelative
from trilith.world.tasks import get_task

NETS = {"attention": AttentionNet, "graph": GraphNet}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def setup(task: str, net: str, mask: Mask = "legal", count: int = 6) -> tuple[QNet, Records]:
    layout = Layout.of(get_task(task), DiscreteRelative(), mask == "legal")
    return NETS[net](layout, mask), observe(layout, states(task, count))


def shuffled(layout: Layout, records: Records, order: np.ndarray) -> Records:
    """The records of one size with their objects in another order."""
    n, k = layout.rows, len(order)
    other = records.copy()
    for name in ("pose", "size", "velocity", "role", "sticky"):
        other[name][:, :k] = records[name][:, order]
    for name in ("touch", "glue"):
        bits = np.unpackbits(records[name], axis=1, count=n * n).reshape(-1, n, n)
        bits[:, :k, :k] = bits[:, order][:, :, order]
        other[name] = np.packbits(bits.reshape(len(records), -1), axis=1)
    return other


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering_hard"])
@pytest.mark.parametrize("sizes", [{}, {"width": 24, "heads": 3, "pair": 7, "layers": 1, "decoder": 20}, {"place": 8}])
def test_values_and_gradients_are_those_of_the_plain_form(task: str, sizes: dict[str, int]) -> None:
    layout = Layout.of(get_task(task), DiscreteRelative(), True)
    net = AttentionNet(layout, "legal", **sizes)
    batch = layout.unpack(observe(layout, states(task, 12)))
    assert len(set(batch.present.sum(dim=1).tolist())) > 1
    mask = net.mask(batch)
    values, expected = net.q(batch)[mask], plain_q(net, batch)[mask]
    torch.testing.assert_close(values, expected, **CLOSE)
    pull = torch.randn(len(values))
    found = torch.autograd.grad(values @ pull, list(net.parameters()))
    wanted = torch.autograd.grad(expected @ pull, list(net.parameters()))
    for (name, _), one, other in zip(net.named_parameters(), found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()), msg=name)


def test_a_bare_floor_and_scenes_without_choice_are_valued_too() -> None:
    net, records = setup("covering_hard", "attention")
    records = records[:2].copy()
    records["count"][0] = 1
    records["legal"] = 0
    for some in (records[:1], records):
        batch = net.layout.unpack(some)
        values = net.q(batch)
        assert not values.any()
        assert torch.isinf(net.best(batch)[1]).all()
        actions = torch.tensor([[0, 7, 3, 1]]).expand(len(some), -1)
        taken = net.q_at(batch, actions)
        torch.testing.assert_close(taken, plain_q(net, batch)[:, KIND_OF_SLOT[0], 0, 7], **CLOSE)
        (values.sum() + taken.sum()).backward()
        assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


@pytest.mark.parametrize("net", NETS)
def test_values_of_some_scenes_and_of_one_action_each_come_together(net: str) -> None:
    q, records = setup("covering_hard", net)
    batch = q.layout.unpack(records)
    actions = q.best(batch)[0].clamp(min=0)
    every, taken = q.q_both(batch, actions, 4)
    torch.testing.assert_close(every, q.q(batch)[:4], **CLOSE)
    torch.testing.assert_close(taken, q.q_at(batch, actions), **CLOSE)


@pytest.mark.parametrize("net", NETS)
def test_the_order_of_objects_does_not_matter(net: str) -> None:
    q, records = setup("silhouette", net, "edges", 20)
    record = records[records["count"] == records["count"][0]][:1]
    order = np.random.default_rng(0).permutation(int(record["count"][0]))
    values = q.q(q.layout.unpack(record))
    torch.testing.assert_close(q.q(q.layout.unpack(shuffled(q.layout, record, order))), values[:, :, order], **CLOSE)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("task", ["covering_hard", "covering"])
def test_padding_changes_nothing(net: str, task: str) -> None:
    q, records = setup(task, net)
    together, masks = q.q(q.layout.unpack(records)), q.mask(q.layout.unpack(records))
    assert len(set(records["count"].tolist())) > 1
    for i in range(len(records)):
        alone = q.layout.unpack(records[i : i + 1])
        r = alone.present.shape[1]
        torch.testing.assert_close(together[i : i + 1, :, :r], q.q(alone), **CLOSE)
        assert torch.equal(masks[i : i + 1, :, :r], q.mask(alone))
        assert not masks[i, :, r:].any()


@pytest.mark.parametrize("net", NETS)
def test_the_value_of_one_action_is_the_one_among_all(net: str) -> None:
    q, records = setup("covering_hard", net)
    batch = q.layout.unpack(records)
    actions, values = q.best(batch)
    some = torch.isfinite(values)
    assert some.any()
    torch.testing.assert_close(q.q_at(batch, actions)[some], values[some], **CLOSE)


def test_blocks_of_one_kind_have_one_value() -> None:
    q, records = setup("silhouette", "attention", "edges")
    batch = q.layout.unpack(records)
    action = torch.tensor([[0, 8, 3, 1]]).expand(len(batch), -1).clone()
    first = q.q_at(batch, action)
    for slot in range(7):
        action[:, 0] = slot
        assert torch.equal(q.q_at(batch, action), first) == (KIND_OF_SLOT[slot] == 0)


def test_the_mask_none_is_refused() -> None:
    with pytest.raises(ValueError, match="choose mask edges or legal"):
        setup("silhouette", "attention", "none")
