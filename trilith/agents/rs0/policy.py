"""The policy of RS0 as actors use it, and the trained agent. A network maps each state to a distribution over continuous actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trilith.agents.base import Decision, Weights
from trilith.agents.random_agents import LegalAgent
from trilith.agents.rs0.config import RS0Config
from trilith.agents.rs0.mixture import Head, Mixture, log_explored
from trilith.networks.actor_critic.network import POINTING, ActorCritic, make_actor_critic
from trilith.networks.device import pick_device
from trilith.networks.parameters import load_parameters, parameters_of, shapes_of
from trilith.world.actions import Continuous, make_codec
from trilith.world.episode import State
from trilith.world.scene import Placement
from trilith.world.tasks import get_task

Actions = NDArray[np.float32]
"""An array (B, A): one action in each of B states, as A numbers."""


def make_net(config: RS0Config, task: str, beyond: bool = True) -> ActorCritic:
    """Returns the network that a config describes. With `beyond`, the network also accepts scenes of generalisation levels, which can be
    larger. The initial weights are drawn from torch's global random generator."""
    head = make_head(config)
    return make_actor_critic(config.net, get_task(task), head.actions, head.outputs, beyond)


def weight_shapes(config: RS0Config, task: str, *, beyond: bool = True) -> dict[str, tuple[int, ...]]:
    """Returns a dictionary from parameter names to shapes, for the network that a config describes. With `beyond`, the network also accepts
    scenes of generalisation levels. Allocates no memory for the parameters."""
    with torch.device("meta"):
        return shapes_of(make_net(config, task, beyond))


def make_continuous(config: RS0Config) -> Continuous:
    """Returns the codec of the action space that a config describes."""
    codec = make_codec(f"continuous_{config.actions}")
    assert isinstance(codec, Continuous)
    return codec


def make_head(config: RS0Config) -> Head:
    """Returns the head that converts the network's outputs to the policy that a config describes."""
    return Head(make_continuous(config).length, config.components, config.scale, config.min_scale, config.net.encoder in POINTING)


LIKELY = 0.01
"""`RS0Agent.ideas` leaves out components of the mixture with a lower weight than this."""
ALIKE = 0.1
"""Metres: of two placements with the same slot and stickiness, `RS0Agent.ideas` drops the later one if they are at most this far apart
along both axes."""


class Exploration(NamedTuple):
    """The exploration settings of actors: two fractions of the actions. All other actions are samples from the policy."""

    epsilon: float
    """Fraction of actions that are drawn uniformly from all actions."""
    legal: float
    """Fraction of actions that are random legal placements."""


class RS0Policy:
    """A network, and the rule by which actors use it: they sample actions from the network's policy. Sometimes they draw an action
    uniformly from all actions, or from the legal placements."""

    wants_states = False

    def __init__(
        self,
        config: RS0Config,
        task: str,
        *,
        beyond: bool = True,
        zero_on_hit: bool = False,
        device: str = "cpu",
        net: ActorCritic | None = None,
    ) -> None:
        """`zero_on_hit` has no effect, because this policy does not search."""
        self.config, self.device = config, pick_device(device)
        self.codec, self.head = make_continuous(config), make_head(config)
        self.net = make_net(config, task, beyond).eval().to(self.device) if net is None else net
        self._legal = LegalAgent()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a record: the state, the action before it is clipped, and `log_density`. This is the logarithm of the density of the
        action under the policy with exploration (see `log_explored`).

        For an action from any other source, such as a random legal placement, the density is stored as infinite. The importance ratio of
        the action is then 0.
        """
        return np.dtype([("state", self.net.schema.dtype), ("action", "f4", (self.codec.length,)), ("log_density", "f4")])

    @property
    def agent(self) -> RS0Agent:
        """The trained agent. It chooses the mean of the most likely component. If `candidates` of the config is not 0, it chooses instead
        the candidate with the highest value by the critic."""
        return RS0Agent(self.net, self.codec, self.head, self.device, self.config.candidates)

    def weights(self) -> Weights:
        """A copy of the network's parameters, including the critic's."""
        return parameters_of(self.net)

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads the parameters of the network."""
        load_parameters(self.net, weights)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Exploration) -> list[Decision]:
        """Returns a decision for each state, with exploration. `rngs` has one random generator per state."""
        records = self.net.schema.pack([state.scene for state in states])
        with torch.no_grad():
            mixture = self.agent.mixture(self.agent.see(records))
            actions = self.agent.draw(mixture, rngs, 1)[:, 0]
            kind = np.array([rng.random() for rng in rngs])
            for i in np.flatnonzero(kind < exploration.epsilon).tolist():
                actions[i] = rngs[i].uniform(-1, 1, self.codec.length)
            drawn = torch.from_numpy(actions)[:, None]
            density = log_explored(mixture.log_density(drawn.to(self.device)).cpu(), drawn, *exploration)[:, 0].numpy().copy()
        for i in np.flatnonzero(kind >= 1 - exploration.legal).tolist():
            [placement] = self._legal.act([states[i]], [rngs[i]])
            if placement is not None:
                actions[i], density[i] = self.codec.encode(states[i].scene, placement), np.inf
        return [self._decision(*each) for each in zip(states, records, actions, density.tolist(), strict=True)]

    def encode(self, state: State, placement: Placement) -> Decision:
        """Converts a placement of another agent to a decision: the action of this policy that is nearest to the placement. The density of
        this action is stored as infinite (see `dtype`)."""
        [record] = self.net.schema.pack([state.scene])
        action = np.array(self.codec.encode(state.scene, placement), np.float32)
        return self._decision(state, record, action, np.inf)

    def _decision(self, state: State, record: np.void, action: NDArray[np.float32], log_density: float) -> Decision:
        [step] = np.zeros(1, self.dtype)
        step["state"], step["action"], step["log_density"] = record, action, log_density
        return Decision(self.codec.decode(state.scene, action.tolist()), step)


class RS0Agent:
    """The trained agent. A network gives a distribution over continuous actions in each state, and the agent chooses one action."""

    def __init__(
        self, net: ActorCritic, codec: Continuous, head: Head, device: torch.device, candidates: int = 0, samples: bool = False
    ) -> None:
        self.net, self.codec, self.head, self.device, self.candidates = net, codec, head, device, candidates
        self.samples = samples
        """Whether the agent samples from the policy. If False, it chooses the mean of the most likely component or, if `candidates` is not
        0, the best candidate."""

    def sampling(self) -> RS0Agent:
        """Returns a copy of this agent that samples its actions from the policy."""
        return RS0Agent(self.net, self.codec, self.head, self.device, self.candidates, samples=True)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns a placement for each state."""
        if not states:
            return []
        actions = self._choose(states, rngs)
        return [self.codec.decode(state.scene, action) for state, action in zip(states, actions.tolist(), strict=True)]

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """Up to k placements, each with the critic's value. The first is the agent's choice. The others, sorted by value, are the means of
        likely components and, for a single Gaussian, samples. Of placements that are nearly equal (see `ALIKE`) only the first is kept."""
        with torch.no_grad():
            seen = self.see(self.net.schema.pack([state.scene]))
            mixture = self.mixture(seen)
            actions = [self._choose([state], [rng]), mixture.mean[0][mixture.log_weight[0] > log(LIKELY)].cpu().numpy()]
            if mixture.mean.shape[1] == 1:
                actions.append(self.draw(mixture, [rng], 4 * k)[0])
            numbers = np.concatenate(actions)
            values = self.net.value(seen, torch.from_numpy(numbers)[None].clamp(-1, 1).to(self.device))[0].tolist()
        found = [(self.codec.decode(state.scene, action), value) for action, value in zip(numbers.tolist(), values, strict=True)]
        ideas: list[tuple[Placement, float]] = []
        for idea in (found[0], *sorted(found[1:], key=lambda each: -each[1])):
            if not any(_alike(idea[0], other) for other, _ in ideas):
                ideas.append(idea)
        return ideas[:k]

    def _choose(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> Actions:
        """The chosen actions (B, A), one in each of B states, as A numbers."""
        with torch.no_grad():
            seen = self.see(self.net.schema.pack([state.scene for state in states]))
            mixture = self.mixture(seen)
            if self.samples:
                return self.draw(mixture, rngs, 1)[:, 0]
            if not self.candidates:
                return mixture.likeliest().cpu().numpy()
            drawn = torch.from_numpy(self.draw(mixture, rngs, self.candidates)).to(self.device)
            actions = torch.cat([mixture.mean, drawn], dim=1).clamp(-1, 1)
            best = self.net.value(seen, actions).argmax(dim=1)
            return actions[torch.arange(len(best)), best].cpu().numpy()

    def see(self, records: NDArray[Any]) -> Any:
        """Encodes the states of records. The type of the result depends on the encoder."""
        return self.net.encoder(self.net.schema.unpack(records, None, self.device))

    def mixture(self, seen: Any) -> Mixture:
        """The policy as a mixture of Gaussians, for states encoded by `see`."""
        return self.head.mixture(self.net.actor(seen))

    def draw(self, mixture: Mixture, rngs: Sequence[np.random.Generator], count: int) -> NDArray[np.float32]:
        """Draws `count` actions from the policy in each of B states. `rngs` has the random generator of each state's episode. Returns an
        array (B, count, A) of actions of A numbers."""
        chance = np.array([rng.random(count, np.float32) for rng in rngs])
        noise = np.array([rng.standard_normal((count, self.codec.length), np.float32) for rng in rngs])
        numbers: Tensor = mixture.draw(*(torch.from_numpy(each).to(self.device) for each in (chance, noise)))[1]
        return numbers.cpu().numpy()


def _alike(one: Placement, other: Placement) -> bool:
    """Whether two placements have the same slot and stickiness, and nearly the same position."""
    same = one.slot == other.slot and one.sticky == other.sticky
    return same and abs(one.x - other.x) <= ALIKE and abs(one.y - other.y) <= ALIKE
