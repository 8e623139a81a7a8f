"""A learned model of the world: what it is told exactly, what it learns, and what a search makes of it."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from worlds import EMPTY, with_blocks

from trilith.agents.base import Episode
from trilith.agents.dynamics.config import ModelConfig, OnlineConfig
from trilith.agents.dynamics.files import read_model, save_model
from trilith.agents.dynamics.learner import ModelLearner, onward
from trilith.agents.dynamics.online import OnlineModel
from trilith.agents.dynamics.registry import make_world, world_fingerprint
from trilith.agents.dynamics.transitions import is_last, simulated, transitions
from trilith.agents.dynamics.world import ModelWorld
from trilith.agents.registry import load
from trilith.data.recording import Recorder, record
from trilith.evaluation.dynamics import chains, compare, figures, nudged, overlapping, reliability
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.config import DynamicsConfig
from trilith.networks.dynamics.registry import NETWORKS, make_dynamics
from trilith.networks.inputs.rigid_body_features import bodies, falls, placed_arrays
from trilith.networks.parameters import parameters_of
from trilith.search.config import SearchConfig
from trilith.world.episode import start, step
from trilith.world.scene import INVALID_EDGE, Placement, Role, place
from trilith.world.trajectory import Trajectory, read_episodes

pytestmark = pytest.mark.slow

TINY = DynamicsConfig(width=16, layers=1, heads=2, pair=8)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("data")
    for _ in record(Recorder(("legal", "scripted"), "covering_hard", episodes=128, epsilon=0.3), out, 1):
        pass
    return out


@pytest.fixture(scope="module")
def episodes(data):
    return list(read_episodes(data))


@pytest.fixture(scope="module")
def table(episodes):
    return transitions(simulated(episode) for episode in episodes)


def world(config: DynamicsConfig = TINY) -> ModelWorld:
    return ModelWorld(ModelLearner(ModelConfig(net=config), 0).net)


def test_a_fall_is_what_physics_does_where_nothing_tips(table):
    quiet = [t for t in range(len(table)) if not table["moved"][t].any() and not table["hit"][t]]
    placed = table.placed(np.arange(len(table)))
    fallen = falls(placed)
    off = [abs(fallen[t, 0] - table["pose"][t, placed.new[t], 1]) for t in quiet]
    assert len(quiet) > 100
    assert max(off) < 0.02


def test_what_is_glued_to_the_floor_cannot_move_and_what_is_glued_together_is_one():
    state = start("silhouette", 0, np.random.default_rng(0))
    for x, y, sticky in ((-5.0, 0.4, True), (-5.0, 1.2, True), (5.0, 0.4, False), (5.0, 1.2, True)):
        state = replace(step(state, Placement(0, x, y, sticky)).state, ended=None)
    placed = placed_arrays([place(state.scene, Placement(0, 0.0, 1.0), keep=True)], [len(state.scene)])
    same, fixed = bodies(placed)
    blocks = np.flatnonzero(placed.role[0] == Role.BLOCK)
    assert fixed[0, blocks].tolist() == [True, True, False, False, False]
    assert same[0][np.ix_(blocks, blocks)].sum(axis=1).tolist() == [2, 2, 2, 2, 1]


def test_a_table_goes_on_from_a_true_prediction_to_the_true_next_scene(table):
    """The next placement made in a scene that was predicted rightly is the next placement of the table."""
    at = np.flatnonzero((table.follows >= 0) & ~table["hit"])[:40]
    placed = table.placed(at)
    truth = make_dynamics(TINY)(placed)._replace(
        pose=torch.from_numpy(table["pose"][at]), touch=torch.from_numpy(table["touch"][at].astype(np.float32)) - 0.5
    )
    chosen, then, pose = onward(table, at, truth, placed)
    following = table.placed(table.follows[at[chosen]])
    there = np.arange(then.role.shape[1]) < then.objects[:, None]
    assert np.array_equal(then.pose[there], following.pose[there])
    assert np.array_equal(pose.numpy()[there], following.pose[there])
    assert np.array_equal(then.touch, following.touch)
    assert np.array_equal(then.glue | following.glue, then.glue)  # what met and parted while it settled is bonded only in truth
    assert (then.glue == following.glue).mean() > 0.99


@pytest.mark.parametrize("network", NETWORKS)
def test_it_learns_in_seconds_how_placements_end_and_what_they_earn(episodes, table, network):
    net = DynamicsConfig(network, width=32, layers=2, recurrent=2)
    learner = ModelLearner(ModelConfig(net=net, steps=500, learning_rate=3e-3), 0)
    rng = np.random.default_rng(0)
    losses = [learner.step(table, rng)["loss"] for _ in range(250)]
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
    found = figures([each for each in compare(ModelWorld(learner.net), chains(episodes)) if each.depth == 1])
    assert found["brier"] < 0.7 * found["brier_constant"]
    assert found["reward_scored"] < 0.5
    assert found["placements"] == len(table)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_scene_is_predicted_alike_whatever_else_is_in_the_batch_and_in_any_order(table, network):
    torch.manual_seed(0)
    net, placed = make_dynamics(replace(TINY, network=network)), table.placed(np.arange(12))
    assert len(set(placed.objects.tolist())) > 1
    together, r = net(placed), placed.role.shape[1]
    orders = [[*np.random.default_rng(k).permutation(n), *range(n, r)] for k, n in enumerate(placed.objects.tolist())]
    order = np.array(orders)
    rows, pairs = np.arange(12)[:, None], (np.arange(12)[:, None, None], order[:, :, None], order[:, None])
    swapped = placed._replace(
        new=np.array([list(each).index(new) for each, new in zip(orders, placed.new.tolist(), strict=True)]),
        **{name: getattr(placed, name)[rows, order] for name in ("pose", "size", "role", "sticky")},
        **{name: getattr(placed, name)[pairs] for name in ("touch", "glue")},
    )
    other = net(swapped)
    for name in ("moves", "shift", "turn"):
        torch.testing.assert_close(getattr(other, name), getattr(together, name)[rows, order], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(other.touch, together.touch[pairs], rtol=1e-3, atol=1e-4)
    for k in range(12):
        alone = net(table.placed(np.array([k])))
        for name in ("hit", "complete", "reward"):
            torch.testing.assert_close(getattr(alone, name)[0], getattr(together, name)[k], rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(getattr(other, name)[k], getattr(together, name)[k], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_learning_goes_on_bit_for_bit(table, network):
    config = ModelConfig(net=replace(TINY, network=network), batch=8, unroll=3, steps=20)
    first, rng = ModelLearner(config, 3), np.random.default_rng(1)
    for _ in range(3):
        first.step(table, rng)
    second, again = ModelLearner(config, 4), np.random.default_rng(5)
    second.load(*first.state())
    again.bit_generator.state = rng.bit_generator.state
    for _ in range(3):
        assert first.step(table, rng) == second.step(table, again)
    for one, two in zip(first.state()[0].values(), second.state()[0].values(), strict=True):
        assert np.array_equal(one, two)


def test_what_the_rules_know_is_not_predicted():
    state = start("covering_hard", 1, np.random.default_rng(2))
    obstacle = state.scene.pose[state.scene.rows(Role.OBSTACLE)[0]]
    used = replace(step(state, Placement(0, -7.0, 0.4)).state, ended=None)
    cases = [
        (state, None, "stopped"),
        (state, INVALID_EDGE, "invalid_edge"),
        (state, Placement(6, float(obstacle[0]), float(obstacle[1])), "spawn_collision"),
        (used, Placement(0, 0.0, 9.0), "bad_choice"),
    ]
    after = world().steps(*zip(*((state, placement) for state, placement, _ in cases), strict=True))
    assert [(s.ended, reward, ended) for s, reward, ended in after] == [(reason, 0.0, 1.0) for *_, reason in cases]
    last = replace(state, steps=state.max_steps - 1)
    [(_, _, ended), (_, _, open_)] = world().steps([last, state], [Placement(0, 0.0, 9.0)] * 2)
    assert ended == 1.0
    assert 0 < open_ < 1


def test_what_cannot_move_stays_and_predicted_states_can_be_built_on():
    state = start("silhouette", 5, np.random.default_rng(2))
    placement = load("legal").act([state], [np.random.default_rng(0)])[0]
    assert placement is not None
    [(after, _, _)] = world().steps([state], [placement])
    rows = np.flatnonzero(state.scene.role != Role.BLOCK)
    assert np.array_equal(after.scene.pose[rows], state.scene.pose[rows])
    assert after.steps == 1
    assert len(after.scene) == len(state.scene) + 1
    assert load("objects").priors([after])[0].values.size  # legality is computed on the predicted scene
    assert after.scene.from_json(after.scene.to_json()) == after.scene


def test_a_search_in_a_model_acts_in_the_real_world(tmp_path):
    save_model(tmp_path, TINY, ["silhouette"], parameters_of(world().net), {})
    states = [start_in_set("silhouette", 4, "valid", k) for k in range(3)]
    agent = load("objects", SearchConfig(4, world=str(tmp_path)))
    placements = agent.act(states, [np.random.default_rng(k) for k in range(3)])
    assert all(placement is not None for placement in placements)
    assert len(world_fingerprint(str(tmp_path))) == 16
    assert world_fingerprint("simulator") is None


def test_a_card_says_what_weights_mean_and_damage_is_told(tmp_path):
    net = world().net
    save_model(tmp_path, TINY, ["silhouette"], parameters_of(net), {"steps": 7})
    config, weights, card = read_model(tmp_path)
    assert config == TINY
    assert card["steps"] == 7
    assert "distance from obstacles" in card["hand_made"]
    assert all(np.array_equal(weights[name], value) for name, value in parameters_of(net).items())
    save_model(tmp_path / "other", replace(TINY, width=32), [], parameters_of(net), {})
    with pytest.raises(ValueError, match=r"cannot use the model .*other: .* has shape"):
        make_world(str(tmp_path / "other"), False)
    (tmp_path / "model.json").write_text((tmp_path / "model.json").read_text().replace("settled-1", "settled-9"))
    with pytest.raises(ValueError, match="is of predicts 'settled-9', this version of trilith knows 'settled-1'"):
        make_world(str(tmp_path), False)
    with pytest.raises(ValueError, match="there is no world 'nowhere'"):
        make_world("nowhere", False)


def test_figures_are_those_of_what_is_known():
    assert reliability(np.array([0.05, 0.05, 0.95]), np.array([0.0, 1.0, 1.0])) == [(0.05, 0.5, 2), (0.95, 1.0, 1)]
    apart, into = (with_blocks(EMPTY, [(0, 0.0, 0.35, 0.0), (0, 0.7 - deep, 0.35, 0.0)]) for deep in (0.0, 0.05))
    assert not overlapping(apart)
    assert overlapping(into)


def test_the_simulator_itself_is_certain_only_so_far(episodes):
    """A millimetre moves what lies flat by a millimetre."""
    off = [nudged(chain[0]) for chain in islice(chains(episodes), 200) if chain[0].after.ended is None]
    off = np.concatenate([each for each in off if each is not None])
    assert len(off) > 5
    assert np.median(off) == pytest.approx(0.001, abs=3e-4)


def played(episode: Trajectory) -> Episode:
    return Episode(np.zeros(len(episode.placements)), 0, False, None, episode)


def online(**options: Any) -> OnlineModel:
    return OnlineModel(OnlineConfig(net=TINY, batch=8, first_steps=3, **options), "covering_hard", 0)


def test_an_online_memory_is_a_table_and_forgets_the_oldest(episodes):
    model = online(unroll=3)
    for episode in episodes[:20]:
        model.add(played(episode))
    whole = transitions((simulated(episode) for episode in episodes[:20]), model.memory.ring["moved"].shape[1])
    assert len(model.memory) == len(whole)
    assert model.episodes == 20
    rng, again = np.random.default_rng(0), np.random.default_rng(0)
    learner = ModelLearner(model.config, 0)
    for _ in range(3):  # what is learned is what is learned from a table of the same episodes
        assert model.step(rng) == {f"model_{name}": value for name, value in learner.step(whole, again).items()}

    small = online(replay_mb=0.001)
    assert small.memory.capacity == 256
    for episode in episodes:
        small.add(played(episode))
    assert len(small.memory) == 256 < small.memory.added
    small.step(rng)
    found, every = small._table, transitions(simulated(episode) for episode in episodes)
    assert found is not None
    rows = (small.memory.added - 256 + np.arange(256)) % 256  # from the oldest that is left on, they are the last of all
    for name in ("reward", "hit", "complete"):
        assert np.array_equal(found[name][rows], every[name][-256:])
    true = np.where(every.follows[-256:] < 0, -1, rows[np.minimum(np.arange(1, 257), 255)])
    assert np.array_equal(found.follows[rows], true)


def test_an_online_model_is_measured_on_what_it_has_not_learned_from(episodes):
    model = online()
    for episode in episodes[:16]:
        model.add(played(episode))
    assert not model.predicted  # it knows nothing yet
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert not model.ready
        model.step(rng)
    assert model.ready
    happened = [each for each in simulated(episodes[16]) if not is_last(each.state)]
    said = model.world.steps([each.state for each in happened], [each.placement for each in happened])
    model.add(played(episodes[16]))  # one in four
    assert [(ended, reward) for ended, _, reward, _ in model.predicted] == [(ended, reward) for _, reward, ended in said]
    assert [bool(ended) for _, ended, _, _ in model.predicted] == [each.after.ended is not None for each in happened]
    model.add(played(episodes[17]))
    assert len(model.predicted) == len(happened)
    for episode in episodes[18:60]:
        model.add(played(episode))
    told, seen = model.step(rng), np.array(model.predicted)
    assert told["model_brier"] == pytest.approx(np.mean((seen[:, 0] - seen[:, 1]) ** 2))
    assert told["model_brier_constant"] == pytest.approx(seen[:, 1].mean() * (1 - seen[:, 1].mean()))
    before = list(model.predicted)
    model.load(*model.state())
    assert list(model.predicted) == before, "what it had measured itself is replaced"


def test_a_model_that_diverged_is_told(table):
    learner = ModelLearner(ModelConfig(net=TINY, batch=8), 0)
    with torch.no_grad():
        learner.net.norm.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="the loss is nan at step 0 of the model"):
        learner.step(table, np.random.default_rng(0))
