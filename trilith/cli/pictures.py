"""The commands `draw`, which draws scenes and searches, and `film`, which films episodes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from trilith.search.config import SearchConfig, SearchOptions
from trilith.utils.checks import require
from trilith.utils.config import check_least

if TYPE_CHECKING:
    from trilith.world.episode import State
    from trilith.world.scene import Placement


@dataclass
class Draw:
    """Draw a scene, or the placements that an agent's search tries in it.

    Example: trilith draw covering --level 2 --seed 7 --out scene.png

    Example: trilith draw covering_hard --agent objects --budget 200 --steps 2 --out thoughts.png
    """

    task: Positional[Annotated[str, arg(metavar="TASK")]]
    """Name of a task, which `trilith tasks` lists, or a class of your own in a module of the current folder, as my_module:MyTask."""
    level: str = "hardest"
    """A level's number or name, "hardest" or "all"."""
    seed: int = 0
    """The same seed gives the same scene."""
    out: Path = Path("scene.png")
    """PNG file for the picture."""
    pixels: int = 640
    """Width and height of the picture."""
    agent: str | None = None
    """Show the placements that this agent's search tried most, with their values and visits. The picture is then 880 pixels wide. If the
    agent sees segmented images, also show the image of each object, with the highest value of a placement at it or of it."""
    budget: int = 100
    """Simulations of the search."""
    search: SearchOptions = field(default_factory=SearchOptions)
    steps: int = 0
    """With --agent: number of placements that it makes before the picture."""
    shown: int = 12
    """Number of placements to show: those tried most. Of placements that are close together, only the most tried is shown."""

    def run(self) -> None:
        """Writes the picture."""
        import numpy as np

        from trilith.render.pictures import picture, save_png
        from trilith.utils.files import check_png
        from trilith.world.episode import start

        require(16 <= self.pixels <= 4096, f"{self.pixels} pixels: must be 16 to 4096")
        check_least(self, seed=0, steps=0, shown=1)
        check_png(self.out)
        state = start(self.task, self.level, np.random.default_rng(self.seed))
        if self.agent is None:
            save_png(picture(state.scene, self.pixels), self.out)
        else:
            self._thoughts(state, self.agent)
        print(self.out)

    def _thoughts(self, state: State, name: str) -> None:
        """Draws the placements that the search of the agent `name` tries most. The agent first makes `steps` placements from the initial
        state `state`."""
        import numpy as np

        from trilith.agents.base import ObjectViews
        from trilith.agents.registry import check_builds, load
        from trilith.render.pictures import thoughts_picture, views_picture
        from trilith.search.agent import SearchAgent
        from trilith.search.tree import depth, size
        from trilith.world.episode import step
        from trilith.world.scene import INVALID_EDGE, clipped

        require(self.budget >= 1, f"budget {self.budget}: must be 1 or more")
        check_builds(name, self.task)
        agent, rng = load(name, SearchConfig(self.budget, **vars(self.search))), np.random.default_rng(self.seed)
        assert isinstance(agent, SearchAgent)
        for _ in range(self.steps):
            [placement] = agent.act([state], [rng])
            state = step(state, placement).state
            require(
                not state.ended, f"the episode ends ({state.ended}) after {state.steps} placements: choose fewer than --steps {state.steps}"
            )
        [root] = agent.search([state], [rng])
        ideas: list[tuple[Placement, float, int]] = []
        for action in sorted(root.children, key=lambda each: (-root.counts[each], -root.values[each])):
            placement = agent.agent.decode(state, int(root.ids[action]))
            if placement is None or placement == INVALID_EDGE or len(ideas) == self.shown:
                continue
            x, y = clipped(placement.x, placement.y)
            if all(abs(x - p.x) > 0.7 or abs(y - p.y) > 0.35 for p, _, _ in ideas):
                ideas.append((placement._replace(x=x, y=y), float(root.values[action]), int(root.counts[action]) - 1))
        views = agent.agent.views(state) if isinstance(agent.agent, ObjectViews) else []
        captions = ["" if view.value is None else f"{view.value:+.2f}" for view in views]
        seen = views_picture([(caption, *view[1:4]) for caption, view in zip(captions, views, strict=True)]) if views else None
        [prior] = agent.agent.priors([state])  # a search tree may hold only the best placements
        possible = sum(agent.agent.decode(state, int(action)) is not None for action in prior.ids)
        facts = f"{size(root)} placements simulated, up to {depth(root)} ahead; {possible} could be made"
        title = f"{name}, {self.task}, seed {self.seed}, after {state.steps} placements\n{facts}"
        thoughts_picture(state.scene, ideas, self.out, title, seen)


@dataclass
class Film:
    """Film a recorded episode, with blocks falling as in the simulator.

    Example: trilith film episode.json --out episode.gif
    """

    episode: Positional[Annotated[Path, arg(metavar="EPISODE.json")]]
    """A recording, as `trilith evaluate --record` or the page writes it."""
    out: Path = Path("episode.gif")
    """File for the film, .gif or .mp4."""
    pixels: int = 480
    """Width of the film."""
    by: str = ""
    """Name of the builder in the title of the film. By default it is the name in the recording."""

    def run(self) -> None:
        """Writes the film."""
        from trilith.render.pictures import episode_frames, film
        from trilith.utils.files import prefix_errors, read_json
        from trilith.world.episode import Recording

        require(16 <= self.pixels <= 2048, f"{self.pixels} pixels: must be 16 to 2048")
        data = read_json(self.episode)
        with prefix_errors(f"{self.episode}: "):
            recording = Recording.from_json(data)
            steps = list(recording.replay(record=True))
        if note := recording.note():
            print(note, file=sys.stderr)
        film(episode_frames(recording.start, steps, self.pixels, self.by or recording.by), self.out)
        print(self.out)
