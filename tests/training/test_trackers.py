"""Curves of a run with Weights & Biases, as its own files tell them."""

import struct
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from shell import refused, trilith
from training.test_run import go_on, log, tiny

from trilith.training.config import run_config
from trilith.training.run import train


def records(path: Path) -> list[Any]:
    """What is in a file of wandb: behind a header, blocks of 32 KiB of chunks, each with a checksum, a length and which part it is."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, found, parts = path.read_bytes(), 7, [], b""
    while place + 7 <= len(data):
        if (left := -place % 2**15) and left < 7:  # too little for a chunk: zeros
            place += left
            continue
        size, part = struct.unpack_from("<HB", data, place + 4)
        parts += data[place + 7 : place + 7 + size]
        place += 7 + size
        if part in (1, 4):  # whole, or the last part
            found.append(Record.FromString(parts))
            parts = b""
    return found


def test_a_run_is_drawn_by_wandb_and_goes_on_there_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed (extra wandb)")
    monkeypatch.setenv("WANDB_MODE", "offline")
    out = tmp_path / "run"
    train(tiny(out, steps=5, log_seconds=0, track="wandb"), screen=False)
    time.sleep(1.1)  # wandb names its folders by the second
    go_on(out, steps=10)
    go_on(out, steps=12, track=None)  # without it the run is the same
    assert run_config(out).track is None
    files = sorted(out.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 2, "one for each process that was tracked"
    drawn: dict[str, list[Any]] = {"train/loss": [], "valid/hardest": []}
    ids = set()
    for record in (each for path in files for each in records(path)):
        if record.HasField("run"):
            ids.add((record.run.run_id, record.run.project, record.run.display_name))
            told = {item.key: item.value_json for item in record.run.config.update}
            assert told["task"] == '"covering_hard"'
        if record.HasField("history"):
            row = {".".join(item.nested_key) or item.key: float(item.value_json) for item in record.history.item}
            for name, curve in drawn.items():
                if name in row:
                    curve.append((row["learner_step"], row[name]))
    assert len(ids) == 1
    assert next(iter(ids))[1:] == ("trilith", "run")
    assert drawn["valid/hardest"] == [(line["step"], pytest.approx(line["hardest"])) for line in log(out, "valid") if line["step"] <= 10]
    wanted = [(line["step"], pytest.approx(line["loss"])) for line in log(out, "train") if "loss" in line and line["step"] <= 10]
    assert wanted
    assert drawn["train/loss"] == wanted[: len(drawn["train/loss"])]
    assert len(drawn["train/loss"]) >= 8
    assert capfd.readouterr() == ("", ""), "nothing is printed where nothing was asked for"


def test_what_wandb_refuses_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed (extra wandb)")
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = replace(tiny(tmp_path / "run", steps=1), track="wandb")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "wandb.json").write_text('{"id": "a/b"}')
    with pytest.raises(ValueError, match="--track wandb: Run ID cannot contain"):
        train(config, screen=False)


def test_without_wandb_nothing_is_begun(tmp_path: Path) -> None:
    if find_spec("wandb"):
        pytest.skip("wandb is installed")
    line = refused(trilith("train", "--track", "wandb", "--steps", "1", "--out", str(tmp_path / "run"), cwd=tmp_path))
    assert line == '--track wandb needs wandb: pip install "trilith[wandb]", or -e ".[wandb]" in a clone'
    assert not (tmp_path / "run").exists()
