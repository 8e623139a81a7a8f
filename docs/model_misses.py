"""What a model predicts worst: `python docs/model_misses.py MODEL DATA [DATA …] --out misses.png` draws it.

Of each folder of recorded episodes the two placements after which a block ends furthest from where it was predicted: the scene with the
new block as it was placed, as the model predicts it to settle, and as it settled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from trilith.agents.dynamics.transitions import placed_scene
from trilith.agents.dynamics.world import ModelWorld
from trilith.evaluation.dynamics import chains, compare
from trilith.render.pictures import contact_sheet, picture, save_png, without_sky
from trilith.world.trajectory import read_episodes

WORST = 2


def main(
    model: Positional[Path], folders: Positional[Annotated[tuple[Path, ...], arg(name="data")]], out: Path = Path("model_misses.png")
) -> None:
    """Writes the picture."""
    world = ModelWorld.read(model)
    pictures, captions = [], []
    for folder in folders:
        compared = compare(world, [chain[:1] for chain in chains(read_episodes(folder))])
        worst = sorted((each for each in compared if len(each.off)), key=lambda each: -float(each.off.max()))[:WORST]
        for each in worst:
            happened = each.happened
            [outcome] = world.predict([(happened.state, happened.placement)])
            before = placed_scene(happened.state, happened.placement)[0]
            pictures += [without_sky(picture(scene, 400)) for scene in (before, outcome.scene, happened.after.scene)]
            captions += ["placed", f"predicted: {float(each.off.max()):.1f} m off", "what physics did"]
    save_png(contact_sheet(pictures, captions, 3), out)
    print(out)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
