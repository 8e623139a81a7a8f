"""Trained agents that come with the package. One name stands for the weights of all trained tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from trilith.agents.base import ObjectView, ObjectViews
from trilith.agents.weights import load_policy
from trilith.search.tree import Prior
from trilith.world.episode import State
from trilith.world.scene import Placement


class ShippedAgent:
    """Builds in each task with the weights of that task. Raises ValueError in a task without weights."""

    def __init__(self, name: str, weights: dict[str, Path]) -> None:
        self.name, self.weights = name, weights
        self._loaded: dict[str, Any] = {}

    def of(self, task: str) -> Any:
        """The agent of a task."""
        if task not in self.weights:
            raise ValueError(f"the agent {self.name!r} was not trained for {task}: choose {', '.join(self.weights)}")
        if task not in self._loaded:
            self._loaded[task] = load_policy(self.weights[task])[0].agent
        return self._loaded[task]

    @property
    def discount(self) -> float:
        """The discount factor of the first task's agent. A search uses the agent `of` its task instead."""
        return cast(float, self.of(next(iter(self.weights))).discount)

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The best placement in each state. All states belong to one task."""
        return self.of(states[0].task).act(states, rngs) if states else []

    def priors(self, states: Sequence[State]) -> list[Prior]:
        """The values of all actions in each state. All states belong to one task."""
        return self.of(states[0].task).priors(states) if states else []

    def decode(self, state: State, action_id: int) -> Placement | None:
        """The placement of an id of `priors`."""
        return self.of(state.task).decode(state, action_id)

    def ideas(self, state: State, rng: np.random.Generator, k: int) -> list[tuple[Placement, float]]:
        """The k placements with the highest values."""
        return self.of(state.task).ideas(state, rng, k)

    def views(self, state: State) -> list[ObjectView]:
        """The agent's view of each object, if it sees pictures."""
        agent = self.of(state.task)
        return agent.views(state) if isinstance(agent, ObjectViews) else []
