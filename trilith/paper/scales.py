"""The scales, which say how much of the paper is repeated. At the scale smoke a training takes seconds, at laptop about 20 minutes of one
core, and at paper as long as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """A part of a plan: some figures in some tasks, with a number of seeds."""

    figures: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    """The tasks of the part; if empty, all tasks of the figures."""
    seeds: int = 1


@dataclass(frozen=True)
class Scale:
    """Settings of a scale: how long agents are trained, and on how many scenes they are tested."""

    about: str
    tuned: bool
    """Whether agents are trained by the tuned versions of the recipes, instead of the paper's exact recipes."""
    seeds: int
    scenes: int
    """Number of test scenes of an agent without search."""
    searched_scenes: int
    """Number of test scenes of a trained agent with search."""
    raw_scenes: int
    """Number of test scenes of a raw search, which is a search without a network."""
    max_budget: int
    """Maximum number of simulations per decision for a trained agent. Agents with more are left out of the figures."""
    max_raw_budget: int
    model_episodes: int
    """Number of episodes on which a transition model is trained before an agent searches in it."""
    model_steps: int
    """Number of learner steps for which a transition model is trained before an agent searches in it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that every training at this scale has, by their full names."""
    one_task: bool = False
    """Whether only the last task of each figure is run if the user names no tasks."""
    first: tuple[Part, ...] = ()
    """The parts of a plan that are run first, in this order. Everything else follows, one seed after another."""


_TWO = ("covering_hard", "silhouette")
_IMPORTANT = (
    Part(("4a", "4b"), ("covering_hard",)),
    Part(("4a", "4b")),
    Part(("4a", "4b"), _TWO, seeds=3),
    Part(("5ad",)),
    Part(("E.1",)),
    Part(("6a", "6b", "6c")),
    Part(("n_rec",), _TWO),
    Part(("C.2",), _TWO),
    Part(("E.2", "E.3"), ("covering_hard",)),
)
"""The parts that the scale `laptop` runs first, the most important ones at the start: relative against absolute actions (in Covering Hard,
where agents learn fastest, before the other tasks), planning, raw search, generalisation, recurrent steps, pixels, models."""

SCALES = {
    "smoke": Scale(
        "Every step of every figure, in one task each and for seconds: shows that all runs, nothing else.",
        tuned=True,
        seeds=1,
        scenes=2,
        searched_scenes=2,
        raw_scenes=1,
        max_budget=5,
        max_raw_budget=10,
        model_episodes=40,
        model_steps=4,
        options={"steps": 4, "episodes": 4, "evaluate_every": 4, "evaluate_scenes": 2, "agent.learning_starts": 40},
        one_task=True,
    ),
    "laptop": Scale(
        "Less than twenty minutes of one core for each training, with the tuned siblings.",
        tuned=True,
        seeds=3,
        scenes=1000,
        searched_scenes=200,
        raw_scenes=100,
        max_budget=50,
        max_raw_budget=1000,
        model_episodes=4000,
        model_steps=3000,
        options={"core_minutes": 19.0, "evaluate_every": 1000, "evaluate_scenes": 50},  # the last validation may take the twentieth
        first=_IMPORTANT,
    ),
    "paper": Scale(
        "As the paper: ten seeds, 1e7 learner steps (4e6 with search), a week for actor-critics, 10,000 scenes.",
        tuned=False,
        seeds=10,
        scenes=10_000,
        searched_scenes=10_000,
        raw_scenes=10_000,
        max_budget=100,
        max_raw_budget=1000,
        model_episodes=100_000,
        model_steps=100_000,
    ),
}
