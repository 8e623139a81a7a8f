"""What an agent is, and where one is found by its name.

An agent gets states and returns placements, for many episodes side by side, so that a network can answer them in one
batch. Each episode brings its own random generator: what happens in one never depends on which others run beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from trilith.actions import DiscreteRelative, legal
from trilith.episode import State
from trilith.scene import Placement


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


def load_agent(name: str) -> Agent:
    """The agent of a name, or of the folder of a training run or a file of weights. Raises ValueError naming what there is."""
    if name in AGENTS:
        return AGENTS[name]()
    if not Path(name).exists():
        raise ValueError(f"there is no agent {name!r}: choose {', '.join(AGENTS)}, or name a run's folder or a file of weights")
    try:
        from trilith.agents.dqn import load
    except ImportError as error:
        raise ValueError(f'{name} needs more packages ({error.name} is missing): pip install "trilith[learn]"') from None
    return load(name)
