"""An algorithm that the package has never heard of trains through the same run: actors, checkpoint, resume, validation, card."""

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilith.agents.algorithms import get_algorithm
from trilith.agents.registry import load
from trilith.evaluation.runner import evaluate
from trilith.training import checkpoint
from trilith.training.config import TrainConfig, recipe_config, run_config
from trilith.training.run import resume, train


def config(out: Path, **options: Any) -> TrainConfig[Any]:
    given = {"actors": 0, "episodes": 8, "evaluate_every": 40, "evaluate_scenes": 4, "task": "silhouette", **options}
    return replace(recipe_config("toy_algorithm:tiny"), out=out, **given)


def kept(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, facts = checkpoint.load(out / checkpoint.NAME)
    return arrays, {
        name: value for name, value in asdict(facts).items() if name not in ("seconds", "core_seconds", "last_valid", "best", "validated")
    }


def test_the_file_is_one_that_can_be_read_in_one_sitting() -> None:
    assert len((Path(__file__).parent / "toy_algorithm.py").read_text().splitlines()) < 150


def test_it_learns_resumes_bit_for_bit_and_is_evaluated_from_its_card(tmp_path: Path) -> None:
    train(config(tmp_path / "whole", steps=120), screen=False)
    train(config(tmp_path / "parts", steps=50), screen=False)
    resume(replace(run_config(tmp_path / "parts"), steps=120), screen=False)
    (arrays, facts), (arrays2, facts2) = kept(tmp_path / "whole"), kept(tmp_path / "parts")
    assert facts == facts2
    assert all(array.tobytes() == arrays2[name].tobytes() for name, array in arrays.items())
    assert arrays["linear"].any()
    card = json.loads((tmp_path / "whole" / "best.json").read_text())
    assert (card["algorithm"], card["agent"], card["task"]) == ("toy_algorithm", {"candidates": 16}, "silhouette")
    assert load(str(tmp_path / "whole")).act([], []) == []
    result = evaluate(str(tmp_path / "whole"), "silhouette", 0, scenes=8, split="valid", workers=2)
    assert result["episodes"] == 8
    with pytest.raises(ValueError, match="does not value actions, so it cannot search"):
        load(str(tmp_path / "whole"), budget=3)


def test_it_trains_with_an_actor_process(tmp_path: Path) -> None:
    train(config(tmp_path, steps=30, actors=1, recipe="toy_algorithm:bold"), screen=False)
    assert kept(tmp_path)[1]["learner"]["steps"] == 30
    assert np.isfinite(kept(tmp_path)[0]["linear"]).all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_package", "'broken_algorithm' cannot be imported: ModuleNotFoundError: No module named 'no_such_package'"),
        ("from json import nothing", "ImportError: cannot import name 'nothing'"),
        ("1 +", "SyntaxError"),
        ("x = 1", "there is no algorithm"),
    ],
)
def test_what_is_wrong_in_a_module_of_ones_own_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    (tmp_path / "broken_algorithm.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_algorithm", raising=False)
    with pytest.raises(ValueError, match=told) as error:
        get_algorithm("broken_algorithm")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="there is no algorithm 'not_a_module'"):
        get_algorithm("not_a_module")


def test_figures_may_be_numbers_of_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a learner without torch computes them. JSON does not know them."""
    given = config(tmp_path, steps=12, log_seconds=0.0)
    learner: Any = sys.modules["toy_algorithm"].ToyLearner
    step = learner.step
    monkeypatch.setattr(learner, "step", lambda self, rng: {name: np.float32(value) for name, value in step(self, rng).items()})
    train(given, screen=False)
    assert type(checkpoint.load(tmp_path / checkpoint.NAME)[1].figures["loss"]) is float


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loss": "x"}, "the learner's figure 'loss' is 'x': it must be a number"),
        ({"loss": "1"}, "the learner's figure 'loss' is '1': it must be a number"),
        ({"loss": 1.0, "error": None}, "the learner's figure 'error' is None: it must be a number"),
        ({"loss": np.zeros(2)}, "the learner's figure 'loss' is array([0., 0.]): it must be a number"),
        ({"loss": 1j}, "the learner's figure 'loss' is 1j: it must be a number"),
        ({"loss": 10**400}, "the learner's figure 'loss' is 1000"),
        (None, "a step of the learner returned None: it must return a dictionary of numbers"),
        (1.0, "a step of the learner returned 1.0: it must return a dictionary of numbers"),
    ],
)
def test_a_figure_that_is_no_number_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, told: str) -> None:
    options = config(tmp_path, steps=2)
    monkeypatch.setattr(sys.modules["toy_algorithm"].ToyLearner, "step", lambda self, rng: given)
    with pytest.raises(ValueError, match=f"^{re.escape(told)}") as error:
        train(options, screen=False)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({1, 2}, "{1, 2} is not a JSON value"),
        (np.zeros(2), "array([0., 0.]) is not a JSON value"),
        (float("nan"), "Out of range float values are not JSON compliant"),
        ({(1, 2): 3}, "keys must be str, int, float, bool or None, not tuple"),
    ],
)
def test_what_a_checkpoint_cannot_hold_is_told_and_the_last_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, told: str
) -> None:
    """A checkpoint with NaN could be written, but not read."""
    train(config(tmp_path, steps=2), screen=False)
    before = (tmp_path / checkpoint.NAME).read_bytes()
    learner: Any = sys.modules["toy_algorithm"].ToyLearner
    state = learner.state
    monkeypatch.setattr(learner, "state", lambda self: (state(self)[0], {**state(self)[1], "more": given}))
    with pytest.raises(ValueError, match=f"^the state of the run cannot be saved in .*{re.escape(told)}") as error:
        train(config(tmp_path, steps=4), screen=False)
    assert "\n" not in str(error.value)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before


def test_the_state_may_have_numbers_of_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = config(tmp_path, steps=2)
    learner: Any = sys.modules["toy_algorithm"].ToyLearner
    state = learner.state
    more = {"steps": np.int64(2), "mean": np.float32(0.5), "ready": np.bool_(True)}
    monkeypatch.setattr(learner, "state", lambda self: (state(self)[0], more))
    train(options, screen=False)
    assert checkpoint.load(tmp_path / checkpoint.NAME)[1].learner == {"steps": 2, "mean": 0.5, "ready": True}
    resume(replace(run_config(tmp_path), steps=4), screen=False)
