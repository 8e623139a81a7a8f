"""A transition model that is learned together with an agent (paper §E.3). It learns from the episodes of the actors, which search in this
model."""

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
from trilith.agents.dynamics.transitions import Transition, Transitions, is_last, simulated, transition_dtype, transitions
from trilith.agents.dynamics.world import ModelWorld
from trilith.agents.replay import Replay
from trilith.agents.target_learner import part
from trilith.networks.inputs.scene_batch import SceneSchema
from trilith.utils.files import typed
from trilith.world.tasks import get_task

MEASURED_EPISODES = 4
"""One in this many episodes is used to measure the model's errors: the model predicts it before learning from it."""
PREDICTED_PLACEMENTS = 200
"""Maximum number of placements over which the logged errors are averaged. These are the last predicted ones."""


class OnlineFacts(TypedDict):
    """The values of a checkpoint that are not arrays."""

    steps: Annotated[int, Meta(ge=0)]
    episodes: Annotated[int, Meta(ge=0)]


class OnlineModel:
    """A transition model and its replay of placements. It also keeps prediction errors on recent episodes, measured before the model
    learned from these episodes."""

    def __init__(self, config: OnlineConfig, task: str, seed: int) -> None:
        self.config = config
        self.learner = ModelLearner(config, seed)
        self.world = ModelWorld(self.learner.net)
        self._objects = SceneSchema.rows_of(get_task(task), beyond=False)
        self.memory = Replay(transition_dtype(self._objects), config.replay_mb)
        self.episodes = 0
        """Number of episodes added so far."""
        self.predicted: deque[tuple[float, float, float, float]] = deque(maxlen=PREDICTED_PLACEMENTS)
        """The last placements that were predicted before the model learned from them, as (predicted probability that the episode ends,
        whether it ended, predicted reward, reward). Placements after which the rules certainly end the episode are left out (see
        `is_last`)."""
        self._table: Transitions | None = None
        """The replay as a table of transitions. None if episodes have been added since the table was made."""

    @property
    def ready(self) -> bool:
        """Whether the model has learned enough for actors to search in it."""
        return self.learner.steps >= self.config.first_steps

    def add(self, episode: Episode) -> None:
        """Adds an episode, which must have a `trajectory`, to the replay. After the first learner step, one episode in `MEASURED_EPISODES`
        is predicted before it is added, to measure errors."""
        assert episode.trajectory is not None
        happened = simulated(episode.trajectory)
        if not happened:
            return
        if self.learner.steps and self.episodes % MEASURED_EPISODES == 0:
            self._predict(happened)
        self.episodes += 1
        self.memory.add(episode._replace(steps=transitions([happened], self._objects).rows))
        self._table = None

    def _predict(self, happened: list[Transition]) -> None:
        open_ = [each for each in happened if not is_last(each.state)]
        expected = self.world.steps([each.state for each in open_], [each.placement for each in open_])
        for each, (_, reward, ended) in zip(open_, expected, strict=True):
            # This world does not use the rule `zero_on_hit`, so the penalty for a hit is left out.
            earned = 0.0 if each.after.ended == "obstacle_hit" else each.reward
            self.predicted.append((ended, float(each.after.ended is not None), reward, earned))

    def due(self, steps: int) -> bool:
        """Whether the model makes a learner step after `steps` learner steps of the agent. Before the model is `ready`, it does so after
        every learner step of the agent. Later it does so after every n-th, where n is `every` of the config. False while the replay has
        fewer placements than a batch."""
        return len(self.memory) >= self.config.batch and (not self.ready or steps % self.config.every == 0)

    def step(self, rng: np.random.Generator) -> dict[str, float]:
        """Makes one learner step. Returns metrics for the log."""
        if self._table is None:
            self._table = Transitions(self.memory.ring[: len(self.memory)])
        return {f"model_{name}": value for name, value in (self.learner.step(self._table, rng) | self._figures()).items()}

    def _figures(self) -> dict[str, float]:
        """Mean squared errors of the predictions in `predicted`: `brier` for the end of the episode, and `reward_error`. For comparison,
        the errors that the best constant prediction would have: `brier_constant` and `reward_variance`. Empty if nothing was predicted."""
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
        """The content of a checkpoint as two dictionaries: arrays by name, and numbers by name."""
        arrays, facts = self.learner.state()
        arrays |= {f"memory.{name}": array for name, array in self.memory.state().items()}
        arrays["predicted"] = np.array(self.predicted, np.float64).reshape(-1, 4)
        return arrays, {**facts, "episodes": self.episodes}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint. `arrays` and `facts` are the two dictionaries that `state` returned. Raises ValueError if they do not
        fit this model."""
        checked: OnlineFacts = typed(facts, OnlineFacts)
        predicted = arrays["predicted"]
        if predicted.shape[1:] != (4,):
            raise ValueError(f"the predictions of its model have shape {predicted.shape}, not (n, 4)")
        self.learner.load(arrays, checked)
        self.memory.load(part(arrays, "memory."))
        self.predicted.clear()
        self.predicted.extend(tuple(each) for each in predicted.tolist())
        self.episodes = checked["episodes"]
        self._table = None
