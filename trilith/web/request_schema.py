"""The fields of requests and answers. Requests are validated here before anything else happens; answers are kept small.

A state is sent as text, the JSON of `State.to_json`, and the page sends this text back unchanged. If JavaScript wrote the state itself,
-0.0 would become 0, and the bytes of the next state would differ from those without a browser.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trilith.utils.checks import require
from trilith.utils.files import prefix_errors
from trilith.world.episode import Recording, State, Step, builder_from_json, physics_from_json
from trilith.world.physics import TIME_STEP, Settled
from trilith.world.scene import SLOTS, Placement, Scene, checked_placement
from trilith.world.tasks import Level, get_task, known_tasks

MAX_BODY = 256 * 1024
"""Maximum bytes of a request; the largest possible state needs about 20 kB."""
MAX_FILE = 8 * 1024 * 1024
"""Maximum bytes of an opened file, and of the request that carries it."""
MAX_RECORDINGS = 200
"""Maximum number of episodes that an opened file can show."""
MAX_SEED = 2**32 - 1
MAX_PLACEMENTS = 64
"""Maximum number of placements in a link. No episode of the paper's tasks has more than 28."""
MAX_IDEAS = 12
"""Maximum number of ideas in an answer."""
MIN_SIZE = 0.01
"""Smallest allowed size in metres. Nothing in a scene is smaller than 0.35, and the engine cannot handle tiny objects."""
FRAME_STRIDE = 2
"""Every second physics step is sent, which gives 25 frames per second. The page interpolates between them."""
MAX_FRAMES = 240
"""Maximum frames of a fall. In a longer fall the stride is larger, so that the answer stays small."""
STILL = 0.002
"""Metres or radians. The animation of a fall ends when all objects are closer than this to their final poses. An object that moves less
than a quarter of this is not animated."""


def parse(body: bytes | str) -> Any:
    """Parses JSON. Raises ValueError if the text is not JSON, a number is not finite, or a whole number has more than 16 characters."""
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        return json.loads(text, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)
    except UnicodeDecodeError:
        raise ValueError("the request is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the request is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("the request is nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a finite number")


def _whole(text: str) -> int:
    require(len(text) <= 16, f"the number {text[:12]}… is too long")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    require(math.isfinite(value), f"{text[:16]} is not a finite number")
    return value


def read(data: Any, names: str) -> dict[str, Any]:
    """Returns the validated values of a request's fields by name. `names` has the names of the fields, separated by spaces; the result has
    the same order. A name that ends in ? is optional, and has a default. Raises ValueError, with the name of the field, if a field is
    missing, unknown or wrong."""
    optional = {name.rstrip("?"): name.endswith("?") for name in names.split()}
    require(isinstance(data, dict), f"the request must be an object with the fields {names}")
    for name in data:
        require(name in optional, f"the request has an unknown field {name[:40]!r}")
    for name in optional:
        require(name in data or optional[name], f"the request has no field {name!r}")
    return {name: READERS[name](data[name]) if name in data else DEFAULTS[name] for name in optional}


def integer(value: Any, name: str, low: int, high: int) -> int:
    """Returns a whole number. Raises ValueError, which names `name`, if `value` is not a whole number from `low` to `high`."""
    require(
        not isinstance(value, bool) and isinstance(value, int) and low <= value <= high,
        f"{name} must be a whole number from {low} to {high}",
    )
    return value


def boolean(value: Any, name: str) -> bool:
    """Returns true or false. Raises ValueError for any other value."""
    require(isinstance(value, bool), f"{name} must be true or false")
    return value


def task_and_level(task: Any, level: Any) -> tuple[str, Level]:
    """Returns the name of a task and one of its levels. Raises ValueError if there is no such task or level.

    Looks up only tasks that this process knows already, so that a request cannot import a module.
    """
    require(isinstance(task, str) and len(task) <= 100, "task must be the name of a task")
    require(task in known_tasks(), f"there is no task {task[:40]!r} here: choose {', '.join(known_tasks())}")
    rules = get_task(task)
    require(not isinstance(level, bool) and isinstance(level, int | str) and len(str(level)) <= 40, "level must be a number or a name")
    return rules.name, level if level == "all" else rules.check_level(level)


def placements(value: Any, at_most: int) -> list[Placement | None]:
    """Returns a list of placements, each given as [slot, x, y, sticky], or as null to stop. Raises ValueError if one is wrong or if there
    are more than `at_most`."""
    require(isinstance(value, list) and len(value) <= at_most, f"placements must be a list of at most {at_most}")
    return [placement(each) for each in value]


def placement(value: Any) -> Placement | None:
    """Returns one placement, given as [slot, x, y, sticky], or as null to stop. Raises ValueError if it is wrong."""
    if value is None:
        return None
    require(
        isinstance(value, list) and len(value) == 4 and not any(isinstance(each, list | dict | str) for each in value),
        "a placement must be [slot, x, y, sticky]",
    )
    return checked_placement(value)


def state(value: Any) -> State:
    """Reads a state from its text, the JSON of `State.to_json`. Raises ValueError if the text is not a valid state."""
    require(isinstance(value, str), "state must be text: the JSON of a state, as it came in an answer")
    return state_from(parse(value))


def state_from(data: Any) -> State:
    """Reads a state from parsed JSON. Raises ValueError if a field is missing or out of bounds, or if the scene has more objects than its
    task and level can have."""
    require(
        isinstance(data, dict) and isinstance(data.get("scene"), dict),
        "a state is an object with the fields task, level, steps, total, ended, scene",
    )
    task, level = task_and_level(data.get("task"), data.get("level"))
    rules, scene = get_task(task), data["scene"]
    most = rules.objects_for(level)
    for name, value in scene.items():
        bound = most * most if name in ("contact", "glue", "glue_frame") else most
        require(
            isinstance(value, list) and len(value) <= bound,
            f"scene field {name[:20]!r} must be a list of at most {bound}, for {task} level {level}",
        )
    result = State.from_json(data)
    require(result.steps <= result.max_steps, f"state field 'steps' is {result.steps}: this episode has at most {result.max_steps}")
    require(abs(result.total) <= 1000, "state field 'total' is more than any episode can earn")
    require(not (result.scene.size < MIN_SIZE).any(), f"scene field 'size' has a length below {MIN_SIZE}")
    return result


def running_state(value: Any) -> State:
    """Reads a state from its text, the JSON of `State.to_json`. Raises ValueError if the text is not a valid state, or if the episode has
    ended."""
    found = state(value)
    require(not found.ended, f"this episode has ended ({found.ended})")
    return found


def recording(value: Any) -> Recording:
    """Reads an episode from its text, the JSON of a recording. Raises ValueError if the text is not a valid recording."""
    require(isinstance(value, str), "recording must be text: the JSON of an episode")
    return recording_from(parse(value))


def recording_from(data: Any) -> Recording:
    """Reads an episode from parsed JSON. Raises ValueError if a field is missing or out of bounds, or if there are more placements than the
    episode can have."""
    require(
        isinstance(data, Mapping) and "start" in data and "placements" in data,
        "an episode is an object with the fields 'start' and 'placements'",
    )
    begin = state_from(data["start"])
    zero_on_hit = boolean(data.get("zero_on_hit", False), "zero_on_hit")
    given = data["placements"]
    if isinstance(given, list) and len(given) > begin.max_steps:
        raise ValueError(f"it has {len(given)} placements, but an episode in this scene has at most {begin.max_steps}")
    placed = tuple(placements(given, begin.max_steps))
    return Recording(begin, placed, zero_on_hit, physics_from_json(data), builder_from_json(data))


def open_text(text: str) -> list[dict[str, Any]]:
    """Reads the episodes of a file: one recorded episode, a list of them, or an object with such a list as "worst" (a result file) or
    "episodes". Returns a dictionary for each episode: "text" (the episode as JSON), "note" (a note about it) and "seed" (of its scene).

    Raises ValueError if an episode is wrong, or if the file has none or too many.
    """
    try:
        data = parse(text)
    except ValueError:
        raise ValueError("it is not JSON, the format of saved episodes and results") from None
    found = data
    if isinstance(data, dict):
        found = [data] if "start" in data else data.get("worst", data.get("episodes"))
    require(
        isinstance(found, list) and found,
        "it holds neither a saved episode ('start' and 'placements') nor the 'worst' cases of a result",
    )
    require(len(found) <= MAX_RECORDINGS, f"it holds {len(found)} episodes: at most {MAX_RECORDINGS} can be opened")
    result = []
    for number, each in enumerate(found, start=1):
        with prefix_errors(f"episode {number}: "):
            episode = recording_from(each)
            note = ", ".join(filter(None, (_note(each), episode.note())))
            seed = integer(each.get("seed", 0), "seed", 0, MAX_SEED)
            result.append({"text": dumps(episode.to_json()), "note": note, "seed": seed})
    return result


def text(value: Any, name: str, most: int) -> str:
    """Returns a text. Raises ValueError if `value` is not a text or has more than `most` characters."""
    require(isinstance(value, str) and len(value) <= most, f"{name} must be a text of at most {most} letters")
    return value


DEFAULTS: dict[str, Any] = {"placements": [], "seed": 0, "zero_on_hit": False, "count": 5, "by": ""}
"""The values of optional fields that a request leaves out."""
READERS: dict[str, Callable[[Any], Any]] = {
    "state": running_state,
    "placement": placement,
    "placements": lambda value: placements(value, MAX_PLACEMENTS),
    "recording": recording,
    "seed": lambda value: integer(value, "seed", 0, MAX_SEED),
    "count": lambda value: integer(value, "count", 1, MAX_IDEAS),
    "slot": lambda value: integer(value, "slot", 0, SLOTS - 1),
    "zero_on_hit": lambda value: boolean(value, "zero_on_hit"),
    "by": lambda value: text(value, "by", 80),
    "text": lambda value: text(value, "text", MAX_FILE),
    **dict.fromkeys(("task", "level", "agent"), lambda value: value),  # validated together with another field
}
"""Maps each field of a request to the function that reads and validates its value."""


def _note(case: Mapping[str, Any]) -> str:
    """A short note about one of the worst cases of a result file; empty for a plain recording."""
    reward, most, reason = (case.get(name) for name in ("reward", "most", "reason"))
    words = []
    if isinstance(reward, int | float) and isinstance(most, int | float):
        words.append(f"{reward:.2f} of {most:.2f}")
    if isinstance(reason, str):
        words.append(reason[:20].replace("_", " "))
    return ", ".join(words)


def dumps(data: Any) -> str:
    """Compact JSON, with floats in full precision."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def moment(state: State, counted: Scene | None = None) -> dict[str, Any]:
    """A state for the page: its text ("state"), and the values that only the rules can compute ("view"): the score, the highest possible
    reward, the cost of glue, the step limit and the progress.

    `counted` is the scene that was scored last, if it is not the state's own scene.
    """
    rules, scene = state.rules, state.scene if counted is None else counted
    progress = rules.progress(scene)
    return {
        "state": dumps(state.to_json()),
        "view": {
            "score": round(rules.score(scene), 6),
            "best": round(rules.best(scene), 6),
            "cost": round(rules.sticky_cost * int(np.count_nonzero(scene.sticky)), 6),
            "max_steps": state.max_steps,
            "done": list(progress.done),
            "covered": [[round(number, 4) for number in span] for span in progress.covered],
        },
    }


def stepped(before: State, step: Step, placed: Placement | None, frames: bool = True) -> dict[str, Any]:
    """The result of a placement, for the page. `before` is the state before the placement `placed`, and `step` is the outcome. A placement
    that hits an obstacle earns nothing, so the page then shows the score of the scene before it. `frames` says whether to include the poses
    during the fall."""
    return {
        **moment(step.state, before.scene if step.state.ended == "obstacle_hit" else None),
        "placement": listed(placed),
        "reward": round(float(step.reward), 6),
        "frames": pack_frames(step.settled) if frames and step.settled is not None else None,
    }


def listed(placed: Placement | None) -> list[Any] | None:
    """A placement as [slot, x, y, sticky], or null to stop."""
    return None if placed is None else [int(placed.slot), float(placed.x), float(placed.y), bool(placed.sticky)]


def pack_frames(settled: Settled) -> dict[str, Any] | None:
    """The poses of objects during a fall; None if no motion is visible or recorded. `dt` is the time between two frames in seconds. `rows`
    are the rows of the objects that move. `poses` has one flat list per frame: x, y and angle of each object of `rows`."""
    if settled.frames is None or not np.isfinite(settled.frames).all():
        return None
    stride = max(FRAME_STRIDE, -(-len(settled.frames) // MAX_FRAMES))
    film = settled.frames[::stride]
    moving = np.flatnonzero(np.ptp(film, axis=0).max(axis=1) > STILL / 4)
    film = film[:, moving]
    busy = np.flatnonzero((np.abs(film - settled.frames[-1, moving]) > STILL).any(axis=(1, 2)))
    if not len(busy):
        return None
    film = film[: busy[-1] + 2]
    return {
        "dt": round(TIME_STEP * stride, 6),
        "rows": moving.tolist(),
        "poses": [[round(number, 4) for number in frame] for frame in film.reshape(len(film), -1).tolist()],
    }
