"""The interfaces of an agent, and of an algorithm that trains an agent. A run uses only these interfaces.

An agent gets the states of many episodes and returns a placement for each, so that a network can evaluate them in one batch. Each
episode has its own random generator, so it does not depend on the other episodes of the batch.

An algorithm is a folder with a `Policy`, which actors hold, and a `Learner`, which a run drives. Neither depends on runs, processes
or files, and a run depends on no particular algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # listing recipes and showing options must not load the physics engine
    from trilith.networks.config import DynamicsConfig
    from trilith.world.episode import State, Step
    from trilith.world.scene import Placement
    from trilith.world.trajectory import Trajectory

Weights = dict[str, NDArray[Any]]
"""Parameters by their names."""
WORLD = "world."
"""Prefix of the names of a learned model's parameters. If actors search in such a model, the weights of their policy contain its
parameters. The file of an agent leaves them out, because the search is not part of the agent. A run saves them as a model
(`LearnsModel`)."""


class Agent(Protocol):
    """Anything that chooses placements: a network, a planner, or a search over another agent."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns a placement for each state, or None to stop, which ends the episode. Random draws come only from the episode's own
        generator."""


@runtime_checkable
class Sampler(Protocol):
    """An agent with a policy over continuous actions. It can also sample from this policy."""

    def sampling(self) -> Agent:
        """Returns the same agent, but one that samples from its policy."""


class Decision(NamedTuple):
    """The decision of a policy in a state."""

    placement: Placement | None
    """The placement to make; None if the policy stops."""
    step: np.void | None
    """The record of this decision for the learner, with the policy's `dtype`. None if there was no action to choose, which ends the
    episode."""
    beside: tuple[Placement, ...] = ()
    """Counterfactual placements, to be simulated beside the chosen one. A policy that returns any implements `Foresees`."""


class Policy(Protocol):
    """The part of an algorithm that decides: the decision rule and its weights. Actors hold it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a decision's record. It has at least the fields `state` and `action`."""

    @property
    def wants_states(self) -> bool:
        """Whether the learner needs all states of an episode (`Episode.trajectory`)."""

    @property
    def agent(self) -> Agent:
        """The agent that acts with these weights, without exploration."""

    def weights(self) -> Weights:
        """A copy of the weights."""

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads the result of `weights`. Raises ValueError if the weights belong to another network."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any) -> list[Decision]:
        """Returns a decision for each state. `exploration` comes from the learner."""

    def encode(self, state: State, placement: Placement) -> Decision:
        """Returns the decision nearest to a placement that another agent made."""


@runtime_checkable
class Searches(Protocol):
    """A policy whose actors search before they act. Its validations search too."""

    @property
    def searching_agent(self) -> Agent:
        """The agent that acts by these weights and its search, without exploring."""


@runtime_checkable
class Foresees(Protocol):
    """A policy that gets the simulated outcomes of several placements, and then chooses one of them."""

    def foresee(
        self, decisions: Sequence[Decision], outcomes: Sequence[Sequence[Step]], rngs: Sequence[np.random.Generator], exploration: Any
    ) -> list[int]:
        """Returns the number of the placement to make, for each decision: 0 is the chosen placement, 1 and up are those in `beside`.
        `outcomes` holds the outcomes of all these placements, in the same order. The policy stores in the decision's record the
        outcomes that the learner needs."""


class ObjectView(NamedTuple):
    """The view of one object by an agent that sees segmented images, and the highest value of a placement at this object."""

    row: int
    """The object's row in the scene."""
    top: int
    """First row of the window around the object in the picture of 64 × 64 pixels."""
    left: int
    """First column of the window."""
    pixels: NDArray[np.float32]
    """(height, width, 4): red, green, blue and alpha in the window. Colours are multiplied by alpha. All are 0 outside the window."""
    value: float | None
    """The highest value of placing a block by this object or, for an available block, of placing this block. None if no such placement
    is allowed."""


@runtime_checkable
class ObjectViews(Protocol):
    """An agent whose views of the objects can be shown."""

    def views(self, state: State) -> list[ObjectView]:
        """Returns the agent's view of each object; empty if the agent does not see pictures."""


class Episode(NamedTuple):
    """An episode that an actor played. The final state is not kept, because its value is 0."""

    steps: NDArray[Any]
    """(L,): the records of the decisions, each with its `reward`."""
    level: int
    """Number of the episode's level in the curriculum."""
    correction: bool
    """Whether this is a correction: a planner continued the policy's own episode with better actions."""
    exploration: Any
    """The `exploration` with which the policy played; None for a correction."""
    trajectory: Trajectory | None = None
    """The episode with all its states, if the policy has `wants_states`."""
    ended: bool = True
    """Whether the last step ended the episode. If not, no placement was possible any more, or the agent stopped."""


class Learner(Protocol):
    """The part of an algorithm that learns. A run drives it."""

    @property
    def steps(self) -> int:
        """Learner steps so far."""

    @property
    def policy(self) -> Policy:
        """The policy whose weights are sent to actors, evaluated and saved."""

    def updates_due(self) -> float:
        """Number of learner steps that the episodes so far allow. If it is below 1, the learner waits for more episodes."""

    def warmup_status(self) -> str:
        """Progress until the first learner step, as one line for the log; "" after learning has started."""

    def exploration(self) -> Any:
        """The current exploration settings for actors."""

    def add(self, episode: Episode) -> None:
        """Adds an episode to the replay."""

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step. Returns metrics for the log."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The content of a checkpoint: arrays by name, and all other values as JSON."""

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from the result of `state`. Raises ValueError if the result belongs to another learner."""


@runtime_checkable
class LearnsFromCorrections(Protocol):
    """A learner that learns from corrections: the policy plays an episode, and a planner takes over from one of its states."""

    def wants_correction(self, requested: int) -> bool:
        """Whether to request another correction. `requested` is the number of corrections requested so far."""


class LearnedModel(NamedTuple):
    """A model of the world that was learned beside an agent."""

    net: DynamicsConfig
    weights: Weights
    about: dict[str, Any]
    """Further fields of the model's card."""


@runtime_checkable
class LearnsModel(Protocol):
    """A learner that may learn a model of the world as well."""

    def learned_model(self) -> LearnedModel | None:
        """Returns the current model; None if there is none, or if it has not learned enough."""


@dataclass(frozen=True)
class Recipe:
    """A named set of defaults of an algorithm. Any change of a recipe raises its version, like a release of software."""

    name: str
    config: Any
    """An instance of the algorithm's `config` type."""
    about: str
    """The recipe in one sentence, with the agent of the paper that it reproduces, if any."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Options of the run, not of the algorithm, whose defaults differ in this recipe, as JSON values."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that differ by task. Options of the run are as in `run`; fields of the config are under the key `agent`."""
    version: int = 1

    @property
    def exact(self) -> str:
        """Name and version, as `objects-v2`."""
        return f"{self.name}-v{self.version}"


@dataclass(frozen=True)
class Algorithm:
    """The entry point of an algorithm's folder. Parts that need a learning framework are given as strings module:attribute, and are
    imported when they are first used."""

    name: str
    config: type
    """Dataclass with all settings of the algorithm. Its fields are options of the command line."""
    recipes: tuple[Recipe, ...]
    policy: str
    """(config, task, *, beyond, zero_on_hit, device) -> Policy. With `beyond`, scenes of generalisation levels fit too."""
    learner: str
    """(config, task, seed, device) -> Learner. Raises ValueError if options contradict each other."""
    needed: tuple[str, ...]
    """Fields of the config that define the policy itself. The other fields describe its training, and may change from version to
    version."""
    shapes: str = ""
    """(config, task, *, beyond) -> the shapes of a policy's weights by name. Nothing of that size is allocated. "" if weights are
    always small."""
    searchable: bool = True
    """Whether the actions of a state can be listed. A search needs this."""

    def make_policy(self, config: Any, task: str, *, beyond: bool = True, zero_on_hit: bool = False, device: str = "cpu") -> Policy:
        """Returns a policy with placeholder weights. `zero_on_hit` is the rule by which it will play."""
        return _imported(self.policy)(config, task, beyond=beyond, zero_on_hit=zero_on_hit, device=device)

    def check_shapes(self, config: Any, task: str, given: Mapping[str, tuple[int, ...]], *, beyond: bool = True) -> None:
        """Raises ValueError if the weights of a policy with this config have other shapes than `given`."""
        wanted = _imported(self.shapes)(config, task, beyond=beyond) if self.shapes else given
        for name in sorted(wanted.keys() | given.keys()):
            if name not in wanted or name not in given:
                raise ValueError(f"{name} is {'missing' if name in wanted else 'not of this network'}")
            if given[name] != wanted[name]:
                raise ValueError(f"{name} has shape {given[name]}, this network has {wanted[name]}")

    def make_learner(self, config: Any, task: str, seed: int, device: str = "cpu") -> Learner:
        """Returns a new learner, before its first step."""
        return _imported(self.learner)(config, task, seed, device)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
