"""The state of the world. A `Scene` is an immutable snapshot: a few read-only arrays. Physics, scores, actions and observations are
functions of a `Scene`.

Lengths are in metres, angles in radians, and y points up. A row of an array describes one object. The order of rows never changes. Rows 0
to 6 are the slots, and each begins as an available block. Row 7 is the floor. Then come targets, obstacles and, in order of placement,
blocks. In a task with only seven blocks, a block keeps its row when it is placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trilith.utils.checks import require, shortened
from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import Bools as Bools
from trilith.world.geometry.rectangles import Floats as Floats
from trilith.world.geometry.rectangles import Ints as Ints

SMALL, MEDIUM, LARGE = 0.7, 2.1, 3.5
"""Widths of the three kinds of block, in metres."""
BLOCK_HEIGHT = 0.7
SLOT_WIDTHS = (SMALL, SMALL, SMALL, MEDIUM, MEDIUM, MEDIUM, LARGE)
SLOTS = len(SLOT_WIDTHS)
"""Number of slots: rows 0 to 6. At the start each holds an available block. An action picks a slot."""
SLOT_GAP = 0.35
"""Metres between available blocks. With this gap the seven blocks fill x from -7 to 7 exactly."""
SLOT_X = np.cumsum([0.0, *(w + SLOT_GAP for w in SLOT_WIDTHS[:-1])]) - 7.0 + np.asarray(SLOT_WIDTHS) / 2
"""(7,): x of the centre of each slot in metres. It stays the same after the block of the slot is used."""
SLOT_Y = -2.1
FLOOR = SLOTS
"""Row of the floor."""
FLOOR_SIZE = (28.0, 0.35)
VIEW = (-8.0, 8.0, -3.0, 13.0)
"""The area that the observation `image` shows, in metres: left, right, bottom, top."""
PLACE_X, PLACE_Y = (-7.5, 7.5), (0.0, 15.0)
"""The area where the centre of a new block may be, in metres. Placements outside are clipped to it."""


class Role(IntEnum):
    """The type of an object. The observation `objects` has a column for each role, in this order: 1 in the column of the object's role,
    else 0."""

    AVAILABLE = 0
    BLOCK = 1
    TARGET = 2
    OBSTACLE = 3
    FLOOR = 4


_SOLID = np.isin(np.arange(len(Role)), (Role.BLOCK, Role.OBSTACLE, Role.FLOOR))


class Placement(NamedTuple):
    """All that the rules see of an action: place the available block of `slot`, upright, with its centre at (x, y) in metres. A sticky
    block bonds to every block that it touches, and to the floor."""

    slot: int
    x: float
    y: float
    sticky: bool = False


INVALID_EDGE = Placement(-1, 0.0, 0.0)
"""Stands for an invalid edge action: one whose first row is no available block, or whose second row is an available block or no object. It
ends an episode."""


def checked_placement(given: Any) -> Placement:
    """Converts a list or tuple (slot, x, y, sticky) to a `Placement` of plain numbers. Accepts `INVALID_EDGE`, but not None. Raises
    ValueError, with the wrong part, if `given` is not a valid placement."""
    if type(given) is Placement and tuple(map(type, given)) == _PLAIN and 0 <= given[0] < SLOTS and abs(given[1]) < 1e300 > abs(given[2]):
        return given  # the usual case, which needs no conversion
    if wrong := _wrong_part(given):
        raise ValueError(f"placement {shortened(given)}: {wrong}")
    slot, x, y, sticky = given
    return Placement(int(slot), float(x), float(y), bool(sticky))


_PLAIN = (int, float, float, bool)


def _wrong_part(given: Any) -> str:
    """The requirement that a placement violates, as text; "" if the placement is valid or `INVALID_EDGE`."""
    if not isinstance(given, list | tuple) or len(given) != 4:
        return "must be [slot, x, y, sticky]"
    slot, x, y, sticky = given
    if not isinstance(slot, int | np.integer) or isinstance(slot, bool) or not (0 <= slot < SLOTS or tuple(given) == INVALID_EDGE):
        return f"slot must be 0 to {SLOTS - 1}"
    if not (is_number(x) and is_number(y)):
        return "x and y must be finite numbers"
    return "" if isinstance(sticky, bool | np.bool_) else "sticky must be true or false"


def is_number(value: Any) -> bool:
    """Whether a value is a number with an absolute value below 1e300. False for NaN, infinity and booleans."""
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return numeric and bool(abs(value) < 1e300)


@dataclass(frozen=True, eq=False)
class Scene:
    """The N objects of the world at one moment. Physics, and the score of a task, depend on nothing else. Observations show a scene; a
    network may also get the number of steps left. Arrays are read-only. Two scenes are equal if all bytes of their arrays are equal.

    The constructor checks only the number of columns. It may keep views of the given arrays: nothing may write to them later.
    """

    pose: Floats
    """(N, 3): x and y of the centre in metres, and the angle in radians."""
    size: Floats
    """(N, 2): width and height in metres."""
    velocity: Floats
    """(N, 3): v_x, v_y in m/s and angular velocity in rad/s."""
    role: Ints
    """(N,): the `Role` of each object."""
    sticky: Bools
    """(N,): whether the object is a block that was placed with glue."""
    contact: Ints
    """(C, 2): the C pairs of rows that touch, sorted. The lower row of a pair comes first. At least one of the two is a placed block."""
    glue: Ints
    """(G, 2): the G pairs of bonded rows, in order of bonding. The lower row of a pair comes first."""
    glue_frame: Floats
    """(G, 5): where each of the G bonds is, for pictures: x and y in the frame of the first object, x and y in the frame of the second
    object, and the angle of the second object relative to the first."""

    def __post_init__(self) -> None:
        for name, (dtype, width) in _LAYOUT.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            if array.shape[1:] != ((width,) if width else ()):
                raise ValueError(f"scene field {name!r} has shape {array.shape}, expected {('N', width) if width else ('N',)}")
            if array.flags.writeable:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.role)

    def but(self, **arrays: Any) -> Scene:
        """A copy of this scene with some arrays replaced. For speed, the new arrays are neither checked nor copied, but become read-only.
        They must be contiguous, with the dtypes and shapes of the fields."""
        scene = object.__new__(Scene)
        scene.__dict__.update(self.__dict__, **arrays)
        for array in arrays.values():
            array.setflags(write=False)
        if "role" in arrays:
            scene.__dict__.pop("solid", None)
        return scene

    @cached_property
    def solid(self) -> Bools:
        """(N,): mask of the objects that a block can rest on or collide with: floor, placed blocks and obstacles."""
        return _SOLID[self.role]

    def rows(self, role: int) -> Ints:
        """The rows of the objects with this `Role`, ascending."""
        return (self.role == int(role)).nonzero()[0]

    def tobytes(self) -> bytes:
        """The bytes of all arrays, one after another. Equality, hashes and checksums of scenes use them."""
        return b"|".join(getattr(self, name).tobytes() for name in _LAYOUT)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scene) and self.tobytes() == other.tobytes()

    def __hash__(self) -> int:
        return hash(self.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:  # uses the constructor, so that an unpickled scene is read-only too
        return Scene, tuple(getattr(self, name) for name in _LAYOUT)

    def to_json(self) -> dict[str, Any]:
        """Maps the name of each array to plain lists and numbers. Floats survive the conversion to JSON text and back unchanged."""
        return {name: getattr(self, name).tolist() for name in _LAYOUT}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Scene:
        """Restores a scene from the result of `to_json`. Raises ValueError, with the reason, if `data` is not a valid scene."""
        require(isinstance(data, Mapping), f"a scene is an object with the fields {', '.join(_LAYOUT)}, not {type(data).__name__}")
        arrays = {}
        for name, (dtype, width) in _LAYOUT.items():
            require(name in data, f"scene has no field {name!r}")
            wrong = f"scene field {name!r} is not an array of {np.dtype(dtype).name}"
            try:
                raw = np.asarray(data[name])
                with np.errstate(invalid="ignore"):  # a NaN in an integer array is refused below
                    array = raw.astype(dtype)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(wrong) from None
            require(not raw.size or (raw.dtype.kind in "biuf" and (dtype is np.float64 or np.array_equal(raw, array))), wrong)
            require(np.isfinite(array).all(), f"scene field {name!r} has a number that is not finite")
            arrays[name] = array if array.size else array.reshape((0, width) if width else (0,))
        scene = Scene(**arrays)
        _check(scene)
        return scene


_LAYOUT: dict[str, tuple[type[np.generic], int]] = {
    "pose": (np.float64, 3),
    "size": (np.float64, 2),
    "velocity": (np.float64, 3),
    "role": (np.int64, 0),
    "sticky": (np.bool_, 0),
    "contact": (np.int64, 2),
    "glue": (np.int64, 2),
    "glue_frame": (np.float64, 5),
}
assert list(_LAYOUT) == [field.name for field in fields(Scene)]


def _check(scene: Scene) -> None:
    """Raises ValueError, which names the wrong field, if the arrays do not form a valid scene."""
    n = len(scene)
    for name in ("pose", "size", "velocity", "sticky"):
        rows = len(getattr(scene, name))
        require(rows == n, f"scene field {name!r} has {rows} rows where 'role' has {n}")
    require(scene.rows(Role.FLOOR).tolist() == [FLOOR], f"row {FLOOR} of a scene, and no other, is the floor")
    require(np.isin(scene.role, list(Role)).all(), f"scene field 'role' has a value outside 0 to {max(Role)}")
    require(
        np.isin(scene.role[:FLOOR], (Role.AVAILABLE, Role.BLOCK)).all() and Role.AVAILABLE not in scene.role[FLOOR:],
        f"rows 0 to {FLOOR - 1} of a scene, and no others, are its available blocks (or used ones)",
    )
    require(((scene.size > 0) & (scene.size <= FLOOR_SIZE[0])).all(), f"scene field 'size' has a length outside 0 to {FLOOR_SIZE[0]}")
    require(
        np.array_equal(scene.size[:SLOTS], [(width, BLOCK_HEIGHT) for width in SLOT_WIDTHS]),
        f"the available blocks of a scene are {', '.join(map(str, SLOT_WIDTHS))} wide and {BLOCK_HEIGHT} high",
    )
    require(
        (np.abs(scene.pose) <= 1e4).all() and (np.abs(scene.velocity) <= 1e4).all(),
        "scene field 'pose' or 'velocity' has a number beyond 10000",
    )
    for name in ("contact", "glue"):
        low, high = getattr(scene, name).T
        require(
            ((low >= 0) & (low < high) & (high < n)).all(),
            f"scene field {name!r} has a pair that is not two rows of the scene, the lower first",
        )
    require(
        np.isin(scene.role[scene.glue], (Role.BLOCK, Role.FLOOR)).all(), "scene field 'glue' has a pair that is not of blocks or the floor"
    )
    require(
        len(scene.glue) == len(scene.glue_frame),
        f"scene has {len(scene.glue)} pairs in 'glue' but {len(scene.glue_frame)} in 'glue_frame'",
    )


def fresh_scene(targets: Sequence[tuple[float, float, float, float]], obstacles: Sequence[tuple[float, float, float, float]]) -> Scene:
    """Makes a scene before the first placement. `targets` and `obstacles` have the (x, y, width, height) of each object, in metres."""
    rows = [(x, SLOT_Y, w, BLOCK_HEIGHT) for x, w in zip(SLOT_X, SLOT_WIDTHS, strict=True)]
    rows += [(0.0, -FLOOR_SIZE[1] / 2, *FLOOR_SIZE), *targets, *obstacles]
    table = np.asarray(rows, dtype=np.float64)
    n = len(table)
    roles = [Role.AVAILABLE] * SLOTS + [Role.FLOOR] + [Role.TARGET] * len(targets) + [Role.OBSTACLE] * len(obstacles)
    return Scene(
        pose=np.column_stack([table[:, :2], np.zeros(n)]),
        size=table[:, 2:].copy(),
        velocity=np.zeros((n, 3)),
        role=np.asarray(roles, dtype=np.int64),
        sticky=np.zeros(n, dtype=bool),
        contact=np.zeros((0, 2), dtype=np.int64),
        glue=np.zeros((0, 2), dtype=np.int64),
        glue_frame=np.zeros((0, 5)),
    )


def clipped(x: float, y: float) -> tuple[float, float]:
    """The point nearest to (x, y) at which the centre of a new block may be."""
    return min(max(x, PLACE_X[0]), PLACE_X[1]), min(max(y, PLACE_Y[0]), PLACE_Y[1])


def place(scene: Scene, placement: Placement, keep: bool) -> Scene:
    """`scene` with the block of `placement` added, without simulation. The slot must hold an available block; this is not checked.

    The position is clipped to the area where blocks may be placed. With `keep` the available block stays, and a row is appended for the
    placed block. Without `keep` the placed block takes the row of the available block.
    """
    slot, _, _, sticky = placement
    x, y = clipped(placement.x, placement.y)
    columns = _place(scene.pose, scene.size, scene.velocity, scene.role, scene.sticky, slot, x, y, sticky, keep)
    pose, size, velocity, role, stickies = columns
    return scene.but(pose=pose, size=size, velocity=velocity, role=role, sticky=stickies)


@compiled
def _place(
    pose: Floats, size: Floats, velocity: Floats, role: Ints, sticky: Bools, slot: int, x: float, y: float, glue: bool, keep: bool
) -> tuple[Floats, Floats, Floats, Ints, Bools]:
    """Copies of the arrays pose, size, velocity, role and sticky of a scene, with a new block: that of `slot`, with its centre at (x, y),
    and sticky if `glue`. With `keep` a row is appended for it; without `keep` it takes the row of the available block."""
    n = len(role)
    rows = n + 1 if keep else n
    poses, sizes, velocities = np.empty((rows, 3)), np.empty((rows, 2)), np.empty((rows, 3))
    roles, stickies = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.bool_)
    for k in range(n):
        for i in range(3):
            poses[k, i], velocities[k, i] = pose[k, i], velocity[k, i]
        sizes[k, 0], sizes[k, 1], roles[k], stickies[k] = size[k, 0], size[k, 1], role[k], sticky[k]
    row = n if keep else slot
    poses[row, 0], poses[row, 1], poses[row, 2] = x, y, 0.0
    velocities[row, 0], velocities[row, 1], velocities[row, 2] = 0.0, 0.0, 0.0
    sizes[row, 0], sizes[row, 1], roles[row], stickies[row] = size[slot, 0], size[slot, 1], Role.BLOCK, glue
    return poses, sizes, velocities, roles, stickies
