"""Packs the placements of many episodes into one short text, for a file of the ledger.

Similar bytes next to each other compress well. So the numbers are stored column by column, and x and y also byte by byte: the first byte of
every number, then the second byte of every number, and so on. Every number is restored exactly: a replay needs x and y to the last bit.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trilith.utils.checks import require
from trilith.world.scene import INVALID_EDGE, SLOTS, Placement
from trilith.world.trajectory import STOPPED

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9}]


def pack(episodes: Sequence[Sequence[Placement | None]]) -> str:
    """Packs the placements of episodes into a text for `unpack`. A placement of None means that the agent stopped."""
    flat = [placement or Placement(STOPPED, 0.0, 0.0) for placements in episodes for placement in placements]
    columns = [
        np.array([len(placements) for placements in episodes], "<u2").tobytes(),
        np.array([placement.slot for placement in flat], "i1").tobytes(),
        np.array([placement.sticky for placement in flat], "u1").tobytes(),
        *(_by_significance([getattr(placement, name) for placement in flat]) for name in ("x", "y")),
    ]
    return base64.b85encode(lzma.compress(b"".join(columns), lzma.FORMAT_RAW, filters=_FILTERS)).decode()


def unpack(text: str, episodes: int) -> list[tuple[Placement | None, ...]]:
    """Restores the placements of each episode from a result of `pack`. Raises ValueError if the text is damaged, or does not hold exactly
    `episodes` episodes."""
    try:
        content = lzma.decompress(base64.b85decode(text), lzma.FORMAT_RAW, filters=_FILTERS)
    except (ValueError, lzma.LZMAError) as error:
        raise ValueError(f"actions cannot be read: {error}") from None
    require(len(content) >= 2 * episodes, f"actions of fewer than {episodes} episodes")
    lengths, rest = np.frombuffer(content[: 2 * episodes], "<u2"), content[2 * episodes :]
    n = int(lengths.sum())
    require(len(rest) == 18 * n, f"actions: {len(rest)} bytes, {18 * n} expected for {n} placements")
    slots, sticky = np.frombuffer(rest[:n], "i1"), np.frombuffer(rest[n : 2 * n], "u1")
    x, y = (np.frombuffer(rest[start : start + 8 * n], "u1").reshape(8, n).T.copy().view("<f8").ravel() for start in (2 * n, 10 * n))
    require(bool(np.isfinite(x).all() and np.isfinite(y).all()), "actions: a position is not a finite number")
    require(bool(((slots >= STOPPED) & (slots < SLOTS)).all()), f"actions: a slot is not 0 to {SLOTS - 1}")
    columns = zip(slots.tolist(), x.tolist(), y.tolist(), sticky.tolist(), strict=True)
    flat = iter([_placement(slot, float(at), float(high), bool(glued)) for slot, at, high, glued in columns])
    return [tuple(next(flat) for _ in range(length)) for length in lengths.tolist()]


def _placement(slot: int, x: float, y: float, sticky: bool) -> Placement | None:
    if slot == STOPPED:
        return None
    return INVALID_EDGE if slot == INVALID_EDGE.slot else Placement(slot, x, y, sticky)


def _by_significance(numbers: Sequence[float]) -> bytes:
    """The bytes of all numbers in another order: the first byte of every number, then the second byte of every number, and so on."""
    column: NDArray[np.float64] = np.array(numbers, "<f8")
    return column.view("u1").reshape(len(numbers), 8).T.tobytes()
