"""The interfaces of an agent, and of an algorithm that trains an agent. A training run uses only these interfaces.

An agent gets the states of many episodes and returns a placement for each, so that a network can evaluate all states in one batch. Each
episode has its own random generator, so that an episode does not depend on the other episodes of the batch.

An algorithm is a folder with a `Policy`, which actors use to play, and a `Learner`, which a training run calls step by step. Policy and
learner do not depend on runs, processes or files. A run does not depend on a particular algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trilith.utils.modules import import_own

if TYPE_CHECKING:  # listing recipes and showing options must not load the physics engine
    from trilith.networks.config import DynamicsConfig
    from trilith.world.episode import State, Step
    from trilith.world.scene import Placement
    from trilith.world.trajectory import Trajectory

Weights = dict[str, NDArray[Any]]
"""Maps the name of each parameter to its values."""
WORLD = "world."
"""Prefix of the parameter names of a learned transition model. If actors search in such a model, its parameters are sent to the actors with
the weights of the policy. These parameters are not saved with the agent, because the search is not part of the agent. A run saves the model
separately (`LearnsModel`)."""


class Agent(Protocol):
    """Anything that chooses placements: a network, a planner, or a search over another agent."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns a placement for each state, or None to stop, which ends the episode. `rngs` has one random generator per state.
        Everything random about a state's placement must come from its generator."""


@runtime_checkable
class Sampler(Protocol):
    """An agent with a policy over continuous actions. The agent can also sample from this policy."""

    def sampling(self) -> Agent:
        """Returns a copy of this agent that samples its actions from the policy."""


class Decision(NamedTuple):
    """The decision of a policy in a state."""

    placement: Placement | None
    """The placement to make. None if the policy stops, or if there is no action to choose."""
    step: np.void | None
    """The record of this decision for the learner, with the policy's `dtype`. None if there is no placement; the episode then ends."""
    beside: tuple[Placement, ...] = ()
    """Counterfactual placements: placements to be simulated in addition to the chosen one. A policy that returns any must implement
    `Foresees`."""


class Policy(Protocol):
    """The part of an algorithm that chooses actions: the weights, and the rule by which actors explore."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of `Decision.step`, the record of one decision. It has at least the fields `state` and `action`."""

    @property
    def wants_states(self) -> bool:
        """Whether the learner needs all states of an episode (`Episode.trajectory`)."""

    @property
    def agent(self) -> Agent:
        """The agent that acts with the policy's weights, without exploration."""

    def weights(self) -> Weights:
        """A copy of the weights."""

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads weights, as the method `weights` returns them. Raises ValueError if they do not fit the network."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any) -> list[Decision]:
        """Returns a decision for each state. `rngs` has one random generator per state. `exploration` is the result of
        `Learner.exploration`."""

    def encode(self, state: State, placement: Placement) -> Decision:
        """Converts a placement of another agent to a decision: the action of this policy that is nearest to the placement. The method is
        needed only to learn from corrections, in which a planner makes the placements."""


@runtime_checkable
class Searches(Protocol):
    """A policy whose actors can search before they act."""

    @property
    def searching_agent(self) -> Agent:
        """The agent of validations during training. It acts with the policy's weights, without exploration, and may search."""


@runtime_checkable
class Foresees(Protocol):
    """A policy that sees the simulated outcomes of several placements before it chooses one of them."""

    def foresee(
        self, decisions: Sequence[Decision], outcomes: Sequence[Sequence[Step]], rngs: Sequence[np.random.Generator], exploration: Any
    ) -> list[int]:
        """Returns for each decision the number of the placement to make: 0 is the chosen placement, and 1, 2, … are the counterfactual
        placements in `Decision.beside`.

        `outcomes[i]` has the simulated outcomes of all placements of decision i, in the order of these numbers. The policy also stores
        outcomes that the learner needs in `Decision.step`.
        """


class ObjectView(NamedTuple):
    """One object as an agent sees it in segmented images, and the highest value of a placement at this object."""

    row: int
    """Row of the object in the scene."""
    top: int
    """First row of the window around the object in the picture of 64 × 64 pixels."""
    left: int
    """First column of the window around the object in the picture of 64 × 64 pixels."""
    pixels: NDArray[np.float32]
    """(height, width, 4): red, green, blue and alpha of each pixel in the window around the object. Colours are multiplied by alpha. In the
    rest of the picture all four are 0."""
    value: float | None
    """For an available block: the highest value among the allowed placements of this block. For any other object: the highest value among
    the allowed placements relative to this object. None if the mask allows none."""


@runtime_checkable
class ObjectViews(Protocol):
    """An agent that can show its view of each object, for people to look at."""

    def views(self, state: State) -> list[ObjectView]:
        """Returns the agent's view of each object. The list is empty if the agent does not read segmented images."""


class Episode(NamedTuple):
    """An episode that an actor played. Its terminal state has no record in `steps`, because the value of that state is 0."""

    steps: NDArray[Any]
    """The records of the L decisions of the episode as an array (L,), in order. Each record has the policy's fields (`Policy.dtype`) and a
    field `reward`."""
    level: int
    """Index of the episode's level among the levels of the task's curriculum."""
    correction: bool
    """Whether this is a correction: a planner continued an episode of the policy, and earned more than the policy."""
    exploration: Any
    """The exploration settings with which the policy played; None for a correction."""
    trajectory: Trajectory | None = None
    """The episode with all its states if `Policy.wants_states` is True, else None."""
    ended: bool = True
    """Whether the last recorded step ended the episode. False if the episode ended later, because no placement was possible or because the
    agent stopped. In all cases the value after the last step is 0."""


class Learner(Protocol):
    """The part of an algorithm that learns. A training run calls it."""

    @property
    def steps(self) -> int:
        """Learner steps so far."""

    @property
    def policy(self) -> Policy:
        """The policy whose weights are sent to actors, evaluated and saved."""

    def updates_due(self) -> float:
        """Number of learner steps that the episodes added so far allow, minus the steps already made. If the number is below 1, the run
        waits for more episodes."""

    def warmup_status(self) -> str:
        """One line for the log about how much data has been collected, as long as learning has not started. "" after that."""

    def exploration(self) -> Any:
        """The current exploration settings for actors."""

    def add(self, episode: Episode) -> None:
        """Adds an episode to the replay."""

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step. Returns metrics for the log."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns the content of a checkpoint as two dictionaries: arrays by name, and all other values as JSON values by name."""

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint. `arrays` and `facts` are the two dictionaries that `state` returned. Raises ValueError if they do not
        fit this learner."""


@runtime_checkable
class LearnsFromCorrections(Protocol):
    """A learner that learns from corrections. For a correction, a planner continues from one state of an episode that the policy played."""

    def wants_correction(self, requested: int) -> bool:
        """Whether to request another correction. `requested` is the number of corrections that were requested so far."""


class LearnedModel(NamedTuple):
    """A transition model that was learned together with an agent."""

    net: DynamicsConfig
    weights: Weights
    about: dict[str, Any]
    """Further fields of the model's card."""


@runtime_checkable
class LearnsModel(Protocol):
    """A learner that can also learn a transition model."""

    def learned_model(self) -> LearnedModel | None:
        """Returns the current model. None if no model is learned, or if it is not ready to be used."""


@dataclass(frozen=True)
class Recipe:
    """A named set of default options of an algorithm. If a recipe changes, its version must be raised."""

    name: str
    config: Any
    """An instance of the algorithm's `config` type."""
    about: str
    """The recipe in one sentence, with the agent of the paper that it reproduces, if any."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Maps options of a training run (not of the algorithm) to the defaults of this recipe, as JSON values."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Maps a task to defaults for this task only. They are options of a training run, as in `run`. The key `agent` holds a dictionary of
    fields of the algorithm's config."""
    version: int = 1

    @property
    def exact(self) -> str:
        """Name and version, such as `objects-v2`."""
        return f"{self.name}-v{self.version}"


@dataclass(frozen=True)
class Algorithm:
    """The entry point of an algorithm. The fields `policy`, `learner` and `shapes` name functions, written module:attribute. These
    functions may need a learning framework, so they are imported at their first use."""

    name: str
    config: type
    """Dataclass with all settings of the algorithm. Its fields are options of the command line."""
    recipes: tuple[Recipe, ...]
    policy: str
    """Names a function (config, task, *, beyond, zero_on_hit, device) -> Policy. If `beyond` is True, the policy also accepts scenes of
    generalisation levels, which can be larger."""
    learner: str
    """Names a function (config, task, seed, device) -> Learner. The function raises ValueError if options contradict each other."""
    needed: tuple[str, ...]
    """The fields of the config that define the policy. The other fields concern only the training, and may change from version to
    version."""
    shapes: str = ""
    """Names a function (config, task, *, beyond) -> dictionary, which maps the names of a policy's weights to their shapes. The function
    must not allocate memory for the weights. "": the shapes are not checked before loading, which is acceptable for small weights."""
    searchable: bool = True
    """Whether the actions of a state can be listed, as a search requires. If so, the policy's agent is a `search.agent.Valuer`."""

    def make_policy(self, config: Any, task: str, *, beyond: bool = True, zero_on_hit: bool = False, device: str = "cpu") -> Policy:
        """Returns a policy with placeholder weights, which `Policy.load` replaces. If `beyond` is True, the policy also accepts scenes of
        generalisation levels, which can be larger. `zero_on_hit` says whether an episode that touches an obstacle has the return 0 (see
        `world.episode`)."""
        return _imported(self.policy)(config, task, beyond=beyond, zero_on_hit=zero_on_hit, device=device)

    def check_shapes(self, config: Any, task: str, given: Mapping[str, tuple[int, ...]], *, beyond: bool = True) -> None:
        """Raises ValueError if `given` does not fit a policy with this config. `given` maps the names of weights to their shapes. `beyond`
        has the same meaning as in `make_policy`. Nothing is checked for an algorithm without `shapes`."""
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
    return getattr(import_own(module), attribute)
