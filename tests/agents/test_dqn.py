"""Q-learning finds the known values of small tasks, from what was made and from what was only simulated, keeps to its mask, and comes
back from its files."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from networks.plain_objects import plain_v
from networks.scenes import choices, states

from trilith.agents.base import Episode
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.learner import DQNLearner, Sample
from trilith.agents.dqn.policy import DQNAgent, DQNPolicy, Exploration, make_net, make_schema, observe
from trilith.agents.weights import is_pair, load_policy, save_weights, warn_of_physics, weights_file
from trilith.evaluation.play import play
from trilith.networks.config import NetConfig
from trilith.networks.inputs.scene_batch import Records, ReplaySchema, SceneBatch
from trilith.networks.q.base import Outcomes
from trilith.networks.q.objects import ObjectsNet
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.search.simulator import Simulator
from trilith.search.tree import Node, best_action, make_nodes
from trilith.training.actor import CorrectRequest, PlayRequest, collect
from trilith.utils.config import from_json, to_json
from trilith.utils.files import sealed, write_json
from trilith.world.actions import DiscreteRelative, reference_rows
from trilith.world.episode import start, step
from trilith.world.scene import INVALID_EDGE, SLOTS, Role, Scene, fresh_scene

SMALL = NetConfig(width=32, layers=1, heads=2, pair=8, decoder=32, message=8, token=32)
DISCOUNT = 0.9
RATES: dict[str, Any] = {"batch": 16, "learning_rate": 2e-3, "warmup": 1, "tau": 0.1, "decay_steps": 400}
"""What small networks learn small tasks with in a few hundred steps."""


def episode(learner: DQNLearner, records: Records, actions: Any, rewards: Any, beside: Any = (), correction: bool = False) -> Episode:
    """An episode as an actor yields it; `beside` are the actions that were simulated beside each, with their rewards and, for those that
    did not end it, the states after them."""
    dtype = np.dtype([*learner.policy.dtype.descr, ("reward", "f4")])
    steps = np.zeros(len(records), dtype)
    steps["state"], steps["action"], steps["reward"] = records, actions, rewards
    if learner.config.counterfactual_actions:
        steps["beside"] = -1
    for kept, others in zip(steps, beside, strict=False):
        for k, (action, reward, after) in enumerate(others):
            kept["beside"][k], kept["beside_reward"][k], kept["beside_ended"][k] = action, reward, after is None
            if after is not None and learner.net.values_states:
                [kept["after"][k]] = without_masks(learner, after[None])
    return Episode(steps, 0, correction, None if correction else Exploration(0.0, (4.0, 4.0)))


def without_masks(learner: DQNLearner, records: Records) -> Records:
    """States as they are kept where only their values are asked for."""
    scenes = np.zeros(len(records), learner.schema.scenes.dtype)
    for name in scenes.dtype.names or ():
        scenes[name] = records[name]
    return scenes


def packed(schema: ReplaySchema, scenes: list[Scene], masks: list[np.ndarray]) -> Records:
    """Records of scenes with these masks in place of those of legal actions."""
    records = schema.pack(scenes)
    if schema.stores_legal:
        records["legal"] = [schema.pack_legal(*each) for each in zip(scenes, masks, strict=True)]
    return records


def two_steps(learner: DQNLearner) -> tuple[Records, dict[str, tuple[int, list[int], float]]]:
    """A task of two states, which are no mirror images of each other. In the first, one action ends it for 0.5 and the other leads on for
    nothing; in the second, one earns 1 and the other costs 1. Nothing else is legal, though a network may well think that it would be
    better.

    Gives the learner all there is to see, all other actions of a state beside each that is made, if it learns from these; returns both
    states, and (state, action, value) of each action.
    """
    schema = learner.schema
    scenes = [fresh_scene([], [(x, 0.35, 2.0, 0.35)]) for x in (-3.0, 2.0)]
    actions = {"end": (0, [0, SLOTS, 3, 0]), "on": (0, [3, SLOTS, 8, 0]), "good": (1, [6, SLOTS + 1, 5, 0]), "bad": (1, [0, SLOTS, 2, 0])}
    masks = [np.zeros((SLOTS, len(scenes[0]), schema.offsets), dtype=bool) for _ in scenes]
    for state, (slot, receiver, offset, _) in actions.values():
        masks[state][[k for k in range(SLOTS) if scenes[0].size[k, 0] == scenes[0].size[slot, 0]], receiver, offset] = True
    records = packed(schema, scenes, masks)
    outcome = {"end": (0.5, None), "on": (0.0, records[1]), "good": (1.0, None), "bad": (-1.0, None)}
    every = [(state, ([*action[:3], sticky], *outcome[name])) for name, (state, action) in actions.items() for sticky in (0, 1)]
    for names in (["end"], ["on", "good"], ["on", "bad"]):
        for sticky in (0, 1):
            done = [[*actions[name][1][:3], sticky] for name in names]
            others = [[each for state, each in every if state == k and each[0] != made] for k, made in enumerate(done)]
            beside = others if learner.config.counterfactual_actions else ()
            learner.add(episode(learner, records[: len(names)], done, [outcome[name][0] for name in names], beside))
    value = {"end": 0.5, "on": DISCOUNT, "good": 1.0, "bad": -1.0}
    return records, {name: (*actions[name], value[name]) for name in actions}


def value_of(learner: DQNLearner, record: Records, action: Any) -> float:
    """What the policy's network says of an action."""
    with torch.no_grad():
        return float(learner.policy.net.q_at(learner.schema.unpack(record[None]), torch.tensor([learner.schema.index(np.array(action))])))  # type: ignore[attr-defined]


def values_of_states(learner: DQNLearner, records: Records) -> list[float]:
    """What the policy's network says of states."""
    return [float(value) for value in learner.policy.net.state_values(without_masks(learner, records))]


def open_states(learner: DQNLearner, *places: float) -> Records:
    """States with one obstacle each, at these places, where everything may be chosen."""
    scenes = [fresh_scene([], [(x, 0.35, 2.0, 0.35)]) for x in places]
    return packed(learner.schema, scenes, [np.ones((SLOTS, 9, learner.schema.offsets), dtype=bool)] * len(scenes))


@pytest.mark.parametrize("network", ["objects", "graph"])
@pytest.mark.parametrize("double", [True, False])
def test_a_task_of_two_steps_is_learnt_to_its_optimum(network: str, double: bool) -> None:
    torch.set_num_threads(1)
    net = replace(SMALL, network=network, recurrent=1)
    learner = DQNLearner(DQNConfig(net=net, discount=DISCOUNT, double=double, mirror=False, **RATES), "covering_hard", seed=0)
    records, known = two_steps(learner)
    rng = np.random.default_rng(0)
    for _ in range(300):
        learner.step(rng)
    for name, (state, action, value) in known.items():
        assert value_of(learner, records[state], action) == pytest.approx(value, abs=0.07), name
    assert greedy(learner, records) == [known["on"][1][1:3], known["good"][1][1:3]]
    if network == "objects":
        assert values_of_states(learner, records) == pytest.approx([DISCOUNT, 1.0], abs=0.07)


@pytest.mark.parametrize("network", ["objects", "graph"])
def test_actions_that_were_only_simulated_are_learnt_too(network: str) -> None:
    """One that would have ended the episode is worth its reward. One that would not is, to a network that values states, worth its
    reward and the value of the state after it: in the second state one action earns 1, in the third one costs 1, and nothing else is
    known. So the second is worth 1, the third, where one may as well stop, nothing, and the first the best of all that can be done."""
    torch.set_num_threads(1)
    config = DQNConfig(net=replace(SMALL, network=network, recurrent=1), discount=DISCOUNT, mirror=False, **RATES)
    learner = DQNLearner(config, "covering_hard", seed=0)
    first, third = open_states(learner, 3.0, 0.0)
    mask = np.zeros((SLOTS, 9, learner.schema.offsets), dtype=bool)
    mask[3:6, 7, 4] = True  # a block of the middle width on the floor
    [second] = packed(learner.schema, [fresh_scene([], [(-3.0, 0.35, 2.0, 0.35)])], [mask])
    done, hit, on, good = [0, SLOTS, 3, 0], [3, SLOTS, 8, 1], [6, SLOTS + 1, 5, 0], [3, SLOTS, 4, 0]
    astray, bad = [0, SLOTS + 1, 9, 1], [0, SLOTS, 12, 1]
    learner.add(episode(learner, first[None], [done], [0.5], [[(hit, -0.5, None), (on, 0.25, second), (astray, 0.75, third)]]))
    for sticky in (0, 1):
        learner.add(episode(learner, second[None], [[*good[:3], sticky]], [1.0]))
    learner.add(episode(learner, third[None], [bad], [-1.0]))
    rng = np.random.default_rng(0)
    for _ in range(400):
        learner.step(rng)
    for record, action, value in ((first, done, 0.5), (first, hit, -0.5), (second, good, 1.0), (third, bad, -1.0)):
        assert value_of(learner, record, action) == pytest.approx(value, abs=0.07)
    if network == "objects":
        for action, value in ((on, 0.25 + DISCOUNT), (astray, 0.75)):
            assert value_of(learner, first, action) == pytest.approx(value, abs=0.07)
        assert values_of_states(learner, np.stack([first, second, third])) == pytest.approx([0.25 + DISCOUNT, 1.0, 0.0], abs=0.07)


def test_rewards_and_ends_are_learnt_of_all_actions_and_of_mirrored_scenes() -> None:
    """The two heads of `objects`, also for what was only simulated."""
    torch.set_num_threads(1)
    config = DQNConfig(net=SMALL, discount=DISCOUNT, mirror=True, **RATES)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records = open_states(learner, 3.0, -1.0)
    made, last = [0, SLOTS, 3, 0], [3, SLOTS + 1, 8, 1]
    hit, on, other = [3, SLOTS + 1, 5, 0], [6, SLOTS, 5, 1], [0, SLOTS + 1, 12, 0]
    others = [(hit, -0.5, None), (on, 0.25, records[1]), (other, 0.75, records[1])]
    learner.add(episode(learner, records, [made, last], [0.0, 1.0], [others]))
    rng = np.random.default_rng(0)
    for _ in range(400):
        learner.step(rng)
    actions, scenes = torch.tensor([made, hit, on, other, last]), torch.tensor([0, 0, 0, 0, 1])
    for mirror in (np.zeros(2, dtype=bool), np.ones(2, dtype=bool)):
        batch = learner.schema.unpack(records, mirror)
        asked = torch.from_numpy(learner.schema.index(learner.schema.mirror_actions(actions.numpy(), mirror[scenes.numpy()])))
        with torch.no_grad():
            _, reward, end, _ = learner.net.outcomes(batch, asked, scenes)
        assert reward is not None
        assert end is not None
        assert reward.tolist() == pytest.approx([0.0, -0.5, 0.25, 0.75, 1.0], abs=0.1)
        assert (end > 0).tolist() == [False, True, False, False, True]


@pytest.mark.parametrize(("huber", "value"), [(10.0, -1.0), (1.0, -0.25)])
def test_a_risk_costs_its_mean_unless_large_errors_count_linearly(huber: float, value: float) -> None:
    """Once in five times the same action in the same state costs 5. Linearly counted, its pull is 1 against four times that of the rest."""
    torch.set_num_threads(1)
    rates = {"learning_rate": 2e-3, "warmup": 1, "tau": 0.05, "decay_steps": 300}
    # In a world of chance, where the best that ever followed is no bound.
    config = DQNConfig(net=SMALL, batch=64, huber_delta=huber, counterfactual_actions=0, mirror=False, lower_bounds=False, **rates)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records = open_states(learner, 3.0)
    for reward in (0.0, 0.0, 0.0, 0.0, -5.0):
        learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [reward]))
    rng = np.random.default_rng(0)
    for _ in range(300):
        learner.step(rng)
    assert value_of(learner, records[0], [0, SLOTS, 3, 0]) == pytest.approx(value, abs=0.15)


# ---- the loss, one number at a time

PLAYED = DQNConfig(
    net=NetConfig(width=8, heads=2, layers=1, pair=4, decoder=8, message=4, token=8),
    batch=24,
    replay_mb=1.0,
    counterfactual_actions=6,
    counterfactual_targets=6,
)


def learning(config: DQNConfig = PLAYED, corrections: bool = False) -> DQNLearner:
    """A learner that remembers real episodes, and two networks that are not the same."""
    torch.set_num_threads(1)
    learner = DQNLearner(config, "covering_hard", seed=0)
    with torch.no_grad():
        for parameter in learner.target.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    asked = [PlayRequest((0, 1), 24, (0.5, 0.5), False, Exploration(1.0, (4.0, 4.0), warm_up=True))]
    for request in [*asked, CorrectRequest((0, 2), 8, (1.0, 0.0), False)] if corrections else asked:
        for each in collect(learner.policy, "covering_hard", request).episodes:
            learner.add(each)
    return learner


def sampled(learner: DQNLearner, size: int = 24) -> Sample:
    config = learner.config
    return Sample.of(*learner.replay.windows(np.random.default_rng(0), size, config.n_step + 1), config.discount)


def plain_value(learner: DQNLearner, record: Any) -> float:
    """The value of one state: what the target network says of it, if it does, or never less than nothing; else of the action that one
    network takes for the best, by the other."""
    batch = (learner.schema if "legal" in record.dtype.names else learner.schema.scenes).unpack(record[None])
    with torch.no_grad():
        if isinstance(learner.target, ObjectsNet):
            return max(float(plain_v(learner.target, batch)), 0.0)
        mask = learner.net.mask(batch)
        if not mask.any():
            return 0.0
        chooses = learner.net if learner.config.double else learner.target
        best = int(chooses.q(batch).masked_fill(~mask, -torch.inf).argmax())
        value = float(learner.target.q(batch).flatten()[best])
    return max(value, 0.0) if learner.config.stop else value


def plain_targets(learner: DQNLearner, sample: Sample) -> dict[int, float]:
    """By number of the action, those that were only simulated after those that were made: what its value is learned to be."""
    config, found = learner.config, dict[int, float]()
    for i, weight in enumerate(sample.discounts):
        found[i] = sample.returns[i] + (weight * plain_value(learner, sample.following[i]) if weight else 0.0)
        if config.lower_bounds:
            found[i] = max(found[i], sample.earned[i])
    if (beside := sample.beside) is not None:
        after = iter(() if beside.after is None else beside.after)
        for k, (reward, ended) in enumerate(zip(beside.rewards.tolist(), beside.ended.tolist(), strict=True), start=len(sample.records)):
            if ended:
                found[k] = reward
            elif beside.after is not None:
                found[k] = reward + config.discount * plain_value(learner, next(after))
        assert next(after, None) is None
    return found


GRAPH = replace(PLAYED, net=replace(PLAYED.net, network="graph", recurrent=1))


@pytest.mark.parametrize(
    "options",
    [{}, {"double": False}, {"lower_bounds": False}, {"n_step": 3}, {"counterfactual_actions": 0}, {"stop": False}, {"discount": 0.0}],
    ids=str,
)
@pytest.mark.parametrize("network", ["objects", "graph"])
def test_targets_are_those_of_a_plain_loop(network: str, options: dict[str, Any]) -> None:
    learner = learning(replace(PLAYED if network == "objects" else GRAPH, **options))
    sample = sampled(learner)
    wanted, which = learner._targets(sample)
    assert len(set(which.tolist())) == len(which)
    found, plain = dict(zip(which.tolist(), wanted.tolist(), strict=True)), plain_targets(learner, sample)
    assert found.keys() == plain.keys()
    assert [found[k] for k in plain] == pytest.approx(list(plain.values()), abs=1e-4)
    if learner.config.counterfactual_actions:
        assert sample.beside is not None
        count = len(sample.beside.ended)
        assert 0 < sample.beside.ended.sum() < count
        assert len(found) == len(sample.records) + (count if network == "objects" else sample.beside.ended.sum())


def test_the_warm_up_is_never_longer_than_the_replay() -> None:
    learner = DQNLearner(replace(PLAYED, learning_starts=10**6, replay_mb=0.001), "covering_hard", seed=0)
    assert learner.warmup_status() == "warm-up: 0 of 256 steps by chance"
    learner.replay.added = 257
    assert not learner.warming_up
    assert learner.updates_due() == learner.config.updates_per_step


def test_the_discounted_return_from_each_step_on_is_remembered() -> None:
    learner = DQNLearner(replace(PLAYED, discount=0.5), "covering_hard", seed=0)
    for correction in (False, True):
        records = open_states(learner, -3.0, 0.0, 3.0)
        learner.add(episode(learner, records, [[0, SLOTS, 3, 0]] * 3, [1.0, -2.0, 4.0], correction=correction))
    for memory in (learner.replay, learner.corrected):
        assert memory.ring["earned"][:3].tolist() == [1 + 0.5 * 0, -2 + 0.5 * 4, 4]
        assert memory.ring["reward"][:3].tolist() == [1, -2, 4]


@pytest.mark.longest
@pytest.mark.slow
def test_a_target_is_never_less_than_the_return_that_followed() -> None:
    """With a network that thinks nothing of anything, what was earned later is all there is to go by."""
    learner, without = (learning(replace(PLAYED, lower_bounds=bounds), corrections=True) for bounds in (True, False))
    for each in (learner, without):
        for net in (each.net, each.target):
            net.load({name: np.zeros_like(value) for name, value in net.weights().items()})
    windows = [memory.windows(np.random.default_rng(0), 100, 2) for memory in (learner.replay, learner.corrected)]
    sample = Sample.of(*(np.concatenate(each) for each in zip(*windows, strict=True)), learner.config.discount)
    (bounded, _), (free, _) = learner._targets(sample), without._targets(sample)
    size = len(sample.records)
    assert (bounded[:size].numpy() >= sample.earned - 1e-6).all()
    np.testing.assert_allclose(bounded[:size], np.maximum(sample.rewards, sample.earned), atol=1e-6)
    np.testing.assert_allclose(free[:size], sample.rewards, atol=1e-6)
    assert (bounded[:size] > free[:size] + 0.1).any()
    assert len(bounded) > size
    assert torch.equal(bounded[size:], free[size:]), "nothing followed what was only simulated"


def test_the_target_of_a_state_is_the_highest_of_its_actions_made_or_not_and_never_less_than_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read off the pull at what the network says of states. What follows is worth 2 to the target network, and 1 to the other."""
    config = replace(PLAYED, discount=0.5, huber_delta=100.0, correction_share=0.25, batch=40, mirror=False)
    learner = DQNLearner(config, "covering_hard", seed=0)
    for net, value in ((learner.net, 1.0), (learner.target, 2.0)):
        assert isinstance(net, ObjectsNet)
        with torch.no_grad():
            net.state_out.weight.zero_()
            net.state_out.bias.fill_(value)
    records = open_states(learner, -4.0, -2.0, 0.0, 2.0, 4.0, 5.0, 6.0)
    made, hit, on, other = [0, SLOTS, 3, 0], [3, SLOTS, 8, 1], [6, SLOTS + 1, 5, 0], [0, SLOTS + 1, 12, 0]
    wanted = dict[float, float]()
    for record, reward, others, best in (
        (records[0], 0.75, [(hit, -0.5, None), (on, -0.5, records[1])], 0.75),  # the one that was made
        (records[1], 0.25, [(hit, 0.5, None), (on, -0.75, records[0])], 0.5),  # one that ends it
        (records[2], 0.25, [(hit, 0.5, None), (on, 0.125, records[0]), (other, -0.25, records[0])], 1.125),  # one that does not
        (records[3], -0.25, [(hit, -0.5, None), (on, -1.5, records[0])], 0.0),  # all lose
        (records[4], 0.375, [], 0.375),  # nothing was simulated beside it
    ):
        learner.add(episode(learner, record[None], [made], [reward], [others]))
        wanted[float(record["pose"][1, 0])] = best
    learner.add(episode(learner, records[5:], [made, made], [0.25, 4.0], correction=True))
    wanted |= {5.0: 0.25 + 0.5 * 4.0, 6.0: 4.0}  # no less than the return that followed
    said, outcomes = list[tuple[SceneBatch, Outcomes]](), learner.net.outcomes

    def spy(batch: SceneBatch, actions: Any, scenes: Any) -> Outcomes:
        found = outcomes(batch, actions, scenes)
        assert found.state is not None
        found.state.retain_grad()
        said.append((batch, found))
        return found

    monkeypatch.setattr(learner.net, "outcomes", spy)
    learner.step(np.random.default_rng(0))
    [(batch, found)] = said
    assert found.state is not None
    assert found.state.grad is not None
    assert found.state.shape == (40,)
    targets, places = (found.state.detach() - 40 * found.state.grad).tolist(), batch.pose[:, 1, 0].tolist()
    assert set(places) == set(wanted)
    assert targets == pytest.approx([wanted[place] for place in places], abs=1e-4)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("network", ["objects", "graph"])
def test_the_gradient_of_a_learner_step_is_that_of_its_formula(network: str, mirror: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pulled at every value, reward and end that the network says: those of the margin through the shown action and its best
    rival alone, all others by their own errors; and at the value of every state, by how far it is from the best that is known of it."""
    config = replace(PLAYED if network == "objects" else GRAPH, mirror=mirror, margin=0.3, margin_weight=2.0)
    learner = learning(replace(config, huber_delta=0.5, outcome_weight=0.25), corrections=True)
    config, said, seen = learner.config, list[Outcomes](), list[tuple[SceneBatch, Any, Any]]()
    outcomes = learner.net.outcomes

    def spy(batch: SceneBatch, actions: Any, scenes: Any) -> Outcomes:
        found = outcomes(batch, actions, scenes)
        for each in found:
            if each is not None:
                each.retain_grad()
        said.append(found)
        seen.append((batch, actions, scenes))
        return found

    monkeypatch.setattr(learner.net, "outcomes", spy)
    shown, size = 8, config.batch
    windows = [
        memory.windows(np.random.default_rng(0), count, 2) for memory, count in ((learner.corrected, shown), (learner.replay, size - shown))
    ]
    sample = Sample.of(*(np.concatenate(each) for each in zip(*windows, strict=True)), config.discount)
    targets = plain_targets(learner, sample)
    learner.learn(sample, np.random.default_rng(3), shown)
    [(q, reward, end, state)], [(batch, actions, scenes)] = said, seen
    beside = sample.beside
    assert beside is not None
    count = size + len(beside.scenes)
    assert scenes.tolist() == [*range(size), *beside.scenes.tolist(), *range(shown)]

    # The scenes and the actions, swapped for some.
    swapped = np.random.default_rng(3).random(size) < 0.5 if mirror else np.zeros(size, dtype=bool)
    assert (swapped.any(), swapped.all()) == (mirror, False)
    assert np.array_equal(batch.pose, learner.schema.unpack(sample.records, swapped).pose)
    original = np.concatenate([sample.actions, beside.actions])
    last = learner.schema.offsets - 1
    learned = learner.schema.actions(actions[:count].numpy())
    for asked, before, scene in zip(learned.tolist(), original.tolist(), scenes.tolist(), strict=False):
        assert asked == [*before[:2], last - before[2] if swapped[scene] else before[2], before[3]]

    # Values.
    pulls = torch.zeros(len(q))
    for k, target in targets.items():
        pulls[k] += (q[k].detach() - target).clamp(-0.5, 0.5) / size
    rivals, short = actions[count:], 0
    some = batch[:shown]
    with torch.no_grad():
        values = learner.net.q(some)
    every, mask = values.flatten(1), learner.net.mask(some).flatten(1)
    own, flat = (learner.net.place(each, values.shape[2]) for each in (actions[:shown], rivals))
    for i in range(shown):
        mask[i, own[i]] = False
        assert mask[i, flat[i]], "another action, which may be chosen"
        assert every[i, flat[i]] == every[i][mask[i]].max(), "the best of these"
        if every[i, flat[i]] + 0.3 > every[i, own[i]]:
            short += 1
            pulls[i] -= 2.0 / size
            pulls[count + i] += 2.0 / size
    assert short > 0
    assert q.grad is not None
    torch.testing.assert_close(q.grad, pulls, rtol=1e-3, atol=1e-5)

    # Rewards, ends and values of states, which only some networks tell.
    assert (reward is None) == (end is None) == (state is None) == (network == "graph")
    if reward is None or end is None or state is None:
        return
    assert state.grad is not None
    best = torch.zeros(size)
    for k, target in targets.items():
        best[scenes[k]] = max(float(best[scenes[k]]), target)
    torch.testing.assert_close(state.grad, (state.detach() - best).clamp(-0.5, 0.5) / size, rtol=1e-3, atol=1e-5)
    assert reward.grad is not None
    assert end.grad is not None
    rewards = torch.tensor([*sample.rewards, *beside.rewards])
    ended = torch.tensor([*sample.ended, *beside.ended]).float()
    wanted = 0.25 * (reward[:count].detach() - rewards).clamp(-0.5, 0.5) / size
    torch.testing.assert_close(reward.grad[:count], wanted.float(), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(end.grad[:count], 0.25 * (end[:count].detach().sigmoid() - ended) / size, rtol=1e-3, atol=1e-5)
    assert not reward.grad[count:].any(), "what comes of a rival is not known"
    assert not end.grad[count:].any()


def test_where_nothing_else_may_be_chosen_a_correction_has_no_rival() -> None:
    config = DQNConfig(net=SMALL, mirror=False, correction_share=1.0, **RATES)
    learner = DQNLearner(config, "covering_hard", seed=0)
    mask = np.zeros((SLOTS, 9, learner.schema.offsets), dtype=bool)
    records = packed(learner.schema, [fresh_scene([], [(3.0, 0.35, 2.0, 0.35)])], [mask])
    learner.add(episode(learner, records, [[0, SLOTS, 3, 0]], [0.5], correction=True))
    only = torch.from_numpy(learner.schema.index(np.array([[0, SLOTS, 3, 0]])))
    rivals, there = learner._rivals(learner.schema.unpack(records), only, 1)
    assert rivals.tolist() == only.tolist()
    assert there.tolist() == [0.0]
    for _ in range(300):
        learner.step(np.random.default_rng(0))
    assert value_of(learner, records[0], [0, SLOTS, 3, 0]) == pytest.approx(0.5, abs=0.07)


# ---- corrections


def test_corrections_are_a_share_of_a_batch_and_come_first() -> None:
    config = DQNConfig(net=PLAYED.net, discount=DISCOUNT, batch=20, correction_share=0.35)
    learner = DQNLearner(config, "covering_hard", seed=0)
    records, given = open_states(learner, -3.0, 3.0), list[tuple[Sample, int]]()
    learner.learn = lambda sample, rng, shown=0: given.append((sample, shown)) or {}  # type: ignore[method-assign, func-returns-value]
    learner.add(episode(learner, records[1:], [[3, SLOTS, 8, 0]], [0.25]))
    learner.step(np.random.default_rng(0))
    learner.add(episode(learner, records[:1], [[0, SLOTS, 3, 0]], [1.0], correction=True))
    learner.step(np.random.default_rng(0))
    (none, count), (sample, shown) = given
    assert (count, shown) == (0, 7)
    assert none.rewards.tolist() == [0.25] * 20
    assert sample.rewards.tolist() == [1.0] * 7 + [0.25] * 13
    assert (len(learner.replay), len(learner.corrected)) == (1, 1)


def test_as_many_corrections_are_wanted_as_there_are_learner_steps_for() -> None:
    learner = DQNLearner(replace(PLAYED, corrections_per_update=0.5), "covering_hard", seed=0)
    assert not learner.wants_correction(0), "before anything is learnt there is nothing to correct"
    learner.steps = 20
    assert learner.wants_correction(9)
    assert not learner.wants_correction(10)
    never = DQNLearner(replace(PLAYED, corrections_per_update=0.0), "covering_hard", seed=0)
    never.steps = 20
    assert not never.wants_correction(0)


def greedy(learner: DQNLearner, records: Records) -> list[list[int]]:
    """Receiver and offset of the best action in each state."""
    made = choices(learner.policy.net, records, np.zeros(len(records), dtype=bool), [np.random.default_rng(0)] * len(records))
    return [action[1:3].tolist() for action in made if action is not None]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "mirror"), [("objects", True), ("objects", False), ("graph", True)])
def test_what_a_correction_shows_is_preferred(network: str, mirror: bool) -> None:
    """In the first state one action is worth 0.5 and one 0.9. Shown by a correction, the lesser one wins by the margin."""
    torch.set_num_threads(1)
    base = DQNConfig(net=replace(SMALL, network=network, recurrent=1), discount=DISCOUNT, mirror=mirror, **RATES)
    shown = replace(base, correction_share=0.5, margin=0.5, margin_weight=5.0)
    for config, preferred in ((base, "on"), (shown, "end"), (replace(shown, margin_weight=0.0), "on")):
        learner = DQNLearner(config, "covering_hard", seed=0)
        records, known = two_steps(learner)
        lesser = np.array([known["end"][1]], np.int32)
        if config is not base:
            learner.add(episode(learner, records[:1], lesser, [0.5], correction=True))
        for _ in range(6):  # as often as the better one is seen
            learner.add(episode(learner, records[:1], lesser, [0.5]))
        rng = np.random.default_rng(0)
        for _ in range(250):
            learner.step(rng)
        assert greedy(learner, records)[0] == known[preferred][1][1:3], preferred


def test_an_agent_that_stops_does_so_where_everything_would_lose() -> None:
    """A network whose values are all the same: it goes on where they are above 0, and stops where they are below."""
    for network, mask in (("objects", "legal"), ("graph", "edges")):
        config = DQNConfig(net=replace(SMALL, network=network, recurrent=1), mask=mask, lower_bounds=False)  # type: ignore[arg-type]
        net = make_net(config, make_schema(config, "covering_hard"))
        found = [state for state in states("covering_hard", 12) if DiscreteRelative().mask(state.scene).any()]
        rngs = [np.random.default_rng(i) for i in range(len(found))]
        last = [each for each in net.modules() if isinstance(each, torch.nn.Linear) and each.out_features == net.outputs][-1]
        for value in (0.5, -0.5):
            with torch.no_grad():
                if isinstance(net, ObjectsNet):  # what it says of placements is added to what it says of their edges
                    net.out.weight.zero_()
                    net.state_out.weight.zero_()
                    net.state_out.bias.fill_(value)
                last.weight.zero_()
                last.bias.fill_(value)
            assert all((placement is None) == (value < 0) for placement in DQNAgent(net).act(found, rngs))
            assert None not in DQNAgent(net, stops=False).act(found, rngs)
            agent = DQNAgent(net)
            for root in make_nodes(Node, agent, found):
                assert root.prior_value == pytest.approx(max(value, 0.0))
                [(_, *outcome)] = Simulator().steps([root.state], [agent.decode(root.state, int(root.ids[-1]))])
                assert outcome == [0.0, True], "to stop ends it and earns nothing"
        if mask == "legal":
            learner = DQNLearner(config, "covering_hard", seed=0)
            two_steps(learner)
            learner.net.load_state_dict(net.state_dict())
            learner.target.load_state_dict(net.state_dict())
            sample = Sample.of(*learner.replay.windows(np.random.default_rng(0), 40, 2), DISCOUNT)
            assert sample.beside is not None
            assert (sample.discounts > 0).any()
            assert not sample.beside.ended.all()
            returns = [*sample.returns, *sample.beside.rewards]
            assert learner._targets(sample)[0].numpy() == pytest.approx(returns), "what follows is never worth less than 0"


OPTIONS = [
    DQNConfig(net=SMALL),
    DQNConfig(net=SMALL, mask="edges"),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1)),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask="none"),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask="edges", actions="absolute"),
    DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), actions="relative_xy", offsets=5),
]


@pytest.mark.parametrize("config", OPTIONS)
def test_a_search_without_budget_is_the_plain_agent(config: DQNConfig) -> None:
    torch.manual_seed(1)
    agent = DQNAgent(make_net(config, make_schema(config, "covering_hard")))
    found = states("covering_hard", 12)
    rngs = [np.random.default_rng(i) for i in range(12)]
    plain = agent.act(found, rngs)
    assert SearchAgent(agent, SearchConfig(0)).act(found, rngs) == plain
    roots = make_nodes(Node, agent, found)
    for root, state, placement, rng in zip(roots, found, plain, rngs, strict=True):
        action = best_action(root, root.values, rng)
        same = None if action is None else agent.decode(state, int(root.ids[action]))
        if placement is not None and same is not None and config.mask != "none":  # of blocks of one width a search takes the first
            assert state.scene.size[placement.slot, 0] == state.scene.size[same.slot, 0]
            same = same._replace(slot=placement.slot)
        assert placement == same
        if action is not None:
            assert len(set(root.ids.tolist())) == len(root.ids)
            assert (np.diff(agent.priors([state])[0].edges) >= 0).all()
            assert root.values[action] == root.prior_value


@pytest.mark.parametrize("config", OPTIONS)
def test_actions_have_one_place_among_the_values(config: DQNConfig) -> None:
    net = make_net(config, make_schema(config, "covering_hard"))
    found = states("covering_hard", 12)
    batch = net.schema.unpack(observe(net.schema, found))
    values = net.q(batch).masked_fill(~net.mask(batch), -torch.inf)
    index, value = net.best(batch)
    place = net.place(index, values.shape[2])
    assert torch.equal(values.flatten(1).gather(1, place[:, None])[:, 0], value)
    assert torch.equal(place, values.flatten(1).argmax(dim=1))
    actions = net.schema.actions(index.numpy())
    assert np.array_equal(net.schema.index(actions), index)
    for (indices, listed), best, highest in zip(net.listed(observe(net.schema, found)), index.tolist(), value.tolist(), strict=True):
        assert (np.diff(indices) > 0).all()
        if len(indices):
            assert indices[listed.argmax()] == best
            assert listed.max() == pytest.approx(highest, abs=1e-6)
    second, lower = net.best(batch, without=index)
    assert (lower <= value).all()
    assert (net.place(second, values.shape[2]) != place)[torch.isfinite(lower)].all()


def test_searching_agents_do_better_by_what_they_try() -> None:
    """Even a network that knows nothing is helped by what placements really earn."""
    torch.manual_seed(0)
    config = DQNConfig(net=SMALL)
    agent = DQNAgent(make_net(config, make_schema(config, "silhouette")))
    first = [start("silhouette", 0, np.random.default_rng(i)) for i in range(4)]
    ends = play(SearchAgent(agent, SearchConfig(150, algorithm="mcts")), first, [np.random.default_rng(i) for i in range(4)])
    plain = play(agent, first, [np.random.default_rng(i) for i in range(4)])
    assert sum(end.total for _, end in ends) > sum(end.total for _, end in plain)


@pytest.mark.parametrize("mask", ["none", "edges", "legal"])
def test_acting_and_exploring_keep_to_the_mask(mask: str) -> None:
    config = DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask=mask)  # type: ignore[arg-type]
    schema = make_schema(config, "covering_hard")
    net = make_net(config, schema)
    found = states("covering_hard", 40)
    scenes, records = [state.scene for state in found], observe(schema, found)
    seen = 0
    for random in (np.zeros(40, dtype=bool), np.ones(40, dtype=bool)):
        for scene, choice in zip(scenes, choices(net, records, random, [np.random.default_rng(0)] * 40), strict=True):
            if choice is None:
                assert mask != "none"
                continue
            action = choice.tolist()
            placement = schema.decode(scene, action)
            seen += placement != INVALID_EDGE
            if mask != "none":
                assert placement != INVALID_EDGE
                assert scene.role[placement.slot] == Role.AVAILABLE
            if mask == "legal":
                assert schema.codec.mask(scene)[action[0], reference_rows(scene)[action[1] - SLOTS], action[2]]  # type: ignore[arg-type]
    assert seen > 0


def test_legal_placements_never_collide() -> None:
    config = DQNConfig(net=SMALL)
    agent = DQNAgent(make_net(config, make_schema(config, "silhouette")))
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
        make_schema(DQNConfig(actions="absolute", mask="legal"), "covering")
    config = DQNConfig(actions="absolute", mask="edges")
    with pytest.raises(ValueError, match="choose network graph"):
        make_net(config, make_schema(config, "covering"))


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
     {"correction_share": 2}, {"lookahead": -0.1}, {"counterfactual_actions": -1}, {"corrections_per_update": -1},
     {"outcome_weight": -1}, {"message": 0}, {"token": 0}, {"max_grad_norm": -1}, {"decay_steps": -5}, {"learning_rate": 0}],
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
    write_json(path.with_suffix(".json"), sealed(card))
    loaded(path)
    loaded(path)
    assert capsys.readouterr().err.count("version 1 of the physics") == 1


WRONG = [
    ("algorithm", "alchemy", "no algorithm 'alchemy'"),
    ("observation", ["object: smell"], "observation column 1 is .object: smell."),
    ("action", ["dance"], "action column 1 is .dance."),
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
    write_json(path.with_suffix(".json"), sealed(card | {name: value}))
    with pytest.raises(ValueError, match=told) as error:
        loaded(path)
    assert "\n" not in str(error.value)


def test_a_card_whose_facts_were_changed_is_refused(tmp_path: Path) -> None:
    path, config = tmp_path / "best.safetensors", DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {"seed": 3, "commit": "1234abc"})
    card = json.loads(path.with_suffix(".json").read_text())
    for change in ({"seed": 4}, {"task": "covering"}, {"commit": "1234abd"}, {"learning": card["learning"] | {"batch": 7}}):
        write_json(path.with_suffix(".json"), card | change)
        with pytest.raises(ValueError, match=r"best\.json is damaged: its checksum does not match its content"):
            loaded(path)
    del card["sha256"]
    write_json(path.with_suffix(".json"), card)
    with pytest.raises(ValueError, match=r"best\.json has no checksum: it was not written by this version of trilith"):
        loaded(path)


@pytest.mark.parametrize("claim", [{"width": 20_000}, {"decoder": 65_536}, {"token": 65_536}, {"layers": 10**9}, {"width": 10**12}])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is counted otherwise elsewhere")
def test_what_a_card_claims_takes_no_memory_before_it_is_refused(tmp_path: Path, claim: dict[str, int]) -> None:
    import resource

    path, config = tmp_path / "best.safetensors", DQNConfig(net=SMALL)
    save_weights(path, "dqn", config, "silhouette", DQNPolicy(config, "silhouette").weights(), {})
    card = json.loads(path.with_suffix(".json").read_text())
    card["agent"]["net"] |= {"heads": 1, **claim}
    write_json(path.with_suffix(".json"), sealed(card))
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
