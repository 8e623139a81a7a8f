"""Pictures of the README and of the task pages: `python tools/pictures.py` writes them to docs/images.

- `tasks.png`: the first hardest test scene of each task at its start and, below, after `objects` built in it with 10 simulations.
- `TASK_built.gif`: the same episode as a film; `building.gif`: that of Covering Hard in a larger size, for the README.
- `TASK_failure.gif`: the first hardest test scene that `objects` does not complete without search.
- `TASK_levels.png`: the first test scene of each level.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from trilith.agents.base import Agent
from trilith.agents.registry import load
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import generator, start_in_set
from trilith.render.pictures import FPS, contact_sheet, episode_frames, film, picture, save_png, without_sky
from trilith.render.raster import Picture
from trilith.search.config import SearchConfig
from trilith.world.episode import Recording, State
from trilith.world.tasks import TASKS, Level
from trilith.world.tasks.task import Task

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FILM_PIXELS, README_PIXELS = 280, 480
STRIDE = 4
"""Every fourth frame is kept: on a page, a small file is worth more than smooth falls."""


def main() -> None:
    """Writes all pictures."""
    searching, plain = load("objects", SearchConfig(10)), load("objects")
    before, after = list[Picture](), list[Picture]()
    titles, captions = list[str](), list[str]()
    for task in TASKS.values():
        recording, end = _episode(searching, task, 0)
        for scene, pictures in ((recording.start.scene, before), (end.scene, after)):
            pictures.append(without_sky(picture(scene, 640)))
        titles.append(task.title)
        captions.append(f"reward {end.total:.2f} of {task.best(end.scene):.2f}")
        film(_frames(recording, FILM_PIXELS, "objects + search"), IMAGES / f"{task.name}_built.gif", FPS / STRIDE)
        if task.name == "covering_hard":
            film(_frames(recording, README_PIXELS, "objects + search"), IMAGES / "building.gif", FPS / STRIDE)
        failed = next(recording for recording, end in (_episode(plain, task, index) for index in count()) if end.ended != "complete")
        film(_frames(failed, FILM_PIXELS, "objects"), IMAGES / f"{task.name}_failure.gif", FPS / STRIDE)
        levels: list[Level] = [*task.levels, *task.generalisation]
        first = [without_sky(picture(start_in_set(task.name, level, "test", 0).scene, 320)) for level in levels]
        save_png(contact_sheet(first, [f"level {level}".replace("_", " ") for level in levels], 4), IMAGES / f"{task.name}_levels.png")
    save_png(contact_sheet([*before, *after], [*titles, *captions], len(TASKS), legend=True), IMAGES / "tasks.png")


def _episode(agent: Agent, task: Task, index: int) -> tuple[Recording, State]:
    """The agent's episode in test scene `index` of the hardest level: its recording and its final state."""
    [played] = play(agent, [start_in_set(task.name, "hardest", "test", index)], [generator("pictures", task.name)])
    return played


def _frames(recording: Recording, pixels: int, by: str) -> Iterator[Picture]:
    """Every `STRIDE`-th frame of an episode."""
    return islice(episode_frames(recording.start, recording.replay(record=True), pixels, by), 0, None, STRIDE)


if __name__ == "__main__":
    main()
