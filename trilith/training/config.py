"""What a run is: one dataclass, which is also the command line of `trilith train`. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from trilith.agents.dqn.config import RECIPES, DQNConfig
from trilith.support.config import check_least, from_json
from trilith.support.files import read_json

CONFIG = "config.json"
"""What a run's folder keeps its config in."""


@dataclass(frozen=True)
class TrainConfig:
    """Train an agent by deep Q-learning."""

    task: str = "covering_hard"
    """silhouette, connecting, covering, covering_hard, or a class of your own in a module of this folder, as my_module:MyTask."""
    recipe: str = "fast"
    """Where the defaults of the agent's options come from, which `trilith train --recipe NAME --help` shows: fast (ours), save (actors
    search, and it learns what they find), or paper (its hyper-parameters where it prints them)."""
    out: Path = Path("runs/run")
    """Folder for weights, logs and checkpoints. If it holds this run already, that goes on; it must not hold another one."""
    minutes: float | None = None
    """Stop after this many minutes of training, those before a resume included."""
    steps: int | None = None
    """Stop after this many learner steps. Schedules count learner steps, so this says the same on every machine."""
    actors: int = 1
    """Actor processes beside the learner: with one fewer than there are cores all are busy. 0 plays in the learner's own process,
    deterministically."""
    seed: int = 0
    """Of everything random."""
    seeds: int = 1
    """Train this many runs in a row, with seeds from `seed` on, each in a folder of its own inside `out`."""
    forfeit: bool = False
    """Learn under the paper's words: touching an obstacle takes back all that was earned. Evaluations play by the same rule."""
    episodes: int = 32
    """Episodes that an actor plays side by side between two sets of weights."""
    threads: int = 1
    """Threads of the learner's network. Actors have one each."""
    evaluate_every: int = 5000
    """Learner steps between two evaluations on the validation scenes."""
    evaluate_scenes: int = 100
    """Validation scenes of an evaluation, for the hardest level and for all levels each."""
    checkpoint_seconds: float = 60.0
    """Time between two full checkpoints."""
    log_seconds: float = 10.0
    """Time between two lines of the log."""
    agent: DQNConfig = field(default_factory=DQNConfig)
    """The agent and how it learns."""

    def __post_init__(self) -> None:
        check_least(self, actors=0, seed=0, seeds=1, episodes=1, threads=1, evaluate_every=1, evaluate_scenes=0)
        check_least(self, minutes=0, steps=0, checkpoint_seconds=0, log_seconds=0)


def recipe_config(recipe: str) -> TrainConfig:
    """A config with the defaults of a recipe. Raises ValueError naming those there are."""
    if recipe not in RECIPES:
        raise ValueError(f"there is no recipe {recipe!r}: choose {', '.join(RECIPES)}")
    return TrainConfig(recipe=recipe, agent=RECIPES[recipe])


def run_config(out: Path) -> TrainConfig:
    """The config of the run in a folder. Raises ValueError in one line if there is none."""
    return replace(from_json(TrainConfig, read_json(out / CONFIG)), out=out)
