"""What a user's own classes are made of is known by their sources."""

import sys
from importlib import import_module, reload
from pathlib import Path
from types import ModuleType

import pytest

from trilith.utils.files import NO_SOURCE
from trilith.utils.modules import import_own, imported, own_code

SOURCES = {
    "made.py": "import os\nimport numpy as np\nimport trilith\nfrom made_parts import near\nclass Agent:\n    pass\n",
    "made_parts/__init__.py": "",
    "made_parts/near.py": "def late():\n    from .far import FAR\n    return FAR\n",
    "made_parts/far.py": "FAR = 3\n",
    "made_alone.py": "class Task:\n    pass\n",
    "not_imported.py": "",
    "trilith/__init__.py": "",
    "made_afar.py": "import made_installed\nfrom made_help import HELP\n",
    "lib/site-packages/made_installed.py": "",
    "src/made_help/__init__.py": "from made_near_help import HELP\n",
    "src/made_near_help.py": "HELP = 1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget(monkeypatch)
    return tmp_path


def forget(monkeypatch) -> None:
    """Does as if Python was started again."""
    for name in [each for each in sys.modules if each.startswith("made")]:
        monkeypatch.delitem(sys.modules, name)


def files(data) -> list[str]:
    return [name for name in own_code(data) if name.endswith(".py")]


def test_the_sources_are_those_of_the_module_and_of_all_that_it_imports_below_the_folder(folder):
    imported("made:Agent", "agent")
    imported("made_alone:Task", "task")
    assert files("made:Agent") == ["made.py", "made_parts/__init__.py", "made_parts/far.py", "made_parts/near.py"]
    assert files({"agent": ["made:Agent", 3], "task": "made_alone:Task"}) == ["made.py", "made_alone.py", *files("made:Agent")[1:]]
    assert own_code("made:Agent").keys() >= {"python", "numpy", "trilith"}


def test_what_comes_with_trilith_or_names_nothing_has_no_code(folder):
    import trilith.planners  # noqa: F401

    assert own_code(["objects", "trilith.planners:Planner", "not_imported:X", None, 3, {"a": "b: c"}]) == {}


@pytest.mark.parametrize("name", ["made.py", "made_parts/__init__.py", "made_parts/far.py"])
def test_a_change_of_any_source_changes_its_digest_alone(folder, monkeypatch, name):
    imported("made:Agent", "agent")
    before = own_code("made:Agent")
    (folder / "not_imported.py").write_text("X = 1\n")
    assert own_code("made:Agent") == before
    (folder / name).write_text((folder / name).read_text() + "X = 1\n")
    forget(monkeypatch)
    imported("made:Agent", "agent")
    after = own_code("made:Agent")
    assert {each for each in before if before[each] != after[each]} == {name}


def test_the_imports_of_a_module_outside_of_the_folder_are_left_alone(folder, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    imported("made:Agent", "agent")
    assert files("made:Agent") == ["made.py"]


@pytest.mark.parametrize("load", [import_own, import_module])
@pytest.mark.parametrize("name", ["made.py", "made_parts/__init__.py"])
def test_code_that_changed_after_its_import_is_refused(folder, monkeypatch, name, load):
    """Python still has the old code, and would store its numbers under the digest of the new one."""
    made = load("made")
    if load is import_module:  # in a program of the user, so unseen
        own_code("made:Agent")
    old = (folder / name).read_text()
    (folder / name).write_text(old + "X = 1\n")
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^{name} changed after it was imported: start again in a new Python process$"):
            own_code("made:Agent")
        reload(made)  # gives no new class to what was made of the old one
    (folder / name).write_text(old)
    before = own_code("made:Agent")
    (folder / name).write_text(old + "X = 1\n")
    forget(monkeypatch)
    import_own("made")
    assert own_code("made:Agent") != before


def test_sources_are_found_in_every_folder_of_the_path_below_the_working_folder_but_not_installed_ones(folder, monkeypatch):
    for place in ("src", "lib/site-packages"):
        monkeypatch.syspath_prepend(str(folder / place))
    import_own("made_afar")
    assert files("made_afar:HELP") == ["made_afar.py", "made_help/__init__.py", "made_near_help.py"]


@pytest.mark.parametrize("place", [None, "<stdin>"])
def test_a_module_without_a_source_file_is_known_as_such(monkeypatch, place):
    module = ModuleType("made_nowhere")
    module.__file__ = place
    monkeypatch.setitem(sys.modules, "made_nowhere", module)
    assert own_code("made_nowhere:Agent")["made_nowhere"] == NO_SOURCE
