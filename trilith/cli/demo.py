"""The command `demo`: agents build in every task."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trilith.utils.checks import require
from trilith.utils.console import Progress, show, table_of

if TYPE_CHECKING:
    import numpy as np

    from trilith.agents.base import Agent
    from trilith.world.episode import State
    from trilith.world.scene import Placement

SHOWN = ("legal", "scripted", "planner", "objects")
"""Names of the agents that are shown by default."""


@dataclass
class Demo:
    """Let agents build in every task. Makes a table of rewards, a sheet with pictures of the final scenes, and a film of each task.

    Example: trilith demo --agents legal planner --scenes 4 --out demo
    """

    agents: tuple[str, ...] | None = None
    """Agents by name, or folders of training runs. In each task, the last agent that can build in it is filmed; agents with search come
    last. None: legal, scripted, planner and objects."""
    budget: int = 10
    """Simulations per decision. Trained agents are shown without search and with search; if the budget is 0, only without search."""
    world: str = "simulator"
    """The transition model in which agents search: simulator, the folder of a learned model, or my_module:MyWorld."""
    scenes: int = 8
    """Number of scenes in each task: the first ones in the test set of the hardest level."""
    out: Path = Path("demo")
    """Folder for the pictures and films."""

    def run(self) -> None:
        """Prints the table and writes the pictures."""
        from trilith.utils.distributed.processes import limit_threads
        from trilith.utils.files import make_folder

        limit_threads(1)  # networks are small: on a busy machine, threads would wait ten times as long as they compute
        begun = not self.out.exists()
        loaded = self._load()
        make_folder(self.out)
        written: list[Path] = []
        try:
            self._build(loaded, written)
        except KeyboardInterrupt:
            kept = ", ".join(str(path) for path in written if path.exists())
            print(f"stopped: {f'what was written is kept: {kept}' if kept else 'nothing was written'}", file=sys.stderr)
            raise SystemExit(130) from None
        finally:
            if begun and not any(self.out.iterdir()):
                self.out.rmdir()

    def _load(self) -> dict[str, tuple[str, Agent]]:
        """Loads the agents. Maps the label of each agent to (name, agent). Agents that can search are included a second time, with search,
        unless they need no training or the budget is 0. Raises ValueError for an agent that cannot be shown."""
        from trilith.agents.registry import AGENTS, available, load, short_names
        from trilith.evaluation.scene_sets import SIZES
        from trilith.search.agent import Valuer
        from trilith.search.config import SearchConfig

        require(1 <= self.scenes <= SIZES["test"], f"{self.scenes} scenes: a test set has 1 to {SIZES['test']}")
        require(self.budget >= 0, f"budget {self.budget}: must be 0 or more")
        agents = self.agents
        if agents is None:
            agents = tuple(name for name in SHOWN if name in available())
        labels = short_names({Path(name) for name in agents})
        loaded = {labels[Path(name)]: (name, load(name)) for name in agents}
        for label, (name, agent) in list(loaded.items()):
            if self.budget and name not in AGENTS and isinstance(agent, Valuer):
                loaded[f"{label} + search"] = name, load(name, SearchConfig(self.budget, world=self.world))
        require(loaded, "no agents: name at least one")
        return loaded

    def _build(self, loaded: dict[str, tuple[str, Agent]], written: list[Path]) -> None:
        """Lets the agents build, prints the table, and writes the pictures and films. `loaded` is the result of `_load`. Adds the path of
        each film to `written` before the film is written."""
        from trilith.agents.registry import trained_for
        from trilith.evaluation.play import play
        from trilith.evaluation.scene_sets import generator, start_in_set
        from trilith.render.pictures import contact_sheet, episode_frames, film, picture, save_png, without_sky
        from trilith.world.tasks import TASKS

        starts = {name: [start_in_set(name, "hardest", "test", index) for index in range(self.scenes)] for name in TASKS}
        able = {task: [label for label, (name, _) in loaded.items() if trained_for(name, task)] for task in TASKS}
        print("getting ready: agents are loaded and, once after an installation, compiled", file=sys.stderr, flush=True)
        for name, first in starts.items():
            for label in able[name]:
                loaded[label][1].act(first[:1], [generator("trilith demo", name, label)])
        work = {(name, label): self._seconds(label, first[0]) for name, first in starts.items() for label in able[name]}
        films = {name: 0.2 * first[0].max_steps for name, first in starts.items() if able[name]}
        table = table_of("task (hardest level)", *loaded, "most to earn")
        pictures, captions = [], []
        with Progress("building", sum(work.values()) + sum(films.values()), share=True) as progress:
            for task in TASKS.values():
                played, means = {}, {}
                for label in able[task.name]:
                    rngs = [generator("trilith agent", 0, f"{task.name}/hardest", index) for index in range(self.scenes)]
                    share = work[task.name, label] / starts[task.name][0].max_steps
                    before, what = progress.done, f"{task.title}, {label}"
                    watched = _Watched(loaded[label][1], lambda share=share, what=what: progress.add(share, what))  # type: ignore[misc]
                    played[label] = play(watched, starts[task.name], rngs)
                    means[label] = sum(end.total for _, end in played[label]) / self.scenes
                    progress.add(before + work[task.name, label] - progress.done, f"{what}: reward {means[label]:.2f}")
                most = sum(task.best(state.scene) for state in starts[task.name]) / self.scenes
                table.add_row(task.title, *(f"{means[label]:.2f}" if label in means else "–" for label in loaded), f"{most:.2f}")
                for label in loaded:  # the sheet always shows the first scene, so that no scene is selected
                    end = played[label][0][1] if label in played else starts[task.name][0]
                    pictures.append(without_sky(picture(end.scene, 400)))
                    why = f"{end.total:.2f} of {task.best(end.scene):.2f} · {(end.ended or 'not ended').replace('_', ' ')}"
                    captions.append(f"{task.title} · {label}\n{why if label in played else 'not trained for this task'}")
                if played:
                    builder = [*played][-1]
                    recording, path = played[builder][0][0], self.out / f"{task.name}.gif"
                    written.append(path)  # before the file exists, so that after Ctrl-C every file is named
                    film(episode_frames(recording.start, recording.replay(record=True), 400, builder), path)
                    progress.add(films[task.name], str(path))
        save_png(contact_sheet(pictures, captions, len(loaded), legend=True), self.out / "sheet.png")
        show(table)
        print(f"Mean reward over {self.scenes} scenes of each task's hardest level.")
        for label, (name, _) in loaded.items():
            if said := learned(label, name, self.budget, self.world):
                print(said)
        print(f"Final scenes of the first of these: {self.out / 'sheet.png'}")
        print(f"Films: {', '.join(map(str, written))}")

    def _seconds(self, label: str, first: State) -> float:
        """Estimates the seconds that an agent needs for its scenes on one core, for the progress bar. `first` is the initial state in one
        of the scenes."""
        if label.endswith(" + search"):
            return 1e-3 * self.budget * first.max_steps * self.scenes
        return (0.3 if label == "planner" else 0.03) * self.scenes


class _Watched:
    """Wraps `agent`, and calls the function `acted` after each call of `act`."""

    def __init__(self, agent: Agent, acted: Callable[[], None]) -> None:
        self._agent, self._acted = agent, acted

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """Returns the agent's placements."""
        placements = self._agent.act(states, rngs)
        self._acted()
        return placements


def learned(label: str, name: str, budget: int, world: str = "simulator") -> str:
    """Describes the training of a shipped agent or, if the label ends in "+ search", its search. Returns "" for any other agent."""
    from trilith.agents.registry import shipped
    from trilith.utils.files import read_json

    cards = [read_json(weights.with_suffix(".json")) for weights in shipped(name).values()]
    if not cards:
        return ""
    if label.endswith(" + search"):
        where = "the simulator" if world == "simulator" else f"the world {world}"
        return f"{label}: the same network, which now tries {budget} placements in {where} before each one it makes."
    minutes = [card["cost"].get("core_minutes", card["cost"]["minutes"]) for card in cards]
    return (
        f"{label}: a network that sees objects and learned what each placement is worth from its own play alone, in {min(minutes):.0f} to "
        f"{max(minutes):.0f} minutes of one core a task. The planner, scripted and legal have learned nothing: people wrote them."
    )
