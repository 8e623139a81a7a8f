"""A training of a model: stopped or killed it goes on, and gives the same weights as if nothing had happened."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from shell import launch, until

from trilith.agents.dynamics.config import ModelConfig, ModelRunConfig
from trilith.agents.dynamics.learner import ModelLearner
from trilith.cli.main import main
from trilith.data.recording import Recorder, record
from trilith.networks.config import DynamicsConfig
from trilith.training.dynamics import train_model

pytestmark = pytest.mark.slow

MODEL = ModelConfig(DynamicsConfig(width=8, layers=1, heads=1, pair=4), unroll=2, batch=8, steps=200)
SIZE = ["--model.net.width=8", "--model.net.layers=1", "--model.net.heads=1", "--model.net.pair=4", "--model.batch=8", "--model.unroll=2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data")
    for _ in record(Recorder(("legal",), "covering_hard", episodes=40), out, 1):
        pass
    return out


def test_killed_and_interrupted_it_ends_with_the_same_weights(data, tmp_path, monkeypatch, capsys):
    command = ["train-model", str(data), "--model.steps=200", "--checkpoint-seconds=0.05", "--log-steps=50", *SIZE]
    process = launch(*command, "--out=stopped", cwd=tmp_path)
    until((tmp_path / "stopped" / "model.json").exists, "a checkpoint")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    whole, stopped = (
        ModelRunConfig((data,), tmp_path / name, log_steps=50, checkpoint_seconds=1.0, model=MODEL) for name in ("whole", "stopped")
    )
    done = train_model(whole, screen=False)
    assert done["recorded"]["covering_hard"]["all"].keys() >= {"1", "2"}
    step = ModelLearner.step

    def interrupted(self, table, rng):
        if self.steps == 180:
            raise KeyboardInterrupt
        return step(self, table, rng)

    monkeypatch.setattr(ModelLearner, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_model(stopped, screen=False)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    main([*command, "--out=stopped", "--checkpoint-seconds=1"])
    out = capsys.readouterr().out
    assert "covering_hard, all" in out
    assert out.splitlines()[-1] == "stopped"
    for name in ("model.safetensors", "validation.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    lines = (tmp_path / "stopped" / "log.jsonl").read_text().splitlines()
    assert sum('"kind": "train"' in line for line in lines) == 4
    assert (tmp_path / "stopped" / "curve.png").exists()


def test_what_cannot_be_trained_is_told_in_one_line(data, tmp_path):
    config = ModelRunConfig((data,), tmp_path / "m", model=replace(MODEL, steps=2))
    with pytest.raises(ValueError, match="No such file"):
        train_model(replace(config, data=(Path("nowhere"),)), screen=False)
    with pytest.raises(ValueError, match="the agent 'planner' does not value actions"):
        train_model(replace(config, agent="planner"), screen=False)
    with pytest.raises(ValueError, match="unroll 9: must be 1 to 4"):
        replace(MODEL, unroll=9)
    assert not (tmp_path / "m").exists()
    train_model(config, screen=False)
    with pytest.raises(ValueError, match="holds a training of model"):
        train_model(replace(config, model=replace(MODEL, steps=3)), screen=False)
