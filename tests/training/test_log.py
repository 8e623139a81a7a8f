"""What is left of the log of a run that was killed."""

from __future__ import annotations

import json
from pathlib import Path

from trilith.training.log import JSONL, Log, cut_log


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
