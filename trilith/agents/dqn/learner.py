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
    """B transitions. Each begins in a state, and ends n steps later or at the end of the episode; n is `n_step` of the config. States are
    stored as records, see `networks.inputs.scene_batch`."""

    records: Records
    """(B,): the state in which each transition begins."""
    actions: Ints
    """(B, 4): the action that was made in each state, as an edge action (slot, object, offset, sticky)."""
    rewards: Floats
    """(B,): the immediate reward of each action."""
    returns: Floats
    """(B,): for each transition, the discounted sum of its first n rewards, where n is `n_step` of the config. If the episode ends earlier,
    the sum has fewer rewards."""
    following: Records
    """(B,): the state n steps after the beginning of each transition, where n is `n_step` of the config. Meaningless where `discounts` is
    0."""
    discounts: Floats
    """(B,): the factor by which the value of each state in `following` is multiplied in a target; 0 if the episode ended before that
    state."""
    ended: Bools
    """(B,): whether each action ended the episode."""
    earned: Floats
    """(B,): the discounted return that was observed from each state to the end of its episode."""
    beside: Counterfactuals

    @staticmethod
    def of(steps: NDArray[Any], count: Ints, discount: float) -> Sample:
        """Makes a sample of B transitions. `steps` (B, n + 1) has windows of consecutive steps of a replay. Only the first `count[i]` steps
        of window i are real; the others are padding (see `Replay.windows`). `discount` is the discount factor."""
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
    """(m,): for each action, the index of the state in which it was simulated, among the states of the sample. The indices ascend."""
    actions: Ints
    """(m, 4): each action as an edge action (slot, object, offset, sticky)."""
    rewards: Floats
    """(m,): the immediate reward of each action."""
    ended: Bools
    """(m,): whether each action would have ended the episode."""
    after: Records | None
    """(f,): the next state of each of f actions: the actions in `valued` that did not end the episode, in the same order. The records have
    no masks of legal actions. None if the replay does not store next states."""
    valued: Ints
    """(t,): the indices of the t actions whose values get a target, ascending. Each of these actions either ended the episode, or has its
    next state in `after`."""

    @staticmethod
    def of(steps: NDArray[Any]) -> Counterfactuals:
        """Collects the counterfactual actions that are stored in `steps` (B,), records of a replay. The result is empty if the replay
        stores none."""
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
        """Returns a copy in which fewer actions get a target for their value. All actions that ended the episode still get one. Of the
        other actions, at most `most` in each state get one, drawn uniformly at random; the next states of all others are left out. If no
        next states are stored, nothing is changed."""
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
"""Initial value of the mean episode length: one step for each slot. Episodes of the warm-up do not change it."""
LENGTH_RATE = 0.02
"""Weight of a new episode in the running mean of episode lengths."""
WARM_UP_EPSILON = 1.0
"""`Exploration.epsilon` before learning starts, see `Exploration.warm_up`."""


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
        """For each level of the curriculum, a running mean of the episode length in steps: the paper's estimate L̂."""

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
        """Whether `corrections_per_update` allows another correction now. `requested` is the number of corrections that were requested so
        far."""
        return requested < self.config.corrections_per_update * self.steps

    def add(self, episode: Episode) -> None:
        """Adds an episode to the replay, or a correction to the replay of corrections. An episode played after the warm-up also updates the
        mean episode length of its level."""
        if self.model:
            self.model.add(episode)
        (self.corrected if episode.correction else self.replay).add(self._with_returns(episode))
        if not episode.correction and not episode.exploration.warm_up:  # warm-up episodes end where they explore, so they are shorter
            self.lengths[episode.level] += LENGTH_RATE * (len(episode.steps) - self.lengths[episode.level])

    def _with_returns(self, episode: Episode) -> Episode:
        """Returns a copy of the episode whose steps have two more columns: `earned` and `ended` (see `RETURNS`)."""
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
        """Resumes from a checkpoint. `arrays` and `facts` are the two dictionaries that `state` returned. Raises ValueError if they do not
        fit this learner."""
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

        The loss is a sum of the terms below; a square stands for the Huber loss. G is the return that was observed; it is used only with
        `lower_bounds`. V(s') is the value of the next state. It is the output of the target network's value head, at least 0. Without such
        a head it is max_a Q(s', a) of the target network (with `double`, the online network selects a). If `n_step` is n > 1, the first y
        has n discounted rewards and then V of the state n steps later.

            made:            (Q(s, a) - y)²,  y = max(r + γ V(s'), G)
            counterfactual:  (Q(s, a) - y)²,  y = r if a ends the episode; with a value head also y = r + γ V(s') for a random few
            state:           (V(s) - max(0, y of the actions above))²
            correction:      max(0, max_b≠a Q(s, b) + margin - Q(s, a)),  times `margin_weight`
            all:             errors of the predicted reward (Huber) and end (cross-entropy), times `outcome_weight`

        The term "state" is used for networks with a value head, the term "all" for networks that predict rewards and ends.
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
        """Finds the rival in each of the first `shown` states of a batch. These states come from corrections. The rival is the action with
        the highest value apart from the planner's action, `actions[i]` in state i.

        Returns two tensors (shown,): the index of each rival, and 1 where there is a rival, else 0. The margin loss depends only on the
        values of the rival and of the planner's action, so only these two values need gradients.
        """
        if not shown:
            return actions[:0], actions[:0]
        with torch.no_grad():
            best, value = self.net.best(batch[:shown], without=actions[:shown])
        there = torch.isfinite(value)
        return torch.where(there, best, actions[:shown]), there.float()

    def _targets(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """Returns two tensors (k,): the targets of k values, and the index of the action of each target.

        First come the B actions that were made in the sample, with the indices 0 to B - 1. Then come the counterfactual actions in
        `valued`; counterfactual action j has the index B + j.
        """
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
        """The values (k,) of the states `records` (k,), to be used in targets. They are outputs of the target network's head for state
        values, if the network has this head. Otherwise the value of a state is the value of its best action, or 0 if there is no action.
        Negative values become 0 if the network has the head, or with `stop`."""
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
        """Moves the target network towards the online network. If `tau` is 0, the target network becomes a copy of the online network
        instead, once every `target_period` learner steps."""
        if self.config.tau:
            super().update_target()
        elif self.steps % self.config.target_period == 0:
            self.target.load_state_dict(self.net.state_dict())
