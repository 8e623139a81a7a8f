"""The jobs of the page's worker processes. Arguments have been validated by `request_schema`, except the body that `open_file`
gets and checks itself. Each job returns the bytes of an answer: JSON, or a GIF."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

import trilith.web.request_schema as schema
from trilith.agents.base import Agent, ObjectView
from trilith.agents.dynamics.registry import make_world
from trilith.agents.dynamics.transitions import SIMULATED
from trilith.agents.random_agents import LegalAgent
from trilith.agents.registry import load
from trilith.evaluation.play import choose
from trilith.search.config import SearchConfig
from trilith.web.catalog import Spec
from trilith.web.ideas import think, value_map, views
from trilith.world.episode import Recording, State, start, step
from trilith.world.scene import Placement, Role
from trilith.world.tasks import Level

if TYPE_CHECKING:
    from trilith.agents.dynamics.world import Outcome

FILM_PIXELS = 400

_agents: dict[tuple[Spec, bool], Agent] = {}
"""The agents that this process has loaded, by (agent, `zero_on_hit`), so that a network is read only once."""


@runtime_checkable
class Predicts(Protocol):
    """A transition model that predicts more than a search needs, as a learned model does."""

    def predict(self, asked: Sequence[tuple[State, Placement]]) -> Sequence[Outcome]:
        """Predicts the outcome of each (state, placement) of `asked`. The new blocks must not overlap anything solid."""
        ...


def prepare(tasks: Sequence[str], agents: Sequence[tuple[Spec, str]] = (), world: str | None = None) -> None:
    """Compiles all code before the first request, whose time limit is too short for it.

    In each of `tasks` it makes two placements and, if `world` is given, one prediction with this transition model. Then each of `agents`
    makes one decision, in the task that comes with it.
    """
    agent = LegalAgent()
    for name in tasks:
        rng = np.random.default_rng(0)
        state = start(name, "hardest", rng)
        for _ in range(2):
            [placed] = agent.act([state], [rng])
            place(state, placed, False)
        if world is not None:
            with suppress(ValueError):  # see the next comment
                predict(world, state, placed, False)
    for spec, name in agents:
        state = start(name, 0, np.random.default_rng(0))
        with suppress(ValueError):  # if an agent cannot be loaded, the visitor who chooses it gets the error
            choose(_agent(spec), [state], [_generator(0, state)])


def _agent(spec: Spec, zero_on_hit: bool = False) -> Agent:
    if (spec, zero_on_hit) not in _agents:
        name, budget, world = spec
        try:
            _agents[spec, zero_on_hit] = load(name, SearchConfig(budget, world=world), zero_on_hit)
        except ImportError as error:
            raise ValueError(f"the agent {name} cannot be loaded here: {error}") from None
    return _agents[spec, zero_on_hit]


_world = cache(make_world)


def _generator(seed: int, state: State) -> np.random.Generator:
    """Returns a new random generator, seeded by `seed` and the number of steps of the state. So an agent decides the same again in the same
    state."""
    return np.random.default_rng([seed, state.steps])


def _encode(data: Any) -> bytes:
    return schema.dumps(data).encode()


def begin(task: str, level: Level, seed: int, placed: Sequence[Placement | None]) -> bytes:
    """Starts an episode in the scene that `seed` generates, and makes the placements `placed` in it: those of a link to an episode, none
    for a new one. Returns every state as JSON, without the poses during falls. Raises ValueError if a placement comes after the end."""
    return _replayed(Recording(start(task, level, np.random.default_rng(seed)), tuple(placed)), frames=False)


def replay(recording: Recording) -> bytes:
    """Simulates a recorded episode again. Returns every state as JSON, with the poses during each fall. Raises ValueError as `begin`."""
    return _replayed(recording, frames=True)


def _replayed(recording: Recording, frames: bool) -> bytes:
    state = recording.start
    moments = [schema.moment(state)]
    for number, placed in enumerate(recording.placements, start=1):
        if state.ended:
            raise ValueError(f"placement {number} comes after the end of the episode ({state.ended})")
        after = step(state, placed, recording.zero_on_hit, record=frames)
        moments.append(schema.stepped(state, after, placed, frames))
        state = after.state
    return _encode({"moments": moments})


def open_file(body: bytes) -> bytes:
    """Returns the episodes of a file as JSON, each as its text, a note and a seed. `body` is the whole request, which contains the file and
    may be large."""
    return _encode({"recordings": schema.open_text(schema.read(schema.parse(body), "text")["text"])})


def place(state: State, placed: Placement | None, zero_on_hit: bool) -> bytes:
    """Makes the placement `placed`; with None, the builder stops. Returns the result as JSON, see `request_schema.stepped`."""
    return _encode(schema.stepped(state, step(state, placed, zero_on_hit, record=True), placed))


def act(state: State, spec: Spec, seed: int, zero_on_hit: bool) -> bytes:
    """Makes one placement that an agent chooses. Returns the result as JSON, see `request_schema.stepped`."""
    [placed] = choose(_agent(spec, zero_on_hit), [state], [_generator(seed, state)])
    if placed is not None:  # + 0.0 turns -0.0 into 0.0: a link cannot hold -0.0, and its replay must give the same bytes
        placed = Placement(int(placed.slot), float(placed.x) + 0.0, float(placed.y) + 0.0, bool(placed.sticky))
    return place(state, placed, zero_on_hit)


def ideas(state: State, spec: Spec, seed: int, k: int) -> bytes:
    """Returns as JSON the placements that an agent considers in a state, and its views of the objects. There are at most `k` placements,
    unless the agent gives a whole plan."""
    thoughts = think(_agent(spec), state, _generator(seed, state), k)
    return _encode(
        {
            "source": thoughts.source,
            "ideas": [
                {
                    "chosen": thoughts.chosen and number == 0,
                    "placement": schema.listed(idea.placement),
                    "value": round(float(idea.value), 4) if np.isfinite(idea.value) else None,
                    "visits": idea.visits,
                    "line": [schema.listed(each) for each in idea.line],
                }
                for number, idea in enumerate(thoughts.ideas)
            ],
            "seen": [_view(view) for view in views(_agent(spec), state)],
        }
    )


def _view(view: ObjectView) -> dict[str, Any]:
    """An agent's view of an object, for the page. The pixels of its window are listed row by row: red, green, blue and alpha, one
    byte each."""
    colours, alpha = view.pixels[..., :3], view.pixels[..., 3:]
    plain = np.divide(colours, alpha, out=np.zeros_like(colours), where=alpha > 0)
    pixels = (np.concatenate([plain, alpha], axis=-1).clip(0, 1) * 255 + 0.5).astype(np.uint8)
    value = None if view.value is None else round(view.value, 4)
    return {"row": view.row, "width": pixels.shape[1], "pixels": b64encode(pixels.tobytes()).decode(), "value": value}


def values(state: State, spec: Spec, seed: int, slot: int) -> bytes:
    """Returns as JSON an agent's values of the block of `slot` at every position that it considers, as (x, y, value); null if the agent has
    no values."""
    places = value_map(_agent(spec), state, _generator(seed, state), slot)
    return _encode({"places": None if places is None else [[round(number, 4) for number in place] for place in places]})


def predict(world: str, state: State, placed: Placement | None, zero_on_hit: bool) -> bytes:
    """Predicts the result of a placement with the transition model `world`, which is not the simulator. Returns JSON.

    `poses` has the row, x, y and angle of each block at rest; it is empty if the rules alone decide the result. `reward` is the expected
    reward. `end` and `hit` are the probabilities that the episode ends and that an obstacle is touched. `hit` is null if the transition
    model does not predict it.
    """
    predictor = _world(world, zero_on_hit)
    [(after, reward, end)] = predictor.steps([state], [placed])
    hit, rows = None, after.scene.rows(Role.BLOCK) if after.ended in SIMULATED else np.array([], int)
    if placed is not None and after.ended in SIMULATED and isinstance(predictor, Predicts):
        [outcome] = predictor.predict([(state, placed)])
        hit = outcome.hit
    pose = after.scene.pose
    if not np.isfinite([reward, end, hit or 0.0, *pose[rows].ravel()]).all():
        raise ValueError("nothing can be predicted for a scene like this")
    return _encode(
        {
            "poses": [[row, *(round(number, 4) for number in pose[row].tolist())] for row in rows.tolist()],
            "hit": None if hit is None else round(float(hit), 4),
            "end": round(float(end), 4),
            "reward": round(float(reward), 4),
        }
    )


def film(recording: Recording, by: str, folder: str) -> bytes:
    """Returns a GIF of an episode. `by` is the builder's name in it; if empty, the name in the recording is shown. `folder` is for a
    temporary file. The pictures are smaller than those of the command line, because the time for a job is limited."""
    from trilith.render.pictures import episode_frames
    from trilith.render.pictures import film as write_film

    path = Path(folder, "episode.gif")
    write_film(episode_frames(recording.start, recording.replay(record=True), FILM_PIXELS, by or recording.by), path)
    return path.read_bytes()


JOBS: dict[str, Callable[..., bytes]] = {
    "begin": begin,
    "replay": replay,
    "open": open_file,
    "film": film,
    "place": place,
    "act": act,
    "ideas": ideas,
    "values": values,
    "predict": predict,
}
"""Maps the name of each job to its function."""
