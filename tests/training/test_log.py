"""What is left of the log of a run that was killed, or whose lines somebody changed."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from trilith.training.actor import Simulated
from trilith.training.dynamics import draw_log
from trilith.training.log import JSONL, Log, cut_log, read_log
from trilith.training.plot import _NAMES, curve, model_curve


def test_the_axis_of_simulator_steps_names_what_is_counted() -> None:
    counted = ", ".join(field.name for field in fields(Simulated))
    assert _NAMES["simulator_steps"] == f"simulator steps ({counted})"


def test_lines_later_than_the_checkpoint_are_dropped_also_if_no_learner_step_was_made_since(tmp_path: Path) -> None:
    with Log(tmp_path, screen=False) as log:
        log.write("train", 5, {"minutes": 1.0, "actor_steps": 50})
        log.write("train", 7, {"minutes": 2.0, "actor_steps": 70})  # in the round of the loop that saved the checkpoint
        log.write("train", 7, {"minutes": 2.1, "actor_steps": 74})
        log.write("valid", 6, {"minutes": 2.1})  # under way when the checkpoint was saved, so made anew
        log.write("valid", 5, {"minutes": 2.2})
        log.write("train", 8, {"minutes": 2.2, "actor_steps": 80})
    with (tmp_path / JSONL).open("a") as file:
        file.write('{"kind": "train", "st')  # the machine stopped
    cut_log(tmp_path, 120.0, 5)
    lines = [json.loads(line) for line in (tmp_path / JSONL).read_text().splitlines()]
    assert [(line["kind"], line["step"], line["minutes"]) for line in lines] == [("train", 5, 1.0), ("train", 7, 2.0), ("valid", 5, 2.2)]


VALID = {"kind": "valid", "step": 3, "minutes": 1.0, "core_minutes": 1.0, "hardest": 0.5, "all": 0.4, "brier": 0.1, "brier_constant": 0.2}


@pytest.mark.parametrize("kind", ["valid", "train"])
@pytest.mark.parametrize(
    "changed",
    [{"step": "x"}, {"minutes": "x"}, {"step": None}, {"kind": 3}, {"hardest": "x"}, {"brier": "x"}, {"all": [1]}, {"minutes": True}],
    ids=str,
)
def test_a_line_with_a_figure_that_is_no_number_is_left_out(tmp_path: Path, kind: str, changed: dict[str, Any]) -> None:
    (tmp_path / JSONL).write_text("".join(json.dumps(line) + "\n" for line in ({**VALID, "kind": kind, **changed}, VALID)))
    assert read_log(tmp_path) == [VALID]
    cut_log(tmp_path, 120.0, 5)
    assert (tmp_path / JSONL).read_text() == json.dumps(VALID) + "\n"
    draw_log(tmp_path)
    assert curve(tmp_path) == {"hardest": [(1.0, 0.5)], "all": [(1.0, 0.4)]}


@pytest.mark.parametrize("lacking", [{"brier"}, {"core_minutes"}, {"hardest"}, {"pose"}, {"model_brier"}], ids=str)
def test_a_line_is_drawn_as_far_as_its_figures_go(tmp_path: Path, lacking: set[str]) -> None:
    line = VALID | {"pose": 1.0, "pose_base": 2.0, "model_brier": 0.1, "model_brier_constant": 0.2}
    short = {name: value for name, value in line.items() if name not in lacking}
    (tmp_path / JSONL).write_text(
        "".join(json.dumps(each | {"kind": kind}) + "\n" for each in (line, short) for kind in ("valid", "train"))
    )
    draw_log(tmp_path)
    assert len(curve(tmp_path)["all"]) == 2 - bool(lacking & {"core_minutes", "hardest"})
    assert len(model_curve(tmp_path)["end"]) == 2 - bool(lacking & {"core_minutes", "model_brier"})
