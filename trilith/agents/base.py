"""What an agent is, and what an algorithm that learns one is made of: the few small interfaces that a run meets.

An agent gets states and returns placements, for many episodes side by side, so that a network can answer them in one
batch. Each episode brings its own random generator: what happens in one never depends on which others run beside it.

An algorithm is a folder. Its `Policy` is all that an actor holds, its `Learner` all that a run drives; neither knows of runs,
processes or files, and a run knows of no algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # recipes are listed, and options shown, without the engine
    from trilith.agents.dynamics.config import DynamicsConfig
    from trilith.world.episode import State, Step
    from trilith.world.scene import Placement
    from trilith.world.trajectory import Trajectory

Weights = dict[str, NDArray[Any]]
"""Parameters by their names."""
WORLD = "world."
"""What the names of parameters of a learned model of the world begin with, among those of a policy whose actors search in it. How an
agent searches is not part of it, so its card does without them; a run keeps them as a model (`LearnsModel`)."""


class Agent(Protocol):
    """Anything that builds."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """A placement for each state (None: it stops, and the episode ends), drawing only from the generator of its episode."""


@runtime_checkable
class Sampler(Protocol):
    """An agent with a policy over continuous actions, from which it can also draw."""

    def sampling(self) -> Agent:
        """The same agent, but it draws from its policy."""


class Decision(NamedTuple):
    """What a policy does in a state."""

    placement: Placement | None
    """None: it stops."""
    step: np.void | None
    """What the learner wants kept of it, a record of the policy's `dtype`; None where there is nothing to choose: the episode is over."""
    beside: tuple[Placement, ...] = ()
    """Counterfactual placements, to be simulated beside it; then its policy is a `Foresees`."""


class Policy(Protocol):
    """All that an actor holds: what decides, and its weights."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the record of a decision: at least a field `state` and a field `action`."""

    @property
    def wants_states(self) -> bool:
        """Whether the learner wants episodes with all their states."""

    @property
    def agent(self) -> Agent:
        """The agent that acts by these weights, without exploring."""

    def weights(self) -> Weights:
        """A copy of the weights."""

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Takes weights that `weights` gave. Raises ValueError in one line if they are of another network."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any) -> list[Decision]:
        """A decision in each state, exploring as the learner said."""

    def encode(self, state: State, placement: Placement) -> Decision:
        """The decision that comes nearest to a placement somebody else made."""


@runtime_checkable
class Foresees(Protocol):
    """A policy that sees the outcomes of placements before one of them is made."""

    def foresee(
        self, decisions: Sequence[Decision], outcomes: Sequence[Sequence[Step]], rngs: Sequence[np.random.Generator], exploration: Any
    ) -> list[int]:
        """For each decision the number of the placement that is made: 0 for its own, 1 on for those `beside` it. `outcomes` are those of
        all of them, in this order; the policy keeps of them what the learner wants."""


class ObjectView(NamedTuple):
    """The input from one object to an agent that sees segmented images, and the highest value that the agent gives to it."""

    row: int
    """The object's row in the scene."""
    top: int
    """First row of the window around it in the picture of 64 × 64 pixels."""
    left: int
    """Its first column."""
    pixels: NDArray[np.float32]
    """(height, width, 4): red, green, blue and alpha in the window, colours times alpha. Outside, all are 0."""
    value: float | None
    """The highest value of placing a block by it or, of an available block, of placing it; None if nothing of the kind may be done."""


@runtime_checkable
class ObjectViews(Protocol):
    """An agent whose inputs can be shown."""

    def views(self, state: State) -> list[ObjectView]:
        """Its view of each object; nothing if it does not see pictures."""


class Episode(NamedTuple):
    """What an actor yields. The state an episode ended in has no value, so it is not kept."""

    steps: NDArray[Any]
    """(L,): the records of the decisions, and the `reward` of each."""
    level: int
    """Number of its level in the curriculum."""
    correction: bool
    """Whether it shows the policy what it could have done better."""
    exploration: Any
    """What the policy was given when it played; None for a correction."""
    trajectory: Trajectory | None = None
    """All its states, if the policy wants them."""
    ended: bool = True
    """Whether it ended with its last step; else nothing could be placed any more, or whoever built it stopped."""


class Learner(Protocol):
    """All that a run drives."""

    @property
    def steps(self) -> int:
        """Learner steps so far."""

    @property
    def policy(self) -> Policy:
        """Whose weights actors are given, and are evaluated and kept."""

    def updates_due(self) -> float:
        """Learner steps that can be made with the episodes so far; below 1 it waits for more."""

    def warmup_status(self) -> str:
        """Progress to the first learner step, as one line for the log; "" once learning has started."""

    def exploration(self) -> Any:
        """How actors explore now."""

    def add(self, episode: Episode) -> None:
        """Remembers an episode."""

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """One learner step; returns figures for the log."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The content of a checkpoint: arrays by name, and facts as JSON."""

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from the result of `state`. Raises ValueError in one line if it is of another learner."""


@runtime_checkable
class LearnsFromCorrections(Protocol):
    """A learner whose policy can be corrected: it plays an episode, and from one of its states on the planner takes over."""

    def wants_correction(self, requested: int) -> bool:
        """Whether it is time for another correction, after so many episodes of them were requested."""


class LearnedModel(NamedTuple):
    """A model of the world that was learned beside an agent."""

    net: DynamicsConfig
    weights: Weights
    about: dict[str, Any]
    """What its card says of it."""


@runtime_checkable
class LearnsModel(Protocol):
    """A learner that may learn a model of the world as well."""

    def learned_model(self) -> LearnedModel | None:
        """The model as it is; None if there is none, or nothing to be made of it yet."""


@dataclass(frozen=True)
class Recipe:
    """Defaults of an algorithm under a name. A recipe is a release: one that changes is a new version."""

    name: str
    config: Any
    """Of the algorithm's `config` type."""
    about: str
    """What it is, in one sentence; the paper's agent that it stands for, if any."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Options of the run, not of the algorithm, that have other defaults here, as JSON has them."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By task: what has other values there, options of the run as in `run`, and fields of the config under `agent`."""
    version: int = 1

    @property
    def exact(self) -> str:
        """Name and version, as `objects-v1`."""
        return f"{self.name}-v{self.version}"


@dataclass(frozen=True)
class Algorithm:
    """The door of an algorithm's folder. What needs a learning framework is named as module:attribute, and imported when it is used."""

    name: str
    config: type
    """Dataclass of all that the algorithm depends on; its fields are options of the command line."""
    recipes: tuple[Recipe, ...]
    policy: str
    """(config, task, *, beyond, zero_on_hit, device) -> Policy; with `beyond` it has room for scenes beyond the curriculum."""
    learner: str
    """(config, task, seed, device) -> Learner. Raises ValueError in one line for options that do not go together."""
    needed: tuple[str, ...]
    """Fields of the config that a policy is made of; the others say how it has learnt, and may change from version to version."""
    shapes: str = ""
    """(config, task, *, beyond) -> the shapes of a policy's weights by name, known without making them; "" if they are always small."""
    searchable: bool = True
    """Whether its actions can be listed, and so searched."""

    def make_policy(self, config: Any, task: str, *, beyond: bool = True, zero_on_hit: bool = False, device: str = "cpu") -> Policy:
        """A policy whose weights mean nothing yet, which will play by the rule `zero_on_hit`."""
        return _imported(self.policy)(config, task, beyond=beyond, zero_on_hit=zero_on_hit, device=device)

    def check_shapes(self, config: Any, task: str, given: Mapping[str, tuple[int, ...]], *, beyond: bool = True) -> None:
        """Raises ValueError in one line if a policy of this config has not weights of the shapes that are given."""
        wanted = _imported(self.shapes)(config, task, beyond=beyond) if self.shapes else given
        for name in sorted(wanted.keys() | given.keys()):
            if name not in wanted or name not in given:
                raise ValueError(f"{name} is {'missing' if name in wanted else 'not of this network'}")
            if given[name] != wanted[name]:
                raise ValueError(f"{name} has shape {given[name]}, this network has {wanted[name]}")

    def make_learner(self, config: Any, task: str, seed: int, device: str = "cpu") -> Learner:
        """A learner at its beginning."""
        return _imported(self.learner)(config, task, seed, device)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
