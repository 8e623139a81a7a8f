"""The graph network of actors and critics is the paper's, written out plainly; edges in chunks are edges all at once."""

import pytest
import torch
from networks.scenes import states
from torch import Tensor

from trilith.networks.actor_critic.graph import GraphCore, GraphEncoder
from trilith.networks.actor_critic.network import make_actor_critic
from trilith.networks.config import EncoderConfig
from trilith.networks.kernels import graph_edges as edges_module
from trilith.networks.kernels import gru as gru_module
from trilith.networks.kernels.graph_edges import EdgeInputs, EdgeParts, edge_function, edges_plain
from trilith.networks.layers.graph import GraphBlock, RecurrentGraph
from trilith.world.observations.graph import graph
from trilith.world.scene import Scene
from trilith.world.tasks import get_task

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def plain_block(block: GraphBlock, edges: Tensor, nodes: Tensor, glob: Tensor, ends: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A full graph network of one graph: every input in one row, every sum a loop."""
    sender, receiver = ends
    new_edges = block.edge(torch.cat([edges, nodes[sender], nodes[receiver], glob.expand(len(edges), -1)], dim=1))
    arrived = torch.stack([new_edges[receiver == v].sum(dim=0) for v in range(len(nodes))])
    new_nodes = block.node(torch.cat([arrived, nodes, glob.expand(len(nodes), -1)], dim=1))
    return new_edges, new_nodes, block.glob(torch.cat([new_edges.mean(dim=0), new_nodes.mean(dim=0), glob]))


def plain(encoder: GraphEncoder, core: GraphCore, scene: Scene, action: Tensor | None = None) -> Tensor:
    """(outputs,): from the environment's own graph of one scene."""
    seen = graph(scene, "sparse")
    ends = torch.stack([torch.from_numpy(seen.senders), torch.from_numpy(seen.receivers)])
    edges, nodes, glob = torch.from_numpy(seen.edges), torch.from_numpy(seen.nodes), torch.zeros(1)
    encoded = encoder.edge(edges), encoder.node(nodes), encoder.glob(glob)
    given = edges, nodes, glob if action is None else torch.cat([glob, action])
    if isinstance(core.core, RecurrentGraph):
        last = hidden = encoded
        for _ in range(core.core.steps):
            last = plain_block(core.core.block, *(torch.cat(each, dim=-1) for each in zip(given, last, hidden, strict=True)), ends)
            hidden = tuple(gru(x, h) for gru, x, h in zip(core.core.grus, last, hidden, strict=True))
        processed = hidden
    else:
        first = torch.cat([edges, encoded[0]], 1), torch.cat([nodes, encoded[1]], 1), torch.cat([glob, encoded[2], given[2][1:]])
        processed = plain_block(core.core, *first, ends)
    out: Tensor = core.out(plain_block(core.decoder, *processed, ends)[2])
    return out


@pytest.mark.parametrize(("task", "recurrent"), [("silhouette", 1), ("covering_hard", 1), ("covering_hard", 3)])
def test_policy_and_values_are_those_of_the_plain_form(task: str, recurrent: int) -> None:
    net = make_actor_critic(EncoderConfig("gn", graph=16, recurrent=recurrent), get_task(task), 4, 8)
    encoder, actor, critic = net.encoder, net.actor, net.critic
    assert isinstance(encoder, GraphEncoder)
    assert isinstance(actor, GraphCore)
    assert isinstance(critic, GraphCore)
    scenes, actions = [state.scene for state in states(task, 4)], torch.randn(4, 2, 4)
    seen = net.encoder(net.schema.unpack(net.schema.pack(scenes)))
    policy, values = net.actor(seen), net.value(seen, actions)
    wanted = torch.stack([plain(encoder, actor, scene) for scene in scenes])
    of_actions = torch.stack([torch.cat([plain(encoder, critic, s, a) for a in each]) for s, each in zip(scenes, actions, strict=True)])
    # Velocities are stored in half precision, and nothing else differs.
    torch.testing.assert_close(policy, wanted, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(values, of_actions, rtol=1e-3, atol=1e-4)
    weights = list(net.parameters())
    found = torch.autograd.grad(policy.square().sum() + values.square().sum(), weights)
    expected = torch.autograd.grad(wanted.square().sum() + of_actions.square().sum(), weights)
    for (name, _), one, other in zip(net.named_parameters(), found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=1e-3 * max(float(other.abs().max()), 1e-3), msg=name)


@pytest.mark.parametrize("parts", [("table",), ("edges",), ("table", "edges", "hidden")])
@pytest.mark.parametrize("count", [0, 1, 16, 50])
def test_edges_in_chunks_are_edges_all_at_once(parts: tuple[str, ...], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges_module, "CHUNK", 16)
    nodes, width = 7, 5
    ends = torch.randint(nodes, (2, count))
    code = torch.randint(4, (count,))
    shapes = {"table": (4, width), "edges": (count, 3), "of_edges": (width, 3), "hidden": (count, 2), "of_hidden": (width, 2)}
    shapes = {name: shape for name, shape in shapes.items() if name.removeprefix("of_") in parts}
    shapes |= {"send": (nodes, width), "receive": (nodes, width), "weight": (width, width), "bias": (width,)}
    named = {name: torch.randn(*shape, requires_grad=True) for name, shape in shapes.items()}
    given, known = list(named.values()), EdgeParts(*map(named.get, EdgeParts._fields))
    inputs = EdgeInputs(known, *(named[name] for name in EdgeInputs._fields[1:5]), code, *ends)
    forms = [form(inputs) for form in (edge_function, edges_plain)]
    pulls = [torch.randn_like(each) for each in forms[0]]
    for one, other in zip(*forms, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    for used in (slice(None), slice(1, 2)):  # a decoder's edges are not used but for their sums
        grads = [torch.autograd.grad(form[used], given, pulls[used], retain_graph=True, allow_unused=True) for form in forms]
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, **CLOSE)
    with torch.no_grad():
        again = edge_function(inputs)
    assert all(torch.equal(one, other) for one, other in zip(again, forms[0], strict=True))


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("count", [0, 1, 16, 50])
def test_gru_in_chunks_is_the_gru_of_torch(table: bool, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gru_module, "CHUNK", 16)
    cell = torch.nn.GRUCell(3, 5)
    x, hidden = torch.randn(count, 3, requires_grad=True), torch.randn(4 if table else count, 5, requires_grad=True)
    code = torch.randint(4, (count,)) if table else None
    old = hidden if code is None else hidden[code]
    found, wanted, plain = gru_module.gru(cell, x, hidden, code), cell(x, old), gru_module.gru_plain(cell, x, hidden, code)
    given, pull = [x, hidden, *cell.parameters()], torch.randn(count, 5)
    for each in (found, plain):
        torch.testing.assert_close(each, wanted, **CLOSE)
        grads = [torch.autograd.grad(form, given, pull, retain_graph=True) for form in (each, wanted)]
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other, **CLOSE)
    with torch.no_grad():
        assert torch.equal(gru_module.gru(cell, x, hidden, code), found)
