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
from typing import Any

import numpy as np

from trilith.utils.files import MAX_JSON, read_file


def names_a_class(name: str) -> bool:
    """Whether a name has the form my_module:MyClass. The module may be in packages: my_package.my_module:MyClass."""
    return all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")) if name.count(":") == 1 else False


def imported(name: str, what: str) -> Any:
    """Imports the class `name`, written my_module:MyClass, and returns it. Raises ValueError if there is no such module or class. In the
    message, `what` is the kind of class that was expected, such as "task".

    Modules in the current folder are found like installed modules.
    """
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no {what} {name!r}: {error}") from None


def own_code(data: Any) -> dict[str, str]:
    """The fingerprint of the user's own code that `data` names. `data` is nested JSON; texts of the form my_module:MyClass are names of
    classes.

    The result maps the path of each source file to a digest of the file. It also maps the names python, numpy and trilith to their
    versions. Source files are the modules that define the classes. For a module found in the working folder, they are also the files that
    it imports from there, directly or indirectly. Returns an empty dictionary if `data` names none of the user's classes.
    """
    files: dict[str, str] = {}
    for module in sorted({name.partition(":")[0] for name in _classes(data)}):
        path = getattr(sys.modules.get(module), "__file__", None)
        if path and module.split(".")[0] != "trilith":
            files |= _sources(module, Path(path).resolve())
    versions = {"python": platform.python_version(), "numpy": np.__version__, "trilith": sys.modules["trilith"].__version__}
    return dict(sorted(files.items())) | versions if files else {}


def _classes(data: Any) -> Iterator[str]:
    """Yields all texts in nested JSON data that have the form my_module:MyClass."""
    if isinstance(data, str) and names_a_class(data):
        yield data
    elif isinstance(data, Mapping | list | tuple):
        for each in data.values() if isinstance(data, Mapping) else data:
            yield from _classes(each)


def _sources(module: str, path: Path) -> dict[str, str]:
    """Digests of the source files of `module` (a dotted name), whose own file is `path`. The keys of the result are the paths of the source
    files, relative to the folder in which Python found the module.

    Source files are `path` and the `__init__.py` of the module's packages. If the module was found in the working folder, the files that it
    imports from there are source files too.
    """
    root = path.parents[module.count(".") + (path.name == "__init__.py")]
    below = root.is_relative_to(Path.cwd()) and "site-packages" not in root.parts
    found: dict[Path, str] = {}
    todo = {path, *_files(root, module.split("."))}
    while todo:
        path = todo.pop()
        text = read_file(path, MAX_JSON)
        found[path] = hashlib.sha256(text).hexdigest()[:16]
        if below:
            todo |= set(_imports(root, path, text)) - found.keys()
    return {path.relative_to(root).as_posix(): digest for path, digest in found.items()}


def _imports(root: Path, path: Path, text: bytes) -> Iterator[Path]:
    """Yields the files below the folder `root` that a source file imports. `path` is the source file, `text` its content. Modules of
    trilith are left out."""
    package = path.relative_to(root).parent.parts
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
                    yield from _files(root, parts)


def _files(root: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yields the file of a module below the folder `root`, and the `__init__.py` of each package that contains it. `parts` are the parts of
    the module's dotted name. Files that do not exist are left out."""
    for k in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:k])
        yield from (each for each in (place / "__init__.py", place.with_name(f"{place.name}.py")) if each.is_file())
