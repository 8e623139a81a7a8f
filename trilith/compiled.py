"""Loops over a handful of rectangles, compiled.

A scene has a few dozen objects. At that size an array operation takes longer to set up than to run, and the rules ask for
dozens of them at every step; written as plain loops and compiled they cost next to nothing, and read like the rules they state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_ROOT = Path(__file__).parent
SOURCES = [
    *(_ROOT / f"{name}.py" for name in ("compiled", "geometry", "scene", "actions")),
    *sorted(_ROOT.glob("tasks/*.py")),
    *(_ROOT / "observe" / f"{name}.py" for name in ("objects", "graph")),
]
"""Files with compiled functions, and with the constants that those have built in."""
STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()


def compiled(function: F) -> F:
    """`function` as machine code, made when it is first called and kept on disk for every later process.

    No reordering of floating-point operations is allowed, so results are those of the plain Python form (`.py_func`).
    Pass scenes' own arrays, which are read-only: for arrays that are not, a second form would be compiled.
    """
    dispatcher: Any = numba.njit(cache=True)(function)
    # What is on disk counts as fresh while the function's own file is unchanged. But functions build in others, and
    # constants, from other files: let it be stale as soon as any of them changes.
    dispatcher._cache._cache_file._source_stamp = STAMP
    return cast(F, dispatcher)
