"""The five action spaces of the paper, and the mask of legal actions. Each action space is a codec, which converts its actions to
placements and back.

The rules of an episode see only the placement. An action that names unsuitable objects becomes the placement `INVALID_EDGE`. The mask tests
all actions at once; `episode.collides` applies the same rule to a single placement.

All code that depends on the action space is in its codec. To add a sixth action space, write a class here, add it to `CODECS`, and describe
it for cards in `agents/schema.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trilith.utils.checks import require, shortened
from trilith.utils.compiled import compiled
from trilith.world.geometry.rectangles import may_overlap, overlaps
from trilith.world.scene import BLOCK_HEIGHT, INVALID_EDGE, PLACE_X, PLACE_Y, SLOT_X, SLOTS, Bools, Floats, Ints, Placement, Role, Scene

CLEARANCE = 0.04
"""Metres: gap between a new block and the object that it is placed on, or beside in `ContinuousRelative`, so that they do not overlap."""
OFFSETS = 15
_AVAILABLE, _TARGET = int(Role.AVAILABLE), int(Role.TARGET)


def offset(i: Any, n: int, reference: Any, block: Any) -> Any:
    """The i-th of n offsets along one axis (i from 0), in metres: the signed distance from the centre of an object of length `reference` to
    the centre of a block of length `block`."""
    return outermost(n, reference, block) * share(i, n)


def outermost(n: int, reference: Any, block: Any) -> Any:
    """The last and largest of the n offsets that `offset` returns, in metres, by the paper's formula. `reference` and `block` are the
    lengths of object and block along the axis. The result is more than half their sum, so that block and object do not overlap."""
    return (reference + block) / 2 * (1 + 1 / (n - 3))


def share(i: Any, n: int) -> Any:
    """The i-th of n offsets (i from 0), divided by the largest offset. The n values are evenly spaced from -1 to 1."""
    return 2 * i / (n - 1) - 1


def height_on(is_target: Any, y: Any, height: Any) -> Any:
    """y of the centre of a new block, in metres: `CLEARANCE` above the centre of an object if `is_target` is 1, `CLEARANCE` above its
    position on top of the object if 0. The object has height `height` and its centre at `y`."""
    return y + (1 - is_target) * (height + BLOCK_HEIGHT) / 2 + CLEARANCE


def rest_height(scene: Scene, rows: Any) -> Any:
    """`height_on` for objects of `scene`: y of the centre of a new block in metres, with `CLEARANCE`. `rows` is the row of the object, or
    an array of rows; the result has the same shape."""
    return height_on((scene.role[rows] == _TARGET) * 1, scene.pose[rows, 1], scene.size[rows, 1])


_outermost, _share, _height_on = compiled(outermost), compiled(share), compiled(height_on)


class Space(NamedTuple):
    """The range and type of the numbers of an action."""

    low: tuple[float, ...]
    """The minimum of each number."""
    high: tuple[float, ...]
    """The maximum of each number, inclusive."""
    whole: bool
    """Whether the numbers are integers."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each number of an action can have. Only for integers."""
        return tuple(int(high - low) + 1 for low, high in zip(self.low, self.high, strict=True))

    def sample(self, rng: np.random.Generator) -> list[float]:
        """A uniformly random action."""
        return (rng.integers(self.sizes) if self.whole else rng.uniform(self.low, self.high)).tolist()


@dataclass(frozen=True)
class Codec(ABC):
    """An action space: the numbers of an action, and their conversion to a placement and back."""

    name: ClassVar[str]
    length: ClassVar[int]
    """How many numbers an action has."""
    dtype: ClassVar[np.dtype[Any]]
    """The dtype in which the numbers of an action are stored."""

    @abstractmethod
    def space(self, objects: int) -> Space:
        """The range of actions in scenes of up to `objects` objects."""

    @abstractmethod
    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        """The placement that `action` means in `scene`. It is `INVALID_EDGE` if a row that the action names does not exist or holds the
        wrong kind of object. Raises ValueError if the action has the wrong length, or a number that no scene allows."""

    @abstractmethod
    def encode(self, scene: Scene, placement: Placement) -> tuple[float, ...]:
        """The action closest to `placement`: the same block, the same stickiness, and the nearest position that an action can give, by
        the distance |Δx| + |Δy|. `placement` must not be `INVALID_EDGE`."""

    @abstractmethod
    def mirror(self, actions: ArrayLike) -> NDArray[Any]:
        """Converts actions (..., length) of a scene to the corresponding actions of its mirror image, of the same shape.

        The mirror image swaps left and right: x, angles, and the velocities of both change sign. Rows keep their order. Available blocks
        are not mirrored, so each slot keeps its place. The converted action picks the same block and the same reference object, and puts
        the block at -x instead of x.
        """

    def mask(self, scene: Scene) -> Bools | None:
        """Boolean mask with one axis for each number of an action except sticky. True if the action is possible and its block would overlap
        nothing solid. None if the codec has no mask."""
        return None


class Continuous(Codec):
    """Actions are numbers in [-1, 1]; other numbers are clipped to this range."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)
    signs: ClassVar[tuple[int, ...]]
    """For each number of an action, 1 or -1: the factor that converts it to the mirror image of the scene."""

    def space(self, objects: int) -> Space:
        return Space((-1.0,) * self.length, (1.0,) * self.length, whole=False)

    def mirror(self, actions: ArrayLike) -> NDArray[Any]:
        given = np.asarray(actions)
        return given * np.array(self.signs, dtype=given.dtype)


@dataclass(frozen=True)
class ContinuousAbsolute(Continuous):
    """Actions (X, x, y, s), each number in [-1, 1]. X picks the slot whose `SLOT_X` is nearest to 7X. The new block is placed with its
    centre at (7.5 x, 7.5 (y + 1)), in metres. It is sticky if s > 0."""

    name: ClassVar[str] = "continuous_absolute"
    length: ClassVar[int] = 4
    signs: ClassVar[tuple[int, ...]] = (1, -1, 1, 1)

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        pick, x, y, sticky = _finite(action, self.length)
        return Placement(_nearest_slot(pick), *_point(x, y), sticky > 0)

    def encode(self, scene: Scene, placement: Placement) -> tuple[float, ...]:
        return (float(SLOT_X[placement.slot]) / 7, *_pointing(placement.x, placement.y), 1.0 if placement.sticky else -1.0)


@dataclass(frozen=True)
class ContinuousRelative(Continuous):
    """Actions (X, x, y, Δx, s), each number in [-1, 1].

    X picks the slot whose `SLOT_X` is nearest to 7X. (x, y) picks the object, other than an available block, whose centre is nearest to
    (7.5 x, 7.5 (y + 1)) in metres. The block goes on top of this object, or into it if it is a target. Δx is the horizontal position on the
    object: at -1 and 1 the block is just beside the left or right end. The block is sticky if s > 0.
    """

    name: ClassVar[str] = "continuous_relative"
    length: ClassVar[int] = 5
    signs: ClassVar[tuple[int, ...]] = (1, -1, 1, -1, 1)

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        pick, x, y, shift, sticky = _finite(action, self.length)
        slot, refs = _nearest_slot(pick), reference_rows(scene)
        ref = int(refs[_nearest(scene.pose[refs, :2], *_point(x, y))])
        reach = float(_reach(scene, ref, slot))
        return Placement(slot, float(scene.pose[ref, 0]) + shift * reach, float(rest_height(scene, ref)), sticky > 0)

    def encode(self, scene: Scene, placement: Placement) -> tuple[float, ...]:
        refs = reference_rows(scene)
        centres, reach = scene.pose[refs, :2], _reach(scene, refs, placement.slot)
        shift = np.clip((placement.x - centres[:, 0]) / reach, -1, 1)
        off = np.abs(centres[:, 0] + shift * reach - placement.x) + np.abs(rest_height(scene, refs) - placement.y)
        for k in np.argsort(off, kind="stable").tolist():  # try the nearest object first, until one can be picked
            if towards := _towards(centres, k):
                return (float(SLOT_X[placement.slot]) / 7, *towards, float(shift[k]), 1.0 if placement.sticky else -1.0)
        raise AssertionError("every point is nearest to something")


class Discrete(Codec):
    """Actions are lists of indices, in this order: the slot of the block; the row of an object, if the codec is `relative`; one or two
    indices for the position; sticky, 0 or 1."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int32)
    relative: ClassVar[bool]
    """Whether the block is placed relative to an object of the scene. The action then names this object."""

    @property
    @abstractmethod
    def tail(self) -> tuple[int, ...]:
        """For each of the one or two indices of the position in an action, the number of values that it can have."""

    @abstractmethod
    def encode(self, scene: Scene, placement: Placement) -> tuple[int, ...]: ...

    def space(self, objects: int) -> Space:
        sizes = (*((objects, objects) if self.relative else (SLOTS,)), *self.tail, 2)
        return Space((0,) * len(sizes), tuple(size - 1 for size in sizes), whole=True)

    def mirror(self, actions: ArrayLike) -> NDArray[Any]:
        mirrored = np.array(actions)
        mirrored[..., 2] = self.space(0).high[2] - mirrored[..., 2]  # in every discrete space the third index counts from left to right
        return mirrored


@dataclass(frozen=True)
class DiscreteAbsolute(Discrete):
    """Actions (u, i, j, s): the block of slot u is placed in the middle of cell (i, j) of a grid; s is 1 for a sticky block, else 0. The
    grid has `heights` × `widths` cells and fills the area where blocks may be placed. i counts from the bottom, j from the left."""

    heights: int = 8
    widths: int = 64
    name: ClassVar[str] = "discrete_absolute"
    length: ClassVar[int] = 4
    relative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(min(self.heights, self.widths) >= 1, f"a grid of {self.heights} x {self.widths} cells: both must be at least 1")

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.heights, self.widths)

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        u, i, j, sticky = _indices(action, (SLOTS, *self.tail, 2))
        x = PLACE_X[0] + (PLACE_X[1] - PLACE_X[0]) * (j + 0.5) / self.widths
        y = PLACE_Y[0] + (PLACE_Y[1] - PLACE_Y[0]) * (i + 0.5) / self.heights
        return Placement(u, x, y, bool(sticky))

    def encode(self, scene: Scene, placement: Placement) -> tuple[int, ...]:
        i = int((placement.y - PLACE_Y[0]) / (PLACE_Y[1] - PLACE_Y[0]) * self.heights)
        j = int((placement.x - PLACE_X[0]) / (PLACE_X[1] - PLACE_X[0]) * self.widths)
        return placement.slot, min(max(i, 0), self.heights - 1), min(max(j, 0), self.widths - 1), int(placement.sticky)


@dataclass(frozen=True)
class DiscreteRelative(Discrete):
    """The paper's edge actions (c, r, i, s): the available block in row c (0 to 6) is placed relative to the object in row r.

    The block goes on top of the object, or into it if it is a target. i, from 0 to `offsets` - 1, is the horizontal position, from left to
    right; at the first and the last position the block is just beside the object. s is 1 for a sticky block, else 0.
    """

    offsets: int = OFFSETS
    name: ClassVar[str] = "discrete_relative"
    length: ClassVar[int] = 4
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.offsets >= 4, f"{self.offsets} offsets: there must be at least 4")

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.offsets,)

    def grid(self, reference: Any, block: Any) -> Floats:
        """(..., offsets): all offsets along one axis, in metres: signed distances from the centre of an object to the centre of a block.
        `reference` (...) and `block` (...) are the lengths of objects and blocks along this axis.

        At the first and the last offset the block does not overlap the object, so that it can fall beside it.
        """
        return offset(np.arange(self.offsets), self.offsets, np.asarray(reference)[..., None], np.asarray(block)[..., None])

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        c, r, *at, sticky = _indices(action, (None, None, *self.tail, 2))
        if not (0 <= c < SLOTS and scene.role[c] == Role.AVAILABLE and 0 <= r < len(scene) and scene.role[r] != Role.AVAILABLE):
            return INVALID_EDGE
        (x, y, _), (w, h) = scene.pose[r].tolist(), scene.size[r].tolist()
        x += offset(at[0], self.offsets, w, float(scene.size[c, 0]))
        y = y + offset(at[1], self.offsets, h, BLOCK_HEIGHT) if len(at) == 2 else float(rest_height(scene, r))
        return Placement(c, x, y, bool(sticky))

    def encode(self, scene: Scene, placement: Placement) -> tuple[int, ...]:
        refs = reference_rows(scene)
        across = scene.pose[refs, 0, None] + self.grid(scene.size[refs, 0], scene.size[placement.slot, 0])
        off = np.abs(across - placement.x)
        if len(self.tail) == 1:
            off = off + np.abs(rest_height(scene, refs) - placement.y)[:, None]
        else:
            up = scene.pose[refs, 1, None] + self.grid(scene.size[refs, 1], BLOCK_HEIGHT)
            off = off[:, :, None] + np.abs(up - placement.y)[:, None]
        ref, *at = (int(part) for part in np.unravel_index(np.argmin(off), off.shape))
        return placement.slot, int(refs[ref]), *at, int(placement.sticky)

    def mask(self, scene: Scene) -> Bools:
        """Boolean mask (7, N, *tail), where N is the number of objects in the scene. The axes are the slot of the block, the row of the
        reference object, and the one or two offsets.

        True if the slot holds an available block, the reference is no available block, and the new block would overlap nothing solid.
        Whether the block is sticky makes no difference.
        """
        heights = self.offsets if len(self.tail) == 2 else 0
        mask = _legal(scene.pose, scene.size, scene.role, scene.solid, self.offsets, heights)
        return mask if heights else mask[..., 0]


@dataclass(frozen=True)
class DiscreteRelativeXY(DiscreteRelative):
    """Actions (c, r, i, j, s): as in `DiscreteRelative`, but the block is not put on top of the object. A second offset j gives its height
    relative to the object, from the bottom up, as i gives its horizontal position."""

    name: ClassVar[str] = "discrete_relative_xy"
    length: ClassVar[int] = 5

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.offsets, self.offsets)


CODECS: dict[str, type[Codec]] = {
    codec.name: codec for codec in (ContinuousAbsolute, ContinuousRelative, DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY)
}
"""Maps the name of every action space to its codec."""


def make_codec(name: str, **options: Any) -> Codec:
    """Makes the codec `name`, a key of `CODECS`. Options that are not fields of this codec are ignored."""
    kind: Any = CODECS[name]
    return kind(**{field.name: options[field.name] for field in fields(kind) if field.name in options})


def make_discrete(name: str, **options: Any) -> Discrete:
    """Makes the codec with the name "discrete_" + `name`. `options` that are not fields of this codec are ignored. Raises ValueError, with
    the known names, if there is no such codec."""
    there = [each.removeprefix("discrete_") for each, kind in CODECS.items() if issubclass(kind, Discrete)]
    require(name in there, f"there are no actions {name!r}: choose {', '.join(there)}")
    codec = make_codec(f"discrete_{name}", **options)
    assert isinstance(codec, Discrete)
    return codec


def reference_rows(scene: Scene) -> Ints:
    """Rows of the objects that a block can be placed relative to, ascending: all objects except the available blocks."""
    return np.flatnonzero(scene.role != _AVAILABLE)


@compiled
def _legal(pose: Floats, size: Floats, role: Ints, solid: Bools, n: int, heights: int) -> Bools:
    """Boolean mask (7, N, n, max(heights, 1)) of the placements that overlap nothing solid: slot, reference object, one of n offsets along
    x, and offset along y. `heights` is n, or 0 for no offset along y: the block then goes on top of the reference, or into a target.

    N is the number of objects. `pose` (N, 3), `size` (N, 2), `role` (N,) and `solid` (N,) are the arrays of the scene.
    """
    mask = np.zeros((SLOTS, len(role), n, max(heights, 1)), dtype=np.bool_)
    cos, sin, across, shares, free = np.empty(len(role)), np.empty(len(role)), np.empty(n), np.empty(n), np.empty(n, dtype=np.bool_)
    rows, level, solids = np.empty(len(role), dtype=np.int64), np.empty(len(role), dtype=np.int64), 0
    for k in range(len(role)):
        if solid[k]:
            cos[k], sin[k], rows[solids] = np.cos(pose[k, 2]), np.sin(pose[k, 2]), k
            solids += 1
    for i in range(n):
        shares[i] = _share(i, n)
    for ref in range(len(role)):
        if role[ref] == _AVAILABLE:
            continue
        for j in range(max(heights, 1)):
            rest = _height_on(1 if role[ref] == _TARGET else 0, pose[ref, 1], size[ref, 1])
            y = pose[ref, 1] + _outermost(n, size[ref, 1], BLOCK_HEIGHT) * shares[j] if heights else rest
            y = min(max(y, PLACE_Y[0]), PLACE_Y[1])
            count = 0
            for k in rows[:solids]:  # few objects are at the height of the block
                if abs(y - pose[k, 1]) < (BLOCK_HEIGHT + size[k, 1] * abs(cos[k]) + size[k, 0] * abs(sin[k])) / 2:
                    level[count] = k
                    count += 1
            for slot in range(SLOTS):
                if role[slot] != _AVAILABLE:
                    continue
                w, h, twin = size[slot, 0], size[slot, 1], 0
                while role[twin] != _AVAILABLE or size[twin, 0] != w:
                    twin += 1
                if twin < slot:  # blocks of one width have the same mask, so each width is computed once
                    for i in range(n):
                        mask[slot, ref, i, j] = mask[twin, ref, i, j]
                    continue
                furthest = _outermost(n, size[ref, 0], w)
                for i in range(n):
                    across[i], free[i] = min(max(pose[ref, 0] + furthest * shares[i], PLACE_X[0]), PLACE_X[1]), True
                for k in level[:count]:
                    px, py, c, s, pw, ph = pose[k, 0], pose[k, 1], cos[k], sin[k], size[k, 0], size[k, 1]
                    if may_overlap(across[0], across[-1], y, w, h, px, py, c, s, pw, ph):
                        for i in range(n):  # without a branch, so that the processor tests several places at a time
                            free[i] &= not overlaps(across[i], y, w, h, px, py, c, s, pw, ph)
                for i in range(n):
                    mask[slot, ref, i, j] = free[i]
    return mask


def _finite(action: Sequence[float], length: int) -> list[float]:
    values = [float(part) for part in action]
    if len(values) != length or not np.isfinite(values).all():
        raise ValueError(f"action {values}: must be {length} finite numbers")
    return [min(max(value, -1.0), 1.0) for value in values]


def _indices(action: Sequence[float], shape: tuple[int | None, ...]) -> list[int]:
    """The parts of an action as integers. Raises ValueError if their number is wrong, or if a part is no integer from 0 to below its entry
    of `shape`. The entry None allows any integer."""
    values = np.asarray(action).tolist()
    try:
        whole = len(values) == len(shape) and all(isfinite(value) and value == int(value) for value in values)
    except (TypeError, OverflowError):  # no number, or one too large for a float
        whole = False
    if not whole:
        raise ValueError(f"action {shortened(values)}: must be {len(shape)} whole numbers")
    if not all(size is None or 0 <= value < size for value, size in zip(values, shape, strict=True)):
        limits = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"action {values}: must be from 0 to below ({limits})")
    return [int(value) for value in values]


def _nearest_slot(pick: float) -> int:
    """The slot whose centre is nearest to x = 7 · pick metres, whether or not its block is still available."""
    return int(np.argmin(np.abs(SLOT_X - 7 * pick)))


def _point(x: float, y: float) -> tuple[float, float]:
    """Converts two numbers in [-1, 1] to a point in the area where blocks may be placed, in metres."""
    return PLACE_X[1] * x, PLACE_Y[1] / 2 * (y + 1)


def _pointing(x: float, y: float) -> tuple[float, float]:
    """Inverse of `_point`: converts a point in metres to two numbers in [-1, 1]. A point outside the area where blocks may be placed is
    first moved to the nearest point inside."""
    return min(max(x / PLACE_X[1], -1.0), 1.0), min(max(y / (PLACE_Y[1] / 2) - 1, -1.0), 1.0)


def _nearest(centres: Floats, x: float, y: float) -> int:
    """The index of the centre nearest to the point (x, y); the lowest index if several are equally near. `centres` is (R, 2)."""
    return int(np.argmin(((centres - (x, y)) ** 2).sum(axis=1)))


def _reach(scene: Scene, rows: Any, slot: int) -> Any:
    """The horizontal distance in metres between the centre of an object and the centre of a block from `slot` that is placed just beside
    it. `rows` is the row of the object, or an array of rows; the result has the same shape."""
    return (scene.size[rows, 0] + scene.size[slot, 0]) / 2 + CLEARANCE


def _towards(centres: Floats, k: int) -> tuple[float, float] | None:
    """Two numbers in [-1, 1] that pick the k-th of R objects: `_point` converts them to a point that is nearer to the k-th centre than to
    any other. `centres` (R, 2) are the centres of the objects. Returns None if no such point is found.

    Tries the k-th centre itself first, moved into the area where blocks may be placed if it lies outside. If another centre is nearer to
    that point, tries the middle of the region whose points are all nearest to the k-th centre.
    """
    at = _pointing(*centres[k].tolist())
    if _nearest(centres, *_point(*at)) == k:
        return at
    (left, right), (bottom, top) = PLACE_X, PLACE_Y
    cell = [np.array(corner) for corner in ((left, bottom), (right, bottom), (right, top), (left, top))]
    for other in np.delete(centres, k, axis=0):  # cut off the part that is nearer to the other centre
        beyond = [float((other - centres[k]) @ (corner - (other + centres[k]) / 2)) for corner in cell]
        kept = []
        for i, (corner, far) in enumerate(zip(cell, beyond, strict=True)):
            if far * beyond[i - 1] < 0:
                kept.append(corner + (cell[i - 1] - corner) * far / (far - beyond[i - 1]))
            if far <= 0:
                kept.append(corner)
        if not kept:
            return None
        cell = kept
    at = _pointing(*np.mean(cell, axis=0).tolist())
    return at if _nearest(centres, *_point(*at)) == k else None


def first_of_width(scene: Scene) -> Bools:
    """Mask (7,) of the slots that hold the first available block of their width. Later blocks of the same width are interchangeable with
    it."""
    first = np.zeros(SLOTS, dtype=bool)
    rows = scene.rows(_AVAILABLE)
    first[rows[np.unique(scene.size[rows, 0], return_index=True)[1]]] = True
    return first
