"""Q-learning finds the known values of a two-step task, keeps to its mask, and comes back from its files."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nets.scenes import states

from trilith.agents.base import Episode
from trilith.agents.card import is_pair, load_policy, save_weights, warn_of_physics, weights_file
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.learner import DQNLearner, Sample, large_margin_loss, search_cross_entropy
from trilith.agents.dqn.policy import DQNAgent, DQNPolicy, Exploration, choose, make_layout, make_net, observe
from trilith.evaluation.play import play
from trilith.nets.batch import Records, reference_rows
from trilith.nets.config import NetConfig
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.search.simulator import Simulator
from trilith.search.tree import decide, plant
from trilith.support.config import from_json, to_json
from trilith.world.actions import DiscreteRelative
from trilith.world.episode import start, step
from trilith.world.scene import INVALID_EDGE, SLOTS, Role, fresh_scene

SMALL = NetConfig(width=32, layers=1, heads=2, decoder=32)
DISCOUNT = 0.9


def episode(learner: DQNLearner, records: Records, actions: Any, rewards: Any, search: Any = None, demonstrated: bool = False) -> Episode:
    """An episode as an actor yields it; `search` are the actions that searches tried and the values they found."""
    dtype = np.dtype([*learner.policy.dtype.descr, ("reward", "f4")])
    steps = np.zeros(len(records), dtype)
    steps["state"], steps["action"], steps["reward"] = records, actions, rewards
    if "tried" in (dtype.names or ()):
        steps["tried"] = -1
        if search is None and learner.config.amortise:
            search = (np.asarray(actions)[:, None], np.asarray(rewards)[:, None])
        if search is not None:
            tried, found = search
            steps["tried"][:, : tried.shape[1]], steps["found"][:, : tried.shape[1]] = tried, found
    return Episode(steps, 0, 1.0, demonstrated, None if demonstrated else Exploration(0.0, (4.0, 4.0)))


def two_steps(learner: DQNLearner) -> tuple[Records, dict[str, tuple[int, list[int], float]]]:
    """A task of two states. In the first, one action ends it for 0.5 and the other leads on for nothing; in the second, one
    earns 1 and the other costs 1. Nothing else is legal, though a network may well think that it would be better.

    Gives the learner all there is to see; returns both states, and (state, action, value) of each action.
    """
    layout = learner.layout
    scenes = [fresh_scene([], [(x, 0.35, 2.0, 0.35)]) for x in (-3.0, 3.0)]
    actions = {"end": (0, [0, SLOTS, 3, 0]), "on": (0, [3, SLOTS, 8, 0]), "good": (1, [6, SLOTS + 1, 5, 0]), "bad": (1, [0, SLOTS, 2, 0])}
    masks = [np.zeros((SLOTS, len(scenes[0]), layout.offsets), dtype=bool) for _ in scenes]
    for state, (slot, receiver, offset, _) in actions.values():
        masks[state][[k for k in range(SLOTS) if scenes[0].size[k, 0] == scenes[0].size[slot, 0]], receiver, offset] = True
    records = layout.pack(scenes, masks)
    for names, rewards in ((["end"], [0.5]), (["on", "good"], [0.0, 1.0]), (["on", "bad"], [0.0, -1.0])):
        for sticky in (0, 1):
            done = np.array([[*actions[name][1][:3], sticky] for name in names], dtype=np.int32)
            learner.add(episode(learner, records[: len(names)], done, rewards))
    value = {"end": 0.5, "on": DISCOUNT, "good": 1.0, "bad": -1.0}
    return records, {name: (*actions[name], value[name]) for name in actions}


@pytest.mark.parametrize("network", ["attention", "graph"])
@pytest.mark.parametrize("double", [True, False])
def test_a_task_of_two_steps_is_learnt_to_its_optimum(network: str, double: bool) -> None:
    torch.set_num_threads(1)
    net = replace(SMALL, network=network, recurrent=1)
    rates = {"learning_rate": 2e-3, "warmup": 1, "target_rate": 0.1}
    config = DQNConfig(net=net, discount=DISCOUNT, double=double, batch=16, mirror=False, **rates)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records, known = two_steps(learner)
    rng = np.random.default_rng(0)
    for _ in range(300):
        learner.step(rng)
    for name, (state, action, value) in known.items():
        batch = learner.layout.unpack(records[state : state + 1])
        assert float(learner.policy.net.q_at(batch, torch.tensor([action]))) == pytest.approx(value, abs=0.07), name
    assert greedy(learner, records) == [known["on"][1][1:3], known["good"][1][1:3]]


@pytest.mark.parametrize("network", ["attention", "graph"])
def test_actions_that_were_only_simulated_are_learnt_where_they_end_an_episode(network: str) -> None:
    torch.set_num_threads(1)
    net = replace(SMALL, network=network, recurrent=1)
    config = DQNConfig(net=net, batch=16, learning_rate=2e-3, warmup=1, target_rate=0.1, siblings=2, demonstrations=0)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records = learner.layout.pack([fresh_scene([], [(3.0, 0.35, 2.0, 0.35)])], [np.ones((SLOTS, 9, learner.layout.offsets), dtype=bool)])
    done, beside = [[0, SLOTS, 3, 0]], [[3, SLOTS, 8, 1], [6, SLOTS + 1, 5, 0]]
    learner.add(episode(learner, records, done, [0.5], search=(np.array([beside]), np.array([[-0.5, 1.0]]))))
    rng = np.random.default_rng(0)
    for _ in range(200):
        learner.step(rng)
    batch, actions = learner.layout.unpack(records), torch.tensor([*done, *beside])
    values = learner.policy.net.q_at(batch, actions, torch.zeros(3, dtype=torch.int64))
    assert values.tolist() == pytest.approx([0.5, -0.5, 1.0], abs=0.07)


@pytest.mark.parametrize(("huber", "value"), [(10.0, -1.0), (1.0, -0.25)])
def test_a_risk_costs_its_mean_unless_large_errors_count_linearly(huber: float, value: float) -> None:
    """Once in five times the same action in the same state costs 5. Linearly counted, its pull is 1 against four times that of the rest."""
    torch.set_num_threads(1)
    net = replace(SMALL, recurrent=1)
    rates = {"learning_rate": 2e-3, "warmup": 1, "target_rate": 0.05, "decay_steps": 300}
    config = DQNConfig(net=net, batch=64, huber=huber, siblings=0, demonstrations=0, mirror=False, **rates)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records = learner.layout.pack([fresh_scene([], [(3.0, 0.35, 2.0, 0.35)])], [np.ones((SLOTS, 9, learner.layout.offsets), dtype=bool)])
    for reward in (0.0, 0.0, 0.0, 0.0, -5.0):
        learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [reward]))
    rng = np.random.default_rng(0)
    for _ in range(300):
        learner.step(rng)
    found = float(learner.policy.net.q_at(learner.layout.unpack(records), torch.tensor([[0, SLOTS, 3, 0]])))
    assert found == pytest.approx(value, abs=0.15)


@pytest.mark.parametrize("returns", [True, False])
def test_a_demonstrated_action_is_worth_what_its_episode_went_on_to_earn(returns: bool) -> None:
    """After one demonstration of two steps, with a network whose weights stay as they are: the targets, not what is learnt of them."""
    config = DQNConfig(net=SMALL, discount=DISCOUNT, batch=8, demonstration_share=1.0, demonstration_returns=returns, siblings=0)
    learner = DQNLearner(config, "covering_hard", seed=0)
    masks = [np.ones((SLOTS, 9, learner.layout.offsets), dtype=bool)] * 2
    records = learner.layout.pack([fresh_scene([], [(x, 0.35, 2.0, 0.35)]) for x in (-3.0, 3.0)], masks)
    learner.add(episode(learner, records, [[0, SLOTS, 3, 0], [3, SLOTS, 8, 0]], [0.25, 1.0], demonstrated=True))
    wanted: list[Sample] = []
    learner.learn = lambda sample, *_: wanted.append(sample) or {}  # type: ignore[method-assign, func-returns-value]
    learner.step(np.random.default_rng(0))
    [sample] = wanted
    first = sample.records["pose"][:, 1, 0] < 0  # the obstacle, after the floor
    assert 0 < first.sum() < 8
    np.testing.assert_allclose(sample.returns, np.where(first, 0.25 + DISCOUNT * returns, 1.0), rtol=1e-6)
    np.testing.assert_allclose(sample.discounts, np.where(first, 0 if returns else DISCOUNT, 0))


@pytest.mark.parametrize(("earned", "searched"), [(0.99, 0.1), (0.9, 0.95)])
def test_a_search_takes_over_unless_the_planner_is_all_but_perfect(earned: float, searched: float) -> None:
    learner = DQNLearner(DQNConfig(net=SMALL, batch=4), "covering_hard", seed=0)
    records = learner.layout.pack([fresh_scene([], [(3.0, 0.35, 2.0, 0.35)])], [np.ones((SLOTS, 9, learner.layout.offsets), dtype=bool)])
    learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [earned], demonstrated=True))
    assert learner.takeover().share == 0, "nothing is learnt yet"
    learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [0.0]))
    learner.step(np.random.default_rng(0))
    learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [-5.0], demonstrated=True))  # a correction says nothing of the planner
    again = DQNLearner(DQNConfig(net=SMALL, batch=4), "covering_hard", seed=0)
    again.load(*learner.state())
    assert learner.takeover() == again.takeover()
    assert again.takeover().searched == searched


def greedy(learner: DQNLearner, records: Records) -> list[list[int]]:
    """Receiver and offset of the best action in each state."""
    choices = choose(learner.policy.net, records, np.zeros(len(records), dtype=bool), [np.random.default_rng(0)] * len(records))
    return [action[1:3].tolist() for action in choices if action is not None]


@pytest.mark.parametrize(("network", "mirror"), [("attention", True), ("attention", False), ("graph", True)])
def test_what_is_demonstrated_or_found_by_search_is_preferred(network: str, mirror: bool) -> None:
    """In the first state one action is worth 0.5 and one 0.9. Shown, or found by a search to be worth more, the lesser one wins,
    unless the margin is given up in time."""
    torch.set_num_threads(1)
    net = replace(SMALL, network=network, recurrent=1)
    base = DQNConfig(net=net, discount=DISCOUNT, batch=16, mirror=mirror, learning_rate=2e-3, warmup=1, target_rate=0.1, siblings=0)
    shown = replace(base, demonstration_share=0.5, margin=0.5, margin_weight=5.0)
    amortised = replace(base, amortise=5.0, search=SearchConfig(3))
    forgotten = replace(shown, margin_steps=60)
    for config in (base, shown, forgotten, amortised):
        learner = DQNLearner(config, "covering_hard", seed=0)
        records, known = two_steps(learner)
        lesser = np.array([known["end"][1]], np.int32)
        tried = np.array([[known["end"][1], known["on"][1], [*known["on"][1][:3], 1]]], np.int32)  # what is not tried stays as it is
        found = tried, np.array([[2.0, 0.5, 0.5]], np.float32)
        if config in (shown, forgotten):
            learner.add(episode(learner, records[:1], lesser, [0.5], found, demonstrated=True))
        for _ in range(6):  # as often as the better one is seen
            learner.add(episode(learner, records[:1], lesser, [0.5], found))
        rng = np.random.default_rng(0)
        for _ in range(150):
            learner.step(rng)
        assert greedy(learner, records)[0] == known["on" if config in (base, forgotten) else "end"][1][1:3]


def test_an_agent_that_stops_does_so_where_everything_would_lose() -> None:
    """A network whose values are all the same: it goes on where they are above 0, and stops where they are below."""
    for network, mask in (("attention", "legal"), ("graph", "edges")):
        config = DQNConfig(net=replace(SMALL, network=network, recurrent=1), mask=mask)  # type: ignore[arg-type]
        net = make_net(config, make_layout(config, "covering_hard"))
        found = [state for state in states("covering_hard", 12) if DiscreteRelative().mask(state.scene).any()]
        rngs = [np.random.default_rng(i) for i in range(len(found))]
        last = [module for module in net.modules() if isinstance(module, torch.nn.Linear) and module.out_features == net.outputs][-1]
        for value in (0.5, -0.5):
            with torch.no_grad():
                last.weight.zero_()
                last.bias.fill_(value)
            assert all((placement is None) == (value < 0) for placement in DQNAgent(net).act(found, rngs))
            assert None not in DQNAgent(net, stops=False).act(found, rngs)
            agent = DQNAgent(net)
            for root in plant(agent, found):
                assert root.best == pytest.approx(max(value, 0.0))
                [(_, *outcome)] = Simulator().steps([root.state], [agent.placement(root.state, int(root.ids[-1]))])
                assert outcome == [0.0, True], "to stop ends it and earns nothing"
        if mask == "legal":
            learner = DQNLearner(config, "covering_hard", seed=0)
            two_steps(learner)
            learner.net.load_state_dict(net.state_dict())
            learner.target.load_state_dict(net.state_dict())
            sample = Sample.of(*learner.replay.windows(np.random.default_rng(0), 40, 2), DISCOUNT)
            assert learner._targets(sample).numpy() == pytest.approx(sample.returns), "what follows is never worth less than 0"


def test_what_searches_found_is_learnt_by_cross_entropy_with_what_was_found() -> None:
    values = torch.tensor([[1.0, 2.0, -torch.inf, 0.0], [0.5, 0.0, 0.0, 0.0], [4.0, 0.0, 1.0, 2.0]], requires_grad=True)
    tried, found = torch.tensor([[1, 3, -1], [-1, -1, -1], [1, 2, 3]]), torch.tensor([[0.0, 3.0, 9.0], [9.0, 9.0, 9.0], [0.0, 1.0, 2.0]])
    first, second, third = search_cross_entropy(values, tried, found, 0.5)
    wanted, said = (np.exp(np.array(each) / 0.5) for each in ([0.0, 3.0], [2.0, 0.0]))
    assert float(first.detach()) == pytest.approx(-(wanted / wanted.sum() * np.log(said / said.sum())).sum(), rel=1e-5)
    assert float(second.detach()) == 0.0, "nothing was searched"
    (first + third).backward()
    assert values.grad is not None
    assert values.grad[0, 3] < 0 < values.grad[0, 1], "what was found to be better is pushed up"
    assert values.grad[0, [0, 2]].tolist() == [0.0, 0.0], "of what was not tried nothing is known"
    assert values.grad[2].numpy() == pytest.approx(0.0, abs=1e-6), "it says what was found"


def test_the_large_margin_loss_is_what_is_missing_to_the_margin() -> None:
    values = torch.tensor([[1.0, 2.0, -torch.inf], [1.0, 5.0, 0.0], [1.0, 1.2, 0.0]])
    assert large_margin_loss(values, torch.tensor([0, 1, 1]), 0.5).tolist() == pytest.approx([1.5, 0.0, 0.3])


OPTIONS = [
    DQNConfig(net=SMALL),
    DQNConfig(net=SMALL, mask="edges"),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1)),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask="none"),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask="edges", actions="absolute"),
    DQNConfig(net=SMALL, actions="relative_xy", offsets=5),
]


@pytest.mark.parametrize("config", OPTIONS)
def test_a_search_without_budget_is_the_plain_agent(config: DQNConfig) -> None:
    torch.manual_seed(1)
    agent = DQNAgent(make_net(config, make_layout(config, "covering_hard")))
    found = states("covering_hard", 12)
    rngs = [np.random.default_rng(i) for i in range(12)]
    plain = agent.act(found, rngs)
    assert SearchAgent(agent, SearchConfig(0)).act(found, rngs) == plain
    roots = plant(agent, found)
    for root, state, placement, rng in zip(roots, found, plain, rngs, strict=True):
        action = decide(root, rng, SearchConfig(0))
        same = None if action is None else agent.placement(state, int(root.ids[action]))
        if placement is not None and same is not None and config.mask != "none":  # of blocks of one width a search takes the first
            assert state.scene.size[placement.slot, 0] == state.scene.size[same.slot, 0]
            same = same._replace(slot=placement.slot)
        assert placement == same
        if action is not None:
            assert len(set(root.ids.tolist())) == len(root.ids)
            assert (np.diff(agent.priors([state])[0].edges) >= 0).all()
            assert root.values[action] == root.best


@pytest.mark.parametrize("config", OPTIONS)
def test_actions_have_one_place_among_the_values(config: DQNConfig) -> None:
    net = make_net(config, make_layout(config, "covering_hard"))
    batch = net.layout.unpack(observe(net.layout, states("covering_hard", 12)))
    values = torch.rand_like(net.q(batch)).masked_fill(~net.mask(batch), -torch.inf).flatten(1)
    flat = values.argmax(dim=1)
    assert torch.equal(net.flat(batch, net.actions(batch, flat)), flat)


def test_searching_agents_do_better_by_what_they_try() -> None:
    """Even a network that knows nothing is helped by what placements really earn."""
    torch.manual_seed(0)
    config = DQNConfig(net=SMALL)
    agent = DQNAgent(make_net(config, make_layout(config, "silhouette")))
    first = [start("silhouette", 0, np.random.default_rng(i)) for i in range(4)]
    ends = play(SearchAgent(agent, SearchConfig(150, root="bound")), first, [np.random.default_rng(i) for i in range(4)])
    plain = play(agent, first, [np.random.default_rng(i) for i in range(4)])
    assert sum(end.total for _, end in ends) > sum(end.total for _, end in plain)


@pytest.mark.parametrize("mask", ["none", "edges", "legal"])
def test_acting_and_exploring_keep_to_the_mask(mask: str) -> None:
    config = DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask=mask)  # type: ignore[arg-type]
    layout = make_layout(config, "covering_hard")
    net = make_net(config, layout)
    found = states("covering_hard", 40)
    scenes, records = [state.scene for state in found], observe(layout, found)
    seen = 0
    for random in (np.zeros(40, dtype=bool), np.ones(40, dtype=bool)):
        for scene, choice in zip(scenes, choose(net, records, random, [np.random.default_rng(0)] * 40), strict=True):
            if choice is None:
                assert mask != "none"
                continue
            action = choice.tolist()
            placement = layout.decode(scene, action)
            seen += placement != INVALID_EDGE
            if mask != "none":
                assert placement != INVALID_EDGE
                assert scene.role[placement.slot] == Role.AVAILABLE
            if mask == "legal":
                assert layout.codec.mask(scene)[action[0], reference_rows(scene)[action[1] - SLOTS], action[2]]  # type: ignore[arg-type]
    assert seen > 0


def test_legal_placements_never_collide() -> None:
    config = DQNConfig(net=SMALL)
    agent = DQNAgent(make_net(config, make_layout(config, "silhouette")))
    found = states("silhouette", 30)
    rngs = [np.random.default_rng(i) for i in range(30)]
    for state, placement in zip(found, agent.act(found, rngs), strict=True):
        assert placement is None or step(state, placement).state.ended not in ("spawn_collision", "invalid_edge", "bad_choice")
    assert agent.act([], []) == []


def loaded(path: Path) -> Any:
    return load_policy(weights_file(path))[0].agent


def test_weights_come_back_from_their_files(tmp_path: Path) -> None:
    config = DQNConfig(net=SMALL, offsets=7)
    policy = DQNPolicy(config, "silhouette")
    save_weights(tmp_path / "best.safetensors", "dqn", config, "silhouette", policy.weights(), {"seed": 3})
    agent = loaded(tmp_path)
    found = states("silhouette", 5)
    rngs = [np.random.default_rng(0)] * 5
    assert agent.act(found, rngs) == policy.agent.act(found, rngs) == loaded(tmp_path / "best.safetensors").act(found, rngs)


def test_damaged_or_missing_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a run, or has not been evaluated") as error:
        loaded(tmp_path)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="cannot read"):
        loaded(tmp_path / "none.safetensors")
    config = DQNConfig(net=SMALL)
    path = tmp_path / "best.safetensors"
    save_weights(path, "dqn", replace(config, offsets=9), "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    with pytest.raises(ValueError, match="cannot use the weights") as error:
        loaded(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cannot use the weights"):
        loaded(path)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="choose mask none or edges"):
        make_layout(DQNConfig(actions="absolute", mask="legal"), "covering")
    config = DQNConfig(actions="absolute", mask="edges")
    with pytest.raises(ValueError, match="choose network graph"):
        make_net(config, make_layout(config, "covering"))


def test_a_config_survives_json() -> None:
    config = DQNConfig(actions="absolute", grid=(4, 8), net=NetConfig(network="graph"))
    assert from_json(DQNConfig, to_json(config)) == config
    with pytest.raises(ValueError, match="no field 'nonsense'"):
        from_json(DQNConfig, {"nonsense": 1})
    for wrong in ([], {"net": 3}, {"batch": "x"}, {"net": {"width": None}}):
        with pytest.raises(ValueError, match="not a"):
            from_json(DQNConfig, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"heads": 3}, {"heads": 0}, {"width": -1}, {"layers": 0}, {"recurrent": 0}, {"discount": float("nan")}, {"epsilon": float("nan")},
     {"demonstration_share": 2}, {"clip": -1}, {"decay_steps": -5}, {"learning_rate": 0}],
)  # fmt: skip
def test_a_config_that_cannot_be_is_refused_by_its_field(wrong: dict[str, Any]) -> None:
    [(name, value)] = wrong.items()
    kind = NetConfig if name in NetConfig.__dataclass_fields__ else DQNConfig
    with pytest.raises(ValueError, match=f"{name}( {value}: must be|, 3)"):
        kind(**wrong)


def test_weights_of_older_physics_load_with_one_line_of_warning_once_a_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "best.safetensors"
    config = DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    warn_of_physics.cache_clear()
    loaded(path)
    assert capsys.readouterr().err == ""
    card = json.loads(path.with_suffix(".json").read_text())
    del card["physics"]
    path.with_suffix(".json").write_text(json.dumps(card))
    loaded(path)
    loaded(path)
    assert capsys.readouterr().err.count("version 1 of the physics") == 1


WRONG = [
    ("algorithm", "alchemy", "no algorithm 'alchemy'"),
    ("observation", "objects-9", "objects-9"),
    ("action", "dance-1", "dance-1"),
    ("format", 99, "format 99"),
    ("physics", "x", "physics: Expected int, got str"),
    ("physics", 99, "physics 99"),
    ("weights", "0" * 64, "not a pair"),
    ("agent", {"net": 3}, "does not describe an agent"),
    ("task", 3, "task: Expected str"),
    ("test", [{"level": 3}], r"test\[0\]"),
]


@pytest.mark.parametrize(("name", "value", "told"), WRONG)
def test_a_card_that_does_not_fit_is_one_clear_line(tmp_path: Path, name: str, value: Any, told: str) -> None:
    path, config = tmp_path / "best.safetensors", DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    card = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(card | {name: value}))
    with pytest.raises(ValueError, match=told) as error:
        loaded(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("claim", [{"width": 20_000}, {"decoder": 65_536}, {"layers": 10**9}, {"width": 10**12}])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted otherwise elsewhere")
def test_what_a_card_claims_takes_no_memory_before_it_is_refused(tmp_path: Path, claim: dict[str, int]) -> None:
    import resource

    path, config = tmp_path / "best.safetensors", DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    card = json.loads(path.with_suffix(".json").read_text())
    card["agent"]["net"] |= {"heads": 1, **claim}
    path.with_suffix(".json").write_text(json.dumps(card))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"this network has|must be"):
        loaded(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "in kilobytes"


def test_weights_and_their_card_are_a_pair_or_told_apart(tmp_path: Path) -> None:
    """As a writer leaves them that was killed after the first of them had its name."""
    path, config = tmp_path / "best.safetensors", DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    old = path.with_suffix(".json").read_bytes()
    assert is_pair(path)
    others = {name: value + 1 for name, value in DQNPolicy(config, "silhouette").weights().items()}
    save_weights(path, "dqn", config, "silhouette", others, {})
    assert is_pair(path)
    path.with_suffix(".json").write_bytes(old)
    assert not is_pair(path)
    with pytest.raises(ValueError, match=r"best\.json is the card of other weights: the two are not a pair"):
        loaded(path)


def test_a_checkpoint_whose_optimiser_does_not_fit_is_refused_before_it_is_used() -> None:
    config = DQNConfig(net=SMALL, batch=4, mirror=False)
    learner, other = (DQNLearner(config, "covering_hard", seed) for seed in (0, 1))
    two_steps(learner)
    learner.step(np.random.default_rng(0))
    arrays, facts = learner.state()
    moment = next(name for name in arrays if name.endswith("exp_avg"))
    before = other.policy.weights()
    for damaged in (
        arrays | {moment: arrays[moment][..., :1]},
        arrays | {moment: arrays[moment].astype(np.float64)},
        {name: array for name, array in arrays.items() if name != moment},
        arrays | {"replay.added": np.array(10**9)},
        arrays | {"replay.ring": arrays["replay.ring"][:-1]},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            DQNLearner(config, "covering_hard", 1).load(damaged, facts)
    assert all(np.array_equal(before[name], other.policy.weights()[name]) for name in before)
    other.load(arrays, facts)
    assert other.steps == 1
