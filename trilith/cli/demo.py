"""Agents build in every task, to be looked at."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from trilith.support.console import Progress, show, table_of

SHOWN = ("legal", "scripted", "planner", "fast")
"""Agents of the demonstration."""


@dataclass
class Demo:
    """Let agents build in every task: a table of rewards, a sheet of what they built, a film of each task.

    Example: trilith demo --agents legal planner --scenes 4 --out demo
    """

    agents: tuple[str, ...] | None = None
    """Agents by name, or folders of training runs; the last one that can build in a task is filmed. Legal, scripted, planner
    and, with the extra `learn`, fast, unless given."""
    budget: int = 50
    """Simulations a decision: trained agents are shown as they are and once more with search; 0: without only."""
    scenes: int = 8
    """Scenes of each task's hardest level, from its test set."""
    out: Path = Path("demo")
    """Folder for the pictures and films."""

    def run(self) -> None:
        """Prints the table and writes the pictures."""
        from trilith.agents.registry import AGENTS, available, learning, load, short_names, trained_for
        from trilith.evaluation.frozen import SIZES, frozen, generator
        from trilith.evaluation.play import play
        from trilith.render.pictures import contact_sheet, episode_frames, film, picture, save_png, without_sky
        from trilith.search.agent import Valuer
        from trilith.search.config import SearchConfig
        from trilith.support.files import make_folder
        from trilith.world.tasks import TASKS

        if not 1 <= self.scenes <= SIZES["test"]:
            raise ValueError(f"{self.scenes} scenes: a test set has 1 to {SIZES['test']}")
        if self.budget < 0:
            raise ValueError(f"budget {self.budget}: must be 0 or more")
        agents = self.agents
        if agents is None:
            agents = tuple(name for name in SHOWN if name in available())
            if not learning():
                print('trained agents need the extra "learn": pip install -e ".[learn]" in the clone', file=sys.stderr)
        labels = short_names({Path(name) for name in agents})
        loaded = {labels[Path(name)]: (name, load(name)) for name in agents}
        for label, (name, agent) in list(loaded.items()):
            if self.budget and name not in AGENTS and isinstance(agent, Valuer):
                loaded[f"{label} + search"] = name, load(name, SearchConfig(self.budget))
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
                last = played[[*played][-1]] if played else []
                for label in loaded:  # the sheet shows the first scene, nothing chosen
                    end = played[label][0][1] if label in played else starts[0]
                    pictures.append(without_sky(picture(end.scene, 400)))
                    why = _caption(task.title, label, end.total, task.best(end.scene), end.ended)
                    captions.append(why if label in played else f"{task.title} · {label}\nnot trained for this task")
                if last:
                    recording = last[0][0]
                    film(episode_frames(recording.start, recording.replay(record=True), 400), self.out / f"{task.name}.gif")
        save_png(contact_sheet(pictures, captions, len(loaded)), self.out / "sheet.png")
        show(table)
        print(f"Mean reward over {self.scenes} scenes of each task's hardest level.")
        print(f"What was built in the first of them: {self.out / 'sheet.png'}")
        print("Films: " + ", ".join(str(path) for task in TASKS if (path := self.out / f"{task}.gif").exists()))


def _caption(task: str, agent: str, total: float, most: float, reason: str | None) -> str:
    why = (reason or "not ended").replace("_", " ")
    return f"{task} · {agent}\n{total:.2f} of {most:.2f} · {why}"
