"""The README's picture of the four tasks: `python tools/pictures.py` writes docs/images/tasks.png.

Above, the first test scene of each task's hardest level as an agent finds it; below, what `objects` built in it, with at most ten
simulations before each placement.
"""

from __future__ import annotations

from pathlib import Path

from trilith.agents.registry import load
from trilith.evaluation.rollout import play
from trilith.evaluation.scene_sets import generator, start_in_set
from trilith.render.pictures import Picture, contact_sheet, picture, save_png, without_sky
from trilith.search.config import SearchConfig
from trilith.world.tasks import TASKS


def main() -> None:
    """Writes the picture."""
    agent = load("objects", SearchConfig(10))
    before, after = list[Picture](), list[Picture]()
    titles, captions = list[str](), list[str]()
    for task in TASKS.values():
        [(recording, end)] = play(agent, [start_in_set(task.name, "hardest", "test", 0)], [generator("pictures", task.name)])
        for scene, pictures in ((recording.start.scene, before), (end.scene, after)):
            pictures.append(without_sky(picture(scene, 640)))
        titles.append(task.title)
        captions.append(f"reward {end.total:.2f} of {task.best(end.scene):.2f}")
    out = Path(__file__).resolve().parent.parent / "docs" / "images" / "tasks.png"
    save_png(contact_sheet([*before, *after], [*titles, *captions], len(TASKS), legend=True), out)
    print(out)


if __name__ == "__main__":
    main()
