"""The interfaces of an agent, and of an algorithm that trains an agent. A run uses only these interfaces.

An agent gets states and returns placements, for many episodes side by side, so that a network can answer them in one
batch. Each episode has its own random generator, so an episode never depends on the episodes that run beside it.

An algorithm is a folder. An actor holds only its `Policy`, and a run drives only its `Learner`. Neither depends on runs,
processes or files, and a run depends on no algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # recipes are listed, and options shown, without the engine
    from trilith.networks.config import DynamicsConfig
    from trilith.world.episode import State, Step
    from trilith.world.scene import Placement
    from trilith.world.trajectory import Trajectory

Weights = dict[str, NDArray[Any]]
"""Parameters by their names."""
WORLD = "world."
"""Prefix of the parameters of a learned world model. The weights of a policy contain them if its actors search in the model. An
agent's file leaves them out, because the search is not part of the agent. A run saves them as a model (`LearnsModel`)."""


class Agent(Protocol):
    """Anything that builds."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns a placement for each state. None stops, which ends the episode. Draws only from the generator of each episode."""


@runtime_checkable
class Sampler(Protocol):
    """An agent with a policy over continuous actions that can also sample from this policy."""

    def sampling(self) -> Agent:
        """Returns the same agent, but one that samples from its policy."""


class Decision(NamedTuple):
    """The decision of a policy in a state."""

    placement: Placement | None
    """None: the policy stops."""
    step: np.void | None
    """The record that the learner needs, of the policy's `dtype`. None if there is no action to choose, so the episode is over."""
    beside: tuple[Placement, ...] = ()
    """Counterfactual placements, which are simulated beside the chosen one. The policy is then a `Foresees`."""


class Policy(Protocol):
    """All that an actor holds: the decision rule and its weights."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a decision's record. It has at least the fields `state` and `action`."""

    @property
    def wants_states(self) -> bool:
        """Whether the learner wants episodes with all their states."""

    @property
    def agent(self) -> Agent:
        """The agent that acts by these weights, without exploring."""

    def weights(self) -> Weights:
        """A copy of the weights."""

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads the result of `weights`. Raises ValueError in one line if the weights belong to another network."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator], exploration: Any) -> list[Decision]:
        """Returns a decision for each state, with the learner's `exploration`."""

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
    """A policy that sees the outcomes of placements before one of them is made."""

    def foresee(
        self, decisions: Sequence[Decision], outcomes: Sequence[Sequence[Step]], rngs: Sequence[np.random.Generator], exploration: Any
    ) -> list[int]:
        """Returns, for each decision, the number of the placement to make: 0 for the chosen one, 1 and up for those in `beside`.
        `outcomes` has the outcomes of all placements in this order. The policy stores the parts that the learner needs."""


class ObjectView(NamedTuple):
    """What an agent that sees segmented images sees of one object, and the highest value of a placement at this object."""

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
    """An agent whose inputs can be shown."""

    def views(self, state: State) -> list[ObjectView]:
        """Returns the agent's view of each object; empty if the agent does not see pictures."""


class Episode(NamedTuple):
    """An episode that an actor played. The final state has no value, so it is not kept."""

    steps: NDArray[Any]
    """(L,): the records of the decisions, each with its `reward`."""
    level: int
    """Number of the episode's level in the curriculum."""
    correction: bool
    """Whether the episode shows the policy better actions than its own."""
    exploration: Any
    """The `exploration` with which the policy played; None for a correction."""
    trajectory: Trajectory | None = None
    """All states of the episode, if the policy wants them."""
    ended: bool = True
    """Whether the episode ended with its last step. Otherwise no placement was possible any more, or the builder stopped."""


class Learner(Protocol):
    """All that a run drives."""

    @property
    def steps(self) -> int:
        """Learner steps so far."""

    @property
    def policy(self) -> Policy:
        """The policy whose weights are sent to actors, evaluated and saved."""

    def updates_due(self) -> float:
        """Learner steps that the episodes so far allow. Below 1 the learner waits for more episodes."""

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
        """Resumes from the result of `state`. Raises ValueError in one line if the result belongs to another learner."""


@runtime_checkable
class LearnsFromCorrections(Protocol):
    """A learner whose policy can be corrected: the policy plays an episode, and the planner takes over from one of the states."""

    def wants_correction(self, requested: int) -> bool:
        """Whether to request another correction, after `requested` episodes of corrections were requested."""


class LearnedModel(NamedTuple):
    """A model of the world that was learned beside an agent."""

    net: DynamicsConfig
    weights: Weights
    about: dict[str, Any]
    """What the model's card says about the model."""


@runtime_checkable
class LearnsModel(Protocol):
    """A learner that may learn a model of the world as well."""

    def learned_model(self) -> LearnedModel | None:
        """Returns the current model; None if there is no model, or if it is not usable yet."""


@dataclass(frozen=True)
class Recipe:
    """Defaults of an algorithm under a name. A recipe is a release: one that changes is a new version."""

    name: str
    config: Any
    """An instance of the algorithm's `config` type."""
    about: str
    """The recipe in one sentence, with the agent of the paper that it reproduces, if any."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Options of the run (not of the algorithm) that have other defaults in this recipe, as JSON values."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By task: values that differ in this task. Options of the run are as in `run`, fields of the config are under `agent`."""
    version: int = 1

    @property
    def exact(self) -> str:
        """Name and version, as `objects-v1`."""
        return f"{self.name}-v{self.version}"


@dataclass(frozen=True)
class Algorithm:
    """The entry point of an algorithm's folder. Parts that need a learning framework are named as module:attribute, and imported when
    they are used."""

    name: str
    config: type
    """Dataclass with all settings of the algorithm. Its fields are options of the command line."""
    recipes: tuple[Recipe, ...]
    policy: str
    """(config, task, *, beyond, zero_on_hit, device) -> Policy. With `beyond` the policy has room for scenes beyond the curriculum."""
    learner: str
    """(config, task, seed, device) -> Learner. Raises ValueError in one line for options that do not go together."""
    needed: tuple[str, ...]
    """Fields of the config that define a policy. The other fields say how it was trained, and may change from version to version."""
    shapes: str = ""
    """(config, task, *, beyond) -> the shapes of a policy's weights by name, without allocating them. "" if they are always small."""
    searchable: bool = True
    """Whether the algorithm's actions can be listed, which a search needs."""

    def make_policy(self, config: Any, task: str, *, beyond: bool = True, zero_on_hit: bool = False, device: str = "cpu") -> Policy:
        """Returns a policy with placeholder weights that will play by the rule `zero_on_hit`."""
        return _imported(self.policy)(config, task, beyond=beyond, zero_on_hit=zero_on_hit, device=device)

    def check_shapes(self, config: Any, task: str, given: Mapping[str, tuple[int, ...]], *, beyond: bool = True) -> None:
        """Raises ValueError in one line if the weights of a policy of this config do not have the shapes `given`."""
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
