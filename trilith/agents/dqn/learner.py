"""The learner of deep Q-learning, with additional loss terms for counterfactual actions and for corrections."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, NotRequired

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from trilith.agents.base import Episode, LearnedModel
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNPolicy, Exploration, make_net, make_schema
from trilith.agents.dynamics.online import OnlineModel
from trilith.agents.replay import Replay
from trilith.agents.target_learner import LearnerFacts, TargetLearner, part, prefixed, read
from trilith.networks.inputs.scene_batch import Records, SceneBatch
from trilith.networks.q.base import QNet
from trilith.planners.registry import has_planner
from trilith.search.config import ONLINE
from trilith.utils.config import to_json
from trilith.utils.files import typed
from trilith.world.scene import SLOTS, Bools, Floats, Ints
from trilith.world.tasks import get_task


class Sample(NamedTuple):
    """B transitions, each over at most n steps. States are records, see `networks.inputs.scene_batch`."""

    records: Records
    """(B,): the states."""
    actions: Ints
    """(B, 4): the edge actions made in these states."""
    rewards: Floats
    """(B,): the immediate rewards of these actions."""
    returns: Floats
    """(B,): the discounted sum of the next n rewards; of fewer rewards if the episode ends earlier."""
    following: Records
    """(B,): the states n steps later. Valid only where `discounts` is not 0."""
    discounts: Floats
    """(B,): the discount factor for the value of the state in `following`; 0 if the episode ended before that state."""
    ended: Bools
    """(B,): whether the action ended the episode."""
    earned: Floats
    """(B,): the discounted return that was observed from the state to the end of the episode."""
    beside: Counterfactuals

    @staticmethod
    def of(steps: NDArray[Any], count: Ints, discount: float) -> Sample:
        """Makes a sample from windows (B, n + 1) of consecutive steps in a replay. In window i only the first `count[i]` steps are real,
        see `Replay.windows`."""
        n = steps.shape[1] - 1
        first = steps[:, 0]
        powers = discount ** np.arange(n)
        returns = np.where(np.arange(n) < count[:, None], steps["reward"][:, :n] * powers, 0.0).sum(axis=1)
        return Sample(
            first["state"],
            first["action"].astype(np.int64),
            first["reward"].astype(np.float64),
            returns,
            steps["state"][:, n],
            np.where(count > n, discount**n, 0.0),
            first["ended"],
            first["earned"].astype(np.float64),
            Counterfactuals.of(first),
        )


class Counterfactuals(NamedTuple):
    """The counterfactual actions in the states of a sample: m actions that were simulated but not made."""

    scenes: Ints
    """(m,): the index of the state in which each action was simulated, in ascending order."""
    actions: Ints
    """(m, 4): the edge actions."""
    rewards: Floats
    """(m,): the immediate reward of each action."""
    ended: Bools
    """(m,): whether each action would have ended the episode."""
    after: Records | None
    """(f,): the next states of actions that did not end the episode, without masks of legal actions. None if the replay does not store next
    states."""
    valued: Ints
    """(t,): the indices, in ascending order, of the actions whose values get a target. These actions ended the episode, or have their next
    state in `after`."""

    @staticmethod
    def of(steps: NDArray[Any]) -> Counterfactuals:
        """Collects the counterfactual actions of steps (B,) of a replay. The result is empty if the replay stores none."""
        if "beside" not in (steps.dtype.names or ()):
            none = np.zeros(0, np.int64)
            return Counterfactuals(none, none.reshape(0, 4), none.astype(np.float64), none.astype(bool), None, none)
        there = steps["beside"][..., 0] >= 0
        scenes, column = there.nonzero()
        ended = steps["beside_ended"][scenes, column]
        return Counterfactuals(
            scenes,
            steps["beside"][scenes, column].astype(np.int64),
            steps["beside_reward"][scenes, column].astype(np.float64),
            ended,
            steps["after"][scenes, column][~ended] if "after" in (steps.dtype.names or ()) else None,
            np.arange(len(ended)) if "after" in (steps.dtype.names or ()) else np.flatnonzero(ended),
        )

    def with_targets(self, most: int, rng: np.random.Generator) -> Counterfactuals:
        """Returns a copy that keeps the next states of at most `most` actions per state of the sample, chosen uniformly at random. Only
        these actions, and the actions that ended the episode, get a target."""
        if self.after is None:
            return self
        going = np.flatnonzero(~self.ended)
        order = np.lexsort((rng.random(len(going)), self.scenes[going]))
        rank = np.arange(len(going)) - np.searchsorted(self.scenes[going][order], self.scenes[going][order])
        kept = np.sort(order[rank < most])
        return self._replace(after=self.after[kept], valued=np.union1d(np.flatnonzero(self.ended), going[kept]))


class DQNFacts(LearnerFacts):
    """The values of a checkpoint that are not arrays."""

    lengths: list[float]
    model: NotRequired[dict[str, Any]]


RETURNS: list[tuple[str, str]] = [("earned", "f4"), ("ended", "?")]
"""Columns that the learner adds to the record of a step: the discounted return from this step to the end of the episode, and whether this
step ended the episode."""
FIRST_LENGTH = float(SLOTS)
"""Expected episode length before any episode was played: one step for each slot."""
LENGTH_RATE = 0.02
"""Weight of a new episode in the running mean of episode lengths."""
WARM_UP_EPSILON = 1.0
"""The value of ε before learning starts: about one action per episode is drawn from all actions that the mask allows. The other actions are
random placements that overlap nothing."""


class DQNLearner(TargetLearner[QNet]):
    """The learner of Q-learning: online network, target network, optimiser and replay, and the losses of a learner step."""

    config: DQNConfig

    def __init__(self, config: DQNConfig, task: str, seed: int, device: str = "cpu") -> None:
        config.check()
        if config.corrections_per_update and not has_planner(task):
            raise ValueError(f"there is no planner for {task} to correct an agent: choose --agent.corrections-per-update 0")
        self.schema = make_schema(config, task, beyond=False)
        super().__init__(config, partial(make_net, config, self.schema), seed, device)
        self.model = OnlineModel(config.model, task, seed) if config.search.world == ONLINE else None
        """The transition model in which actors search, if this run learns one; else None."""
        acting = self.target if config.act_with_target and config.tau else self.net
        self.policy = DQNPolicy(config, task, net=acting, model=self.model.world if self.model else None)
        kept = np.dtype([*self.policy.dtype.descr, *RETURNS])
        self.replay = Replay(kept, config.replay_mb)
        self.corrected = Replay(kept, config.replay_mb)
        """Replay of corrections."""
        self.lengths = [FIRST_LENGTH] * len(get_task(task).levels)
        """For each level of the curriculum, a running mean of the episode length: the paper's estimate L̂."""

    # ---- requests to actors

    @property
    def warmup_steps(self) -> int:
        """Number of random steps before learning starts, at most as many as the replay holds."""
        return min(self.config.learning_starts, self.replay.capacity)

    @property
    def warming_up(self) -> bool:
        """Whether actors still play at random, to collect the first data."""
        return self.replay.added < self.warmup_steps

    def updates_due(self) -> float:
        """Number of learner steps that the ratio `updates_per_step` allows so far, minus the learner steps already made."""
        return self.config.updates_per_step * max(self.replay.added - self.warmup_steps, 0) - self.steps

    def warmup_status(self) -> str:
        """One line about the progress of the random steps; "" after the warm-up."""
        return f"warm-up: {self.replay.added} of {self.warmup_steps} steps by chance" if self.warming_up else ""

    def exploration(self) -> Exploration:
        """The exploration settings for actors: random actions during the warm-up, then the config's epsilon."""
        epsilon = WARM_UP_EPSILON if self.warming_up else self.config.epsilon
        return Exploration(epsilon, tuple(self.lengths), self.warming_up, self.model is None or self.model.ready)

    def wants_correction(self, requested: int) -> bool:
        """Whether `corrections_per_update` allows more corrections now."""
        return requested < self.config.corrections_per_update * self.steps

    def add(self, episode: Episode) -> None:
        """Adds an episode to the replay, or a correction to the replay of corrections. Updates the mean length of episodes at the same
        level."""
        if self.model:
            self.model.add(episode)
        (self.corrected if episode.correction else self.replay).add(self._with_returns(episode))
        if not episode.correction and not episode.exploration.warm_up:  # warm-up episodes end where they explore, so they are shorter
            self.lengths[episode.level] += LENGTH_RATE * (len(episode.steps) - self.lengths[episode.level])

    def _with_returns(self, episode: Episode) -> Episode:
        """Returns a copy of the episode whose steps have the additional columns `RETURNS`."""
        steps, later = np.zeros(len(episode.steps), [*episode.steps.dtype.descr, *RETURNS]), 0.0
        steps["ended"][-1:] = episode.ended
        for name in episode.steps.dtype.names or ():
            steps[name] = episode.steps[name]
        for k in reversed(range(len(steps))):
            steps["earned"][k] = later = float(steps["reward"][k]) + self.config.discount * later
        return episode._replace(steps=steps)

    # ---- checkpoints and models

    def learned_model(self) -> LearnedModel | None:
        """Returns the transition model in which actors search. None if no model is learned, or if it is not ready yet."""
        if self.model is None or not self.model.ready:
            return None
        about = {"learning": to_json(self.config.model), "steps": self.model.learner.steps}
        return LearnedModel(self.config.model.net, self.model.world.weights(), about)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The content of a checkpoint: weights of both networks, the state of the optimiser, both replays, the mean episode lengths and, if
        there is one, the transition model."""
        arrays, facts = super().state()
        groups = {"corrected.": self.corrected.state()}
        facts["lengths"] = self.lengths
        if self.model:
            groups["model."], facts["model"] = self.model.state()
        return arrays | prefixed(groups), facts

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from the result of `state`. Raises ValueError if the checkpoint does not fit this learner."""
        checked: DQNFacts = typed(facts, DQNFacts)
        if len(checked["lengths"]) != len(self.lengths):
            raise ValueError(f"it has {len(checked['lengths'])} levels, not {len(self.lengths)}")
        super().load(arrays, facts)
        self.corrected.load(part(arrays, "corrected."))
        if self.model:
            self.model.load(part(arrays, "model."), checked["model"])
        self.lengths = checked["lengths"]

    # ---- learning

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step on transitions from the replay and, if there are any, from corrections."""
        config = self.config
        shown = round(config.correction_share * config.batch) if len(self.corrected) else 0
        parts = [(self.corrected, shown), (self.replay, config.batch - shown)]
        windows = [memory.windows(rng, size, config.n_step + 1) for memory, size in parts if size]
        steps, count = (np.concatenate(each) for each in zip(*windows, strict=True))
        figures = self.learn(Sample.of(steps, count, config.discount), rng, shown)
        return figures | self.model.step(rng) if self.model and self.model.due(self.steps) else figures

    def learn(self, sample: Sample, rng: np.random.Generator, shown: int = 0) -> dict[str, float]:
        """Makes one learner step on a sample whose first `shown` transitions come from corrections. Returns metrics for the log.

        The loss is a sum of the terms below. G is the observed return; it is used if `lower_bounds`. V(s') is the value of the next state:
        the output of the target network's value head or, for a network without such a head, max_a Q(s', a) by double Q-learning.

            made:            (Q(s, a) - y)²,  y = max(r + γ V(s'), G)
            counterfactual:  (Q(s, a) - y)²,  y = r + γ V(s') for a random few, or y = r if a ends the episode
            state:           (V(s) - max_a y)²,  over the actions above and 0
            correction:      max(0, max_b≠a Q(s, b) + margin - Q(s, a))
            all:             errors of the predicted reward (squared) and end (cross-entropy), times `outcome_weight`
        """
        config, size = self.config, len(sample.records)
        mirror = rng.random(size) < 0.5 if config.mirror else np.zeros(size, dtype=bool)
        beside = sample.beside.with_targets(config.counterfactual_targets, rng)
        sample = sample._replace(beside=beside)
        batch = self.schema.unpack(sample.records, mirror, self.device)
        scene_of = np.concatenate([np.arange(size), beside.scenes])
        edge_actions = self.schema.mirror_actions(np.concatenate([sample.actions, beside.actions]), mirror[scene_of])
        actions, scenes = torch.from_numpy(self.schema.index(edge_actions)).to(self.device), torch.from_numpy(scene_of)
        rivals, rivalled = self._rivals(batch, actions, shown if config.margin_weight else 0)
        asked = torch.cat([actions, rivals]), torch.cat([scenes, torch.arange(len(rivals))]).to(self.device)
        q, reward, end, state = self.net.outcomes(batch, *asked)

        wanted, which = self._targets(sample)
        errors = F.huber_loss(q[which], wanted, reduction="none", delta=config.huber_delta)
        loss = errors.sum() / size
        if state is not None:
            best = torch.zeros_like(state).scatter_reduce(0, asked[1][which], wanted, "amax")
            loss = loss + F.huber_loss(state, best, reduction="sum", delta=config.huber_delta) / size
        if len(rivals):
            short = F.relu(q[len(actions) :] + config.margin - q[: len(rivals)])
            loss = loss + config.margin_weight * (short * rivalled).sum() / size
        figures = {"value": q[:size].detach().mean(), "value_loss": loss.detach()}
        if reward is not None and end is not None:
            rewards, ends = self._sent(sample.rewards, beside.rewards), self._sent(sample.ended, beside.ended)
            off = F.huber_loss(reward[: len(actions)], rewards, reduction="sum", delta=config.huber_delta) / size
            missed = F.binary_cross_entropy_with_logits(end[: len(actions)], ends, reduction="sum") / size
            loss = loss + config.outcome_weight * (off + missed)
            figures |= {"reward_loss": off.detach(), "end_loss": missed.detach()}
        numbers = read({"loss": loss.detach(), **figures})
        self.update(loss, numbers)
        return numbers

    def _rivals(self, batch: SceneBatch, actions: Tensor, shown: int) -> tuple[Tensor, Tensor]:
        """For the first `shown` states of a batch, finds the rival: the action with the highest value apart from the planner's action.
        Returns the indices (shown,) of the rivals, and 1 where there is a rival, else 0 (shown,). The margin loss depends only on the
        values of the rival and of the planner's action, so only these two values need gradients."""
        if not shown:
            return actions[:0], actions[:0]
        with torch.no_grad():
            best, value = self.net.best(batch[:shown], without=actions[:shown])
        there = torch.isfinite(value)
        return torch.where(there, best, actions[:shown]), there.float()

    def _targets(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """Returns the targets (k,) of values, and for each target the index (k,) of its action. First come the B actions that were made,
        then the counterfactual actions in `valued`."""
        config, beside, size = self.config, sample.beside, len(sample.returns)
        known = beside.valued
        discounts = np.concatenate([sample.discounts, np.where(beside.ended[known], 0.0, config.discount)])
        following = sample.following[sample.discounts > 0]
        if self.net.values_states:
            scenes = self.schema.scenes.dtype
            following = following[list(scenes.names or ())].astype(scenes)
        if beside.after is not None and config.discount:
            following = np.concatenate([following, beside.after])
        wanted = self._sent(sample.returns, beside.rewards[known])
        if len(following):
            places = np.flatnonzero(discounts)
            later = self._sent(discounts[places]) * self._state_values(following)
            wanted = wanted.index_add(0, torch.from_numpy(places).to(self.device), later)
        if config.lower_bounds:
            wanted = torch.maximum(wanted, self._sent(sample.earned, np.full(len(known), -np.inf)))
        return wanted, torch.from_numpy(np.concatenate([np.arange(size), size + known])).to(self.device)

    def _sent(self, *numbers: Floats | Bools) -> Tensor:
        """Concatenates arrays to one float32 tensor on the device of the networks."""
        return torch.from_numpy(np.concatenate(numbers).astype(np.float32)).to(self.device)

    @torch.no_grad()
    def _state_values(self, records: Records) -> Tensor:
        """The bootstrap values (k,) of states."""
        if self.net.values_states:
            return self.target.v(self.schema.scenes.unpack(records, device=self.device)).clamp(min=0)
        batch = self.schema.unpack(records, device=self.device)
        best, value = (self.net if self.config.double else self.target).best(batch)
        some = torch.isfinite(value)  # a state without actions is worth 0, like the end of the episode
        if self.config.double:
            value = self.target.q_at(batch, best)
        if self.config.stop:
            value = value.clamp(min=0)
        return torch.where(some, value, 0.0)

    def update_target(self) -> None:
        """Moves the target network towards the online network or, if `tau` is 0, copies the online network every `target_period` steps."""
        if self.config.tau:
            super().update_target()
        elif self.steps % self.config.target_period == 0:
            self.target.load_state_dict(self.net.state_dict())
