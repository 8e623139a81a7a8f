"""The house: imports between the rooms of the package point one way only."""

import ast
from pathlib import Path

import pytest

import trilith

PACKAGE = Path(trilith.__file__).parent
ROOMS = [
    "utils",
    "world",
    "render",
    "envs",
    "planners",
    "search",
    "networks",
    "agents",
    "evaluation",
    "data",
    "training",
    "paper",
    "web",
    "cli",
]
"""A room may import from those before it."""


def imports(path: Path) -> list[str]:
    """Modules of the package that a file imports, lazily or not, but not those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            found += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name.startswith("trilith.")]


def test_every_folder_with_code_is_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and list(path.rglob("*.py"))}
    assert folders == set(ROOMS)
    assert [path.name for path in PACKAGE.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_those_before_it(room):
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    for path in (PACKAGE / room).rglob("*.py"):
        for name in imports(path):
            assert name.split(".")[1] in allowed | {"__version__"}, f"{path.relative_to(PACKAGE)} imports {name}"


def test_no_module_imports_in_a_circle():
    modules = {".".join(("trilith", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in PACKAGE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    edges = {name: [each for each in imports(path) if each in modules and each != name] for name, path in modules.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " > ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in edges[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_the_public_names_are_there():
    for name in trilith.__all__:
        assert getattr(trilith, name) is not None
