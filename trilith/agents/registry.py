"""Loads agents by name, from a file of weights, or from a class of the user.

A shipped agent has one name for all tasks, but separate weights for each task. Algorithms are listed in `algorithms.py`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from trilith.agents.algorithms import get_algorithm
from trilith.agents.base import Agent, ObjectView, ObjectViews, Sampler
from trilith.agents.dynamics.registry import make_world
from trilith.agents.random_agents import LegalAgent, RandomAgent
from trilith.agents.weights import load_policy, read_card, weights_file
from trilith.search.agent import SearchAgent, Valuer
from trilith.search.config import ONLINE, SearchConfig
from trilith.search.tree import Prior
from trilith.utils.checks import require
from trilith.utils.files import read_file
from trilith.utils.modules import imported, names_a_class, own_code
from trilith.utils.tensors import MAX_WEIGHTS
from trilith.world.episode import State
from trilith.world.scene import Placement
from trilith.world.tasks import get_task


def _make(name: str) -> Agent:
    """Makes an agent of the class `name`, written my_module:MyAgent."""
    return cast(Agent, imported(name, "agent")())


AGENTS: dict[str, Callable[[], Agent]] = {
    "random": RandomAgent,
    "legal": LegalAgent,
    "scripted": partial(_make, "trilith.planners:ScriptedBuilder"),
    "planner": partial(_make, "trilith.planners:Planner"),
}
"""Maps the name of each agent that needs no training to a function that makes the agent."""
ZOO = Path(__file__).parent.parent / "zoo"
"""Folder of the weights that come with the package: in it a folder for each agent, with a file and a card for each task."""


def load(name: str, search: SearchConfig | None = None, zero_on_hit: bool = False, *, budget: int = 0, sample: bool = False) -> Agent:
    """Returns the agent that `name` selects. `name` is one of `available()`, the folder of a training run, a file of weights, or a class of
    your own, written my_module:MyAgent.

    The agent acts by search if `budget` is above 0, or if `search` has a budget above 0. If both are given, `budget` counts. With `sample`,
    the agent samples its actions from its policy.

    With `zero_on_hit`, a search simulates the rule that an episode that touches an obstacle has the return 0. Raises ValueError if there is
    no such agent, or if the agent cannot search or sample as requested.
    """
    agent = _load(name)
    if sample:
        if not isinstance(agent, Sampler):
            raise ValueError(f"the agent {name!r} has no policy to sample from: leave out --sample")
        agent = agent.sampling()
    search = replace(search or SearchConfig(), budget=budget or (search.budget if search else 0))
    if search.world == ONLINE:
        raise ValueError("the world online is learned in a training: here name the folder of such a run, or of a model")
    if not search.budget:
        return agent
    if isinstance(agent, Sampler):
        raise ValueError(f"the agent {name!r} has continuous actions, which a search cannot list: leave out --budget")
    if not isinstance(agent, Valuer):
        raise ValueError(
            f"the agent {name!r} does not value actions, so it cannot search: choose one that does, as objects, or legal for a raw search"
        )
    return SearchAgent(agent, search, make_world(search.world, zero_on_hit))


def fingerprint(name: str, task: str) -> str | None:
    """Digest of the weights that a trained agent uses for a task: 16 hexadecimal digits. None for an agent without weights."""
    path = _weights(name, task)
    return None if path is None else hashlib.sha256(read_file(path, MAX_WEIGHTS)).hexdigest()[:16]


def _weights(name: str, task: str) -> Path | None:
    if name in AGENTS or names_a_class(name):
        return None
    return _shipped_for(name, weights, task) if (weights := shipped(name)) else weights_file(Path(name))


def _shipped_for(name: str, weights: Mapping[str, Path], task: str) -> Path:
    """The file of weights of the shipped agent `name` for a task. `weights` has its files by task."""
    require(task in weights, f"the agent {name!r} was not trained for {task}: choose {', '.join(weights)}")
    return weights[task]


def code_of(agents: Sequence[str], task: str, search: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the dictionary {"code": fingerprint}, to be added to a result. The fingerprint (see `own_code`) covers the user's own classes
    in four places: the agents named in `agents`, with their algorithms and networks; the task; the search algorithm; and the transition
    model in `search`. The dictionary is empty if there are no such classes. Raises ValueError if the code has changed since its import.

    `search` has the settings of the search as JSON values; None if there is no search.
    """
    cards = [read_card(path) for name in agents if (path := _weights(name, task))]
    algorithms = [get_algorithm(card["algorithm"]) for card in cards]
    trained = [(card["agent"], known.policy, _named(known.config)) for card, known in zip(cards, algorithms, strict=True)]
    code = own_code([agents, task, _named(type(get_task(task))), search, trained])
    return {"code": code} if code else {}


def _named(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


def shipped(name: str) -> dict[str, Path]:
    """Maps each task to the file of weights that the shipped agent `name` has for it. Empty if there is no such agent."""
    return {path.stem: path for path in sorted((ZOO / name).glob("*.safetensors"))} if name.replace("-", "_").isidentifier() else {}


def trained_for(name: str, task: str) -> bool:
    """Whether an agent was trained for a task. Also True for agents in `AGENTS` and for a class of the user."""
    if name in AGENTS or names_a_class(name):
        return True
    return task in shipped(name) or (not shipped(name) and read_card(weights_file(Path(name)))["task"] == task)


def check_builds(name: str, task: str) -> None:
    """Raises ValueError if an agent cannot play a task: it was not trained for the task, or the task has no planner or script."""
    if name in ("planner", "scripted"):
        from trilith.planners.registry import plan_for, script_for

        (plan_for if name == "planner" else script_for)(task)
    elif not trained_for(name, task):
        raise ValueError(f"the agent {name} was not trained for {task}")


def available() -> list[str]:
    """The names of all agents that can be used without training: first the names in `AGENTS`, then the shipped agents."""
    return [*AGENTS, *sorted(path.name for path in ZOO.glob("*") if shipped(path.name))]


def short_names(agents: set[Path]) -> dict[Path, str]:
    """Maps the path of each agent to a short name: the last part of the path. If two agents would have the same name, more parts of their
    paths are used."""
    names, parts = dict[Path, str](), 1
    while len(names) < len(agents):
        ends = Counter("/".join(agent.parts[-parts:]) for agent in agents - names.keys())
        for agent in agents - names.keys():
            end = "/".join(agent.parts[-parts:])
            if ends[end] == 1 or parts >= len(agent.parts):
                names[agent] = end
        parts += 1
    return names


def _load(name: str) -> Agent:
    if name in AGENTS:
        return AGENTS[name]()
    if names_a_class(name):
        return _make(name)
    if weights := shipped(name):
        return ShippedAgent(name, weights)
    if not Path(name).exists():
        raise ValueError(f"there is no agent {name!r}: choose {', '.join(available())}, or name a run's folder or a file of weights")
    return load_policy(weights_file(Path(name)))[0].agent


class ShippedAgent:
    """A shipped agent, which plays each task with its own weights. Its methods raise ValueError for a task without weights."""

    def __init__(self, name: str, weights: dict[str, Path]) -> None:
        self.name, self.weights = name, weights
        self._loaded: dict[str, Any] = {}

    def of(self, task: str) -> Any:
        """The agent for one task. Its weights are read at the first call."""
        if task not in self._loaded:
            self._loaded[task] = load_policy(_shipped_for(self.name, self.weights, task))[0].agent
        return self._loaded[task]

    @property
    def discount(self) -> float:
        """The discount factor of the agent for one of its tasks, the first in alphabetical order. A search does not use it: it takes the
        discount factor from the agent that `of` returns for the task being played."""
        return cast(float, self.of(next(iter(self.weights))).discount)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns the best placement in each state. All states must belong to the same task."""
        return self.of(states[0].task).act(states, rngs) if states else []

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """Lists the actions of each state with their values. All states must belong to the same task."""
        return self.of(states[0].task).priors(states) if states else []

    def decode(self, state: State, action_id: int) -> Placement | None:
        """Converts an action id from `priors` to a placement."""
        return self.of(state.task).decode(state, action_id)

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """At most k placements with the highest values, best first, as (placement, value)."""
        return self.of(state.task).ideas(state, rng, k)

    def views(self, state: State) -> list[ObjectView]:
        """The agent's view of each object; empty if the agent does not read segmented images."""
        agent = self.of(state.task)
        return agent.views(state) if isinstance(agent, ObjectViews) else []
