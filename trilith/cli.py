"""The command line. Every command is a dataclass whose fields are its options; `run` does the work by calling the library.

Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg, subcommand

from trilith.agents.config import SearchConfig
from trilith.console import Progress, show, table_of
from trilith.training.config import TrainConfig, recipe_config

if TYPE_CHECKING:
    from rich.table import Table

    from trilith.episode import State
    from trilith.evaluate import Run
    from trilith.scene import Placement

SHOWN = ("legal", "scripted", "planner", "fast")
"""Agents of the demonstration."""


@dataclass
class Tasks:
    """List the tasks, their levels, what there is to earn and how many actions each action space has.

    Example: trilith tasks
    """

    def run(self) -> None:
        """Prints a table."""
        import numpy as np

        from trilith.actions import DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY
        from trilith.episode import start
        from trilith.tasks import TASKS

        spaces = ("absolute grid", "relative", "relative (x, y)")
        columns = ("task", "levels", "and, to generalise", "most to earn\nall", "\nhardest", "sticky\nblock", "objects")
        table = table_of(*columns, *(f"actions\n{space}" for space in spaces))
        for task in TASKS.values():
            rng = np.random.default_rng(0)
            most = [float(np.mean([task.best(start(task, level, rng).scene) for _ in range(200)])) for level in task.levels]
            objects = task.objects_for("hardest")
            sizes = [DiscreteAbsolute(*task.grid).shape, DiscreteRelative().shape(objects), DiscreteRelativeXY().shape(objects)]
            table.add_row(
                task.name,
                f"{task.levels[0]} to {task.levels[-1]}",
                "\n".join(task.generalisation) or "–",
                f"{np.dot(task.mix, most):.1f}",
                f"{most[-1]:.1f}",
                f"costs {task.sticky_cost:g}" if task.sticky_cost else "free",
                f"≤ {objects}",
                *(f"{int(np.prod(size)):,}" for size in sizes),
            )
        show(table)
        print("Objects and actions are counted for the hardest level at the end of its longest episode; most actions are not legal.")
        print("The continuous action spaces have 4 numbers (absolute) and 5 (relative).")


@dataclass
class Agents:
    """List the agents that need no training of your own, and what the trained ones cost and earn.

    Example: trilith agents
    """

    def run(self) -> None:
        """Prints a table."""
        from trilith.agent import AGENTS, ZOO, shipped
        from trilith.files import read_json

        print(f"Without training: {', '.join(AGENTS)}")
        table = table_of("trained", "task", "recipe", "minutes", "processes", "search", "all", "hardest", "of these solved")
        for folder in sorted(path.name for path in ZOO.glob("*")):
            for task, weights in shipped(folder).items():
                card = read_json(weights.with_suffix(".json"))
                figures = {(each["level"], each["budget"]): each for each in card["test"]}
                for budget in sorted({budget for _, budget in figures}):
                    every, hardest = figures["all", budget], figures["hardest", budget]
                    cost = (card["recipe"], f"{card['cost']['minutes']:g}", str(card["cost"]["processes"]))
                    rewards = (f"{every['reward']:.2f}", f"{hardest['reward']:.2f} ± {hardest['interval']:.2f}", f"{hardest['solved']:.0%}")
                    table.add_row(folder, task, *cost, str(budget or "–"), *rewards)
        show(table)
        print("Mean reward over 1,000 test scenes; search: simulations before each placement.")


@dataclass
class Scene:
    """Draw a scene as a picture, or what an agent's search thinks of it.

    Example: trilith scene covering --level 2 --seed 7 --out scene.png

    Example: trilith scene covering_hard --agent fast --budget 200 --steps 2 --out thoughts.png
    """

    task: Positional[Annotated[str, arg(metavar="TASK")]]
    """Name of a task; `trilith tasks` lists them."""
    level: str = "hardest"
    """A level's number or name, "hardest" or "all"."""
    seed: int = 0
    """The same seed gives the same scene."""
    out: Path = Path("scene.png")
    """Where the picture goes."""
    pixels: int = 640
    """Width and height of the picture."""
    agent: str | None = None
    """Show the placements that this agent's search tried most, with their values and visits; it is drawn 880 wide."""
    budget: int = 100
    """Simulations of that search."""
    steps: int = 0
    """Placements that the agent makes before."""
    shown: int = 12
    """Placements to show: those tried most, of several close together only the first."""

    def run(self) -> None:
        """Writes the picture."""
        import numpy as np

        from trilith.episode import start
        from trilith.render import picture, save_png

        if not 16 <= self.pixels <= 4096:
            raise ValueError(f"{self.pixels} pixels: must be 16 to 4096")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed}: must be 0 or more")
        state = start(self.task, self.level, np.random.default_rng(self.seed))
        if self.agent is None:
            save_png(picture(state.scene, self.pixels), self.out)
        else:
            self._thoughts(state, self.agent)
        print(self.out)

    def _thoughts(self, state: State, name: str) -> None:
        """Draws what a search thinks."""
        import numpy as np

        from trilith.agent import load_agent, trained_for
        from trilith.agents.config import SearchConfig
        from trilith.episode import step
        from trilith.render import thoughts_picture
        from trilith.scene import clipped
        from trilith.search import depth, size
        from trilith.searching import SearchAgent

        if self.budget < 1:
            raise ValueError(f"budget {self.budget}: must be 1 or more")
        agent, rng = load_agent(name, SearchConfig(self.budget)), np.random.default_rng(self.seed)
        if not trained_for(name, self.task):
            raise ValueError(f"the agent {name} was not trained for {self.task}")
        assert isinstance(agent, SearchAgent)
        for _ in range(self.steps):
            [placement] = agent.act([state], [rng])
            state = step(state, placement).state
            if state.ended:
                raise ValueError(f"the episode ends ({state.ended}) after {state.steps} placements: choose fewer than --steps {self.steps}")
        [root] = agent.search([state], [rng])
        ideas: list[tuple[Placement, float, int]] = []
        for action in sorted(root.children, key=lambda each: (-root.counts[each], -root.values[each])):
            placement = agent.agent.placement(state, int(root.names[action]))
            if placement is None or len(ideas) == self.shown:
                continue
            x, y = clipped(placement.x, placement.y)
            if all(abs(x - p.x) > 0.7 or abs(y - p.y) > 0.35 for p, _, _ in ideas):
                ideas.append((placement._replace(x=x, y=y), float(root.values[action]), int(root.counts[action]) - 1))
        facts = f"{size(root)} placements simulated, up to {depth(root)} ahead; {len(root.values)} could be made"
        thoughts_picture(state.scene, ideas, self.out, f"{name}, {self.task}, seed {self.seed}, after {state.steps} placements\n{facts}")


@dataclass
class Film:
    """Film a recorded episode: the blocks fall and settle as they did.

    Example: trilith film episode.json --out episode.gif
    """

    episode: Positional[Annotated[Path, arg(metavar="EPISODE.json")]]
    """A recording, as `trilith evaluate --record` or the page writes it."""
    out: Path = Path("episode.gif")
    """Where the film goes, .gif or .mp4."""
    pixels: int = 480
    """Width and height of the film."""

    def run(self) -> None:
        """Writes the film."""
        from trilith.episode import Recording
        from trilith.files import read_json
        from trilith.render import episode_frames, film

        if not 16 <= self.pixels <= 2048:
            raise ValueError(f"{self.pixels} pixels: must be 16 to 2048")
        data = read_json(self.episode)
        try:
            recording = Recording.from_json(data)
            steps = list(recording.replay(record=True))
        except ValueError as error:
            raise ValueError(f"{self.episode}: {error}") from None
        film(episode_frames(recording.start, steps, self.pixels), self.out)
        print(self.out)


@dataclass
class Demo:
    """Let agents build in every task: a table of rewards, a sheet of what they built, a film of each task.

    Example: trilith demo --agents legal planner --scenes 4 --out demo
    """

    agents: tuple[str, ...] | None = None
    """Agents by name, or folders of training runs; the last one that can build in a task is filmed. Legal, scripted, planner
    and, with the extra `learn`, those that are shipped, unless given."""
    budget: int = 50
    """Simulations a decision: trained agents are shown as they are and once more with search; 0: not so."""
    scenes: int = 8
    """Scenes of each task's hardest level, from its test set."""
    out: Path = Path("demo")
    """Folder for the pictures and films."""

    def run(self) -> None:
        """Prints the table and writes the pictures."""
        from trilith.agent import AGENTS, available, learning, load_agent, trained_for
        from trilith.agents.config import SearchConfig
        from trilith.evaluate import play
        from trilith.files import make_folder
        from trilith.frozen import SIZES, frozen, generator
        from trilith.render import contact_sheet, episode_frames, film, picture, save_png, without_sky
        from trilith.tasks import TASKS

        if not 1 <= self.scenes <= SIZES["test"]:
            raise ValueError(f"{self.scenes} scenes: a test set has 1 to {SIZES['test']}")
        if self.budget < 0:
            raise ValueError(f"budget {self.budget}: must be 0 or more")
        agents = self.agents
        if agents is None:
            agents = tuple(name for name in SHOWN if name in available())
            if not learning():
                print('trained agents need the extra "learn": pip install "trilith[learn]"', file=sys.stderr)
        loaded = {Path(name).name: (name, load_agent(name)) for name in agents}
        for label, (name, _) in list(loaded.items()):
            if self.budget and name not in AGENTS:
                loaded[f"{label} + search"] = name, load_agent(name, SearchConfig(self.budget))
        if not loaded:
            raise ValueError("no agents: name at least one")
        make_folder(self.out)
        table = table_of("task (hardest level)", *loaded, "most to earn")
        pictures, captions = [], []
        with Progress("building", len(TASKS) * len(loaded)) as progress:
            for task in TASKS.values():
                starts = [frozen(task.name, "hardest", "test", index) for index in range(self.scenes)]
                played, means = {}, {}
                for label, (name, agent) in loaded.items():
                    if trained_for(name, task.name):
                        rngs = [generator("trilith agent", 0, f"{task.name}/hardest", index) for index in range(self.scenes)]
                        played[label] = play(agent, starts, rngs)
                        means[label] = sum(end.total for _, end in played[label]) / self.scenes
                    progress.add(1, f"{task.name}, {label}: reward {means[label]:.2f}" if label in means else "")
                most = sum(task.best(state.scene) for state in starts) / self.scenes
                table.add_row(task.title, *(f"{means[label]:.2f}" if label in means else "–" for label in loaded), f"{most:.2f}")
                # The sheet shows one scene for all: the one in which the last agent earned most.
                last = played[[*played][-1]] if played else []
                totals = [end.total for _, end in last]
                best = totals.index(max(totals)) if totals else 0
                for label in loaded:
                    end = played[label][best][1] if label in played else starts[best]
                    pictures.append(without_sky(picture(end.scene, 400)))
                    why = _caption(task.title, label, end.total, task.best(end.scene), end.ended)
                    captions.append(why if label in played else f"{task.title} · {label}\nnot trained for this task")
                if last:
                    recording = last[best][0]
                    film(episode_frames(recording.start, recording.replay(record=True), 400), self.out / f"{task.name}.gif")
        save_png(contact_sheet(pictures, captions, len(loaded)), self.out / "sheet.png")
        show(table)
        print(f"Mean reward over {self.scenes} scenes of each task's hardest level; what was built: {self.out / 'sheet.png'}")
        print("Films: " + ", ".join(str(path) for task in TASKS if (path := self.out / f"{task}.gif").exists()))


@dataclass
class Scenes:
    """Check that the frozen test scenes are what they were, all of them.

    Example: trilith scenes
    """

    freeze: bool = False
    """Write the checksums of a new version of the scenes (raise frozen.VERSION first)."""

    def run(self) -> None:
        """Prints a line per set."""
        from trilith import frozen

        if self.freeze:
            for name in frozen.freeze():
                print(f"{name} frozen")
            return
        changed = []
        for name, same in frozen.check():
            print(f"{name} {'ok' if same else 'CHANGED'}")
            if not same:
                changed.append(name)
        if changed:
            raise ValueError(f"{len(changed)} sets changed, the first {changed[0]}: raise frozen.VERSION and run trilith scenes --freeze")


@dataclass
class SearchOptions:
    """How to search, where there is a budget."""

    c: float = SearchConfig.c
    """Search: weight of the bonus for what has been tried little."""
    stages: Literal[1, 2] = SearchConfig.stages
    """Search: 2 chooses first the edge, then the action; 1 any action at once."""
    root: Literal["bound", "halving"] = SearchConfig.root
    """Search: how actions are chosen at the root, by the upper confidence bound or by sequential halving."""

    considered: int = SearchConfig.considered
    """Search: actions that halving begins with."""

    def config(self, budget: int) -> SearchConfig:
        """With a budget."""
        return SearchConfig(budget, self.c, self.stages, self.root, self.considered)

    def marks(self, config: SearchConfig) -> str:
        """What a file's name says of a search."""
        usual = SearchConfig()
        parts = [f"-budget{config.budget}"]
        parts += [
            f"-{name}{getattr(config, name)}"
            for name in ("c", "stages", "root", "considered")
            if getattr(config, name) != getattr(usual, name)
        ]
        return "".join(parts) if config.budget else ""


@dataclass
class Evaluate:
    """Measure an agent on frozen scenes. Stopped or killed, the same command goes on where it was.

    Example: trilith evaluate planner --task covering --level hardest --scenes 500 --workers 2
    """

    agent: Positional[Annotated[str, arg(metavar="AGENT")]]
    """An agent by its name (random, legal, scripted, planner), or the folder of a training run, or a file of its weights."""
    task: str
    """Name of a task; `trilith tasks` lists them."""
    level: str = "hardest"
    """A level's number or name, "hardest", or "all" for the training mix."""
    split: str = "test"
    """The scenes: "test" (10,000, for figures) or "valid" (1,000, to watch a training by)."""
    scenes: int = 1000
    """How many of them, from the first."""
    workers: int = 2
    """Processes; the result does not depend on it."""
    seed: int = 0
    """Of the agent's own randomness."""
    forfeit: bool = False
    """Touching an obstacle takes back all that was earned, as the paper says."""
    budget: str = "0"
    """Simulations a decision, for an agent that values actions (a trained one; legal: a raw search); several, as 0,10,50, in a row."""
    search: OmitArgPrefixes[SearchOptions] = field(default_factory=SearchOptions)
    worst: int = 10
    """Episodes to show and to keep in the result: those that fell furthest short."""
    out: Path | None = None
    """Result file; by default its name in the folder results says what was measured."""
    record: Path | None = None
    """Folder for a recording of every episode, to film or to open in the page."""

    def run(self) -> None:
        """Runs what is left to do, writes the result and prints it."""
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # however many workers: threads may change a network's last digits
        from trilith.evaluate import Evaluation, Run

        if self.workers < 1:
            raise ValueError(f"{self.workers} workers: must be 1 or more")
        searches = [self.search.config(budget) for budget in _budgets(self.budget)]
        if len(searches) > 1 and (self.out or self.record):
            raise ValueError(f"--out and --record are for one budget, not for {self.budget}")
        todo = [
            Evaluation(self.agent, self.task, self.level, self.split, self.scenes, self.seed, self.forfeit, search, self.worst)  # type: ignore[arg-type]
            for search in searches
        ]
        runs = []
        for evaluation in todo:
            marks = (f"-seed{self.seed}" if self.seed else "") + ("-forfeit" if self.forfeit else "") + self.search.marks(evaluation.search)
            name = f"{Path(self.agent).name}-{self.task}-{self.level}-{self.split}-{self.scenes}{marks}.json"
            runs.append(Run(evaluation, self.out or Path("results") / name, self.record))
        for run in runs:  # what any of them cannot do has been told by now
            self._one(run)

    def _one(self, run: Run) -> None:
        rewards = [episode["reward"] for episode in run.episodes()]
        before, begin = len(rewards), time.monotonic()
        if run.result is not None:
            print(f"done before: remove {run.out} to measure again", file=sys.stderr)
        else:
            if rewards:
                print(f"going on after {before} of {self.scenes} episodes", file=sys.stderr)
            budget = run.evaluation.search.budget
            by = f", budget {budget}" if budget else ""
            with Progress(f"{self.agent}, {self.task}{by}", self.scenes, before) as progress:
                try:
                    for episodes in run.run(self.workers):
                        rewards += [episode["reward"] for episode in episodes]
                        progress.add(len(episodes), f"reward {sum(rewards) / len(rewards):.3f}")
                except KeyboardInterrupt:
                    progress.stop()
                    kept = f"{len(run.episodes())} of {self.scenes} episodes are kept"
                    print(f"stopped: {kept}, the same command goes on from there", file=sys.stderr)
                    raise SystemExit(130) from None
            count, seconds = len(rewards) - before, time.monotonic() - begin
            print(f"{count} episodes in {seconds:.1f} s: {count / max(seconds, 1e-9):.1f} episodes/s", file=sys.stderr)
        result = run.finish()
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


@dataclass
class Report:
    """Tables and figures of evaluations, beside the paper's.

    Example: trilith report results --out report
    """

    results: Positional[Annotated[Path, arg(metavar="FOLDER")]]
    """Folder with result files of `trilith evaluate`."""
    out: Path = Path("report")
    """Folder for report.md and its figures."""

    def run(self) -> None:
        """Writes the report."""
        from trilith.report import write_report

        print(write_report(self.results, self.out))


@dataclass
class Web:
    """Open a page in the browser to build by hand and to watch agents.

    Example: trilith web --port 8000
    """

    path: Positional[Path | None] = None
    """A recorded episode or a result file to open."""
    host: str = "127.0.0.1"
    """Address to listen on; others than this machine can reach the page only if this says so."""
    port: int = 8000
    """Port to listen on."""
    browser: bool = True
    """Open the browser."""
    agents: tuple[str, ...] = ()
    """Further agents to offer: folders of training runs, or files of weights."""
    budget: int = 50
    """Simulations a decision of trained agents that search; 0 offers none that do."""

    def run(self) -> None:
        """Serves until interrupted."""
        try:
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError:
            raise ValueError('the page needs more packages: pip install "trilith[web]"') from None
        from trilith.web import serve

        if self.budget < 0:
            raise ValueError(f"budget {self.budget}: must be 0 or more")
        serve(self.host, self.port, self.browser, self.path, self.agents, self.budget)


@dataclass
class Train:
    """Train an agent. Ctrl-C saves; stopped or killed, --resume goes on.

    Example: trilith train --task covering_hard --recipe fast --minutes 60 --out runs/x

    Example: trilith train --resume runs/x --minutes 90
    """

    config: OmitArgPrefixes[TrainConfig]
    resume: Path | None = None
    """Go on with the run of this folder; of the other options only --minutes, --steps and --actors count then."""

    def run(self) -> None:
        """Trains until it is time to stop."""
        try:
            from trilith.training.run import resume, train
        except ImportError as error:
            raise ValueError(_needs_learning(error)) from None
        if self.resume is None:
            train(self.config)
        else:
            given = {name for name in ("minutes", "steps", "actors") if getattr(self.config, name) != getattr(TrainConfig(), name)}
            resume(self.resume, **{name: getattr(self.config, name) for name in given})


@dataclass
class Plot:
    """Draw the learning curves of runs.

    Example: trilith plot runs/x runs/y --out curves.png
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs."""
    out: Path = Path("curves.png")
    """Where the picture goes."""
    across: Literal["minutes", "step", "actor_steps"] = "minutes"
    """What the horizontal axis counts."""

    def run(self) -> None:
        """Writes the picture."""
        from trilith.training.plot import plot

        plot(self.runs, self.out, self.across)
        print(self.out)


COMMANDS = {
    "tasks": Tasks,
    "agents": Agents,
    "scene": Scene,
    "film": Film,
    "demo": Demo,
    "web": Web,
    "evaluate": Evaluate,
    "report": Report,
    "train": Train,
    "plot": Plot,
    "scenes": Scenes,
}


def _parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments name. Raises SystemExit as a parser does, ValueError for an unknown recipe."""
    # The recipe gives the defaults of all other options of a training, so it has to be known before they are read.
    recipe = TrainConfig().recipe
    for argument, following in pairwise([*arguments, ""]):
        if argument.startswith("--recipe"):
            recipe = argument.partition("=")[2] or following
    defaults = {"train": Train(recipe_config(recipe))}
    choices: Any = None
    for name, command in COMMANDS.items():
        choice = Annotated[command, subcommand(name, **({"default": defaults[name]} if name in defaults else {}))]  # type: ignore[valid-type]
        choices = choice if choices is None else choices | choice
    return tyro.cli(choices, args=arguments, prog="trilith", description="Agents that learn to build with blocks.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Bad input gets one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where "≤" cannot be shown, "?" does
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            command = _parse(sys.argv[1:] if arguments is None else arguments)
        command.run()
        sys.stdout.flush()
    except SystemExit as stop:
        if stop.code and errors.getvalue():
            print(f"trilith: {_one_line(errors.getvalue())}", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of our output, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or it is tried, and complained about, once more at exit
        raise SystemExit(1) from None
    except (ValueError, OSError) as error:
        print(f"trilith: {' '.join(str(error).splitlines())}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _budgets(text: str) -> list[int]:
    """Numbers of simulations from text such as 0,10,50."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"budget {text!r}: must be a number of simulations, or several as 0,10,50")
    return [int(part) for part in text.split(",")]


def _needs_learning(error: ImportError) -> str:
    return f'training needs more packages ({error.name} is missing): pip install "trilith[learn]"'


def _one_line(box: str) -> str:
    """What a parser's framed message says, without frame and advice."""
    words: list[str] = []
    titled = False
    for line in box.splitlines():
        text = line.strip(" │")
        if text.startswith(("For full helptext", "Argument helptext")):
            break
        if text and set(text) == {"-"}:  # a frame of plain letters: a title, then a rule
            words, titled = words if titled else [], True
        elif text and text[0] not in "╭╰─":
            words.append(text)
    said = re.sub(r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number", " ".join(words))
    return said or "bad arguments: see --help"


def _caption(task: str, agent: str, total: float, most: float, reason: str | None) -> str:
    return f"{task} · {agent}\n{total:.2f} of {most:.2f} · {(reason or 'not ended').replace('_', ' ')}"


def _result_table(result: dict[str, Any]) -> Table:
    search = f", search {result['search']['budget']}" if result["search"] else ""
    table = table_of(
        f"{result['agent']}{search}, {result['task']}, level {result['level']}, {result['episodes']} {result['split']} scenes", ""
    )
    interval = f" ± {result['interval']:.3f}" if result["interval"] is not None else ""
    table.add_row("mean reward (95 % interval)", f"{result['reward']:.3f}{interval}")
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


if __name__ == "__main__":
    main()
