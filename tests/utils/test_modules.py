"""What a user's own classes are made of is known by their sources."""

import sys
from pathlib import Path

import pytest

from trilith.utils.modules import imported, own_code

SOURCES = {
    "made.py": "import os\nimport numpy as np\nimport trilith\nfrom made_parts import near\nclass Agent:\n    pass\n",
    "made_parts/__init__.py": "",
    "made_parts/near.py": "def late():\n    from .far import FAR\n    return FAR\n",
    "made_parts/far.py": "FAR = 3\n",
    "made_alone.py": "class Task:\n    pass\n",
    "not_imported.py": "",
    "trilith/__init__.py": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("made", "made_parts", "made_parts.near", "made_parts.far", "made_alone"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


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
def test_a_change_of_any_source_changes_its_digest_alone(folder, name):
    imported("made:Agent", "agent")
    before = own_code("made:Agent")
    (folder / "not_imported.py").write_text("X = 1\n")
    assert own_code("made:Agent") == before
    (folder / name).write_text((folder / name).read_text() + "X = 1\n")
    after = own_code("made:Agent")
    assert {each for each in before if before[each] != after[each]} == {name}


def test_the_imports_of_a_module_outside_of_the_folder_are_left_alone(folder, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    imported("made:Agent", "agent")
    assert files("made:Agent") == ["made.py"]
