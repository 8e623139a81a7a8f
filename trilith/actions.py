"""The five action spaces of the paper, each a codec that turns an action into one `Placement`, and the mask of legal actions.

The rules of an episode see nothing but the placement; None stands for an edge that does not lead from an available block
to an object of the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from trilith.geometry import overlaps_any
from trilith.scene import BLOCK_HEIGHT, PLACE_X, PLACE_Y, SLOT_X, SLOTS, Bools, Floats, Placement, Role, Scene

CLEARANCE = 0.04
"""A block is placed this much above (or beside) its reference, so that the two do not overlap at once."""
OFFSETS = 15


@cache
def _evenly(n: int) -> Floats:
    """(n,): from −1 to 1."""
    return np.arange(n) * (2 / (n - 1)) - 1


def rest_height(scene: Scene, refs: Any) -> Floats:
    """(R,): y of the centre of a block placed relative to each reference row: into a target, onto anything solid."""
    target = scene.role[refs] == int(Role.TARGET)
    return scene.pose[refs, 1] + np.where(target, 0.0, (scene.size[refs, 1] + BLOCK_HEIGHT) / 2) + CLEARANCE


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
        return Placement(slot, float(scene.pose[ref, 0]) + shift * reach, float(rest_height(scene, [ref])[0]), sticky > 0)


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
        """(..., offsets): distances along one axis from the centre of an object of this length to a block of that one.

        The outermost on either side lies beyond where the two overlap, so that a block can also fall beside the object.
        """
        n = self.offsets
        reach = (np.asarray(reference) + block) / 2 * (1 + max(1 / (n - 3), CLEARANCE))
        return reach[..., None] * _evenly(n)

    def decode(self, scene: Scene, action: Sequence[int]) -> Placement | None:
        """The placement of an action, None for an invalid edge. Raises ValueError if another part is out of range."""
        c, r, *at, sticky = _indices(action, (None, None, *self.tail, 2))
        if not (0 <= c < SLOTS and scene.role[c] == Role.AVAILABLE and 0 <= r < len(scene) and scene.role[r] != Role.AVAILABLE):
            return None
        x = float(scene.pose[r, 0] + self.grid(scene.size[r, 0], scene.size[c, 0])[at[0]])
        return Placement(c, x, float(self._heights(scene, [r])[0][at[1] if len(at) > 1 else 0]), bool(sticky))

    def _heights(self, scene: Scene, refs: Any) -> Floats:
        """(R, heights): y of a block placed on each reference; one height here, `offsets` of them with (x, y) offsets."""
        return rest_height(scene, refs)[:, None]


@dataclass(frozen=True)
class DiscreteRelativeXY(DiscreteRelative):
    """(c, r, i, j, s): as `DiscreteRelative`, with offset j on y as well, in heights instead of widths."""

    name: ClassVar[str] = "discrete_relative_xy"

    @property
    def tail(self) -> tuple[int, ...]:
        return (self.offsets, self.offsets)

    def _heights(self, scene: Scene, refs: Any) -> Floats:
        return scene.pose[refs, 1, None] + self.grid(scene.size[refs, 1], BLOCK_HEIGHT)


Codec = ContinuousAbsolute | ContinuousRelative | DiscreteAbsolute | DiscreteRelative | DiscreteRelativeXY
CODECS: dict[str, type[Codec]] = {
    codec.name: codec for codec in (ContinuousAbsolute, ContinuousRelative, DiscreteAbsolute, DiscreteRelative, DiscreteRelativeXY)
}


def legal(scene: Scene, codec: DiscreteRelative) -> Bools:
    """(7, N, *codec.tail): which (available block, reference, offset) are a valid edge and overlap nothing solid.

    The first axis is the slot, which is also the row of an available block. Sticky or not makes no difference. Blocks of
    one width are placed alike, so each width is computed once.
    """
    mask = np.zeros((SLOTS, len(scene), *codec.tail), dtype=bool)
    available = scene.role == int(Role.AVAILABLE)
    slots_of: dict[float, list[int]] = {}
    for slot, width in zip(available.nonzero()[0].tolist(), scene.size[:SLOTS, 0][available[:SLOTS]].tolist(), strict=True):
        slots_of.setdefault(width, []).append(slot)
    if not slots_of:
        return mask
    refs = (~available).nonzero()[0]
    widths = np.array(list(slots_of))
    x = scene.pose[refs, 0, None] + codec.grid(scene.size[refs, 0], widths[:, None])  # (W, R, n)
    y = codec._heights(scene, refs)  # (R, heights)
    shape = (len(widths), *y.shape, x.shape[-1])
    xs = np.empty(shape)
    xs[...] = np.minimum(np.maximum(x, PLACE_X[0]), PLACE_X[1])[:, :, None]
    ys = np.concatenate([np.minimum(np.maximum(y, PLACE_Y[0]), PLACE_Y[1]).ravel()] * len(widths))
    ws = widths.repeat(y.size)
    free = ~overlaps_any(xs.reshape(len(ys), -1), ys, ws, BLOCK_HEIGHT, scene.solids).reshape(shape)
    free = free[:, :, 0] if len(codec.tail) == 1 else free.swapaxes(2, 3)
    for slots, each in zip(slots_of.values(), free, strict=True):
        for slot in slots:
            mask[slot, refs] = each
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
