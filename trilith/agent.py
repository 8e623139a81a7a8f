"""What an agent is, and where one is found by its name.

An agent gets states and returns placements, for many episodes side by side, so that a network can answer them in one
batch. Each episode brings its own random generator: what happens in one never depends on which others run beside it.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from trilith.actions import DiscreteRelative, legal
from trilith.agents.config import SearchConfig
from trilith.episode import State
from trilith.files import read_json
from trilith.scene import SLOTS, Bools, Placement, Role
from trilith.search import Prior
from trilith.searching import SearchAgent, Valuer


class Agent(Protocol):
    """Anything that builds."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """A placement for each state (None: an invalid edge), drawing only from the generator of its episode."""
        ...


class RandomAgent:
    """Any discrete relative action at all, most of which are invalid edges or overlap something."""

    codec = DiscreteRelative()

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """A uniformly random action in each state."""
        shapes = [self.codec.shape(len(state.scene)) for state in states]
        return [self.codec.decode(s.scene, rng.integers(shape).tolist()) for s, rng, shape in zip(states, rngs, shapes, strict=True)]


class LegalAgent:
    """Any discrete relative action that is a valid edge and overlaps nothing, sticky half of the time."""

    codec = DiscreteRelative()
    discount = 0.99
    """Of a raw search: that of the recipes."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """A uniformly random legal action in each state; an invalid edge where there is none."""
        return [self._choose(state, rng) for state, rng in zip(states, rngs, strict=True)]

    def _choose(self, state: State, rng: np.random.Generator) -> Placement | None:
        mask = legal(state.scene, self.codec)
        choices = np.flatnonzero(mask)
        if not len(choices):
            return None
        c, r, i = np.unravel_index(choices[rng.integers(len(choices))], mask.shape)
        return self.codec.decode(state.scene, (int(c), int(r), int(i), int(rng.integers(2))))

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """Every legal action, of blocks of one width only those of the first, and nothing expected of any: a raw search."""
        found = []
        for state in states:
            mask = legal(state.scene, self.codec)
            mask[~first_of_width(state)] = False
            edge, offset = np.divmod(np.flatnonzero(mask), self.codec.offsets)
            names = ((edge * self.codec.offsets + offset)[:, None] * 2 + np.arange(2)).ravel()
            found.append(Prior(np.zeros(len(names)), np.repeat(edge, 2), names))
        return found

    def placement(self, state: State, name: int) -> Placement | None:
        """The placement of an action of `priors`."""
        rest, sticky = divmod(name, 2)
        edge, offset = divmod(rest, self.codec.offsets)
        return self.codec.decode(state.scene, (*divmod(edge, len(state.scene)), offset, sticky))


def first_of_width(state: State) -> Bools:
    """(7,): which slots hold an available block such as no slot before them does; the others could do nothing different."""
    available = state.scene.role[:SLOTS] == Role.AVAILABLE
    first = np.zeros(SLOTS, dtype=bool)
    rows = np.flatnonzero(available)
    first[rows[np.unique(state.scene.size[rows, 0], return_index=True)[1]]] = True
    return first


def _scripted() -> Agent:
    from trilith.builders import ScriptedBuilder

    return ScriptedBuilder()


def _planner() -> Agent:
    from trilith.builders import Planner

    return Planner()


AGENTS: dict[str, Callable[[], Agent]] = {
    "random": RandomAgent,
    "legal": LegalAgent,
    "scripted": _scripted,
    "planner": _planner,
}
"""Every agent that needs no training, by its name."""
ZOO = Path(__file__).parent / "zoo"
"""Weights that come with the package: a folder for each agent, in it a file for each task and a card beside it."""


def load_agent(name: str, search: SearchConfig | None = None, forfeit: bool = False) -> Agent:
    """The agent of a name, of the folder of a training run or a file of weights, or a class of your own, as my_module:MyAgent.

    With a budget to `search`, it acts by search.

    `forfeit` is the rule by which it is going to play, and so by which it searches. Raises ValueError naming what there is.
    """
    agent = _load(name)
    if search is None or not search.budget:
        return agent
    if not isinstance(agent, Valuer):
        raise ValueError(f"the agent {name!r} does not value actions, so it cannot search: choose a trained one, or legal for a raw search")
    return SearchAgent(agent, search, forfeit)


def weights_file(path: Path) -> Path:
    """The weights that a path stands for: itself, or those of a run's folder, its best ones if there are any yet."""
    if not path.is_dir():
        return path
    found = [path / name for name in ("best.safetensors", "last.safetensors") if (path / name).exists()]
    if not found and (seeds := sorted(path.glob("seed*"))):
        raise ValueError(f"{path} holds the runs of several seeds: choose one, such as {seeds[0]}")
    if not found:
        raise ValueError(f"{path} has no best.safetensors or last.safetensors: it is not a run, or has not been evaluated yet")
    return found[0]


def fingerprint(name: str, task: str) -> str | None:
    """What tells the weights of a trained agent from others under the same name; None for an agent without weights."""
    if name in AGENTS or own_class(name):
        return None
    path = shipped(name).get(task) or weights_file(Path(name))
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def shipped(name: str) -> dict[str, Path]:
    """By task: the weights of a trained agent that comes with the package; none if there is no such agent."""
    return {path.stem: path for path in sorted((ZOO / name).glob("*.safetensors"))} if name.isidentifier() else {}


def trained_for(name: str, task: str) -> bool:
    """Whether the agent of a name builds in a task: a trained one does only in that of its weights."""
    if name in AGENTS or own_class(name):
        return True
    return task in shipped(name) or (not shipped(name) and read_json(weights_file(Path(name)).with_suffix(".json")).get("task") == task)


def available() -> list[str]:
    """Every agent that there is without a training of one's own; shipped ones only where their packages are installed."""
    return [*AGENTS, *(sorted(path.name for path in ZOO.glob("*") if shipped(path.name)) if learning() else ())]


def short_names(agents: set[Path]) -> dict[Path, str]:
    """The last part of each agent's path, or more of it where that would be the same for several."""
    names, parts = dict[Path, str](), 1
    while len(names) < len(agents):
        ends = Counter("/".join(agent.parts[-parts:]) for agent in agents - names.keys())
        for agent in agents - names.keys():
            end = "/".join(agent.parts[-parts:])
            if ends[end] == 1 or parts >= len(agent.parts):
                names[agent] = end
        parts += 1
    return names


def learning() -> bool:
    """Whether the packages that trained agents need are installed."""
    return all(find_spec(package) for package in ("torch", "safetensors"))


def missing(what: str, error: ImportError) -> str:
    """What to say where a package of the extra `learn` is missing."""
    return f'{what} needs more packages ({error.name} is missing): pip install -e ".[learn]" in the clone'


def own_class(name: str) -> bool:
    """Whether an agent is one of your own, named as a class in a Python module: my_module:MyAgent."""
    return all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")) if name.count(":") == 1 else False


def _load(name: str) -> Agent:
    if name in AGENTS:
        return AGENTS[name]()
    if own_class(name):
        module, _, kind = name.partition(":")
        if "" not in sys.path:
            sys.path.insert(0, "")  # modules of the folder that the command is given in
        try:
            return cast(Agent, getattr(import_module(module), kind)())
        except (ImportError, AttributeError) as error:
            raise ValueError(f"there is no agent {name!r}: {error}") from None
    if weights := shipped(name):
        try:
            from trilith.agents.shipped import ShippedAgent
        except ImportError as error:
            raise ValueError(missing(name, error)) from None
        return ShippedAgent(name, weights)
    if not Path(name).exists():
        raise ValueError(f"there is no agent {name!r}: choose {', '.join(available())}, or name a run's folder or a file of weights")
    try:
        from trilith.agents.dqn import load
    except ImportError as error:
        raise ValueError(missing(name, error)) from None
    return load(name)
