"""The notebooks of the documentation: their code runs in a short form, and outputs are stored."""

import base64
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import matplotlib as mpl
import pytest

from trilith.training import checkpoint
from trilith.training.config import TrainConfig, recipe_config
from trilith.training.run import train

ROOT = Path(__file__).parents[1]
START = ROOT / "docs/start"
NOTEBOOKS = sorted(path.stem for path in START.glob("*.ipynb"))


def cells(name: str, kind: str = "code") -> list[dict[str, Any]]:
    notebook = json.loads((START / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(name: str, parameters: dict[str, int], folder: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Runs the code of a notebook in a folder, with other values for its cell of parameters; returns its variables."""
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(Markdown=str))  # the tests need no Jupyter
    mpl.use("Agg")
    module = ModuleType(f"notebook_{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where its classes are found by name
    for cell in cells(name):
        exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), module.__dict__)
        if "parameters" in cell["metadata"].get("tags", []):
            assert parameters.keys() == {key for key in module.__dict__ if key.isupper()}
            module.__dict__.update(parameters)
    return SimpleNamespace(**module.__dict__)


def test_first_scene(tmp_path, monkeypatch):
    found = run("first_scene", {}, tmp_path, monkeypatch)
    assert found.now.total == found.state.rules.best(found.scene), "what is built by hand there is complete"
    assert found.wrong.total == 0, "the highest target first does not work"


@pytest.mark.slow
def test_first_agent(tmp_path, monkeypatch):
    found = run("first_agent", {"SCENES": 2, "SEARCHED": 1}, tmp_path, monkeypatch)
    assert found.result["search"]["budget"] == 10


@pytest.mark.slow
def test_first_training(tmp_path, monkeypatch):
    found = run("first_training", {"STEPS": 3, "FIRST": 40, "SCENES": 2}, tmp_path, monkeypatch)
    assert [line["step"] for line in found.valid] == [1, 2, 3]


def test_own_agent(tmp_path, monkeypatch):
    found = run("own_agent", {"SCENES": 2}, tmp_path, monkeypatch)
    assert found.end.total > 0


def test_own_task(tmp_path, monkeypatch):
    found = run("own_task", {"SCENES": 2}, tmp_path, monkeypatch)
    assert found.result["solved"] == 1, "the script of the example completes the tower"


def test_own_algorithm(tmp_path, monkeypatch):
    found = run("own_algorithm", {"STEPS": 10, "SCENES": 2}, tmp_path, monkeypatch)
    assert found.w.any()


def linear(out: Path, steps: int, **options: Any) -> TrainConfig[Any]:
    given = {"actors": 0, "episodes": 8, "evaluate_scenes": 0, **options}
    return replace(recipe_config("own_algorithm:linear", "silhouette"), out=out, steps=steps, **given)


def test_the_own_algorithm_has_less_than_a_hundred_lines():
    assert sum(bool(line.strip()) for line in (ROOT / "examples/own_algorithm.py").read_text(encoding="utf-8").splitlines()) < 100


@pytest.mark.slow
def test_the_own_algorithm_learns_in_seconds(tmp_path):
    assert train(linear(tmp_path, 600, episodes=32, evaluate_scenes=20), screen=False)["all"] > 2  # chance earns -0.5


def test_the_own_algorithm_resumes_bit_for_bit(tmp_path):
    train(linear(tmp_path / "whole", 40), screen=False)
    for steps in (15, 40):
        train(linear(tmp_path / "parts", steps), screen=False)
    (whole, _), (parts, _) = (checkpoint.load(tmp_path / each / checkpoint.NAME) for each in ("whole", "parts"))
    assert all(array.tobytes() == parts[name].tobytes() for name, array in whole.items())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_stored_and_small(name):
    assert [cell["execution_count"] for cell in cells(name)] == list(range(1, len(cells(name)) + 1)), "run tools/notebooks.py"
    outputs = [output for cell in cells(name) for output in cell["outputs"]]
    assert not any(output["output_type"] == "error" or output.get("name") == "stderr" for output in outputs)
    pictures = [base64.b64decode(output["data"]["image/png"]) for output in outputs if "image/png" in output.get("data", {})]
    assert pictures
    assert max(map(len, pictures)) < 60_000
    assert (START / f"{name}.ipynb").stat().st_size < 300_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_says_what_it_is_and_its_links_lead_somewhere(name):
    text = ["".join(cell["source"]) for cell in cells(name, "markdown")]
    assert re.match(r"# .+\n\n\*Start\.\* At the end you ", text[0])
    for path in re.findall(r"\]\((?!http|#)([^)#]+)", "\n".join(text)):
        assert (START / path).exists(), path
