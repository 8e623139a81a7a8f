"""The learner of RS0. The critic learns by Retrace. The policy learns from the critic's gradient (SVG(0)) and, if `imitate` is above 0, by
imitation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trilith.agents.base import Episode
from trilith.agents.replay import Replay
from trilith.agents.rs0.config import RS0Config
from trilith.agents.rs0.mixture import Mixture
from trilith.agents.rs0.policy import Exploration, RS0Policy, make_continuous, make_head, make_net
from trilith.agents.rs0.retrace import retrace
from trilith.agents.target_learner import TargetLearner, read
from trilith.networks.actor_critic.network import ActorCritic
from trilith.utils.checks import require
from trilith.world.scene import Bools, Ints
from trilith.world.tasks import get_task

FREE = 1 / 8
"""Maximum number of learner steps per actor step if `updates_per_step` is None. Without this limit the learner would overfit to a few
episodes when actors are slow."""
SHORT = 8
"""A task has short episodes if no episode can have more steps than this, as in Silhouette and Covering Hard. In such tasks actors explore
more."""
CAPPED = 1.0
"""Maximum weight of a step in the imitation loss."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """B sequences of T steps, each followed by the state after the last step. If an episode ends within a sequence, the rest of the
    sequence is padding: copies of its first step."""

    steps: NDArray[Any]
    """(B, T + 1): for each sequence, the records of its T steps and of the state after them, see `RS0Policy.dtype`."""
    count: Ints
    """(B,): for each sequence, how many of its T + 1 states are real, not padding. If this is less than T + 1, the action in the last real
    state ended the episode."""

    @property
    def real(self) -> Bools:
        """Mask (B, T + 1): for each sequence, the states that are not padding."""
        return np.arange(self.steps.shape[1]) < self.count[:, None]


class Targets(NamedTuple):
    """Results of the target network for B sequences of T steps."""

    worth: Tensor
    """(B, T): the Retrace target for the value of each action. After the end of an episode the entries are meaningless."""
    values: Tensor
    """(B, T + 1): the value of each state; 0 after the end of an episode."""
    trace: Tensor
    """(B, T): the trace of each action; 0 after the end of an episode. It is λ min(1, π/μ), where π is the density of the action under the
    target network's policy, and μ is the density with which the actor drew it."""


class RS0Learner(TargetLearner[ActorCritic]):
    """The learner of RS0: online network, target network, optimiser and replay, and the losses of a learner step."""

    config: RS0Config

    def __init__(self, config: RS0Config, task: str, seed: int, device: str = "cpu") -> None:
        self.codec, self.head = make_continuous(config), make_head(config)
        require(
            not (self.head.pointing or config.components > 1) or config.samples > 1 or config.imitate,
            f"samples {config.samples}: the weights of a policy with several Gaussians learn by comparing actions, so "
            "choose --agent.samples 2 or more, or learn them by imitation with --agent.imitate 1",
        )
        super().__init__(config, partial(make_net, config, task, beyond=False), seed, device)
        self.policy = RS0Policy(config, task, device=device, net=self.target if config.act_with_target else self.net)
        self.replay = Replay(self.policy.dtype, config.replay_mb, config.replay)
        self.epsilon = paper_epsilon(task) if config.epsilon is None else config.epsilon

    # ---- requests to actors

    @property
    def warmup_steps(self) -> int:
        """Number of steps in the replay before learning starts; at most the capacity of the replay."""
        return min(self.config.learning_starts, self.replay.capacity)

    def updates_due(self) -> float:
        """Number of learner steps that the ratio `updates_per_step` allows so far, minus the learner steps already made. If the ratio is
        None, `FREE` takes its place, and the result is at most 1, so that actors never wait for the learner."""
        ready = self.replay.added - self.warmup_steps
        if self.config.updates_per_step is not None:
            return self.config.updates_per_step * max(ready, 0) - self.steps
        return min(FREE * ready - self.steps, 1.0)

    def warmup_status(self) -> str:
        """One line with the number of steps in the replay; "" when there are enough to start learning."""
        least = self.warmup_steps
        return f"first steps: {self.replay.added} of {least}" if self.replay.added < least else ""

    def exploration(self) -> Exploration:
        """The exploration settings, which stay the same during the whole training."""
        return Exploration(self.epsilon, self.config.legal)

    def add(self, episode: Episode) -> None:
        """Adds an episode to the replay."""
        self.replay.add(episode)

    # ---- learning

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step on sequences from the replay. Returns metrics for the log."""
        return self.learn(Sequences(*self.replay.windows(rng, self.config.batch, self.config.length + 1)), rng)

    def learn(self, seqs: Sequences, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step on the sequences `seqs`. Returns metrics for the log."""
        config = self.config
        mirror = rng.random(len(seqs.count)) < 0.5 if config.mirror else np.zeros(len(seqs.count), dtype=bool)
        actions = seqs.steps["action"]
        if mirror.any():
            actions = np.where(mirror[:, None, None], self.codec.mirror(actions), actions)
        real = seqs.real
        batch = self.net.schema.unpack(seqs.steps["state"][real], np.broadcast_to(mirror[:, None], real.shape)[real], self.device)
        # The world clips actions, so the critic gets clipped actions.
        taken = torch.from_numpy(actions[real]).to(self.device)
        targets = self.targets(batch, taken, seqs, rng)
        seen = self.net.encoder(batch)
        policy = self.head.mixture(self.net.actor(seen))

        made = torch.from_numpy(real[:, :-1]).to(self.device)  # no action was taken in the state after the last step
        values = self._dense(self.net.value(seen, taken[:, None].clamp(-1, 1))[:, 0], real)[:, :-1]
        error = (values - targets.worth)[made]
        critic_loss = 0.5 * error.square().mean()
        policy_loss, entropy = self.policy_loss(seen, policy, rng)
        loss = critic_loss + policy_loss
        figures = {"loss": critic_loss, "policy_loss": policy_loss, "entropy": entropy, "value": values[made].mean()}
        figures["retrace_lambda"] = targets.trace[made].mean()
        if config.imitate:
            likelihood = self._dense(policy.log_density(taken[:, None])[:, 0], real)[:, :-1]
            better = (targets.worth - targets.values[:, :-1]).clamp(0, CAPPED)
            loss = loss - config.imitate * (better * made * likelihood).sum() / made.sum()
        said = read(figures)
        self.update(loss, said)
        return said

    def targets(self, batch: Any, taken: Tensor, seqs: Sequences, rng: np.random.Generator) -> Targets:
        """Computes the Retrace targets of the sequences `seqs` with the target network. `batch` has the n real states of all sequences, and
        `taken` (n, A) the actions taken in them, each of A numbers."""
        config, real = self.config, seqs.real
        with torch.no_grad():
            seen = self.target.encoder(batch)
            policy = self.head.mixture(self.target.actor(seen))
            _, drawn = policy.draw(*self._chances(rng, len(taken)))
            q = self.target.value(seen, torch.cat([taken[:, None], drawn], dim=1).clamp(-1, 1))
            behaviour = torch.from_numpy(seqs.steps["log_density"][real]).to(self.device)
            ratio = (policy.log_density(taken[:, None])[:, 0] - behaviour).clamp(max=0).exp()
            of_taken, values, trace = (self._dense(each, real) for each in (q[:, 0], q[:, 1:].mean(dim=1), config.retrace_lambda * ratio))
            rewards, count = (torch.from_numpy(np.array(each)).to(self.device) for each in (seqs.steps["reward"][:, :-1], seqs.count))
            worth = retrace(rewards, values, of_taken[:, :-1], trace[:, :-1], count, config.discount)
            return Targets(worth, values, trace[:, :-1])

    def policy_loss(self, seen: Any, policy: Mixture, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Returns the policy loss and the entropy of the policy. The loss is the sum of the SVG(0) loss, the entropy bonus and the penalty
        on means. `policy` is the policy in a batch of states, and `seen` the features of these states.

        The SVG(0) loss uses the critic's gradient with respect to the drawn actions. Through the critic, no gradient reaches its weights or
        the features; otherwise these would learn to raise the predicted values. The choice of a component of the mixture is not
        differentiable, so the weights of components learn by the score function. Its baseline is the mean value of the other actions drawn
        in the state, so two or more samples are needed.
        """
        config = self.config
        component, drawn = policy.draw(*self._chances(rng, len(policy.mean)))
        q, slope = self.net.slope(seen, drawn.detach().clamp(-1, 1))
        inside = drawn.detach().abs() <= 1  # outside this range actions are clipped, so the gradient is 0
        gain = (slope * inside * drawn).sum(-1)
        if policy.log_weight.shape[1] > 1 and config.samples > 1:
            against = (q.sum(dim=1, keepdim=True) - q) / (config.samples - 1)
            gain = gain + (q - against) * policy.log_weight.gather(1, component)
        entropy = -policy.log_density(drawn).mean()
        beyond = ((policy.mean.abs() - 1).clamp(min=0).square().sum(-1) * policy.log_weight.exp()).sum(-1).mean()
        return -config.value_gradient * gain.mean() - config.entropy * entropy + config.bound_penalty * beyond, entropy

    def _chances(self, rng: np.random.Generator, states: int) -> tuple[Tensor, Tensor]:
        """The random numbers with which `Mixture.draw` draws actions of A numbers in each state: uniform (states, samples), and standard
        normal (states, samples, A)."""
        shape = (states, self.config.samples)
        chance, noise = rng.random(shape, np.float32), rng.standard_normal((*shape, self.codec.length), np.float32)
        return torch.from_numpy(chance).to(self.device), torch.from_numpy(noise).to(self.device)

    def _dense(self, rows: Tensor, real: Bools) -> Tensor:
        """Scatters `rows` (n,), a number for each of n real states, into an array of the shape of the mask `real` (B, T + 1). The array is
        0 at padding."""
        where = torch.from_numpy(np.flatnonzero(real)).to(rows.device)
        return rows.new_zeros(real.size).index_copy(0, where, rows).reshape(real.shape)


def paper_epsilon(task: str) -> float:
    """The paper's fraction of uniformly drawn actions in a task: 0.08 if its episodes are short (see `SHORT`), else 0.03."""
    rules, rng = get_task(task), np.random.default_rng(0)
    longest = max(rules.max_steps(rules.generate(rng, level), level) for level in rules.levels)
    return 0.08 if longest <= SHORT else 0.03
