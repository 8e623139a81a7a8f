"""Loops over a handful of objects, compiled.

A scene has a few dozen objects. At that size an array operation takes longer to set up than to run, and the rules need dozens of
them at every step. Compiled plain loops cost almost nothing, and they read like the rules that they implement.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable
from enum import Enum
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast, overload

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Callable[..., object])


@overload
def compiled(function: F, *, reorder: bool = False) -> F: ...
@overload
def compiled(function: None = None, *, reorder: bool = False) -> Callable[[F], F]: ...
def compiled(function: F | None = None, *, reorder: bool = False) -> F | Callable[[F], F]:
    """Returns `function` as machine code. It is compiled at the first call and kept on disk for every later process.

    Floating-point operations are not reordered, so results equal those of the plain Python form (`.py_func`). With `reorder` they may
    be, so that the processor can compute several terms of a sum at a time. Networks use this, the rules never do. Pass the arrays of
    a scene itself, which are read-only; for writable arrays a second form would be compiled.
    """
    if function is None:
        return lambda given: compiled(given, reorder=reorder)
    source = Path(function.__code__.co_filename)
    cached = source.is_file()  # a function typed into a session has no file, so each session compiles it again
    dispatcher: Any = numba.njit(cache=cached, fastmath={"reassoc", "contract", "nsz"} if reorder else False)(function)
    if cached:
        kept: Any = dispatcher._cache._cache_file
        kept.__class__, kept.function = _ByContent, function
        del kept._source_stamp
    return cast(F, dispatcher)


class _ByContent(IndexDataCacheFile):
    """A cache of machine code that becomes invalid when the text of any of its source files changes.

    numba's own cache compares only the time and size of the function's file. But the code also contains functions and constants of other
    files.
    """

    function: Callable[..., object]

    @cached_property
    def _source_stamp(self) -> str:  # first needed when the function is called, when all that it uses is defined
        parts, seen, todo = set(), {self.function}, [self.function]
        while todo:
            function = todo.pop()
            parts.add(_read(Path(function.__code__.co_filename)))
            for name in _names(function.__code__):
                value = function.__globals__.get(name)
                if isinstance(value, Dispatcher) and value.py_func not in seen:
                    seen.add(value.py_func)
                    todo.append(value.py_func)
                elif isinstance(value, type) and issubclass(value, Enum):
                    parts.add(repr(list(value)).encode())
                elif isinstance(value, np.ndarray):
                    parts.add(value.tobytes())
                elif isinstance(value, int | float | tuple | np.generic):
                    parts.add(f"{name} = {value!r}".encode())
        return hashlib.sha256(b"\0".join(sorted(parts))).hexdigest()


@lru_cache
def _read(source: Path) -> bytes:
    return source.read_bytes()


def _names(code: CodeType) -> set[str]:
    """Global names in a function and in its inner functions."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return found.union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))
