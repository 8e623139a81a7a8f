"""The README's picture of the four tasks: `python docs/pictures.py` writes docs/images/tasks.png.

Above, a scene of each task's hardest level as an agent finds it; below, what the planner built in it.
"""

from __future__ import annotations

from pathlib import Path

from trilith.agents.registry import load
from trilith.evaluation.evaluate import play
from trilith.evaluation.frozen import frozen, generator
from trilith.render.pictures import contact_sheet, picture, save_png, without_sky
from trilith.world.tasks import TASKS

SCENES = 6
"""Scenes to choose from: the first one of these in which the planner earns the largest share is shown."""


def main() -> None:
    """Writes the picture."""
    planner = load("planner")
    before, after, titles, captions = [], [], [], []
    for task in TASKS.values():
        starts = [frozen(task.name, "hardest", "test", index) for index in range(SCENES)]
        played = play(planner, starts, [generator("pictures", task.name, index) for index in range(SCENES)])
        shares = [end.total / task.best(end.scene) for _, end in played]
        recording, end = played[shares.index(max(shares))]
        for scene, pictures in ((recording.start.scene, before), (end.scene, after)):
            pictures.append(without_sky(picture(scene, 640)))
        titles.append(task.title)
        captions.append(f"reward {end.total:.2f} of {task.best(end.scene):.2f}")
    out = Path(__file__).parent / "images" / "tasks.png"
    save_png(contact_sheet([*before, *after], [*titles, *captions], len(TASKS)), out)
    print(out)


if __name__ == "__main__":
    main()
