"""The ledger: one JSON file for each evaluation. For every scene it has the reward, the reason why the episode ended, and the actions.

Anyone can check an entry: `verify.py` replays its actions and compares the rewards. Files do not depend on each other, so ledgers are
merged by copying their files into one folder. `docs/reference/ledger.md` describes the fields.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from trilith.agents.registry import AGENTS, shipped
from trilith.agents.weights import weights_file
from trilith.evaluation.runner import Evaluation
from trilith.evaluation.scene_sets import Split, has_checksum
from trilith.evaluation.schema import Count, Figure, Played, Some
from trilith.paper.actions import pack, unpack
from trilith.search.config import SearchConfig
from trilith.training.config import CONFIG, TrainConfig, recipe_config, run_config
from trilith.training.log import read_log
from trilith.utils.checks import require, shortened
from trilith.utils.config import from_json, to_json
from trilith.utils.files import CHECKSUM, check_sealed, json_checksum, prefix_errors, read_json, sealed, write_json
from trilith.utils.modules import names_a_class
from trilith.world.episode import Reason
from trilith.world.scene import Placement, checked_placement
from trilith.world.tasks import Level

FORMAT = 1
"""Version of the format of an entry."""
FOLDER = Path("ledger")
IGNORED = (
    *("task", "recipe", "seed", "seeds"),  # an entry has fields for task, recipe and seed
    *("out", "actors", "cluster", "actor_cpus", "learner_gpus", "device", "threads", "track", "log_seconds", "checkpoint_seconds"),
)
"""The fields of a config that do not count as options of a training. The first four say which trainings are run. The others affect only
where and how fast a training runs, and how often it writes."""


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The training of an agent's weights, and its cost."""

    recipe: str
    """Exact name, as gn-dqn-v2."""
    options: dict[str, Any]
    """The options that differ from those of the recipe for the task, by full name, such as "agent.net.recurrent"."""
    config: dict[str, Any]
    """All options, except folder, cluster and tracker."""
    seed: Count
    weights: str
    """Which weights of the run were evaluated: "last", or "best" on the validation scenes."""
    learner_steps: Count
    actor_steps: Count
    simulated: dict[str, Count]
    """Number of simulator steps by purpose: made, counterfactual, corrections."""
    core_minutes: float
    level: Count
    """The highest level of the curriculum that was reached."""
    curve: list[tuple[int, float, float, float]]
    """For each validation up to `learner_steps`: (learner step, core-minutes, mean reward on hardest scenes, mean reward on all levels)."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry: the evaluation of an agent on the first scenes of a scene set."""

    format: int = FORMAT
    agent: str
    """Name of a training run (see `run_name`), of a shipped agent or of an agent without training, or my_module:MyAgent."""
    weights: str | None
    """Fingerprint of the weights' file; None for an agent without weights."""
    training: Training | None
    """None without a training run."""
    task: str
    level: Level
    split: Split
    scenes: Some
    """Number of scenes."""
    seed: Count
    """Seed of the agent's own randomness in the evaluation."""
    zero_on_hit: bool
    """Whether an episode that touches an obstacle has the return 0, as in the paper."""
    sample: bool
    """Whether the agent sampled from its policy, instead of taking the best action."""
    search: dict[str, Any] | None
    """Options of the search, and `model`, the fingerprint of a learned model; None without search."""
    version: int
    """Version of the generated scenes (`scene_sets.VERSION`)."""
    physics: int
    """Version of the physics (`world.physics.PHYSICS`)."""
    commit: str | None
    """Commit of the code that made the evaluation. It ends in -dirty if files differed from the commit. None if unknown."""
    rewards: list[Figure]
    """The return of the episode in each scene."""
    reasons: list[Reason]
    """The reason why the episode in each scene ended."""
    actions: str
    """The placements of all scenes, packed into one text (see `actions.py`)."""

    def __post_init__(self) -> None:
        require(self.format == FORMAT, f"format {self.format}: this version of trilith knows {FORMAT}")
        _check_task(self.task)
        budget = (self.search or {"budget": 0}).get("budget")
        require(isinstance(budget, int), f"budget {shortened(budget)} of the search: must be a whole number")
        for name in ("rewards", "reasons"):
            require(len(getattr(self, name)) == self.scenes, f"{len(getattr(self, name))} {name} of {self.scenes} scenes")

    @property
    def budget(self) -> int:
        """Simulations per decision."""
        return int(self.search["budget"]) if self.search else 0

    @property
    def reward(self) -> float:
        """Mean reward over the scenes."""
        return sum(self.rewards) / self.scenes

    def placements(self) -> list[tuple[Placement | None, ...]]:
        """The placements of each scene."""
        return unpack(self.actions, self.scenes)

    def evaluation(self, agent: str) -> Evaluation:
        """Returns the evaluation that made this entry. `agent` is the name or the path of the agent on this machine. Raises ValueError if
        there is no such level, scene or option of a search."""
        options = {name: value for name, value in (self.search or {}).items() if name != "model"}
        search = from_json(SearchConfig, options)
        return Evaluation(agent, self.task, self.level, self.split, self.scenes, self.seed, self.zero_on_hit, search, self.sample, 0)

    @property
    def file_name(self) -> str:
        """The name of the entry's file: agent, task, level, budget if there was a search, and a digest, followed by .json. The digest
        covers settings, training and weights, but not rewards and actions. So two entries with the same name have equal settings, agent and
        weights."""
        measured = ("agent", "weights", "task", "level", "split", "scenes", "seed", "zero_on_hit", "sample", "search", "version", "physics")
        training = self.training and [self.training.recipe, self.training.options, self.training.seed, self.training.weights]
        digest = json_checksum({"training": training, **{name: getattr(self, name) for name in measured}})[:10]
        budget = f"-budget{self.budget}" if self.search else ""
        return f"{self.agent.replace('/', '-').replace(':', '-')}-{self.task}-{self.level}{budget}-{digest}.json"


def write_entry(folder: Path, entry: Entry) -> Path:
    """Writes an entry with its checksum. Returns the path of its file."""
    data = msgspec.to_builtins(entry)
    path = folder / entry.file_name
    write_json(path, sealed(data))
    return path


def read_entry(path: Path) -> Entry:
    """Reads an entry. Raises ValueError if the file is not an entry, was changed, or does not have the name that its content gives."""
    data = read_json(path)
    require(isinstance(data, dict), f"{path} is not an entry of a ledger")
    check_sealed(path, data)
    data.pop(CHECKSUM)
    with prefix_errors(f"{path} is not an entry of a ledger: "):
        try:
            entry = msgspec.convert(data, Entry)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
    require(path.name == entry.file_name, f"{path}: its content is that of {entry.file_name}, so the file was edited or renamed")
    return entry


def read_ledger(folder: Path) -> list[Entry]:
    """Reads all entries in a folder, in the order of their file names. A missing folder is an empty ledger. Raises ValueError if a file is
    not a valid entry."""
    return [read_entry(path) for path in entry_files(folder)]


def entry_files(folder: Path) -> list[Path]:
    """The files of a ledger's entries. Files whose names begin with a dot are still being written, and are left out."""
    return sorted(folder.glob("[!.]*.json"))


def check_can_enter(evaluation: Evaluation) -> None:
    """Raises ValueError if an evaluation cannot become an entry, because its task is a user's own or its weights are not in the folder of
    their run."""
    _check_task(evaluation.task)
    _run_folder(evaluation.agent)


def _check_task(task: str) -> None:
    require(has_checksum(task), f"the ledger is for the tasks of the paper, not for {task}")


def make_entry(evaluation: Evaluation, episodes: Sequence[Played]) -> Entry:
    """Makes the entry of an evaluation from all its episodes, in the order of the scenes. Raises ValueError if episodes are missing, or as
    `check_can_enter` does."""
    check_can_enter(evaluation)
    require(len(episodes) == evaluation.scenes, f"{len(episodes)} episodes of {evaluation.scenes}: the ledger needs all")
    identity = evaluation.identity()
    run = _run_folder(evaluation.agent)
    placed = [[None if each is None else checked_placement(each) for each in episode["placements"]] for episode in episodes]
    return Entry(
        agent=evaluation.agent if run is None else run_name(run),
        weights=identity["weights"],
        training=None if run is None else training_of(run, weights_file(Path(evaluation.agent)).stem),
        **{name: identity[name] for name in ("task", "level", "split", "scenes", "seed", "zero_on_hit", "search", "version", "physics")},
        sample=evaluation.sample,
        commit=commit(),
        rewards=[episode["reward"] for episode in episodes],
        reasons=[episode["reason"] for episode in episodes],
        actions=pack(placed),
    )


def run_name(run: Path) -> str:
    """The name of a run: the name of its folder, preceded by the name of the parent folder if the run is one of several seeds."""
    run = run.absolute()
    return f"{run.parent.name}/{run.name}" if run.name.removeprefix("seed").isdecimal() else run.name


def _run_folder(agent: str) -> Path | None:
    """The folder of an agent's training run; None for shipped agents, classes and agents without training. Raises ValueError if the weights
    are not in a run's folder."""
    if agent in AGENTS or names_a_class(agent) or shipped(agent):
        return None
    folder = weights_file(Path(agent)).parent
    require((folder / CONFIG).exists(), f"{agent}: weights without the folder of their run cannot be entered in the ledger")
    return folder


class _Card(TypedDict):
    """The part of a card that a ledger entry uses. A card is the JSON file that describes saved weights."""

    learner_steps: Count
    spent: dict[str, float]


def training_of(run: Path, weights: str) -> Training:
    """Describes the training in the folder `run`. `weights` says which of its weights were evaluated: "last" or "best"."""
    config, card, lines = run_config(run), read_json(run / f"{weights}.json", _Card), read_log(run)
    spent = card["spent"]
    return Training(
        recipe=config.recipe,
        options=options_of(config),
        config={name: value for name, value in to_json(config).items() if name not in ("out", "cluster", "track")},
        seed=config.seed,
        weights=weights,
        learner_steps=card["learner_steps"],
        actor_steps=int(spent["actor_steps"]),
        simulated={name: int(spent[f"simulated_{name}"]) for name in ("made", "counterfactual", "corrections")},
        core_minutes=round(spent["core_minutes"], 3),
        level=max((line.get("level", 0) for line in lines), default=0),
        curve=[
            (line["step"], round(line["core_minutes"], 3), line["hardest"], line["all"])
            for line in lines
            if line["kind"] == "valid" and line.keys() >= {"core_minutes", "hardest", "all"} and line["step"] <= card["learner_steps"]
        ],
    )


def options_of(config: TrainConfig[Any]) -> dict[str, Any]:
    """The options of a run that differ from those of its recipe for the task, by full name."""
    usual = recipe_config(config.recipe, config.task)
    there, here = (_flat(to_json(replace(each, out=Path()))) for each in (usual, config))
    return {name: value for name, value in here.items() if name not in IGNORED and value != there.get(name)}


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The fields of nested dictionaries by their full names, such as "agent.net.recurrent". Every name begins with `prefix`."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@cache
def commit() -> str | None:
    """The commit of this package, with -dirty if its files differ from the commit; None if the package is not in a git clone."""
    package = str(Path(__file__).parents[1])
    said = []
    for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", package]):
        try:
            done = subprocess.run(["git", "-C", package, *command], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        said.append(done.stdout.strip())
    return said[0] + ("-dirty" if said[1] else "")
