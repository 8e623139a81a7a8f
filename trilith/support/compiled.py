"""Loops over a handful of objects, compiled.

A scene has a few dozen objects. At that size an array operation takes longer to set up than to run, and the rules ask for
dozens of them at every step; written as plain loops and compiled they cost next to nothing, and read like the rules they state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numba
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Callable[..., object])

_ROOT = Path(__file__).parent.parent
_OTHERS = (
    "builders/connecting.py",
    "builders/options.py",
    "nets/describe.py",
    "nets/edges.py",
    "nets/loops.py",
    "nets/moments.py",
    "nets/placements.py",
    "nets/windows.py",
    "agents/model/facts.py",
    "evaluation/model.py",
)
SOURCES = [Path(__file__), *sorted(_ROOT.glob("world/**/*.py")), *(_ROOT / name for name in _OTHERS)]
"""Files with compiled functions, and with the constants that those have built in."""
STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()


@overload
def compiled(function: F, *, reorder: bool = False) -> F: ...
@overload
def compiled(function: None = None, *, reorder: bool = False) -> Callable[[F], F]: ...
def compiled(function: F | None = None, *, reorder: bool = False) -> F | Callable[[F], F]:
    """`function` as machine code, made when it is first called and kept on disk for every later process.

    No reordering of floating-point operations is allowed, so results are those of the plain Python form (`.py_func`); with
    `reorder` it is, for sums that the processor can then make several at a time. The rules never need that, networks do.
    Of a scene pass its own arrays, which are read-only: for arrays that are not, a second form would be compiled.
    """
    if function is None:
        return lambda given: compiled(given, reorder=reorder)
    own = Path(function.__code__.co_filename)
    kept = own.is_file()  # what was typed into a session is compiled in each anew
    dispatcher: Any = numba.njit(cache=kept, fastmath={"reassoc", "contract", "nsz"} if reorder else False)(function)
    # What is on disk counts as fresh while the function's own file has the same time and size. But functions build in others,
    # and constants, from other files: let it be stale as soon as the text of any of them changes.
    if kept:
        dispatcher._cache._cache_file._source_stamp = STAMP if own in SOURCES else _own_stamp(function, own)
    return cast(F, dispatcher)


def _own_stamp(function: Callable[..., object], file: Path) -> str:
    """Of a function outside the package: changes with the text of its file, and with what it builds in from a user's other files."""
    parts = [STAMP.encode(), file.read_bytes()]
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Dispatcher) and isinstance(cache := getattr(value, "_cache", None), FunctionCache):
            parts.append(str(cache._cache_file._source_stamp).encode())
        elif isinstance(value, int | float | tuple):
            parts.append(repr(value).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
