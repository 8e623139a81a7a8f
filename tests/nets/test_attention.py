"""The attention network: what must not matter does not."""

import numpy as np
import pytest
import torch
from nets.scenes import states

from trilith.actions import DiscreteRelative
from trilith.agents.config import Mask
from trilith.agents.dqn import observe
from trilith.nets.attention import AttentionNet
from trilith.nets.batch import KIND_OF_SLOT, Layout, Records
from trilith.nets.graph import GraphNet
from trilith.nets.qnet import QNet
from trilith.tasks import get_task

NETS = {"attention": AttentionNet, "graph": GraphNet}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def setup(task: str, net: str, mask: Mask = "legal", count: int = 6) -> tuple[QNet, Records]:
    layout = Layout.of(get_task(task), DiscreteRelative(), mask == "legal")
    return NETS[net](layout, mask), observe(layout, [s.scene for s in states(task, count)])


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
