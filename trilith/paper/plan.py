"""The plan of a repetition of the paper: the trainings and tests that its figures need at a scale, and their estimated cost. A training or
test that several figures need is run only once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from trilith.agents.algorithms import ALGORITHMS, exact_name
from trilith.paper.figures import FOUR, LEGAL, Figure, Row
from trilith.paper.ledger import Entry, options_of
from trilith.paper.scales import Part, Scale
from trilith.search.config import SearchConfig
from trilith.training.config import TrainConfig, recipe_config
from trilith.world.tasks import Level, get_task

UNPREFIXED = ("actions", "updates_per_step", "encoder", "budget", "world")
"""Options of a training whose names on the command line have no prefix."""
STARTUP = 5.0
"""Overhead of a command in seconds on one core: imports, loading compiled loops, and ending."""
DECISIONS = {"silhouette": 7, "connecting": 12, "covering": 12, "covering_hard": 6}
"""Approximate number of placements in an episode of the hardest level."""
LEARNER_RATES = {
    "gn-dqn": (6.4, 19.9), "gn-dqn-mcts": (6.4, 19.9), "cnn-gn-dqn": (6.0, 15.7), "cnn-gn-dqn-mcts": (6.0, 15.7), "objects": (6.0, 9.0),
    "gn-rs0": (5.3, 34.0), "rnn-rs0": (12.8, 38.0), "cnn-rs0": (9.1, 35.0), "mlp-rs0": (107.0, 190.0), "cnn-rn-rs0": (1.6, 7.0),
}  # fmt: skip
"""Learner steps per second on one core, by recipe, as a pair: in tasks with large scenes, and in Covering Hard (docs/notebook.md,
docs/reference/speed.md). If the ledger has a training by the same recipe in the same task, its speed is used instead."""
DECISION_RATES = {
    "gn-dqn": (586.0, 1771.0), "gn-dqn-mcts": (586.0, 1771.0), "cnn-gn-dqn": (493.0, 1139.0), "cnn-gn-dqn-mcts": (493.0, 1139.0),
    "objects": (1369.0, 2235.0), "gn-rs0": (1235.0, 1235.0), "rnn-rs0": (1130.0, 1130.0), "cnn-rs0": (896.0, 896.0),
    "mlp-rs0": (1235.0, 1235.0), "cnn-rn-rs0": (448.0, 448.0), "": (3177.0, 3177.0),
}  # fmt: skip
"""Decisions or simulations per second of one core, by recipe, as a pair: in tasks with large scenes, and in Covering Hard
(docs/reference/speed.md, docs/notebook.md). The key "" is for agents without a network."""


@dataclass(frozen=True)
class Run:
    """A training run. Runs with equal fields are one run, which is done only once."""

    name: str
    """Name of the run's folder."""
    recipe: str
    """Exact name of the recipe, with its version."""
    task: str
    seed: int
    options: tuple[tuple[str, Any], ...]
    """Options that differ from the recipe's, by their full names."""
    model_of: Run | None = None
    """For a run that searches in a pretrained transition model: the run on whose episodes this model is trained. None for other runs."""
    model: str = ""
    """The network of the model that `model_of` describes; empty if there is none."""

    @property
    def family(self) -> str:
        """The name of the paper's recipe: without version and without -tuned."""
        return self.recipe.rpartition("-v")[0].removesuffix("-tuned")

    def config(self) -> TrainConfig[Any]:
        """The config of the training, with all options."""
        return with_options(recipe_config(self.recipe, self.task), dict(self.options))

    def arguments(self) -> list[str]:
        """The arguments of `trilith train`, without the folder and the actors."""
        given = [f"--{_argument(name)}={value}" for name, value in self.options]
        return ["train", "--task", self.task, "--recipe", self.recipe, f"--seed={self.seed}", *given]


@dataclass(frozen=True)
class Measurement:
    """An evaluation on test scenes with `zero_on_hit`. `agent` is the name of an agent, or a run, whose last weights are evaluated."""

    agent: Run | str
    task: str
    level: Level
    search: SearchConfig
    scenes: int

    def key(self) -> Key:
        """The key by which the ledger's entry of this measurement is found (see `entry_key`). It does not depend on the number of
        scenes."""
        run = self.agent if isinstance(self.agent, Run) else None
        search = asdict(self.search) if self.search.budget else None
        return _key((run.recipe, dict(run.options), run.seed) if run else None, self.agent, self.task, self.level, search)


Key = tuple[str, int]
"""Identifies a measurement: (description, seed of the training or 0). The description is the same for all seeds of an agent."""


def _key(training: tuple[str, Any, int] | None, agent: Any, task: str, level: Level, search: dict[str, Any] | None) -> Key:
    if training is None:
        return json.dumps([agent, task, level, search], sort_keys=True), 0
    recipe, options, seed = training
    what = json.dumps([recipe, options, task, level, search], sort_keys=True)
    return what.replace(f"-seed{seed}", ""), seed  # the name of a model contains the seed of the run that it comes from


def entry_key(entry: Entry) -> Key | None:
    """The key of the measurement that an entry belongs to. None if no figure uses the entry, for instance because it evaluates a run's best
    weights, or because the agent's own randomness has a seed other than 0."""
    training = entry.training
    if entry.split != "test" or entry.seed or not entry.zero_on_hit or entry.sample or (training and training.weights != "last"):
        return None
    search = {name: value for name, value in entry.search.items() if name != "model"} if entry.search else None
    trained = (training.recipe, training.options, training.seed) if training else None
    return _key(trained, entry.agent, entry.task, entry.level, search)


def index(entries: Iterable[Entry]) -> dict[Key, Entry]:
    """The entries of a ledger by their keys. Entries that no figure uses are left out. Of several entries with the same key, only the one
    with the most scenes is kept."""
    found: dict[Key, Entry] = {}
    for entry in entries:
        key = entry_key(entry)
        if key is not None and (key not in found or entry.scenes > found[key].scenes):
            found[key] = entry
    return found


def missing(tests: Sequence[Measurement], entries: dict[Key, Entry]) -> list[Measurement]:
    """The tests that are not in the ledger, or are there with fewer scenes than needed. `entries` is the result of `index`."""
    return [test for test in tests if (entry := entries.get(test.key())) is None or entry.scenes < test.scenes]


def make_plan(
    figures: Sequence[Figure], scale: str, how: Scale, tasks: Sequence[str], seeds: int, only_first: bool = False
) -> list[Measurement]:
    """Returns all tests that figures need, each once, in the order in which they should run. First come the parts `how.first`, then all
    tests of the first seed, then those of the second, and so on. All tests of an agent in a part follow each other. With `only_first`, only
    the tests of `how.first` are returned.

    `scale` is the name of the scale, and `how` its settings. `tasks` limits the tasks; if empty, the figures' own tasks are used. Each
    agent is tested with at most `seeds` seeds.
    """
    found: dict[Measurement, None] = {}
    rest = () if only_first else (Part(tuple(figure.name for figure in figures), seeds=seeds),)
    for part in (*how.first, *rest):
        for seed in range(min(part.seeds, seeds)):
            by_agent: dict[Run | str, list[Measurement]] = {}
            for figure in figures:
                if figure.name in part.figures:
                    for _, test in measurements_of(figure, scale, how, tasks, seed):
                        if test.task in (part.tasks or FOUR):
                            by_agent.setdefault(test.agent, []).append(test)
            found |= dict.fromkeys(test for tests in by_agent.values() for test in tests)
    return [*found]


def measurements_of(figure: Figure, scale: str, how: Scale, tasks: Sequence[str], seed: int) -> Iterator[tuple[Row, Measurement]]:
    """Yields the tests of a figure for one seed, each with its row. If the figure has trained agents, random legal placements are tested
    too. Searches with larger budgets than the scale allows are left out. `scale` is the name of the scale, and `how` its settings."""
    if figure.kind in ("scenes", "actions"):
        return
    trained = any(row.recipe for row in figure.rows)
    for task in tasks_of(figure, how, tasks):
        rules = get_task(task)
        for row in (*figure.rows, *((LEGAL,) if trained else ())):
            if task not in row.tasks or row.search.budget > (how.max_budget if row.recipe else how.max_raw_budget):
                continue
            for level in figure.levels:
                if isinstance(level, str) and level not in ("all", "hardest", *rules.generalisation):
                    continue
                agent = make_run(row, scale, how, task, seed) if row.recipe else row.name
                scenes = how.scenes if not row.search.budget else how.searched_scenes if row.recipe else how.raw_scenes
                yield row, Measurement(agent, task, level if level == "all" else rules.check_level(level), row.search, scenes)


def tasks_of(figure: Figure, how: Scale, tasks: Sequence[str]) -> list[str]:
    """The tasks of a figure that are also in `tasks`. If `tasks` is empty: all tasks of the figure, or only its last one at a scale with
    `one_task`."""
    if not tasks and how.one_task:
        return [figure.tasks[-1]]
    return [task for task in figure.tasks if not tasks or task in tasks]


def make_run(row: Row, scale: str, how: Scale, task: str, seed: int) -> Run:
    """Returns the training run of a row, for one task and seed. `scale` is the name of the scale, and `how` its settings."""
    tuned = how.tuned and any(f"{row.recipe}-tuned" == each.name for known in ALGORITHMS.values() for each in known.recipes)
    recipe = exact_name(f"{row.recipe}-tuned" if tuned else row.recipe)
    own = {name: value for name, value in row.options if not (tuned and name == "agent.learning_rate")}
    source = make_run(row.model_of, scale, how, task, seed) if row.model_of else None
    if source:
        own["agent.search.world"] = f"models/{source.name}-{row.model}"
    config = with_options(recipe_config(recipe, task), {**how.options, **own})
    marks = "".join(f"-{name.rpartition('.')[2]}_{value}" for name, value in own.items()).replace("/", "_")
    name = f"{scale}-{task}-{recipe}{marks}-seed{seed}"
    return Run(name, recipe, task, seed, tuple(sorted(options_of(config).items())), source, row.model if source else "")


def with_options(config: Any, options: dict[str, Any]) -> Any:
    """Returns a config with some options changed. Options are given by their full names, such as "agent.net.recurrent"."""
    for name, value in options.items():
        head, _, rest = name.partition(".")
        inner = getattr(config, head)
        config = replace(config, **{head: with_options(inner, {rest: value}) if rest and is_dataclass(inner) else value})
    return config


def _argument(name: str) -> str:
    """Converts the full name of an option to its name on the command line."""
    last = name.rpartition(".")[2]
    return (last if last in UNPREFIXED else name).replace("_", "-")


def runs_of(tests: Iterable[Measurement]) -> list[Run]:
    """The training runs that tests need, each once. If a run searches in a model trained on the episodes of another run, it comes after
    that run."""
    found: dict[Run, None] = {}
    for test in tests:
        if isinstance(test.agent, Run):
            if test.agent.model_of:
                found[test.agent.model_of] = None
            found[test.agent] = None
    return [*found]


def run_seconds(run: Run, entries: Iterable[Entry] = ()) -> float:
    """Estimated duration of a training in seconds on one core. If `entries` of the ledger have a training by the same recipe in the same
    task, its speed is used."""
    config, small = run.config(), run.task == "covering_hard"
    rate = LEARNER_RATES[run.family][small]
    for entry in entries:
        done = entry.training
        if done and done.recipe == run.recipe and entry.task == run.task and done.learner_steps and done.core_minutes:
            rate = done.learner_steps / (60 * done.core_minutes)
    limits = [
        60 * config.core_minutes if config.core_minutes is not None else None,
        60 * config.minutes if config.minutes is not None else None,
        config.steps / rate if config.steps is not None else None,
    ]
    return STARTUP + min((limit for limit in limits if limit is not None), default=0.0)


def measurement_seconds(test: Measurement) -> float:
    """Estimated duration of an evaluation in seconds on one core."""
    family = test.agent.family if isinstance(test.agent, Run) else ""
    rate = DECISION_RATES[family][test.task == "covering_hard"]
    return STARTUP + test.scenes * DECISIONS[test.task] * max(1, test.search.budget) / rate
