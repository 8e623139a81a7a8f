"""The config of a training run. The fields of the dataclass are the options of `trilith train`. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from trilith.agents.algorithms import exact_name, get_algorithm, get_recipe
from trilith.agents.dqn.recipes import OBJECTS
from trilith.training.curriculum import CurriculumConfig
from trilith.utils.checks import require
from trilith.utils.config import check_least, from_json, to_json
from trilith.utils.files import prefix_errors, read_json

CONFIG = "config.json"
"""Name of the file with the config, in a run's folder."""
FREE = {"out", "minutes", "core_minutes", "steps", "actors", "log_seconds", "checkpoint_seconds"} | {
    "cluster", "actor_cpus", "learner_gpus", "track"
}  # fmt: skip
"""Fields of a config that may change when a run is resumed."""
C = TypeVar("C")


@dataclass(frozen=True)
class TrainConfig(Generic[C]):
    """Train an agent."""

    task: str = "covering_hard"
    """silhouette, connecting, covering, covering_hard, or a class of your own in a module of the current folder, as my_module:MyTask."""
    recipe: str = "objects"
    """The recipe, which sets the defaults of the agent's options. A name such as objects means its newest version; objects-v2 is an
    exact version; my_module:name is a recipe of your own in a module of the current folder. See `trilith recipes` and `trilith train
    --recipe NAME --help-all`."""
    out: Path = Path("runs/run")
    """Folder for weights, logs and checkpoints. If the folder already holds the same run, it is resumed."""
    minutes: float | None = None
    """Stop after this many minutes of training, including the minutes before a resume."""
    core_minutes: float | None = None
    """Stop after this many minutes of processor time, summed over all processes of the run. Other load on the machine does not matter."""
    steps: int | None = None
    """Stop after this many learner steps. Unlike minutes, this means the same on every machine."""
    actors: int = 1
    """Number of actor processes. The number of cores minus one keeps all cores busy. 0: the learner's own process plays, and the run is
    deterministic."""
    cluster: str | None = None
    """Run the actors on a Ray cluster: a new one on this machine (local), one that already runs on this machine (auto), or one that
    this machine belongs to (its address, as 10.0.0.1:6379). None: actors are processes of this machine. See
    docs/howto/cluster.md."""
    actor_cpus: float = 1.0
    """On a cluster: number of CPUs for each actor, such as 0.5."""
    learner_gpus: float = 0.0
    """On a cluster: number of this machine's GPUs that are reserved for the learner."""
    seed: int = 0
    """Seed of everything random."""
    seeds: int = 1
    """Train this many runs, one after another. Their seeds count up from `seed`, and each run has its own folder inside `out`."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Device of the learner's network; auto: cuda if available, else cpu. Actors always use the CPU."""
    zero_on_hit: bool = False
    """The return of an episode is 0 if a block touches an obstacle, as in the paper. This holds in training and in evaluations."""
    episodes: int = 32
    """Number of episodes that an actor plays in one batch, with the same weights."""
    threads: int = 1
    """Number of threads for the learner's network. Each actor uses one thread."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """Options of the curriculum: which levels are played when."""
    evaluate_every: int = 5000
    """Learner steps between two evaluations on the validation scenes."""
    evaluate_scenes: int = 100
    """Validation scenes per evaluation: this many of the hardest level, and this many of all levels; 0: no evaluations."""
    checkpoint_seconds: float = 60.0
    """Seconds between two full checkpoints."""
    log_seconds: float = 10.0
    """Seconds between two lines of the log."""
    track: Literal["wandb"] | None = None
    """Also log to Weights & Biases (extra `wandb`). Its environment variables apply, such as WANDB_MODE=offline."""
    agent: C = field(default_factory=lambda: OBJECTS)  # type: ignore[assignment]
    """Options of the algorithm."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "recipe", exact_name(self.recipe))
        check_least(self, actors=0, seed=0, seeds=1, episodes=1, threads=1, evaluate_every=1, evaluate_scenes=0)
        check_least(self, minutes=0, core_minutes=0, steps=0, checkpoint_seconds=0, log_seconds=0, learner_gpus=0)
        require(0 < self.actor_cpus < float("inf"), f"actor_cpus {self.actor_cpus}: must be above 0")
        require(
            not self.learner_gpus or self.device != "cpu",
            f"learner_gpus {self.learner_gpus:g}: the learner uses them with --device cuda, not cpu",
        )
        require(
            not self.cluster or self.actors, "cluster: it runs actors, and there are none with --actors 0: choose some, or --cluster None"
        )

    @property
    def algorithm(self) -> str:
        """The name of the algorithm that the recipe belongs to."""
        return get_recipe(self.recipe)[0]


def recipe_config(recipe: str = TrainConfig.recipe, task: str = TrainConfig.task) -> TrainConfig[Any]:
    """Returns a config with the defaults of a recipe for a task. Raises ValueError, with the known recipes, if there is no such recipe."""
    found = get_recipe(recipe)[1]
    run = {**found.run, **found.tasks.get(task, {})}
    agent = replace(found.config, **run.pop("agent", {}))
    return replace(from_json(TrainConfig, run), recipe=recipe, task=task, agent=agent)


def run_config(out: Path) -> TrainConfig[Any]:
    """Returns the config of the run in a folder. Raises ValueError if there is no run."""
    path = out / CONFIG
    data = read_json(path)
    require(isinstance(data, dict) and isinstance(data.get("recipe"), str), f"{path} does not describe a run")
    with prefix_errors(f"{path} does not describe a run: "):
        kind = get_algorithm(get_recipe(data["recipe"])[0]).config
        config: TrainConfig[Any] = from_json(TrainConfig[kind], data)  # type: ignore[valid-type]
    return replace(config, out=out)


def differences(run: TrainConfig[Any], other: TrainConfig[Any]) -> list[str]:
    """Compares the config of a run with the config `other`. Returns "name value" for each field that differs, with the value in the run.
    Fields that may change when a run is resumed (`FREE`) are left out."""
    here, there = flat(to_json(run)), flat(to_json(other))
    return [f"{name} {value}" for name, value in here.items() if name not in FREE and value != there.get(name)]


def flat(data: dict[str, Any]) -> dict[str, Any]:
    """Flattens nested dictionaries. Each key becomes a full path, such as "agent.width", because two inner dictionaries may have a field of
    the same name."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= {f"{name}.{inner}": each for inner, each in flat(value).items()} if isinstance(value, dict) else {name: value}
    return found
