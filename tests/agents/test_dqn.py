"""Q-learning finds the known values of a two-step task, keeps to its mask, and comes back from its files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from nets.scenes import states

from trilith.actions import legal
from trilith.agents.config import DQNConfig, NetConfig, from_json, to_json
from trilith.agents.dqn import DQNAgent, DQNLearner, choose, load, make_layout, make_net, observe, save_weights
from trilith.agents.replay import Episode, Replay
from trilith.episode import step
from trilith.nets.batch import Records
from trilith.scene import SLOTS, Role, fresh_scene

SMALL = NetConfig(width=32, layers=1, heads=2, decoder=32)
DISCOUNT = 0.9


def two_steps(config: DQNConfig) -> tuple[Replay, Records, dict[str, tuple[int, list[int], float]]]:
    """A task of two states. In the first, one action ends it for 0.5 and the other leads on for nothing; in the second, one
    earns 1 and the other costs 1. Nothing else is legal, though a network may well think that it would be better.

    Returns a replay of all there is to see, both states, and (state, action, value) of each action.
    """
    layout = make_layout(config, "covering_hard")
    scenes = [fresh_scene([], [(x, 0.35, 2.0, 0.35)]) for x in (-3.0, 3.0)]
    actions = {"end": (0, [0, SLOTS, 3, 0]), "on": (0, [3, SLOTS, 8, 0]), "good": (1, [6, SLOTS + 1, 5, 0]), "bad": (1, [0, SLOTS, 2, 0])}
    masks = [np.zeros((SLOTS, len(scenes[0]), layout.offsets), dtype=bool) for _ in scenes]
    for state, (slot, receiver, offset, _) in actions.values():
        masks[state][[k for k in range(SLOTS) if scenes[0].size[k, 0] == scenes[0].size[slot, 0]], receiver, offset] = True
    records = layout.pack(scenes, masks)
    replay = Replay(layout, 1, DISCOUNT)
    for names, rewards in ((["end"], [0.5]), (["on", "good"], [0.0, 1.0]), (["on", "bad"], [0.0, -1.0])):
        for sticky in (0, 1):
            done = np.array([[*actions[name][1][:3], sticky] for name in names], dtype=np.int32)
            earned = np.array(rewards, dtype=np.float32)
            replay.add(Episode(records[: len(names)], done, earned, earned, 0, 1.0))
    value = {"end": 0.5, "on": DISCOUNT, "good": 1.0, "bad": -1.0}
    return replay, records, {name: (*actions[name], value[name]) for name in actions}


@pytest.mark.parametrize("network", ["attention", "graph"])
@pytest.mark.parametrize("double", [True, False])
def test_a_task_of_two_steps_is_learnt_to_its_optimum(network: str, double: bool) -> None:
    torch.set_num_threads(1)
    net = replace(SMALL, network=network, recurrent=1)
    rates = {"learning_rate": 2e-3, "warmup": 1, "target_rate": 0.1}
    config = DQNConfig(net=net, discount=DISCOUNT, double=double, batch=16, mirror=False, **rates)
    replay, records, known = two_steps(config)
    learner = DQNLearner(config, replay.layout, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        learner.learn(replay, rng)
    for name, (state, action, value) in known.items():
        batch = replay.layout.unpack(records[state : state + 1])
        assert float(learner.acting.q_at(batch, torch.tensor([action]))) == pytest.approx(value, abs=0.07), name
    best = choose(learner.acting, records, np.zeros(2, dtype=bool), rng).actions
    assert best[:, 1:3].tolist() == [known["on"][1][1:3], known["good"][1][1:3]]


@pytest.mark.parametrize("mask", ["none", "edges", "legal"])
def test_acting_and_exploring_keep_to_the_mask(mask: str) -> None:
    config = DQNConfig(net=NetConfig(network="graph", width=16, recurrent=1), mask=mask)  # type: ignore[arg-type]
    layout = make_layout(config, "covering_hard")
    net = make_net(config, layout)
    scenes = [s.scene for s in states("covering_hard", 40)]
    records = observe(layout, scenes)
    seen = 0
    for random in (np.zeros(40, dtype=bool), np.ones(40, dtype=bool)):
        actions = choose(net, records, random, np.random.default_rng(0)).actions
        for scene, action in zip(scenes, actions.tolist(), strict=True):
            if action[0] < 0:
                assert mask != "none"
                continue
            placement = layout.decode(scene, action)
            seen += placement is not None
            if mask != "none":
                assert placement is not None
                assert scene.role[placement.slot] == Role.AVAILABLE
            if mask == "legal":
                assert legal(scene, layout.codec)[action[0], :, action[2]].any()  # type: ignore[arg-type]
    assert seen > 0


def test_legal_placements_never_collide() -> None:
    config = DQNConfig(net=SMALL)
    agent = DQNAgent(config, make_net(config, make_layout(config, "silhouette")))
    found = states("silhouette", 30)
    rngs = [np.random.default_rng(i) for i in range(30)]
    for state, placement in zip(found, agent.act(found, rngs), strict=True):
        assert placement is None or step(state, placement).state.ended not in ("spawn_collision", "invalid_edge", "bad_choice")
    assert agent.act([], []) == []


def test_weights_come_back_from_their_files(tmp_path: Path) -> None:
    config = DQNConfig(net=SMALL, offsets=7)
    net = make_net(config, make_layout(config, "silhouette"))
    save_weights(tmp_path / "best.safetensors", config, "silhouette", net, {"seed": 3})
    agent = load(tmp_path)
    assert agent.config == config
    found = states("silhouette", 5)
    rngs = [np.random.default_rng(0)] * 5
    assert agent.act(found, rngs) == DQNAgent(config, net).act(found, rngs) == load(tmp_path / "best.safetensors").act(found, rngs)


def test_damaged_or_missing_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a run, or has not been evaluated") as error:
        load(tmp_path)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="cannot read"):
        load(tmp_path / "none.safetensors")
    config = DQNConfig(net=SMALL)
    net = make_net(config, make_layout(config, "silhouette"))
    path = tmp_path / "best.safetensors"
    save_weights(path, replace(config, offsets=9), "silhouette", net, {})
    with pytest.raises(ValueError, match="cannot use the weights") as error:
        load(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cannot use the weights"):
        load(path)


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
