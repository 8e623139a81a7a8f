"""One step of deep Q-learning, with what demonstrations and searches add to its loss."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from trilith.agents.base import Episode, LearnedModel, Takeover
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNPolicy, Exploration, make_layout, make_net
from trilith.agents.model.online import OnlineModel
from trilith.agents.parameters import check_moments, descend, follow, load_moments, moments_of, part, scheduled_rate
from trilith.agents.replay import Replay, mixed_windows
from trilith.nets.batch import Records
from trilith.nets.device import pick_device
from trilith.search.config import ONLINE
from trilith.support.config import to_json
from trilith.support.files import typed
from trilith.world.scene import SLOTS, Bools, Floats, Ints
from trilith.world.tasks import get_task


class Valued(NamedTuple):
    """What the learning network says of the states of a sample."""

    taken: Tensor
    """(B,): the values of what was done in them."""
    siblings: Tensor
    """(m,): those of actions that were only simulated, and would have ended the episode."""
    every: Tensor
    """(W, A): the values of all actions in the first W, -inf where there is none."""
    done: Tensor
    """(W,): which of these was done."""
    tried: Tensor
    """(W, K): which of these a search tried; -1 for none."""


class Sample(NamedTuple):
    """Transitions over up to n steps."""

    records: Records
    """(B,): states."""
    actions: Ints
    """(B, 4): what was done in them."""
    returns: Floats
    """(B,): discounted sum of the next up to n rewards."""
    following: Records
    """(B,): states after these, where `discounts` is not 0."""
    discounts: Floats
    """(B,): what the value of the following state counts for; 0 if the episode ended before it."""
    tried: Ints
    """(B, K, 4): actions that were only simulated, -1 where there are less than K."""
    found: NDArray[np.float32]
    """(B, K): what they turned out to be worth."""

    @staticmethod
    def of(steps: NDArray[Any], count: Ints, discount: float) -> Sample:
        """From windows (B, n + 1) of a replay, of which `count` (B,) steps each are real."""
        n = steps.shape[1] - 1
        first, size = steps[:, 0], len(steps)
        powers = discount ** np.arange(n)
        returns = np.where(np.arange(n) < count[:, None], steps["reward"][:, :n] * powers, 0.0).sum(axis=1)
        searched = "tried" in (steps.dtype.names or ())
        return Sample(
            first["state"],
            first["action"].astype(np.int64),
            returns,
            steps["state"][:, n],
            np.where(count > n, discount**n, 0.0),
            first["tried"].astype(np.int64) if searched else np.zeros((size, 0, 4), np.int64),
            first["found"].copy() if searched else np.zeros((size, 0), np.float32),
        )


class LearnerFacts(TypedDict):
    """What a checkpoint keeps of a learner beside arrays."""

    steps: Annotated[int, Meta(ge=0)]
    lengths: list[float]
    demonstrated: Annotated[int, Meta(ge=0)]
    planner: NotRequired[tuple[float, float]]
    model: NotRequired[dict[str, Any]]


FIRST_LENGTH = float(SLOTS)
"""Length of an episode that is expected before any was played: as many steps as there are blocks to choose from."""
LENGTH_RATE = 0.02
"""Share of a new episode in the running mean of episode lengths."""
WARM_UP_EPSILON = 1.0
"""Random actions an episode before learning starts, where the others are placements that overlap nothing."""


GOOD_PLANNER = 0.98
"""A planner that earns this share of all there is knows better than a search."""
SEARCHED = {True: 0.1, False: 0.95}
"""How often the search takes over, by whether the planner is that good."""


class DQNLearner:
    """The learning network, its target and its optimiser, all on one device, what it remembers, and one step of learning."""

    def __init__(self, config: DQNConfig, task: str, seed: int, device: str = "cpu") -> None:
        config.check()
        self.config, self.layout, self.device = config, make_layout(config, task, beyond=False), pick_device(device)
        torch.manual_seed(seed)  # the first weights come from the CPU's generator, so they are the same on every device
        self.net, self.target = make_net(config, self.layout), make_net(config, self.layout)
        self.target.load_state_dict(self.net.state_dict())
        self.target.requires_grad_(False)
        self.net.to(self.device)
        self.target.to(self.device)
        fused = self.device.type in ("cpu", "cuda")
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, fused=fused)
        self.model = OnlineModel(config.model, task, seed) if config.search.world == ONLINE else None
        """What actors search in, if it is learned too."""
        acting = self.target if config.act_with_target and config.target_rate else self.net
        self.policy = DQNPolicy(config, task, net=acting, model=self.model.world if self.model else None)
        self.replay = Replay(self.policy.dtype, config.replay_mb)
        self.shown = Replay(self.policy.dtype, config.replay_mb)
        """Demonstrations."""
        self.demonstrated = 0
        """Episodes of them."""
        self.planner = (0.0, 0.0)
        """What the planner earned before anything was learnt, and the most there was to earn."""
        self.lengths = [FIRST_LENGTH] * len(get_task(task).levels)
        """Running mean of the length of episodes, a level each: the paper's estimate L̂ of an episode's typical length."""
        self.steps = 0

    # ---- what it asks of actors

    @property
    def warming_up(self) -> bool:
        """Whether episodes are still played by chance, to have something to learn from."""
        return self.replay.added < self.config.min_replay

    def owed(self) -> float:
        """Learner steps that the ratio allows by now, beyond those made."""
        return self.config.ratio * max(self.replay.added - self.config.min_replay, 0) - self.steps

    def waits_for(self) -> str:
        """Demonstrations first, then steps by chance."""
        wanted = self.config.first_demonstrations
        if self.demonstrated < wanted and not self.replay.added:
            return f"planner demonstrates: {self.demonstrated} of {wanted} episodes"
        return f"warm-up: {self.replay.added} of {self.config.min_replay} steps by chance" if self.warming_up else ""

    def exploration(self) -> Exploration:
        """By chance at first, then by the config's epsilon."""
        epsilon = WARM_UP_EPSILON if self.warming_up else self.config.epsilon
        return Exploration(epsilon, tuple(self.lengths), self.warming_up, self.model is None or self.model.ready)

    def wants_demonstrations(self, requested: int, idle: bool) -> bool:
        """As many as the config says by now; and where an actor would have nothing to do, more of them, unless there are none at all."""
        config = self.config
        return requested < config.first_demonstrations + config.demonstrations * self.steps or (idle and config.demonstrations > 0)

    def takeover(self) -> Takeover:
        """As the config says, once something has been learnt."""
        config, (earned, most) = self.config, self.planner
        searched = SEARCHED[earned >= GOOD_PLANNER * most > 0] if config.takeover_searched is None else config.takeover_searched
        return Takeover(config.takeover, config.takeover_budget, searched) if self.steps else Takeover()

    def add(self, episode: Episode) -> None:
        """Remembers an episode, and what it says of how long episodes are."""
        if self.model:
            self.model.add(episode)
        if episode.demonstrated:
            if not self.steps:
                self.planner = self.planner[0] + float(episode.steps["reward"].sum()), self.planner[1] + episode.best
            self.shown.add(self._with_returns(episode) if self.config.demonstration_returns else episode)
            self.demonstrated += 1
            return
        self.replay.add(episode)
        if not episode.exploration.warm_up:  # those end where they explore, which says nothing of how long episodes are
            self.lengths[episode.level] += LENGTH_RATE * (len(episode.steps) - self.lengths[episode.level])

    def _with_returns(self, episode: Episode) -> Episode:
        """The episode with what it went on to earn, discounted, in the place of each reward."""
        steps, later = episode.steps.copy(), 0.0
        for k in reversed(range(len(steps))):
            steps["reward"][k] = later = float(steps["reward"][k]) + self.config.discount * later
        return episode._replace(steps=steps)

    # ---- what is kept

    def learned_model(self) -> LearnedModel | None:
        """What actors search in, if it is learned too, from when on they do."""
        if self.model is None or not self.model.ready:
            return None
        about = {"learning": to_json(self.config.model), "steps": self.model.learner.steps}
        return LearnedModel(self.config.model.net, self.model.world.weights(), about)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Weights of both networks, the state of the optimiser, both memories, the lengths, and the model, if there is one."""
        arrays = {f"net.{name}": value.cpu().numpy() for name, value in self.net.state_dict().items()}
        arrays |= {f"target.{name}": value.cpu().numpy() for name, value in self.target.state_dict().items()}
        arrays |= {f"optimiser.{name}": array for name, array in moments_of(self.optimiser).items()}
        for name, memory in (("replay", self.replay), ("shown", self.shown)):
            arrays |= {f"{name}.{key}": array for key, array in memory.state().items()}
        facts: dict[str, Any] = {"steps": self.steps, "lengths": self.lengths, "demonstrated": self.demonstrated, "planner": self.planner}
        if self.model:
            more, facts["model"] = self.model.state()
            arrays |= {f"model.{name}": array for name, array in more.items()}
        return arrays, facts

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Takes back what `state` gave, after a look at all of it."""
        told: LearnerFacts = typed(facts, LearnerFacts)
        if len(told["lengths"]) != len(self.lengths):
            raise ValueError(f"it has {len(told['lengths'])} levels, not {len(self.lengths)}")
        moments = part(arrays, "optimiser.")
        check_moments(self.optimiser, moments)
        for net, name in ((self.net, "net."), (self.target, "target.")):
            net.load(part(arrays, name))
        load_moments(self.optimiser, moments)
        self.replay.load(part(arrays, "replay."))
        self.shown.load(part(arrays, "shown."))
        if self.model:
            self.model.load(part(arrays, "model."), told["model"])
        self.steps, self.lengths, self.demonstrated = told["steps"], told["lengths"], told["demonstrated"]
        self.planner = told.get("planner", self.planner)

    # ---- learning

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """One learner step on transitions of the replay and of demonstrations, if there are any."""
        config = self.config
        demos = round(config.demonstration_share * config.batch) if len(self.shown) else 0
        steps, count = mixed_windows(rng, self.shown, demos, self.replay, config.batch - demos, config.n_step + 1)
        sample = Sample.of(steps, count, config.discount)
        if config.demonstration_returns:  # nothing is left to be estimated
            sample.returns[:demos], sample.discounts[:demos] = steps["reward"][:demos, 0], 0.0
        figures = self.learn(sample, rng, demos)
        return figures | self.model.step(rng) if self.model and self.model.due(self.steps) else figures

    def learn(self, sample: Sample, rng: np.random.Generator, demos: int = 0) -> dict[str, float]:
        """One learner step on a sample whose first `demos` transitions were demonstrated; returns figures for the log."""
        config = self.config
        mirror = rng.random(config.batch) < 0.5 if config.mirror else np.zeros(config.batch, dtype=bool)
        wanted = self._targets(sample)
        # Of most transitions the value of one action is all that is needed; of demonstrated and searched ones those of all are.
        weight = config.margin_weight * (max(1 - self.steps / config.margin_steps, 0.0) if config.margin_steps else 1.0)
        values = self._values(sample, mirror, config.batch if config.amortise else demos if weight else 0)
        loss = F.huber_loss(values.taken, wanted, delta=config.huber)
        if demos and weight:
            loss = loss + weight * large_margin_loss(values.every[:demos], values.done[:demos], config.margin).sum() / config.batch
        if not config.amortise:
            found = torch.from_numpy(sample.found[sample.tried[..., 0] >= 0]).to(self.device)
            loss = loss + F.huber_loss(values.siblings, found, reduction="sum", delta=config.huber) / config.batch
        if config.amortise:
            found = torch.from_numpy(sample.found).to(self.device)
            loss = loss + config.amortise * search_cross_entropy(values.every, values.tried, found, config.temperature).mean()
        figures = read({"loss": loss.detach(), "value": values.taken.detach().mean()})
        if not isfinite(figures["loss"]):
            raise ValueError(
                f"the loss is {figures['loss']} at learner step {self.steps}: the network has diverged, try a lower learning rate"
            )
        self._descend(loss)
        return figures

    def _values(self, sample: Sample, mirror: Bools, whole: int) -> Valued:
        """What the learning network says of a sample, some of it mirrored, and of the first `whole` of it in full."""
        batch = self.layout.unpack(sample.records, mirror, self.device)
        actions = self._mirrored(sample.actions, mirror)
        simulated = (sample.tried[..., 0] >= 0) & (not self.config.amortise)
        scenes, column = simulated.nonzero()
        siblings = self._mirrored(sample.tried[scenes, column], mirror[scenes])
        asked = torch.cat([actions, siblings]), torch.from_numpy(np.concatenate([np.arange(len(actions)), scenes])).to(self.device)
        sizes = [len(actions), len(siblings)]
        if not whole:
            taken, beside = self.net.q_at(batch, *asked).split(sizes)
            return Valued(taken, beside, taken.new_zeros(0, 0), actions[:0, 0], actions[:0])
        every, both = self.net.q_both(batch, asked[0], whole, asked[1])
        taken, beside = both.split(sizes)
        head = batch[:whole]
        every = every.masked_fill(~self.net.mask(head), -torch.inf).flatten(1)
        searched = sample.tried.shape[1] if self.config.amortise else 0
        columns = [self._mirrored(sample.tried[:whole, k], mirror[:whole]) for k in range(searched)]
        places = [self.net.flat(head, column).masked_fill(column[:, 0] < 0, -1) for column in columns]
        tried = torch.stack(places, dim=1) if places else actions.new_zeros(whole, 0)
        return Valued(taken, beside, every, self.net.flat(head, actions[:whole]), tried)

    def _mirrored(self, actions: Ints, mirror: Bools) -> Tensor:
        return torch.from_numpy(self.layout.mirror_actions(actions, mirror) if mirror.any() else actions).to(self.device)

    def _targets(self, sample: Sample) -> Tensor:
        """(B,): rewards and, where the episode went on, the discounted value of what followed."""
        wanted = torch.from_numpy(sample.returns).float().to(self.device)
        goes_on = np.flatnonzero(sample.discounts)
        if not len(goes_on):
            return wanted
        with torch.no_grad():
            batch = self.layout.unpack(sample.following[goes_on], device=self.device)
            best, value = (self.net if self.config.double else self.target).best(batch)
            some = torch.isfinite(value)  # no action left is worth nothing, as is the end that choosing one would bring
            if self.config.double:
                value = self.target.q_at(batch, best.clamp(min=0))
            if self.config.stop:
                value = value.clamp(min=0)
            discounts = torch.from_numpy(sample.discounts[goes_on]).float().to(self.device)
            return wanted.index_add(0, torch.from_numpy(goes_on).to(self.device), discounts * torch.where(some, value, 0.0))

    def _descend(self, loss: Tensor) -> None:
        """One step of the optimiser, at the learning rate of the moment, after which the target follows."""
        config = self.config
        rate = scheduled_rate(config.learning_rate, self.steps, config.warmup, config.decay_steps)
        descend(self.optimiser, loss, rate, config.clip)
        self.steps += 1
        if config.target_rate:
            follow(self.target, self.net, config.target_rate, self.steps)
        elif self.steps % config.target_period == 0:
            self.target.load_state_dict(self.net.state_dict())


def read(figures: dict[str, Tensor]) -> dict[str, float]:
    """Figures as numbers, in one copy: a device is waited for here, and nowhere else in a learner step."""
    return dict(zip(figures, torch.stack(list(figures.values())).tolist(), strict=True))


def large_margin_loss(values: Tensor, shown: Tensor, margin: float) -> Tensor:
    """(B,): by how much the values of demonstrated actions fail to exceed all others by a margin (Hester et al. 2018).

    `values` (B, A) are -inf where there is no action, `shown` (B,) says which was demonstrated.
    """
    own = values.gather(1, shown[:, None])
    return (values + margin).scatter(1, shown[:, None], own).max(dim=1).values - own[:, 0]


def search_cross_entropy(values: Tensor, tried: Tensor, found: Tensor, temperature: float) -> Tensor:
    """(B,): cross-entropy between what searches found and what the network says, both as a softmax; 0 where nothing was searched.

    `values` (B, A) are -inf where there is no action, `tried` (B, K) says which actions were tried, -1 for none, and `found` (B, K)
    what they turned out to be worth. Only what was tried is compared: what was found is from another time than the network's
    values, which rise as it learns, and beside the values of today all that was tried long ago would look bad.
    """
    none = tried < 0
    nothing = none.all(dim=1)
    # Where nothing was searched all would be -inf, whose softmax is not a number: 0 goes in instead, and what comes out is not used.
    own = values.gather(1, tried.clamp(min=0))
    given = (each.masked_fill(none, -torch.inf).masked_fill(nothing[:, None], 0.0) for each in (own, found))
    said, wanted = ((each / temperature).log_softmax(dim=1) for each in given)
    return -(wanted.exp() * said.nan_to_num(neginf=0.0)).sum(dim=1).masked_fill(nothing, 0.0)
