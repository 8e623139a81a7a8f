"""The tasks as Gymnasium environments: a thin shell around `episode.start` and `episode.step`, with no rules of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trilith.utils.checks import require
from trilith.world.actions import CODECS, OFFSETS, make_codec
from trilith.world.episode import State, start, step
from trilith.world.observations.graph import EDGE_FEATURES, Connectivity, edge_features, graph
from trilith.world.observations.image import CHANNELS, PIXELS, image
from trilith.world.observations.objects import FEATURES, objects
from trilith.world.observations.segments import CHANNELS as SEGMENT_CHANNELS
from trilith.world.observations.segments import segments
from trilith.world.scene import FLOOR_SIZE, SLOTS, Role, Scene
from trilith.world.tasks import Level, Task, get_task

FURTHEST, FASTEST = 1e6, 1e4
"""Bounds of positions (m) and of velocities (m/s, rad/s) in the observation spaces.

They are far larger than needed: the engine caps speed at 400 m/s, and a block that falls off the floor comes to rest on the ground below.
"""


class ConstructionEnv(gymnasium.Env[Any, Any]):
    """One of the four construction tasks of "Structured agents for physical construction", or one of your own.

    Registered as `trilith/Silhouette-v0`, `trilith/Connecting-v0`, `trilith/Covering-v0` and `trilith/CoveringHard-v0`. With
    `Flat` before `-v0` their spaces are plain (`trilith.envs.flat`). A task of your own is `trilith/Construction-v0` with
    `task="my_module:MyTask"`; after `trilith.register(MyTask)` it also has an id of its own, `trilith/<Title>-v0`.
    `trilith.world.tasks` describes the tasks. Below, N is the number of objects now in the scene. N_max is the largest number of
    objects at the environment's level, `env.unwrapped.max_objects`.

    ## Action
    An action places a block. There are five action spaces (`trilith.world.actions` defines them exactly):

    | `action_space`         | space                                                | parts                           |
    |------------------------|------------------------------------------------------|---------------------------------|
    | `continuous_absolute`  | `Box(-1, 1, (4,))`                                   | block, x, y, sticky             |
    | `continuous_relative`  | `Box(-1, 1, (5,))`                                   | block, x and y of r, Δx, sticky |
    | `discrete_absolute`    | `MultiDiscrete([7, heights, widths, 2])`             | block, row, column, sticky      |
    | `discrete_relative`    | `MultiDiscrete([N_max, N_max, offsets, 2])`          | c, r, offset, sticky            |
    | `discrete_relative_xy` | `MultiDiscrete([N_max, N_max, offsets, offsets, 2])` | c, r, x and y offset, sticky    |

    c is the row of an available block. r is the row of the reference: the object of the scene relative to which the block is placed. If a
    row does not exist in the scene or holds the wrong kind of object, the action is an invalid edge, which ends the episode. Most actions
    are invalid, so sample from `info["legal"]`. A continuous number beyond ±1 is clipped. Anything else outside the action space (NaN,
    a fraction where an index belongs, an offset out of range, the wrong length) raises ValueError.

    ## Observation
    There are six kinds of observation, from `trilith.world.observations`. Features are float32 and masks int8, unless the table says
    otherwise. If the scene has fewer than N_max objects, the remaining rows and their masks are 0.

    | `observation`  | space                                                                                            |
    |----------------|--------------------------------------------------------------------------------------------------|
    | `graph`        | `Graph`: nodes (N, 15), edges (E, 2), edge_links (E, 2): sender, receiver                        |
    | `padded_graph` | `Dict`: nodes (N_max, 15), node_mask (N_max,), edges (N_max, N_max, 2), edge_mask (N_max, N_max) |
    | `objects`      | `Dict`: objects (N_max, 15), mask (N_max,), contact (N_max, N_max, 2)                            |
    | `image`        | `Box` (64, 64, 5): red, green, blue in [0, 1], x and y in [-1, 1]                                |
    | `image_uint8`  | the same as uint8: [0, 1] and [-1, 1] are scaled to 0..255, as libraries expect of an image      |
    | `segments`     | `Dict`: segments (N_max, 64, 64, 6): red, green, blue, alpha, x, y; mask (N_max,)                |

    An edge or a contact has two numbers: whether the two objects touch, and whether they are glued. The axes of a padded edge are
    sender and receiver.

    ## Reward
    The change of the task's score, minus the cost of glue. The reward is 0 if the placement is not possible or if a block touches an
    obstacle (but see `zero_on_hit`).

    ## End
    An episode always ends with `terminated`, never with `truncated`. The step limit is a rule of the task, not of this class, and the agent
    can see the blocks placed so far. So a learner should not bootstrap from the state at the step limit. After the end, `step` raises
    ValueError until the next `reset`.

    ## Levels
    `"all"`, the training mix; `"hardest"`; a number from 0; or the name of a generalisation level.

    ## Arguments
    - `task`: a name or my_module:MyTask. Only `trilith/Construction-v0` needs it.
    - `action_space`, `observation`, `level`: as above.
    - `connectivity`: the edges of `graph` and `padded_graph`: `"full"`, `"sparse"` or `"sparse-both"`.
    - `offsets`: number of offsets of the discrete relative actions, at least 4.
    - `grid`: (heights, widths) of the discrete absolute actions; None means the task's default.
    - `zero_on_hit`: an episode that touches an obstacle has the return 0, as in the paper: its last reward is minus the sum so far.
    - `render_mode`: None or `"rgb_array"`, a picture of 640 × 640.

    `reset(options={"level": …})` starts one episode of another level, if it fits into the spaces.
    `reset(options={"state": …})` starts one from a given `State`. You can read, keep and set `env.unwrapped.state`.

    ## Info
    - `legal`, only with discrete relative actions: a boolean array (7, N_max, offsets) or (7, N_max, offsets, offsets). It is True where
      (c, r, offset) is a valid edge and the new block overlaps nothing solid. The first axis is the slot, which equals the row c. After the
      end no action is legal.
    - `reason`: why the episode ended, one of `trilith.world.episode.REASONS`; None while it continues.
    - `level`: the level of this episode, always a string ("7", "nine_targets"), so that a vector environment can hold numbers and names.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  # as in the base class

    def __init__(
        self,
        task: str,
        action_space: str = "discrete_relative",
        observation: str = "padded_graph",
        level: Level = "all",
        connectivity: Connectivity = "full",
        offsets: int = OFFSETS,
        grid: tuple[int, int] | None = None,
        zero_on_hit: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.task: Task = get_task(task)
        self.level = level
        self.max_objects = self.task.objects_for(level)
        self.connectivity = one_of("connectivity", connectivity, get_args(Connectivity))
        self.zero_on_hit = zero_on_hit
        self.render_mode = one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        heights, widths = grid or self.task.grid
        self.codec = make_codec(one_of("action_space", action_space, CODECS), offsets=offsets, heights=heights, widths=widths)
        self._actions = self.codec.space(self.max_objects)
        self.action_space: spaces.Space[Any] = (
            spaces.MultiDiscrete(list(self._actions.sizes)) if self._actions.whole else spaces.Box(-1, 1, (self.codec.length,), np.float32)
        )
        self.observation = one_of("observation", observation, OBSERVATIONS)  # stored by name, so that the environment can be pickled
        self.observation_space = OBSERVATIONS[observation].space(self.max_objects)
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The current state of the episode. A `State` is immutable: you can keep it, and assign it to this attribute later to return to it.

        Assignment raises ValueError if the state is of another task, or if its episode may need more objects than the spaces hold.
        """
        if self._state is None:
            raise gymnasium.error.ResetNeeded("this environment has no state yet: call reset first")
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        require(isinstance(state, State), f"state {state!r}: must be a trilith.world.episode.State")
        require(state.task == self.task.name, f"a state of {state.task} does not belong into an environment of {self.task.name}")
        more = max(state.max_steps - state.steps, 0) if self.task.keeps_supply and not state.ended else 0
        require(
            len(state.scene) + more <= self.max_objects,
            f"a state with {len(state.scene)} objects and up to {more} to come does not fit: "
            f"level {self.level!r} of {self.task.name} has room for {self.max_objects}",
        )
        self._state = state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, and returns its first observation and info. `options` may give the `level`, or the `state` to start from;
        without a state, a scene is drawn at random. With `seed`, all randomness starts anew from that seed."""
        super().reset(seed=seed)
        options = options or {}
        for name in options:
            one_of("reset option", name, ("level", "state"))
        if "state" in options:
            require("level" not in options, "reset options 'level' and 'state': a state has its own level, so give only one")
            self.state = options["state"]
        else:
            level = options.get("level", self.level)
            require(
                self.task.objects_for(level) <= self.max_objects,
                f"reset option 'level' {level!r} does not fit into an environment made for level {self.level!r}",
            )
            self.state = start(self.task, level, self.np_random)
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Places a block; returns observation, reward, terminated, truncated (always False) and info."""
        self._state, reward, _ = step(self.state, self.codec.decode(self.state.scene, self._parts(action)), self.zero_on_hit)
        return self._observe(), reward, self._state.ended is not None, False, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (640, 640, 3) of the scene if `render_mode` is "rgb_array", else None with a warning."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() draws nothing without a render mode: make the environment with render_mode="rgb_array"')
            return None
        from trilith.render.pictures import picture  # imported here, so that only rendering needs the drawing libraries

        return picture(self.state.scene)

    def legal_actions(self) -> NDArray[np.bool_]:
        """Boolean mask of the legal actions, with one axis for each part of an action. A discrete relative action is legal if it places an
        available block relative to an object of another role, and the block overlaps nothing solid. A discrete absolute action counts as
        legal if its block is available. If no action is legal, the mask is all True. Raises ValueError if the actions are continuous.
        """
        require(self._actions.whole, "continuous actions have no mask: choose a discrete action_space")
        mask = self.codec.mask(self.state.scene)
        if mask is None:
            mask = np.zeros(self._actions.sizes[:-1], dtype=bool)
            mask[self.state.scene.rows(Role.AVAILABLE)] = True
        allowed = padded(np.stack([mask, mask], axis=-1), self._actions.sizes)
        return allowed if allowed.any() else ~allowed

    def action_masks(self) -> NDArray[np.bool_]:
        """One boolean mask for each part of an action, all concatenated to one array, as Maskable PPO of Stable-Baselines3 expects. The
        mask of a part is True for the values that occur in some legal action. Not every combination of such values is legal;
        `trilith.envs.flat` has the exact mask."""
        allowed = self.legal_actions()
        axes = range(allowed.ndim)
        return np.concatenate([allowed.any(axis=tuple(other for other in axes if other != axis)) for axis in axes])

    def _parts(self, action: Any) -> Any:
        """The parts of an action as a list of numbers. Raises ValueError if the type or the number of the parts does not fit the space."""
        parts = np.asarray(action)
        if parts.shape != self.action_space.shape:
            raise ValueError(f"action {action!r}: must have the shape {self.action_space.shape}")
        kinds, what = ("iu", "whole numbers") if self._actions.whole else ("iuf", "numbers")
        if parts.dtype.kind not in kinds:
            raise ValueError(f"action {action!r}: must be {what}")
        return parts.tolist()

    def _observe(self) -> Any:
        return OBSERVATIONS[self.observation].of(self.state.scene, self.max_objects, self.connectivity)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"reason": self.state.ended, "level": str(self.state.level)}
        mask = self.codec.mask(self.state.scene)
        if mask is not None:
            info["legal"] = padded(mask & (self.state.ended is None), (SLOTS, *self._actions.sizes[1:-1]))
        return info


def one_of(what: str, value: Any, choices: Any) -> Any:
    """Returns `value` if it is one of `choices`; otherwise raises ValueError, with the choices. `what` names the value in the message."""
    require(value in choices, f"{what} {value!r}: choose {', '.join(str(choice) for choice in choices)}")
    return value


class Observation(NamedTuple):
    """A kind of observation of an environment: its space, and the function that computes it."""

    space: Callable[[int], spaces.Space[Any]]
    """Returns the observation space. The argument is the largest number of objects in a scene."""
    of: Callable[[Scene, int, Connectivity], Any]
    """Returns the observation of a scene. The arguments are the scene, the largest number of objects in a scene, and the connectivity of
    graphs."""


def _objects_space(*rows: int) -> spaces.Box:
    """A space of shape (*rows, 15), with the bounds of the 15 features of an object."""
    high = np.array([FURTHEST] * 2 + [1.0] * 2 + [FLOOR_SIZE[0]] * 2 + [FASTEST] * 3 + [1.0] * (FEATURES - 9), dtype=np.float32)
    low = np.where(np.isin(np.arange(FEATURES), (0, 1, 2, 3, 6, 7, 8)), -high, np.float32(0))  # sizes and flags are not negative
    return spaces.Box(np.broadcast_to(low, (*rows, FEATURES)), np.broadcast_to(high, (*rows, FEATURES)), dtype=np.float32)


def _flags_space(*rows: int) -> spaces.Box:
    """A space of shape (*rows, 2): for pairs of objects, whether they touch, and whether they are glued; 1 or 0."""
    return spaces.Box(0, 1, (*rows, EDGE_FEATURES), np.float32)


def padded(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A copy of `array` with zeros appended, so that its first axes have the lengths of `shape`."""
    out = np.zeros((*shape, *array.shape[len(shape) :]), dtype=array.dtype)
    out[tuple(slice(length) for length in array.shape)] = array
    return out


def _mask(scene: Scene, rows: int) -> NDArray[np.int8]:
    """Mask (rows,): 1 for the rows of the scene's objects, 0 for padding."""
    return (np.arange(rows) < len(scene)).astype(np.int8)


def _graph(scene: Scene, rows: int, connectivity: Connectivity) -> spaces.GraphInstance:
    nodes, edges, senders, receivers = graph(scene, connectivity)
    return spaces.GraphInstance(nodes, edges, np.stack([senders, receivers], axis=1).astype(np.int32))


def _padded_graph(scene: Scene, rows: int, connectivity: Connectivity) -> dict[str, NDArray[Any]]:
    nodes, edges, senders, receivers = graph(scene, connectivity)
    features, exists = np.zeros((rows, rows, EDGE_FEATURES), dtype=np.float32), np.zeros((rows, rows), dtype=np.int8)
    features[senders, receivers] = edges
    exists[senders, receivers] = 1
    return {"nodes": padded(nodes, (rows,)), "node_mask": _mask(scene, rows), "edges": features, "edge_mask": exists}


def _image_uint8(scene: Scene, rows: int, connectivity: Connectivity) -> NDArray[np.uint8]:
    floats = image(scene)
    floats[..., 3:] = (floats[..., 3:] + 1) / 2
    return np.rint(floats * 255).astype(np.uint8)


OBSERVATIONS: dict[str, Observation] = {
    "graph": Observation(lambda n: spaces.Graph(_objects_space(), _flags_space()), _graph),
    "padded_graph": Observation(
        lambda n: spaces.Dict(
            nodes=_objects_space(n), node_mask=spaces.MultiBinary(n), edges=_flags_space(n, n), edge_mask=spaces.MultiBinary([n, n])
        ),
        _padded_graph,
    ),
    "objects": Observation(
        lambda n: spaces.Dict(objects=_objects_space(n), mask=spaces.MultiBinary(n), contact=_flags_space(n, n)),
        lambda scene, rows, _: {
            "objects": padded(objects(scene), (rows,)),
            "mask": _mask(scene, rows),
            "contact": padded(edge_features(scene), (rows, rows)),
        },
    ),
    "image": Observation(lambda n: spaces.Box(-1, 1, (PIXELS, PIXELS, CHANNELS), np.float32), lambda scene, rows, _: image(scene)),
    "image_uint8": Observation(lambda n: spaces.Box(0, 255, (PIXELS, PIXELS, CHANNELS), np.uint8), _image_uint8),
    "segments": Observation(
        lambda n: spaces.Dict(segments=spaces.Box(-1, 1, (n, PIXELS, PIXELS, SEGMENT_CHANNELS), np.float32), mask=spaces.MultiBinary(n)),
        lambda scene, rows, _: {"segments": padded(segments(scene), (rows,)), "mask": _mask(scene, rows)},
    ),
}
"""Every kind of observation by name."""
