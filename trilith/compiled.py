"""Loops over a handful of rectangles, compiled.

A scene has a few dozen objects. At that size an array operation takes longer to set up than to run, and the rules ask for
dozens of them at every step; written as plain loops and compiled they cost next to nothing, and read like the rules they state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """`function` as machine code, made when it is first called and kept on disk for every later process.

    No reordering of floating-point operations is allowed, so results are those of the plain Python form (`.py_func`).
    """
    return cast(F, numba.njit(cache=True)(function))
