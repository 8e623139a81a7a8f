"""The five action spaces of the paper, each a codec that turns an action into one `Placement`, and the mask of legal actions.

The rules of an episode see nothing but the placement; None stands for an edge that does not lead from an available block
to an object of the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from trilith.support.compiled import compiled
from trilith.world.geometry import overlaps
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, PLACE_Y, SLOT_X, SLOTS, Bools, Floats, Ints, Placement, Role, Scene

CLEARANCE = 0.04
"""A block is placed this much above (or beside) its reference, so that the two do not overlap at once."""
OFFSETS = 15
_AVAILABLE, _TARGET = int(Role.AVAILABLE), int(Role.TARGET)


def offset(i: Any, n: int, reference: Any, block: Any) -> Any:
    """The i-th of n distances along one axis from the centre of an object of length `reference` to a block of length `block`."""
    return (reference + block) / 2 * (1 + max(1 / (n - 3), CLEARANCE)) * (2 * i / (n - 1) - 1)


def height_on(is_target: Any, y: Any, height: Any) -> Any:
    """y of the centre of a block placed relative to an object at `y`: into a target, onto anything solid."""
    return y + (1 - is_target) * (height + BLOCK_HEIGHT) / 2 + CLEARANCE


def rest_height(scene: Scene, rows: Any) -> Any:
    """y of the centre of a block placed relative to a row, or to each of several."""
    return height_on((scene.role[rows] == _TARGET) * 1, scene.pose[rows, 1], scene.size[rows, 1])


_offset, _height_on = compiled(offset), compiled(height_on)


@dataclass(frozen=True)
class ContinuousAbsolute:
    """(X, x, y, s) in [-1, 1]: 7X picks the nearest slot, the centre is at (7.5 x, 7.5 (y + 1)), sticky if s > 0."""

    name: ClassVar[str] = "continuous_absolute"
    length: ClassVar[int] = 4

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        """The placement of an action. Raises ValueError if a number is not finite."""
        pick, x, y, sticky = _finite(action, self.length)
        return Placement(_nearest_slot(pick), PLACE_X[1] * x, PLACE_Y[1] / 2 * (y + 1), sticky > 0)


@dataclass(frozen=True)
class ContinuousRelative:
    """(X, x, y, Δx, s) in [-1, 1]: (x, y) picks the scene object with the nearest centre, Δx the place along its top."""

    name: ClassVar[str] = "continuous_relative"
    length: ClassVar[int] = 5

    def decode(self, scene: Scene, action: Sequence[float]) -> Placement:
        """The placement of an action. Raises ValueError if a number is not finite."""
        pick, x, y, shift, sticky = _finite(action, self.length)
        slot = _nearest_slot(pick)
        there = np.array([PLACE_X[1] * x, PLACE_Y[1] / 2 * (y + 1)])
        refs = np.flatnonzero(scene.role != Role.AVAILABLE)
        ref = int(refs[np.argmin(((scene.pose[refs, :2] - there) ** 2).sum(axis=1))])
        reach = (float(scene.size[ref, 0]) + float(scene.size[slot, 0])) / 2 + CLEARANCE
        return Placement(slot, float(scene.pose[ref, 0]) + shift * reach, float(rest_height(scene, ref)), sticky > 0)


@dataclass(frozen=True)
class DiscreteAbsolute:
    """(u, i, j, s): slot, cell of a grid of `heights` × `widths` over where blocks may be placed, sticky or not."""

    heights: int = 8
    widths: int = 64
    name: ClassVar[str] = "discrete_absolute"

    def __post_init__(self) -> None:
        if self.heights < 1 or self.widths < 1:
            raise ValueError(f"a grid of {self.heights} x {self.widths} cells: both must be at least 1")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each part of an action."""
        return (SLOTS, self.heights, self.widths, 2)

    def decode(self, scene: Scene, action: Sequence[int]) -> Placement:
        """The placement of an action. Raises ValueError if an index is out of range."""
        u, i, j, sticky = _indices(action, self.shape)
        x = PLACE_X[0] + (PLACE_X[1] - PLACE_X[0]) * (j + 0.5) / self.widths
        y = PLACE_Y[0] + (PLACE_Y[1] - PLACE_Y[0]) * (i + 0.5) / self.heights
        return Placement(u, x, y, bool(sticky))


@dataclass(frozen=True)
class DiscreteRelative:
    """(c, r, i, s): the edge from available block c to scene object r (rows), one of `offsets` places along r, sticky or not."""

    offsets: int = OFFSETS
    name: ClassVar[str] = "discrete_relative"

    def __post_init__(self) -> None:
        if self.offsets < 4:
            raise ValueError(f"{self.offsets} offsets: there must be at least 4")

    @property
    def tail(self) -> tuple[int, ...]:
        """Number of values of each part of an action after the edge and before sticky."""
        return (self.offsets,)

    def shape(self, objects: int) -> tuple[int, ...]:
        """Number of values of each part of an action in scenes of up to `objects` rows."""
        return (objects, objects, *self.tail, 2)

    def grid(self, reference: Any, block: Any) -> Floats:
        """(..., offsets): distances along one axis from the centre of objects of length `reference` to blocks of length `block`.

        The outermost on either side lies beyond where the two overlap, so that a block can also fall beside the object.
        """
        return offset(np.arange(self.offsets), self.offsets, np.asarray(reference)[..., None], np.asarray(block)[..., None])

    def decode(self, scene: Scene, action: Sequence[int]) -> Placement | None:
        """The placement of an action, None for an invalid edge. Raises ValueError if another part is out of range."""
        c, r, *at, sticky = _indices(action, (None, None, *self.tail, 2))
        if not (0 <= c < SLOTS and scene.role[c] == Role.AVAILABLE and 0 <= r < len(scene) and scene.role[r] != Role.AVAILABLE):
            return None
        (x, y, _), (w, h) = scene.pose[r].tolist(), scene.size[r].tolist()
        x += offset(at[0], self.offsets, w, float(scene.size[c, 0]))
        y = y + offset(at[1], self.offsets, h, BLOCK_HEIGHT) if len(at) == 2 else float(rest_height(scene, r))
        return Placement(c, x, y, bool(sticky))


@dataclass(frozen=True)
class DiscreteRelativeXY(DiscreteRelative):
    """(c, r, i, j, s): as `DiscreteRelative`, with offset j on y as well, in heights instead of widths."""

    name: ClassVar[str] = "discrete_relative_xy"

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.offsets, self.offsets)


Codec = ContinuousAbsolute | ContinuousRelative | DiscreteAbsolute | DiscreteRelative | DiscreteRelativeXY
CODECS: dict[str, type[Codec]] = {
    codec.name: codec for codec in (ContinuousAbsolute, ContinuousRelative, DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY)
}


def legal(scene: Scene, codec: DiscreteRelative) -> Bools:
    """(7, N, *codec.tail): which (available block, reference, offset) are a valid edge and overlap nothing solid.

    The first axis is the slot, which is also the row of an available block. Sticky or not makes no difference.
    """
    heights = codec.offsets if len(codec.tail) == 2 else 0
    mask = _legal(scene.pose, scene.size, scene.role, scene.solid, codec.offsets, heights)
    return mask if heights else mask[..., 0]


@compiled
def _legal(pose: Floats, size: Floats, role: Ints, solid: Bools, n: int, heights: int) -> Bools:
    """(7, N, n, max(heights, 1)): the mask; with `heights` 0 the block goes to its rest height, else to one of so many offsets."""
    mask = np.zeros((SLOTS, len(role), n, max(heights, 1)), dtype=np.bool_)
    cos, sin, rows = np.cos(pose[:, 2]), np.sin(pose[:, 2]), np.flatnonzero(solid)
    for slot in range(SLOTS):
        if role[slot] != _AVAILABLE:
            continue
        w, h = size[slot]
        twin = -1  # blocks of one width are placed alike, so each width is computed once
        for other in range(slot):
            if role[other] == _AVAILABLE and size[other, 0] == w:
                twin = other
        if twin >= 0:
            mask[slot] = mask[twin]
            continue
        for ref in range(len(role)):
            if role[ref] == _AVAILABLE:
                continue
            for j in range(max(heights, 1)):
                y = _height_on(1 if role[ref] == _TARGET else 0, pose[ref, 1], size[ref, 1])
                if heights:
                    y = pose[ref, 1] + _offset(j, n, size[ref, 1], BLOCK_HEIGHT)
                y = min(max(y, PLACE_Y[0]), PLACE_Y[1])
                for i in range(n):
                    x = min(max(pose[ref, 0] + _offset(i, n, size[ref, 0], w), PLACE_X[0]), PLACE_X[1])
                    free = True
                    for k in rows:
                        if overlaps(x, y, w, h, pose[k, 0], pose[k, 1], cos[k], sin[k], size[k, 0], size[k, 1]):
                            free = False
                            break
                    mask[slot, ref, i, j] = free
    return mask


def _finite(action: Sequence[float], length: int) -> list[float]:
    values = [float(part) for part in action]
    if len(values) != length or not np.isfinite(values).all():
        raise ValueError(f"action {values}: must be {length} finite numbers")
    return [min(max(value, -1.0), 1.0) for value in values]


def _indices(action: Sequence[int], shape: tuple[int | None, ...]) -> list[int]:
    """The parts of an action, which must be whole numbers from 0 to below those of `shape`, and any at all where that is None."""
    values = np.asarray(action).tolist()
    if len(values) != len(shape) or not all(isfinite(value) and value == int(value) for value in values):
        raise ValueError(f"action {values}: must be {len(shape)} whole numbers")
    if not all(size is None or 0 <= value < size for value, size in zip(values, shape, strict=True)):
        limits = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"action {values}: must be from 0 to below ({limits})")
    return [int(value) for value in values]


def _nearest_slot(pick: float) -> int:
    """The slot whose place below the floor is nearest to 7 · pick, used or not."""
    return int(np.argmin(np.abs(SLOT_X - 7 * pick)))


def first_of_width(scene: Scene) -> Bools:
    """(7,): which slots hold an available block such as no slot before them does; the others could do nothing different."""
    available = scene.role[:SLOTS] == Role.AVAILABLE
    first = np.zeros(SLOTS, dtype=bool)
    rows = np.flatnonzero(available)
    first[rows[np.unique(scene.size[rows, 0], return_index=True)[1]]] = True
    return first
