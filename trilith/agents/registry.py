"""Where an agent is found: by its name, by the path of its weights, or as a class of one's own."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from trilith.agents.base import Agent
from trilith.agents.chance import LegalAgent, RandomAgent
from trilith.search.agent import SearchAgent, Valuer
from trilith.search.config import SearchConfig
from trilith.search.simulator import Simulator
from trilith.support.files import read_json


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
ZOO = Path(__file__).parent.parent / "zoo"
"""Weights that come with the package: a folder for each agent, in it a file for each task and a card beside it."""


def load(name: str, search: SearchConfig | None = None, forfeit: bool = False) -> Agent:
    """The agent of a name, of the folder of a training run or a file of weights, or a class of your own, as my_module:MyAgent.

    With a budget to `search`, it acts by search.

    `forfeit` is the rule by which it is going to play, and so by which it searches. Raises ValueError naming what there is.
    """
    agent = _load(name)
    if search is None or not search.budget:
        return agent
    if not isinstance(agent, Valuer):
        raise ValueError(f"the agent {name!r} does not value actions, so it cannot search: choose a trained one, or legal for a raw search")
    return SearchAgent(agent, search, Simulator(forfeit))


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
        from trilith.agents.dqn.policy import load_weights
    except ImportError as error:
        raise ValueError(missing(name, error)) from None
    return load_weights(name)
