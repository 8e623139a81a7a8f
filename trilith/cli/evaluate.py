"""The commands `evaluate`, which measures agents on frozen scenes, and `report`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from trilith.search.config import SearchConfig, SearchOptions
from trilith.utils.checks import require
from trilith.utils.console import show, table_of, tracked
from trilith.utils.files import make_folder
from trilith.utils.seeds import run_and_seed, seed_runs

if TYPE_CHECKING:
    from rich.table import Table

    from trilith.evaluation.runner import Run


@dataclass(kw_only=True)
class SceneOptions:
    """Options of commands that let agents play the scenes of a frozen set."""

    task: str
    """Name of a task, which `trilith tasks` lists, or a class of your own in a module of this folder, as my_module:MyTask."""
    level: str = "hardest"
    """A level's number or name, "hardest", or "all" for the training mix."""
    split: str = "test"
    """The set of scenes: "test" (10,000 scenes, for reported results) or "valid" (1,000 scenes, to monitor a training)."""
    scenes: int = 1000
    """Number of scenes, counted from the first."""
    workers: int = 2
    """Number of processes. The result does not depend on it."""
    zero_on_hit: bool = False
    """The return of an episode is 0 if a block touches an obstacle, as in the paper."""
    fresh: bool = False
    """Start over: replace an earlier result of the same name, whether it is finished or not."""
    search: SearchOptions = field(default_factory=SearchOptions)


@dataclass(kw_only=True)
class Evaluate(SceneOptions):
    """Measure an agent on frozen scenes. After a stop or a kill, the same command resumes.

    Example: trilith evaluate planner --task covering --level hardest --scenes 500 --workers 2
    """

    agent: Positional[Annotated[str, arg(metavar="AGENT")]]
    """The agent: a name that `trilith agents` lists, the folder of a training run or of the runs of several seeds, a file of weights, or a
    class of your own in a module of this folder, as my_module:MyAgent."""
    cluster: str | None = None
    """Run the workers on a Ray cluster: a new one on this machine (local), one that already runs on this machine (auto), or one that this
    machine belongs to (its address, as 10.0.0.1:6379). The result does not depend on it."""
    seed: int = 0
    """Seed of the agent's own randomness."""
    budget: str = "0"
    """Simulations per decision, for a trained agent with action values, or for legal or random (a search without a network). Several
    budgets, such as 0,10,50, are evaluated one after another."""
    sample: bool = False
    """Sample from the policy of an agent with continuous actions, instead of taking its best action."""
    worst: int = 10
    """Number of worst episodes to show and to keep in the result: those furthest below the highest possible reward."""
    out: Path | None = None
    """Result file. By default it is in the folder results, and its name has the agent, the scenes and the search. Only
    for one budget and one run, as --record."""
    record: Path | None = None
    """Folder for a recording of every episode, to film or to open in the page."""
    ledger: Path | None = None
    """Folder of a ledger. The evaluation is added to the ledger with all its actions, so that `trilith verify` can check it by replay."""

    def run(self) -> None:
        """Runs the remaining episodes, and writes and prints the results."""
        runs = self.runs()  # all runs are checked before the first one starts
        if self.ledger:
            from trilith.paper.ledger import check_can_enter

            for run in runs:
                require(run.result is None, f"{run.out} is done, and its actions are not kept: start over with --fresh")
                check_can_enter(run.evaluation)
            make_folder(self.ledger)
        results = []
        for run in runs:
            result = self.measure(run)
            results.append(result)
            show(_result_table(result))
            if self.worst:
                table = table_of("worst scenes", "level", "reward", "most", "reason", "steps")
                for episode in result["worst"][: self.worst]:
                    table.add_row(
                        str(episode["index"]), str(episode["start"]["level"]), f"{episode['reward']:.2f}",
                        f"{episode['most']:.2f}", episode["reason"], str(len(episode["placements"])),
                    )  # fmt: skip
                show(table)
            print(run.out)
        seeds = len(seed_runs(self.agent))
        for same in zip(*[iter(results)] * seeds, strict=True) if seeds > 1 else ():
            show(_seeds_table(self.agent, same))

    def runs(self) -> list[Run]:
        """Returns the evaluations to run: for each budget, in the given order, all seeds. Each has a result file of its own. Raises
        ValueError if one of them cannot be run."""
        from trilith.evaluation.runner import Evaluation, Run
        from trilith.evaluation.scene_sets import has_checksum

        require(self.workers >= 1, f"{self.workers} workers: must be 1 or more")
        searches = [SearchConfig(budget, **vars(self.search)) for budget in _budgets(self.budget)]
        agents, one_file = seed_runs(self.agent), not self.out and not self.record
        require(len(searches) <= 1 or one_file, f"--out and --record are for one budget, not for {self.budget}")
        require(
            len(agents) <= 1 or one_file, f"--out and --record are for one run, and {self.agent} holds {len(agents)}: choose {agents[0]}"
        )
        todo = [
            Evaluation(
                agent,
                self.task,
                self.level,
                self.split,  # type: ignore[arg-type]
                self.scenes,
                self.seed,
                self.zero_on_hit,
                search,
                self.sample,
                self.worst,
            )
            for search in searches
            for agent in agents
        ]
        marks = {f"-seed{self.seed}": self.seed, "-zero-on-hit": self.zero_on_hit, "-sample": self.sample}
        marked = f"{self.scenes}{''.join(mark for mark, given in marks.items() if given)}"
        name = f"{self.task.replace(':', '-')}-{self.level}-{self.split}-{marked}"
        files = [self.out or Path("results") / f"{_file_name(each.agent)}-{name}{_marks(each.search)}.json" for each in todo]
        runs = [Run(each, file, self.record, self.fresh) for each, file in zip(todo, files, strict=True)]
        if not has_checksum(self.task):
            note = "compare only results with the same checksum"
            print(f"no checksum in the package guards the scenes of {self.task}, a task of your own: {note}", file=sys.stderr)
        return runs

    def measure(self, run: Run) -> dict[str, Any]:
        """Runs the remaining episodes of one evaluation. Writes its result and, with a ledger, its entry. Returns the result."""
        run.compile()
        rewards = [episode["reward"] for episode in run.episodes()]
        before, begin = len(rewards), time.monotonic()
        if run.result is not None:
            print("done before: to measure again, start over with --fresh", file=sys.stderr)
        else:
            if rewards:
                print(f"resuming after {before} of {self.scenes} episodes", file=sys.stderr)
            budget = run.evaluation.search.budget
            parts = ([episode["reward"] for episode in episodes] for episodes in run.run(self.workers, self.cluster))
            tracked(
                f"{run.evaluation.agent}, {self.task}{f', budget {budget}' if budget else ''}",
                self.scenes,
                rewards,
                parts,
                without="--fresh" if self.fresh else "",
            )
            count, seconds = len(rewards) - before, time.monotonic() - begin
            print(f"{count} episodes in {seconds:.1f} s: {count / max(seconds, 1e-9):.1f} episodes/s", file=sys.stderr)
        if self.ledger:  # before the result, which drops the actions: if this fails, the same command resumes here
            from trilith.paper.ledger import make_entry, write_entry

            print(write_entry(self.ledger, make_entry(run.evaluation, run.episodes())))
        return run.finish()


@dataclass
class Report:
    """Write a report with tables and figures of evaluations, beside the paper's results.

    Example: trilith report results --out report
    """

    results: Positional[Annotated[Path, arg(metavar="FOLDER")]]
    """Folder with result files of `trilith evaluate`."""
    out: Path = Path("report")
    """Folder for report.md and its pictures."""

    def run(self) -> None:
        """Writes the report."""
        from trilith.evaluation.report import write_report

        print(write_report(self.results, self.out))


def _file_name(agent: str) -> str:
    """The first part of a result file's name: the last part of the agent's path. If the agent is one of several seeds, the name of the run
    comes before it, as in x-seed1 for runs/x/seed1."""
    path, (run, _) = Path(agent), run_and_seed(agent)
    return (path.name if run == path else f"{run.name}-{path.name}").replace(":", "-")


def _marks(search: SearchConfig) -> str:
    """The last part of a result file's name: the budget of the search, and the options that differ from the defaults. Returns "" without
    search."""
    usual = asdict(SearchConfig(search.budget))
    parts = [f"-{name}{value}" for name, value in asdict(search).items() if value != usual[name]]
    return re.sub(r"[:/\\]", "-", "".join([f"-budget{search.budget}", *parts])) if search.budget else ""


def _budgets(text: str) -> list[int]:
    """Parses one or several numbers of simulations, such as 0,10,50. Raises ValueError for any other text."""
    require(re.fullmatch(r"\d+(,\d+)*", text), f"budget {text!r}: must be a number of simulations, or several as 0,10,50")
    return [int(part) for part in text.split(",")]


def _seeds_table(agent: str, results: Sequence[dict[str, Any]]) -> Table:
    """Makes a table with the rewards of several seeds of an agent on the same scenes. `results` has one result per seed."""
    import numpy as np

    from trilith.evaluation.statistics import bootstrap, interquartile_mean, mean_over_seeds, spread_of_seeds

    means, first = [result["reward"] for result in results], results[0]
    search = f", search {first['search']['budget']}" if first["search"] else ""
    table = table_of(f"{agent}{search}, {first['task']}, level {first['level']}, {first['episodes']} scenes, {len(means)} seeds", "")
    spread, mean = spread_of_seeds(means), mean_over_seeds(means)
    table.add_row("median seed (lowest to highest)", f"{spread.median:.3f} ({spread.low:.3f} to {spread.high:.3f})")
    table.add_row("mean (95 % interval over seeds)", f"{mean.value:.3f} ± {mean.high - mean.value:.3f}")
    middle = bootstrap([np.array([result["rewards"] for result in results])], interquartile_mean, np.random.default_rng(0))
    table.add_row("interquartile mean (bootstrap over seeds)", f"{middle.value:.3f} ({middle.low:.3f} to {middle.high:.3f})")
    return table


def _result_table(result: dict[str, Any]) -> Table:
    search = f", search {result['search']['budget']}" if result["search"] else ""
    table = table_of(
        f"{result['agent']}{search}, {result['task']}, level {result['level']}, {result['episodes']} {result['split']} scenes", ""
    )
    interval = f" ± {result['interval']:.3f}" if result["interval"] is not None else ""
    table.add_row("mean reward (95 % interval over scenes)", f"{result['reward']:.3f}{interval}")
    for name, rule in (
        ("kept", "if what was earned before an obstacle is touched is kept"),
        ("forfeited", "if it is forfeited, as in the paper"),
    ):
        if result.get(name) is not None:
            table.add_row(f"  {rule}", f"{result[name]:.3f}")
    table.add_row("share of the most there is to earn", f"{result['share']:.1%}")
    table.add_row("fully solved", f"{result['solved']:.1%}")
    table.add_row("blocks, sticky ones", f"{result['blocks']:.2f}, {result['glue']:.2f}")
    for reason, count in result["reasons"].items():
        if count:
            table.add_row(f"ended by {reason}", f"{count / result['episodes']:.1%}")
    if len(result["by_level"]) > 1:
        for level, each in result["by_level"].items():
            table.add_row(f"reward at level {level}", f"{each['reward']:.3f} of {each['most']:.3f}")
    return table
