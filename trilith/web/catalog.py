"""The agents that the page offers: the label of each, the tasks in which it can build, and a sentence about its training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trilith.agents.algorithms import get_algorithm
from trilith.agents.registry import AGENTS, available, check_builds, shipped
from trilith.agents.weights import Card, read_card, weights_file
from trilith.search.config import SearchConfig
from trilith.utils.checks import require
from trilith.utils.modules import names_a_class


class Spec(NamedTuple):
    """An agent and its search."""

    name: str
    """The agent's name for `load`."""
    budget: int = 0
    """Simulations per decision; 0: no search."""
    world: str = SearchConfig.world
    """The transition model in which the agent searches."""


UNTRAINED = {
    "random": ("Random", "Takes any action by chance, most of which are not possible. It has learned nothing."),
    "legal": ("Random, where it fits", "Puts blocks by chance wherever they fit. It has learned nothing."),
    "scripted": ("Script", "Follows rules of thumb that a person wrote. It has learned nothing."),
    "planner": (
        "Planner (no learning)",
        "Tries placements in the simulator and follows the best plan it finds. It has learned nothing.",
    ),
}
"""Maps the name of each agent that needs no training to its title, and to one or two sentences about it."""
METHODS = {"dqn": "Q-learning", "rs0": "an actor-critic"}
"""Maps algorithms to their names on the page. An algorithm that is not listed keeps its name."""


class Catalog:
    """The agents that the page offers, by label. A label is the name of an agent, or the last part of a run's path. If two labels would be
    the same, runs are labelled by their whole path. The label of an agent with search ends in " + search"."""

    def __init__(self, agents: Sequence[str], budget: int, tasks: Iterable[str], world: str = SearchConfig.world) -> None:
        """Offers all agents that need no training, all shipped agents, and `agents`, in the tasks with the names `tasks`. If `budget` is
        not 0, trained agents that can search are offered a second time, with a search of `budget` simulations in the transition model
        `world`. Raises ValueError for an unknown agent, or a run without weights."""
        known = available()
        for name in agents:
            require(
                name in known or names_a_class(name) or Path(name).exists(),
                f"there is no agent {name!r}: choose {', '.join(known)}, or name a run's folder or a file of weights",
            )
        further = [name for name in agents if name not in known]
        labels = [short_name(name) for name in further]
        short = len({*known, *labels}) == len(known) + len(further)
        found = {name: name for name in known} | dict(zip(labels if short else further, further, strict=True))
        self.specs: dict[str, Spec] = {label: Spec(name) for label, name in found.items()}
        if budget:
            self.specs |= {f"{label} + search": Spec(name, budget, world) for label, name in found.items() if _is_searchable(name)}
        tasks = list(tasks)
        self.titles = {label: _title(label, spec) for label, spec in self.specs.items()}
        """Maps each label to the agent's title on the page."""
        self.about = {
            task: {label: _sentence(spec, task) for label, spec in self.specs.items() if _builds(spec.name, task)} for task in tasks
        }
        """Maps a task, then a label, to a sentence about the agent. Has only the agents that can build in the task."""

    def find(self, label: Any, task: str) -> Spec:
        """Returns the agent with this label. Only labels of the catalog are looked up, so a client cannot name a path. Raises ValueError if
        no agent has this label, or if the agent cannot build in the task."""
        require(isinstance(label, str) and label in self.specs, f"there is no agent of that name: choose {', '.join(self.specs)}")
        if label not in self.about.get(task, {}):
            check_builds(self.specs[label].name, task)  # raises ValueError with the reason
        return self.specs[label]

    def trained(self) -> tuple[tuple[Spec, str], ...]:
        """The trained agents, each with the first task in which it can build. An agent that can build in none of the tasks is left out."""
        tasks = {label: next((task for task, labels in self.about.items() if label in labels), None) for label in self.specs}
        return tuple((spec, task) for label, spec in self.specs.items() if _is_trained(spec.name) and (task := tasks[label]) is not None)


def short_name(name: str) -> str:
    """The label for a name: the last part of a path, or the whole name of a class."""
    return name if names_a_class(name) else Path(name).resolve().name


def _is_trained(name: str) -> bool:
    return name not in AGENTS and not names_a_class(name)


def _is_searchable(name: str) -> bool:
    """Whether this is a trained agent that can search. A search needs actions that can be listed. All shipped agents can search."""
    return _is_trained(name) and (bool(shipped(name)) or get_algorithm(read_card(weights_file(Path(name)))["algorithm"]).searchable)


def _builds(name: str, task: str) -> bool:
    if _is_trained(name):
        _card(name, task)  # refuses a run that cannot be read, before anybody chooses it
    try:
        check_builds(name, task)
    except ValueError:
        return False
    return True


def _card(name: str, task: str) -> Card | None:
    """The card of a trained agent; None if a shipped agent has no weights for this task."""
    path = shipped(name).get(task) if shipped(name) else weights_file(Path(name))
    return None if path is None else read_card(path)


def _was_taught(card: Card) -> bool:
    """Whether an agent also learned from the planner's placements."""
    learning = card.get("learning", {})
    return bool(learning.get("first_demonstrations") or learning.get("corrections_per_update"))


def _title(label: str, spec: Spec) -> str:
    """The title of an agent on the page. It comes from `UNTRAINED` for an agent that needs no training, and from the card for a shipped
    agent. For any other agent it is the label."""
    if spec.name in UNTRAINED:
        return UNTRAINED[spec.name][0]
    paths = shipped(spec.name)
    if not paths:
        return label
    card = read_card(next(iter(paths.values())))
    title = "Neural network from pixels" if any(column.startswith("image") for column in card["observation"]) else "Neural network"
    return f"{title} + search" if spec.budget else title if _was_taught(card) else f"{title} (learned from its own play)"


def _sentence(spec: Spec, task: str) -> str:
    name, budget, world = spec
    if name in UNTRAINED:
        return UNTRAINED[name][1]
    card = _card(name, task) if _is_trained(name) else None
    if card is None:
        return "A class of your own."
    cost, teachers = card.get("cost"), "its own play and from what the planner showed it" if _was_taught(card) else "its own play alone"
    method = METHODS.get(card["algorithm"], card["algorithm"])
    took = f", in {cost.get('core_minutes', cost['minutes']):.0f} minutes of one core" if cost else ""
    text = f"A neural network that learned this task by {method} from {teachers}{took}."
    where = f"the {world}" if world == SearchConfig.world else f"the world that {short_name(world)} predicts"
    return f"{text} Before each decision it tries {budget} placements in {where}." if budget else text
