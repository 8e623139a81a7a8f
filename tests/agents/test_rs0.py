"""RS0: Retrace is what its formula says, densities are densities, gradients go where they should, and a toy of two modes is solved."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from networks.scenes import states
from worlds import mirrored

from trilith.agents.base import Episode
from trilith.agents.rs0.config import RS0Config
from trilith.agents.rs0.learner import RS0Learner, Sequences, paper_epsilon
from trilith.agents.rs0.mixture import Head, Mixture, log_explored
from trilith.agents.rs0.policy import Exploration, RS0Policy
from trilith.agents.rs0.recipes import ALGORITHM
from trilith.agents.rs0.retrace import retrace
from trilith.agents.weights import load_policy, save_weights
from trilith.networks.actor_critic.cnn import pixels
from trilith.networks.actor_critic.network import ENCODERS
from trilith.networks.actor_critic.pointing import COMPONENTS
from trilith.networks.config import EncoderConfig
from trilith.training.actor import PlayRequest, collect
from trilith.utils.config import from_json, to_json
from trilith.world.episode import start
from trilith.world.observations.image import image
from trilith.world.scene import Scene, fresh_scene

SMALL = RS0Config(net=EncoderConfig(encoder="mlp", width=32, layers=2, features=16), batch=8, learning_starts=20, replay_mb=0.5)


def plain_retrace(r: Any, v: Any, q: Any, c: Any, count: int, discount: float) -> list[float]:
    """The targets of one sequence as Munos et al. write them: Q plus a sum of TD errors, each through all traces up to it."""
    steps, found = min(len(r), count), []
    for t in range(steps):
        total = q[t]
        for s in range(t, steps):
            through = np.prod([discount * c[i] for i in range(t + 1, s + 1)])
            following = v[s + 1] if s + 1 < count else 0.0
            total += through * (r[s] + discount * following - q[s])
        found.append(float(total))
    return found


def test_retrace_is_the_plain_sum_of_td_errors() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        b, length = 6, int(rng.integers(1, 7))
        r, q, c = rng.normal(size=(b, length)), rng.normal(size=(b, length)), rng.random((b, length))
        v, count = rng.normal(size=(b, length + 1)), rng.integers(1, length + 2, size=b)
        v[np.arange(length + 1) >= count[:, None]] = np.nan  # what lies beyond an end must not be looked at
        found = retrace(*(torch.from_numpy(each) for each in (r, v, q, c, count)), 0.9)
        for i in range(b):
            wanted = plain_retrace(r[i], v[i], q[i], c[i], int(count[i]), 0.9)
            assert found[i, : len(wanted)].tolist() == pytest.approx(wanted)


def test_on_policy_with_a_critic_that_is_0_it_is_the_discounted_sum_of_rewards() -> None:
    rewards = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]])
    zero = torch.zeros(2, 4)
    found = retrace(rewards, zero, zero[:, :3], torch.ones(2, 3), torch.tensor([4, 3]), 0.5)
    assert found.tolist() == [[1 + 1 + 1, 2 + 2, 4], [3, 4, 4]]


def test_two_steps_by_hand() -> None:
    rewards, values, taken = torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0, 40.0]]), torch.tensor([[3.0, 5.0]])
    for count, trace, wanted in (
        (3, [0.5, 0.5], [1 + 0.5 * (20 + 0.5 * (22 - 5)), 2 + 0.5 * 40]),  # goes on after the window
        (2, [0.5, 0.5], [1 + 0.5 * (20 + 0.5 * (2 - 5)), 2]),  # ends with its second step
        (2, [0.0, 1.0], [1 + 0.5 * (20 + (2 - 5)), 2]),  # the trace of the first action makes no difference
        (2, [1.0, 0.0], [1 + 0.5 * 20, 2]),  # that of the second does
        (1, [0.5, 0.5], [1]),  # ends with its first
    ):
        found = retrace(rewards, values, taken, torch.tensor([trace]), torch.tensor([count]), 0.5)
        assert found[0, : len(wanted)].tolist() == pytest.approx(wanted)


def test_the_density_of_the_mixture_with_exploration_integrates_to_1_and_is_that_of_what_is_drawn() -> None:
    head = Head(actions=2, components=3, scale=0.3, min_scale=0.05)
    torch.manual_seed(0)
    mixture = head.mixture(torch.randn(1, head.outputs))
    side = torch.linspace(-4, 4, 801)
    grid = torch.stack(torch.meshgrid(side, side, indexing="ij"), dim=-1).reshape(1, -1, 2)
    density = log_explored(mixture.log_density(grid), grid, 0.25).exp()
    cell = 0.01**2
    assert float(density.sum() * cell) == pytest.approx(1, abs=0.01)
    others = log_explored(mixture.log_density(grid), grid, 0.25, 0.1).exp()
    assert float(others.sum() * cell) == pytest.approx(0.9, abs=0.01)  # the rest are legal placements
    rng = np.random.default_rng(0)
    chance, noise = rng.random((1, 200_000), np.float32), rng.standard_normal((1, 200_000, 2), np.float32)
    drawn = mixture.draw(torch.from_numpy(chance), torch.from_numpy(noise))[1][0]
    right = float((drawn[:, 0] > 0.2).float().mean())
    assert right == pytest.approx(float((mixture.log_density(grid).exp() * (grid[..., 0] > 0.2)).sum() * cell), abs=0.01)
    assert log_explored(torch.tensor([[-1.0]]), torch.tensor([[[0.0, 1.5]]]), 0.25).exp().item() == pytest.approx(0.75 * np.exp(-1))


def test_one_gaussian_is_a_mixture_of_one() -> None:
    mean, scale = torch.tensor([[[0.1, -0.2]]]), torch.tensor([[[0.5, 0.2]]])
    actions = torch.tensor([[[0.3, 0.4], [0.0, 0.0]]])
    one, two = (
        Mixture(torch.zeros(1, 1), mean, scale),
        Mixture(torch.full((1, 2), np.log(0.5)), mean.expand(1, 2, 2), scale.expand(1, 2, 2)),
    )
    wanted = torch.distributions.Normal(mean[0], scale[0]).log_prob(actions[0]).sum(-1)
    assert torch.allclose(one.log_density(actions)[0], wanted, atol=1e-5)
    assert torch.allclose(two.log_density(actions)[0], wanted, atol=1e-5)


def played(learner: RS0Learner, task: str = "covering_hard", episodes: int = 30) -> list[Episode]:
    return collect(learner.policy, task, PlayRequest((0, 1), episodes, (0.5, 0.5), False, learner.exploration())).episodes


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("encoder", ["mlp", "gn", "attention"])
def test_gradients_reach_the_encoder_from_both_heads_and_the_policy_leaves_the_critic_as_it_is(encoder: str, components: int) -> None:
    torch.set_num_threads(1)
    net = replace(SMALL.net, encoder=encoder, graph=8)  # type: ignore[arg-type]
    learner = RS0Learner(replace(SMALL, net=net, components=components, samples=2), "covering_hard", seed=0)
    batch = learner.net.schema.unpack(learner.net.schema.pack([state.scene for state in states("covering_hard", 6)]), None, "cpu")
    seen = learner.net.encoder(batch)
    loss, _ = learner.policy_loss(seen, learner.head.mixture(learner.net.actor(seen)), np.random.default_rng(0))
    loss.backward()
    assert all(each.grad is None for each in learner.net.critic.parameters())
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in list(learner.net.actor.parameters())[-2:])
    assert any(each.grad is not None and each.grad.abs().sum() > 0 for each in learner.net.encoder.parameters())
    learner.net.zero_grad()
    learner.net.value(learner.net.encoder(batch), torch.zeros(6, 1, 5)).sum().backward()
    assert any(each.grad is not None and each.grad.abs().sum() > 0 for each in learner.net.encoder.parameters())


def test_a_policy_that_points_learns_from_the_critic_what_to_point_at() -> None:
    torch.set_num_threads(1)
    config = replace(SMALL, net=EncoderConfig("attention"), samples=2, entropy=0.0, bound_penalty=0.0)
    learner = RS0Learner(config, "covering_hard", seed=0)
    batch = learner.net.schema.unpack(learner.net.schema.pack([state.scene for state in states("covering_hard", 6)]), None, "cpu")
    seen = learner.net.encoder(batch)
    loss, _ = learner.policy_loss(seen, learner.head.mixture(learner.net.actor(seen)), np.random.default_rng(0))
    loss.backward()
    of_weights = learner.net.actor.out.bias.grad.view(COMPONENTS, -1)[:, 0]
    assert (of_weights != 0).all(), of_weights


@pytest.mark.parametrize("several", [{"components": 2}, {"net": EncoderConfig("attention")}])
def test_several_gaussians_whose_weights_could_not_learn_are_refused(several: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"choose --agent\.samples 2 or more"):
        RS0Learner(replace(SMALL, **several), "covering_hard", seed=0)
    RS0Learner(replace(SMALL, imitate=1.0, **several), "covering_hard", seed=0)


def test_what_is_stored_is_the_unclipped_draw_and_its_density_under_the_mixture() -> None:
    config = replace(SMALL, scale=0.95)  # most draws are beyond the range
    policy, found = RS0Policy(config, "silhouette"), states("silhouette", 60)
    rngs = [np.random.default_rng(i) for i in range(len(found))]
    decisions = policy.act(found, rngs, Exploration(0.3, 0.0))
    fewer = policy.act(found, [np.random.default_rng(i) for i in range(len(found))], Exploration(0.3, 0.1))
    steps = np.concatenate([np.asarray(decision.step)[None] for decision in decisions])
    assert (np.abs(steps["action"]) > 1).any()
    assert (np.abs(steps["action"]) <= 1).all(axis=1).any()
    with torch.no_grad():
        mixture = policy.agent.mixture(policy.agent.see(steps["state"]))
        actions = torch.from_numpy(steps["action"].copy())[:, None]
        wanted = log_explored(mixture.log_density(actions), actions, 0.3)[:, 0]
    assert steps["log_density"] == pytest.approx(wanted.numpy(), abs=1e-4)
    beside = np.array([decision.step["log_density"] for decision in fewer])
    drawn = np.isfinite(beside)
    with torch.no_grad():
        wanted = log_explored(mixture.log_density(actions), actions, 0.3, 0.1)[:, 0]
    assert 0 < (~drawn).sum() < 20, "a tenth are legal placements, whose density is infinite"
    assert beside[drawn] == pytest.approx(wanted.numpy()[drawn], abs=1e-4)
    for state, decision in zip(found, decisions, strict=True):
        assert decision.step is not None
        assert decision.placement == policy.codec.decode(state.scene, np.clip(decision.step["action"], -1, 1).tolist())


def test_legal_placements_have_an_infinite_density_so_that_no_trace_goes_through_them() -> None:
    learner = RS0Learner(replace(SMALL, legal=1.0, epsilon=0.0), "covering_hard", seed=0)
    for episode in played(learner):
        learner.add(episode)
    steps, count = learner.replay.windows(np.random.default_rng(0), 8, 6)
    assert np.isinf(steps["log_density"]).all()
    figures = learner.learn(Sequences(steps, count), np.random.default_rng(0))
    assert figures["retrace_lambda"] == 0
    assert np.isfinite(list(figures.values())).all()


@pytest.mark.parametrize("components", [1, 2])
def test_a_toy_with_two_modes_is_solved(components: int) -> None:
    """One state; an action earns 1 where its first number is near -0.6 or 0.6, and nothing in between: the policy settles on one."""
    torch.set_num_threads(1)
    options = {"learning_rate": 3e-3, "samples": 4, "entropy": 0.003, "scale": 0.4, "tau": 0.05, "epsilon": 0.5, "batch": 64}
    net = replace(SMALL.net, width=64)
    learner = RS0Learner(replace(SMALL, net=net, components=components, actions="absolute", **options), "covering_hard", seed=1)
    state = replace(start("covering_hard", 0, np.random.default_rng(0)), scene=fresh_scene([], [(0.0, 0.35, 2.0, 0.35)]))
    rng = np.random.default_rng(0)
    rngs = [np.random.default_rng(i) for i in range(40)]

    def reward(action: Any) -> float:
        return float(np.exp(-(((min(abs(float(action[0])), 1) - 0.6) / 0.3) ** 2)))

    for _ in range(40):
        decisions = learner.policy.act([state] * len(rngs), rngs, learner.exploration())
        dtype = np.dtype([*learner.policy.dtype.descr, ("reward", "f4")])
        for decision in decisions:
            assert decision.step is not None
            steps = np.zeros(1, dtype)
            for name in learner.policy.dtype.names or ():
                steps[name][0] = decision.step[name]
            steps["reward"] = reward(decision.step["action"])
            learner.add(Episode(steps, 0, False, learner.exploration()))
        for _ in range(15):
            learner.step(rng)
    actions = learner.policy.agent._choose([state], [rng])
    assert reward(actions[0]) > 0.8, actions


def test_imitation_makes_what_earned_more_than_expected_likelier() -> None:
    torch.set_num_threads(1)
    rises = []
    for imitate in (1.0, 0.0):
        learner = RS0Learner(
            replace(SMALL, value_gradient=0.0, components=2, samples=2, learning_rate=3e-3, imitate=imitate), "covering_hard", seed=0
        )
        for k, episode in enumerate(played(learner)):
            episode.steps["reward"] = 2.0 if k == 0 else 0.0
            learner.add(episode)
        first = learner.replay.ring[0]

        def likelihood(learner: RS0Learner = learner, first: Any = first) -> float:
            with torch.no_grad():
                agent = learner.policy.agent
                return float(agent.mixture(agent.see(first["state"][None])).log_density(torch.from_numpy(first["action"])[None, None]))

        before, rng = likelihood(), np.random.default_rng(0)
        for _ in range(40):
            learner.step(rng)
        rises.append(likelihood() - before)
    assert rises[0] > 0.5
    assert rises[0] > rises[1] + 0.25


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_mirrored_sequence_teaches_what_the_mirrored_world_would_teach(encoder: Any) -> None:
    """The figures of a step with some sequences mirrored are those of a step on the same done in the mirrored world."""
    torch.set_num_threads(1)
    config = replace(SMALL, net=EncoderConfig(encoder, width=32, features=16, embedding=24, graph=16), imitate=0.5)
    assert RS0Learner(config, "covering_hard", 0).codec.mirror([0.1, 0.2, 0.3, 0.4, -1.0]).tolist() == [0.1, -0.2, 0.3, -0.4, -1.0]
    b, t = 4, SMALL.length
    scenes = [state.scene for state in states("covering_hard", b * (t + 1))]
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.9, 0.9, (b, t + 1, 5)).astype(np.float32)
    log_density, rewards = rng.normal(size=(b, t + 1)), rng.random((b, t + 1))

    def figures(mirror: bool, swap: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
        """Of a step in the world that is mirrored where `swap` (B,) is set."""
        learner = RS0Learner(replace(config, mirror=mirror), "covering_hard", seed=0)
        for weight in (*learner.net.parameters(), *learner.target.parameters()):
            weight.data *= 1.5  # fresh networks hardly see any difference between scenes
        shown = [mirrored(scene) if yes else scene for scene, yes in zip(scenes, swap.repeat(t + 1), strict=True)]
        steps = np.zeros((b, t + 1), learner.replay.dtype)
        steps["state"] = learner.net.schema.pack(shown).reshape(b, t + 1)
        steps["action"] = np.where(swap[:, None, None], learner.codec.mirror(actions), actions)
        steps["log_density"], steps["reward"] = log_density, rewards
        return learner.learn(Sequences(steps, np.array([t + 1, 3, t, t + 1])), rng)

    rngs = [np.random.default_rng(1) for _ in range(3)]
    nowhere = np.zeros(b, dtype=bool)
    found = figures(True, nowhere, rngs[0])
    swap, _ = (rng.random(b) < 0.5 for rng in rngs[1:])  # the learner's first draw
    assert 0 < swap.sum() < b
    assert found == pytest.approx(figures(False, swap, rngs[1]), rel=1e-3, abs=1e-5)
    assert found != pytest.approx(figures(False, nowhere, rngs[2]), rel=1e-3, abs=1e-5), "or mirroring would change nothing"


def test_it_runs_freely_unless_a_ratio_is_given_and_waits_where_too_little_new_comes() -> None:
    learner = RS0Learner(replace(SMALL, learning_starts=10), "covering_hard", seed=0)
    assert learner.updates_due() < 1
    assert "first steps: 0 of 10" in learner.warmup_status()
    episodes = played(learner)
    for episode in episodes:
        learner.add(episode)
    assert learner.updates_due() == 1, "never more, so that actors wait for nothing"
    assert not learner.warmup_status()
    added = sum(len(each.steps) for each in episodes) - 10
    learner.steps = added // 8
    assert learner.updates_due() < 1
    learner.steps -= 1
    assert learner.updates_due() == 1
    full = RS0Learner(replace(SMALL, learning_starts=10**6, replay=256), "covering_hard", seed=0)
    assert full.warmup_status() == "first steps: 0 of 256", "a full replay is enough"
    tied = RS0Learner(replace(SMALL, learning_starts=10, updates_per_step=0.5), "covering_hard", seed=0)
    for episode in episodes:
        tied.add(episode)
    assert tied.updates_due() == pytest.approx(0.5 * (sum(len(each.steps) for each in episodes) - 10))


def test_images_of_the_replay_are_those_of_the_environment() -> None:
    """Through all that a state goes through: the actor's record, the ring, windows, and a batch of those of them that are real."""
    learner = RS0Learner(replace(SMALL, net=replace(SMALL.net, encoder="cnn"), legal=0.9), "covering_hard", seed=0)
    played_scenes: list[Scene] = []
    policy_act = learner.policy.act

    def act(states: Any, rngs: Any, exploration: Any) -> Any:
        played_scenes.extend(state.scene for state in states)
        return policy_act(states, rngs, exploration)

    learner.policy.act = act  # type: ignore[method-assign]
    for episode in played(learner, episodes=20):
        learner.add(episode)
    assert max(len(scene.glue) for scene in played_scenes) > 0
    wanted = np.stack([image(scene) for scene in played_scenes])
    seqs = Sequences(*learner.replay.windows(np.random.default_rng(0), 20, 6))
    found = pixels(learner.net.schema.unpack(seqs.steps["state"][seqs.real])).permute(0, 2, 3, 1).numpy()
    other = np.array([(wanted != each).sum(axis=(1, 2, 3)).min() for each in found])
    assert (other == 0).mean() > 0.9
    assert other.max() <= 10, "states are stored in single precision: a pixel whose centre is just at an edge may differ, in each channel"


def test_exploration_is_the_papers() -> None:
    assert {task: paper_epsilon(task) for task in ("silhouette", "covering_hard", "covering", "connecting")} == {
        "silhouette": 0.08, "covering_hard": 0.08, "covering": 0.03, "connecting": 0.03,
    }  # fmt: skip


def test_the_replay_is_capped_by_count_and_by_bytes() -> None:
    learner = RS0Learner(replace(SMALL, replay=300, replay_mb=100.0), "covering_hard", seed=0)
    assert learner.replay.capacity == 300
    small = RS0Learner(replace(SMALL, replay_mb=1.0), "covering_hard", seed=0).replay
    assert small.capacity * small.dtype.itemsize <= 1e6
    assert small.capacity < SMALL.replay


@pytest.mark.parametrize("actions", ["relative", "absolute"])
def test_weights_come_back_from_their_card(actions: Any, tmp_path: Path) -> None:
    config = replace(SMALL, actions=actions, components=2, candidates=3)
    policy, found = RS0Policy(config, "silhouette"), states("silhouette", 5)
    save_weights(tmp_path / "w.safetensors", "rs0", config, "silhouette", policy.weights(), {})
    again, card = load_policy(tmp_path / "w.safetensors")
    assert set(card["agent"]) == set(ALGORITHM.needed)
    assert from_json(RS0Config, to_json(config)) == config
    rngs = [[np.random.default_rng(i) for i in range(5)] for _ in range(2)]
    assert policy.agent.act(found, rngs[0]) == again.agent.act(found, rngs[1])
    other = RS0Policy(replace(config, components=1), "silhouette")
    with pytest.raises(ValueError, match="this network has"):
        other.load(policy.weights())


def test_an_agent_acts_by_the_mean_samples_if_asked_or_takes_the_best_of_candidates() -> None:
    policy, found = RS0Policy(SMALL, "silhouette"), states("silhouette", 8)

    def act(agent: Any, seed: int) -> Any:
        return agent.act(found, [np.random.default_rng((seed, i)) for i in range(8)])

    assert act(policy.agent, 0) == act(policy.agent, 1)
    assert act(policy.agent.sampling(), 0) == act(policy.agent.sampling(), 0) != act(policy.agent.sampling(), 1)
    ideas = policy.agent.ideas(found[0], np.random.default_rng(0), 5)
    assert len(ideas) == 5
    assert ideas[0][0] == policy.agent.act(found[:1], [np.random.default_rng(0)])[0]
    assert [value for _, value in ideas[1:]] == sorted((value for _, value in ideas[1:]), reverse=True)
    picky = RS0Policy(replace(SMALL, candidates=20), "silhouette", net=policy.net)
    agent = picky.agent
    with torch.no_grad():
        seen = agent.see(policy.net.schema.pack([state.scene for state in found]))
        chosen = torch.from_numpy(agent._choose(found, [np.random.default_rng(i) for i in range(8)]))
        mean = agent.mixture(seen).mean[:, 0]
        assert (policy.net.value(seen, chosen[:, None]) >= policy.net.value(seen, mean[:, None].clamp(-1, 1))).all()
    assert policy.agent.act([], []) == []


def test_ideas_of_a_policy_that_points_are_its_likely_components_each_once() -> None:
    policy, [state] = RS0Policy(replace(SMALL, net=EncoderConfig("attention")), "covering_hard"), states("covering_hard", 1)
    torch.nn.init.normal_(policy.net.actor.out.bias, std=3.0)  # type: ignore[union-attr, arg-type]
    ideas = policy.agent.ideas(state, np.random.default_rng(0), 40)
    assert ideas[0][0] == policy.agent.act([state], [np.random.default_rng(1)])[0]
    assert 3 < len(ideas) < 40
    assert len({(round(idea.x, 2), round(idea.y, 2), idea.slot, idea.sticky) for idea, _ in ideas}) == len(ideas)
    assert ideas == policy.agent.ideas(state, np.random.default_rng(5), 40), "nothing of it is drawn"


def test_bad_options_are_refused_in_one_line() -> None:
    for options, words in (
        ({"epsilon": 2.0}, "epsilon 2.0: must be from 0 to 1"),
        ({"updates_per_step": 0.0}, "updates_per_step 0.0: must be above 0"),
        ({"scale": 0.01}, "scale 0.01: must be above min_scale"),
        ({"actions": "relative_xy"}, "choose relative or absolute"),
    ):
        with pytest.raises(ValueError, match=words):
            replace(SMALL, **options)
