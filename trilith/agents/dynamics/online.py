"""A model that is learned online, beside the agent whose actors search in it, from the episodes that they play (paper §E.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from trilith.agents.base import Episode
from trilith.agents.dynamics.config import OnlineConfig
from trilith.agents.dynamics.learner import ModelLearner
from trilith.agents.dynamics.rigid_body_features import Placed
from trilith.agents.dynamics.transitions import Transition, Transitions, is_last, simulated, transitions
from trilith.agents.dynamics.world import ModelWorld
from trilith.agents.optimizer import part
from trilith.agents.replay import Replay
from trilith.networks.inputs.scene_batch import SceneSchema
from trilith.utils.files import typed
from trilith.world.tasks import get_task

MEASURED = 4
"""One episode in so many is predicted before it is learned from."""
WINDOW = 200
"""Placements of those, the last, that figures are of."""


class OnlineFacts(TypedDict):
    """What a checkpoint keeps of it beside arrays."""

    steps: Annotated[int, Meta(ge=0)]
    episodes: Annotated[int, Meta(ge=0)]


class OnlineModel:
    """A model, its memory of placements, and how well it predicted the last episodes before it learned from them."""

    def __init__(self, config: OnlineConfig, task: str, seed: int) -> None:
        self.config = config
        self.learner = ModelLearner(config, seed)
        self.world = ModelWorld(self.learner.net)
        self._objects = SceneSchema.rows_of(get_task(task), beyond=False)
        self.memory = Replay(_record(self._objects), config.replay_mb)
        self.episodes = 0
        """That were added."""
        self.predicted: deque[tuple[float, float, float, float]] = deque(maxlen=WINDOW)
        """Of the last placements that were predicted before they were learned from, and could be any but the last of their episode:
        how likely it was said to be the end, whether it was, and the reward, as expected and as earned."""
        self._table: Transitions | None = None
        """The memory as a table; None if there is something new in it."""

    @property
    def ready(self) -> bool:
        """Whether it has learned enough to be searched."""
        return self.learner.steps >= self.config.first_steps

    def add(self, episode: Episode) -> None:
        """Remembers what happened in an episode; now and then it first says what it would have expected."""
        assert episode.trajectory is not None
        happened = simulated(episode.trajectory)
        if not happened:
            return
        if self.learner.steps and self.episodes % MEASURED == 0:
            self._predict(happened)
        self.episodes += 1
        table = transitions([happened], self._objects)
        rows = np.zeros(len(table), [*_record(self._objects).descr, ("reward", "f4")])
        for name in Placed._fields:
            rows["placed"][name] = getattr(table.placed, name)
        for name in _RESULTS:
            rows[name] = getattr(table, name)
        self.memory.add(episode._replace(steps=rows))
        self._table = None

    def _predict(self, happened: list[Transition]) -> None:
        open_ = [each for each in happened if not is_last(each.state)]
        expected = self.world.steps([each.state for each in open_], [each.placement for each in open_])
        for each, (_, reward, ended) in zip(open_, expected, strict=True):
            # What an obstacle costs is another matter: this world knows nothing of `forfeit`.
            earned = 0.0 if each.after.ended == "obstacle_hit" else each.reward
            self.predicted.append((ended, float(each.after.ended is not None), reward, earned))

    def due(self, steps: int) -> bool:
        """Whether to learn after so many learner steps of the agent: after each one until actors search, which takes far longer."""
        return len(self.memory) >= self.config.batch and (not self.ready or steps % self.config.every == 0)

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """One learner step; returns figures for the log."""
        if self._table is None:
            self._table = self._as_table()
        return {f"model_{name}": value for name, value in (self.learner.step(self._table, rng) | self._figures()).items()}

    def _as_table(self) -> Transitions:
        ring, capacity = self.memory.ring[: len(self.memory)], self.memory.capacity
        return Transitions(
            placed=Placed(*(ring["placed"][name] for name in Placed._fields)),
            follows=np.where(ring["left"] > 1, (np.arange(len(ring)) + 1) % capacity, -1),
            **{name: ring[name] for name in _RESULTS},
        )

    def _figures(self) -> dict[str, float]:
        """How well it predicted what it had not learned yet: squared errors, and those of the best constants."""
        if not self.predicted:
            return {}
        said, ended, expected, earned = np.array(self.predicted).T
        return {
            "brier": float(((said - ended) ** 2).mean()),
            "brier_constant": float(ended.var()),
            "reward_error": float(((expected - earned) ** 2).mean()),
            "reward_variance": float(earned.var()),
        }

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What a checkpoint keeps."""
        arrays, facts = self.learner.state()
        arrays |= {f"memory.{name}": array for name, array in self.memory.state().items()}
        arrays["predicted"] = np.array(self.predicted, np.float64).reshape(-1, 4)
        return arrays, {**facts, "episodes": self.episodes}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises ValueError in one line if it is of another model."""
        told: OnlineFacts = typed(facts, OnlineFacts)
        predicted = arrays["predicted"]
        if predicted.shape[1:] != (4,):
            raise ValueError(f"what its model predicted has shape {predicted.shape}, not (n, 4)")
        self.learner.load(arrays, told)
        self.memory.load(part(arrays, "memory."))
        self.predicted.extend(tuple(each) for each in predicted.tolist())
        self.episodes = told["episodes"]
        self._table = None


_RESULTS = ("pose", "touch", "moved", "reward", "hit", "complete", "origin")
"""Columns of a table beside what was placed and what follows."""


def _record(objects: int) -> np.dtype[Any]:
    """A row of a table with room for R objects; the memory adds `reward`, and what follows is the next row."""
    one, two = (objects,), (objects, objects)
    placed: list[Any] = [
        *(("objects", "i8"), ("new", "i8"), ("pose", "f4", (objects, 3)), ("size", "f4", (objects, 2))),
        *(("role", "i8", one), ("sticky", "?", one), ("touch", "?", two), ("glue", "?", two)),
    ]
    columns: list[Any] = [("placed", placed), ("pose", "f4", (objects, 3)), ("touch", "?", two), ("moved", "?", one)]
    return np.dtype([*columns, ("hit", "?"), ("complete", "?"), ("origin", "i8", one)])
