"""Networks on other devices than the CPU: plain forms of compiled loops are the same functions, and indices come from main memory."""

from dataclasses import replace

import pytest
import torch
from networks.scenes import states

from trilith.agents.dqn.policy import observe
from trilith.networks.config import Mask, NetConfig
from trilith.networks.device import pick_device
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch
from trilith.networks.layers import attention
from trilith.networks.layers.attention import relational_attention, relational_attention_plain
from trilith.networks.q import objects
from trilith.networks.q.base import QNet
from trilith.networks.q.graph import GraphNet
from trilith.networks.q.objects import ObjectsNet, look, look_by_tensors
from trilith.world.actions import DiscreteRelative
from trilith.world.tasks import get_task

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def mixed(task: str, count: int = 12) -> tuple[ReplaySchema, SceneBatch]:
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), True)
    batch = schema.unpack(observe(schema, states(task, count)))
    assert len(set(batch.present.sum(axis=1).tolist())) > 1
    return schema, batch


@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
@pytest.mark.parametrize(("heads", "d", "wide"), [(4, 16, 32), (3, 8, 7), (1, 1, 1)])
def test_the_plain_form_of_attention_is_the_compiled_one(task: str, heads: int, d: int, wide: int) -> None:
    _, batch = mixed(task)
    shapes = (batch.first[-1], 3, heads, d), (batch.first_pair[-1], wide), (heads, wide)
    given = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    compiled, plain = relational_attention(*given, batch), relational_attention_plain(*given, batch)
    torch.testing.assert_close(plain, compiled, **CLOSE)
    pull = torch.randn_like(plain)
    for one, other in zip(torch.autograd.grad(plain, given, pull), torch.autograd.grad(compiled, given, pull), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_the_network_by_the_plain_forms_has_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, batch = mixed("covering_hard")
    net = ObjectsNet(schema)
    pull, pull_states = torch.randn_like(net.q(batch)), torch.randn_like(net.v(batch))
    values, grads = [], []
    for attend, looks in ((relational_attention, look), (relational_attention_plain, look_by_tensors)):
        monkeypatch.setattr(attention, "relational_attention", attend)
        monkeypatch.setattr(objects, "look", looks)
        values.append((net.q(batch), net.v(batch)))
        pulled = (values[-1][0] * pull).sum() / pull.numel() + (values[-1][1] * pull_states).mean()
        grads.append(torch.autograd.grad(pulled, list(net.parameters())))
    for one, other in zip(*values, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def nets(schema: ReplaySchema) -> dict[str, QNet]:
    masks: tuple[Mask, ...] = ("none", "edges", "legal")
    full = {f"graph {mask}": GraphNet(schema, mask, NetConfig(width=16)) for mask in masks}
    sparse = {f"sparse graph {mask}": GraphNet(schema, mask, NetConfig(width=16, connectivity="sparse")) for mask in masks}
    return {"objects": ObjectsNet(schema), "objects edges": ObjectsNet(schema, "edges"), **full, **sparse}


def test_a_copy_of_a_batch_has_the_values_of_the_batch() -> None:
    """Copied to the CPU, a batch goes the way of one on another device."""
    schema, batch = mixed("silhouette", 6)
    copy = replace(batch, device="cpu", memo={})
    assert copy.tensors.pose.data_ptr() == copy[:3].tensors.pose.data_ptr() == batch.pose.ctypes.data, "a device of the same memory"
    for name, net in nets(schema).items():
        assert torch.equal(net.mask(copy), net.mask(batch)), name
        assert torch.equal(net.q(copy), net.q(batch)), name
        assert not net.values_states or torch.equal(net.v(copy), net.v(batch)), name
        actions, value = net.best(copy)
        assert torch.equal(value, net.best(batch)[1]), name
        assert torch.equal(net.q_at(copy, actions), net.q_at(batch, actions)), name


def test_devices_have_names() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:99", "nonsense", ""])
def test_a_device_that_is_not_here_is_refused_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="choose cpu") as error:
        pick_device(name)
    assert "\n" not in str(error.value)
