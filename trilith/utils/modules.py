"""Imports the user's own classes by name: my_module:MyTask, my_module:MyAgent."""

from __future__ import annotations

import ast
import hashlib
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from sysconfig import get_path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from trilith.utils.checks import require
from trilith.utils.files import MAX_JSON, NO_SOURCE, read_file


def names_a_class(name: str) -> bool:
    """Whether a name has the form my_module:MyClass. The module may be in packages: my_package.my_module:MyClass."""
    return all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")) if name.count(":") == 1 else False


def imported(name: str, what: str) -> Any:
    """Imports the class `name`, written my_module:MyClass, and returns it. Raises ValueError if there is no such module or class. In the
    message, `what` is the kind of class that was expected, such as "task".

    Modules in the current folder are found like installed modules.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_own(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no {what} {name!r}: {error}") from None


def import_own(module: str) -> ModuleType:
    """Imports a module, which may be the user's own in the current folder, and returns it. If this is its first import, keeps the digests
    of its sources, so that `own_code` notices a later change of the files."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    first = module not in sys.modules
    found = import_module(module)
    if first:
        _code(module)
    return found


def own_code(data: Any) -> dict[str, str]:
    """The fingerprint of the user's own code that `data` names. `data` is nested JSON; texts of the form my_module:MyClass are names of
    classes. Their modules must be imported already; others are left out.

    The result maps the path of each source file to a digest of the file. It also maps the names python, numpy and trilith to their
    versions. Source files are the modules that define the classes. For a module found in the working folder, they are also the files that
    it imports from there, directly or indirectly. A module without a source file, such as a notebook, is mapped to `NO_SOURCE`. Returns an
    empty dictionary if `data` names none of the user's classes.

    Raises ValueError if a file has changed since its digest was first taken, because this process still runs the old code.
    """
    files: dict[str, str] = {}
    for module in sorted({name.partition(":")[0] for name in _classes(data)}):
        files |= _code(module)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "trilith": sys.modules["trilith"].__version__}
    return dict(sorted(files.items())) | versions if files else {}


def _classes(data: Any) -> Iterator[str]:
    """Yields all texts in nested JSON data that have the form my_module:MyClass."""
    if isinstance(data, str) and names_a_class(data):
        yield data
    elif isinstance(data, Mapping | list | tuple):
        for each in data.values() if isinstance(data, Mapping) else data:
            yield from _classes(each)


def _code(module: str) -> dict[str, str]:
    """The entries of one module in the result of `own_code`. Empty for a module that is not imported, or that belongs to trilith."""
    if module not in sys.modules or module.split(".")[0] == "trilith":
        return {}
    path = getattr(sys.modules[module], "__file__", None)
    return _sources(module, Path(path).resolve()) if path and Path(path).is_file() else {module: NO_SOURCE}


class _Source(NamedTuple):
    """A source file of the user."""

    root: Path
    """The folder in which Python finds the module."""
    path: Path
    module: str
    """The dotted name of the module."""

    @property
    def name(self) -> str:
        """The path relative to `root`."""
        return self.path.relative_to(self.root).as_posix()


_digests: dict[Path, tuple[ModuleType, str]] = {}
"""Maps the source file of each of the user's modules to the imported module and the digest of the file, as it was first taken."""


def _sources(module: str, path: Path) -> dict[str, str]:
    """Digests of the source files of `module` (a dotted name), whose own file is `path`. The keys of the result are the paths of the source
    files, relative to the folder in which Python finds the module.

    Source files are `path` and the `__init__.py` of the module's packages. If the module was found in the working folder, the files that it
    imports from there are source files too. Raises ValueError if a file has changed since its digest was first taken.
    """
    root = path.parents[module.count(".") + (path.name == "__init__.py")]
    folders = [folder for folder in dict.fromkeys([*(Path(entry).resolve() for entry in sys.path), root]) if _is_own(folder)]
    found: dict[_Source, str] = {}
    todo = {_Source(root, path, module), *_files([root], module.split("."))}
    while todo:
        source = todo.pop()
        text = read_file(source.path, MAX_JSON)
        found[source] = hashlib.sha256(text).hexdigest()[:16]
        if source.root in folders:
            todo |= set(_imports(folders, source, text)) - found.keys()
    for source, digest in found.items():
        if loaded := sys.modules.get(source.module):
            kept, first = _digests.get(source.path, (None, ""))
            if kept is not loaded:
                _digests[source.path] = loaded, digest
            else:
                require(digest == first, f"{source.name} changed after it was imported: start again in a new Python process")
    return {source.name: digest for source, digest in found.items()}


def _is_own(folder: Path) -> bool:
    """Whether a folder of modules is in the working folder, and has neither installed packages nor Python's standard library."""
    installed = {"site-packages", "dist-packages"} & {*folder.parts} or folder.is_relative_to(Path(get_path("stdlib")).resolve())
    return folder.is_relative_to(Path.cwd()) and not installed


def _imports(folders: Sequence[Path], source: _Source, text: bytes) -> Iterator[_Source]:
    """Yields the files in `folders` that a source file imports. `text` is its content. Modules of trilith are left out."""
    package = source.path.relative_to(source.root).parent.parts
    with suppress(SyntaxError, ValueError):  # not Python, such as a compiled module
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = [tuple(each.name.split(".")) for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = package[: len(package) + 1 - node.level] if node.level else ()
                names = [(*start, *(node.module.split(".") if node.module else ()), each.name) for each in node.names]
            else:
                continue
            for parts in names:
                if parts[0] != "trilith":  # trilith has a version, and the working folder may be a clone of it
                    yield from _files(folders, parts)


def _files(folders: Sequence[Path], parts: Sequence[str]) -> Iterator[_Source]:
    """Yields the file of a module, and the `__init__.py` of each package that contains it, each from the first of `folders` that has it.
    `parts` are the parts of the module's dotted name. Files that do not exist are left out."""
    for k in range(1, len(parts) + 1):
        for root in folders:
            place = root.joinpath(*parts[:k])
            if found := [each for each in (place / "__init__.py", place.with_name(f"{place.name}.py")) if each.is_file()]:
                yield _Source(root, found[0], ".".join(parts[:k]))
                break
