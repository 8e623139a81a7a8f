"""Compiles plain Python loops with numba, and keeps the machine code in a cache on disk.

A scene has a few dozen objects. At that size a numpy operation takes longer to set up than to run, and every step needs dozens of
such operations. A compiled loop costs almost nothing, and it reads like the rule that it implements.
"""

from __future__ import annotations

import dis
import gc
import hashlib
import multiprocessing
import sys
from collections.abc import Callable
from enum import Enum
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast, overload

import numba
import numpy as np
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Callable[..., object])


@overload
def compiled(function: F, *, reorder: bool = False) -> F: ...
@overload
def compiled(function: None = None, *, reorder: bool = False) -> Callable[[F], F]: ...
def compiled(function: F | None = None, *, reorder: bool = False) -> F | Callable[[F], F]:
    """Returns `function` as machine code. The first call with each combination of argument types compiles it; later processes read the
    machine code from disk. Usable as a decorator, with or without arguments.

    By default floating-point operations keep their order, so results equal those of the Python function (`.py_func`). `reorder=True` allows
    the compiler to change the order, so that the processor can compute several terms of a sum at the same time. Networks use `reorder`; the
    rules of the world never do. Pass the arrays of a scene read-only, as they are: for writable arrays numba compiles a second version.

    Compilation takes several times longer for operations on whole arrays than for loops over their elements. Slowest to compile are
    assignments of a sequence or an array to a slice, and sorts.
    """
    if function is None:
        return lambda given: compiled(given, reorder=reorder)
    source = Path(function.__code__.co_filename)
    cached = source.is_file()  # a function of an interactive session has no file, so each session compiles it again
    dispatcher: Any = numba.njit(cache=cached, fastmath={"reassoc", "contract", "nsz"} if reorder else False)(function)
    if cached:
        kept: Any = dispatcher._cache._cache_file
        kept.__class__, kept.function = _ByContent, function
        del kept._source_stamp
    return cast(F, dispatcher)


def is_compiled(function: Callable[..., object]) -> bool:
    """Whether the machine code of a function is on disk, for at least one combination of argument types. `function` must be a result of
    `compiled`, and be defined in a file."""
    dispatcher: Any = function
    return bool(dispatcher._cache._cache_file._load_index())


class _Compilation(event.Listener):
    """Prints a note at the first compilation in a process, and pauses the garbage collector while code is compiled.

    The compiler makes millions of small objects, so the garbage collector would use a sixth of the compilation time.
    """

    announced = multiprocessing.parent_process() is not None or not (sys.stderr and sys.stderr.isatty())
    """True if the note about the first compilation must not be printed, or not again. It is True from the start in worker processes,
    because each of them would print the same note, and where standard error is not a terminal."""
    depth = 0
    """Number of functions that are being compiled now. It exceeds 1 while a function is compiled because another one calls it."""
    collects = True
    """Whether the garbage collector was on before the compilation."""

    def on_start(self, event: event.Event) -> None:
        if not self.announced and event.data["dispatcher"].py_func.__module__.startswith("trilith."):
            self.announced = True
            print(TOLD, file=sys.stderr, flush=True)
        if self.depth == 0:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()


TOLD = "compiling for up to 15 s, once after an installation or an update"
compilation = _Compilation()
event.register("numba:compile", compilation)


class _ByContent(IndexDataCacheFile):
    """A cache of the machine code of one function. The cache becomes invalid when any of three things changes: the source file of the
    function, the source file of a compiled function that it calls, directly or not, or a global constant that one of these functions uses.

    numba's own cache compares only the modification time and the size of one file, the one that defines the function. But the machine code
    also contains functions and constants from other files.
    """

    function: Callable[..., object]

    @cached_property
    def _source_stamp(self) -> str:  # computed at the first call, when all functions that it uses are defined
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
    """The global names that the code of a function and of its inner functions use."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return found.union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))
