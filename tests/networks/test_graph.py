"""The fast graph network is the plain one: same values, same gradients, for every option."""

import numpy as np
import pytest
import torch
from networks.plain_graph import PlainGraphNet, dense
from networks.scenes import as_states, states
from torch import Tensor

from trilith.agents.dqn.policy import observe
from trilith.networks.config import Mask, NetConfig
from trilith.networks.inputs.scene_batch import ReplaySchema
from trilith.networks.q.graph import GraphNet, pack
from trilith.world.actions import DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY, reference_rows
from trilith.world.observations.graph import Connectivity, graph
from trilith.world.scene import SLOTS, Role, Scene
from trilith.world.tasks import get_task

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def mixed(task: str, count: int = 6) -> list[Scene]:
    return [state.scene for state in states(task, count)]


def nodes_of(scene: Scene) -> list[int]:
    """Row of each node: what the batch calls node i."""
    rows = [slot if scene.role[slot] == Role.AVAILABLE else -1 for slot in range(SLOTS)]
    return rows + reference_rows(scene).tolist()


def pair(schema: ReplaySchema, mask: Mask, **options: object) -> tuple[GraphNet, PlainGraphNet]:
    fast = GraphNet(schema, mask, NetConfig(**options))  # type: ignore[arg-type]
    plain = PlainGraphNet(fast.outputs, relative=schema.codec.relative, **options)  # type: ignore[arg-type]
    plain.load_state_dict(fast.state_dict())
    return fast, plain


def same_gradients(fast: GraphNet, plain: PlainGraphNet, of_fast: Tensor, of_plain: Tensor) -> None:
    of_fast.sum().backward()
    of_plain.sum().backward()
    theirs = dict(plain.named_parameters())
    for name, parameter in fast.named_parameters():
        if parameter.grad is None:  # weights of the nodes' GRU, if there is but one step
            assert theirs[name].grad is None or not theirs[name].grad.abs().max() > 0, name
            continue
        size = max(float(theirs[name].grad.abs().max()), 1.0)
        torch.testing.assert_close(parameter.grad / size, theirs[name].grad / size, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("task", ["silhouette", "covering_hard"])
@pytest.mark.parametrize("connectivity", ["full", "sparse", "sparse-both"])
@pytest.mark.parametrize("recurrent", [1, 2, 3])
@pytest.mark.parametrize("mask", ["none", "edges", "legal"])
def test_values_and_gradients_are_those_of_the_plain_form(task: str, connectivity: Connectivity, recurrent: int, mask: Mask) -> None:
    scenes = mixed(task)
    schema = ReplaySchema.of(get_task(task), DiscreteRelative(), mask == "legal")
    fast, plain = pair(schema, mask, recurrent=recurrent, connectivity=connectivity)
    batch = schema.unpack(observe(schema, as_states(scenes)))
    q, expected, allowed = fast.q(batch), plain(*dense(scenes, connectivity)), fast.mask(batch)
    of_fast, of_plain = [], []
    for b, scene in enumerate(scenes):
        rows = nodes_of(scene)
        senders, receivers = (range(len(rows)), range(len(rows))) if mask == "none" else (range(SLOTS), range(SLOTS, len(rows)))
        for i, sender in enumerate(senders):
            for j, receiver in enumerate(receivers):
                if allowed[b, i, j].any():
                    of_fast.append(q[b, i, j])
                    of_plain.append(expected[b, rows[sender], rows[receiver]])
    assert len(of_fast) > 50
    torch.testing.assert_close(torch.stack(of_fast), torch.stack(of_plain), **CLOSE)
    weights = torch.randn(len(of_fast), schema.offsets * 2)
    same_gradients(fast, plain, torch.stack(of_fast) * weights, torch.stack(of_plain) * weights)


def test_values_of_two_offsets_are_those_of_the_plain_form() -> None:
    scenes = mixed("connecting", 3)
    schema = ReplaySchema.of(get_task("connecting"), DiscreteRelativeXY(5), False)
    fast, plain = pair(schema, "edges")
    q, expected = fast.q(schema.unpack(observe(schema, as_states(scenes)))), plain(*dense(scenes))
    for b, scene in enumerate(scenes):
        refs = reference_rows(scene)
        torch.testing.assert_close(q[b, :, : len(refs)], expected[b, :SLOTS][:, refs], **CLOSE)


@pytest.mark.parametrize("connectivity", ["full", "sparse", "sparse-both"])
def test_absolute_actions_take_their_values_from_the_globals(connectivity: Connectivity) -> None:
    scenes = mixed("covering")
    schema = ReplaySchema.of(get_task("covering"), DiscreteAbsolute(4, 8), False)
    fast, plain = pair(schema, "edges", connectivity=connectivity)
    batch = schema.unpack(observe(schema, as_states(scenes)))
    q, expected = fast.q(batch)[:, :, 0], plain(*dense(scenes, connectivity))
    torch.testing.assert_close(q, expected, **CLOSE)
    weights = torch.randn_like(q)
    same_gradients(fast, plain, q * weights, expected * weights)


@pytest.mark.parametrize("mask", ["none", "edges"])
def test_the_value_of_one_action_is_the_one_among_all(mask: Mask) -> None:
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False)
    net = GraphNet(schema, mask)
    batch = schema.unpack(observe(schema, states("silhouette", 6)))
    actions, values = net.best(batch)
    torch.testing.assert_close(net.q_at(batch, actions), values, **CLOSE)


@pytest.mark.parametrize("connectivity", ["full", "sparse", "sparse-both"])
def test_edges_and_nodes_are_those_of_the_observation(connectivity: Connectivity) -> None:
    scenes = mixed("silhouette")
    schema = ReplaySchema.of(get_task("silhouette"), DiscreteRelative(), False)
    packed = pack(schema.unpack(observe(schema, as_states(scenes))), connectivity)
    links = packed.links
    first = 0
    for b, scene in enumerate(scenes):
        g = graph(scene, connectivity)
        rows = np.array([row for row in nodes_of(scene) if row >= 0])
        mine = links.graph == b
        np.testing.assert_allclose(packed.nodes[mine].numpy(), g.nodes[rows], atol=2e-3)  # velocities are kept in half precision
        inside = mine[links.sender]
        edges = {
            (int(rows[s - first]), int(rows[r - first])): c
            for s, r, c in zip(links.sender[inside].tolist(), links.receiver[inside].tolist(), links.code[inside].tolist(), strict=True)
        }
        code = (g.edges[:, 0] + 2 * g.edges[:, 1]).astype(int).tolist()
        assert edges == dict(zip(zip(g.senders.tolist(), g.receivers.tolist(), strict=True), code, strict=True))
        first += int(mine.sum())
