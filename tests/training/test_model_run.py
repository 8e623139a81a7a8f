"""A training of a model: stopped or killed it goes on, and gives the same weights as if nothing had happened."""

import json
import os
import shutil
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
from trilith.training.checkpoint import NAME
from trilith.training.dynamics import train_model
from trilith.training.log import read_log
from trilith.utils.files import read_json, sealed, write_json
from trilith.utils.tensors import load_tensors, save_tensors

pytestmark = pytest.mark.slow

MODEL = ModelConfig(DynamicsConfig(width=8, layers=1, heads=1, pair=4), unroll=2, batch=8, steps=200)
SIZE = ["--model.net.width=8", "--model.net.layers=1", "--model.net.heads=1", "--model.net.pair=4", "--model.batch=8", "--model.unroll=2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("data")
    for _ in record(Recorder(("legal",), "covering_hard", episodes=40), out, 1):
        pass
    return out


@pytest.mark.longest
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


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> ModelRunConfig:
    config = ModelRunConfig((data,), tmp_path_factory.mktemp("trained"), model=replace(MODEL, steps=2))
    train_model(config, screen=False)
    return config


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"steps": -1}, "steps: Expected int >= 0"),
        ({"steps": 10**30}, "steps, more than 2"),
        ({"seconds": "long"}, "seconds: Expected float, got str"),
        ({"rng": {}}, "is not the checkpoint of a model: "),
        ({"rng": {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}}}, "is not the checkpoint of a model: "),
        (None, "is not the checkpoint of a model: not JSON"),
    ],
)
def test_a_checkpoint_of_a_model_that_cannot_be_is_refused_in_one_line(trained, tmp_path, change, told):
    config = replace(trained, out=tmp_path / "m")
    shutil.copytree(trained.out, config.out)
    arrays, texts = load_tensors(config.out / NAME)
    facts = {} if change is None else {"facts": json.dumps(json.loads(texts["facts"]) | change)}
    save_tensors(config.out / NAME, arrays, facts)
    with pytest.raises(ValueError, match=rf"checkpoint\.safetensors .*{told}") as error:
        train_model(config, screen=False)
    assert "\n" not in str(error.value)


def test_a_validation_that_was_changed_or_cannot_be_is_refused_in_one_line(trained, tmp_path):
    config = replace(trained, out=tmp_path / "m")
    shutil.copytree(trained.out, config.out)
    path = config.out / "validation.json"
    found = read_json(path)
    write_json(path, found | {"nudge": {"covering_hard": 0.5}})
    with pytest.raises(ValueError, match=r"validation\.json is damaged"):
        train_model(config, screen=False)
    for change, told in (
        ({"recorded": {"covering_hard": {"all": {"1": {}}}}}, "missing required field placements"),
        ({"nudge": 3}, "nudge: Expected object, got int"),
    ):
        write_json(path, sealed(found | change))
        with pytest.raises(ValueError, match=rf"validation\.json is not valid: .*{told}"):
            train_model(config, screen=False)


def test_logged_losses_are_means_of_the_steps_since_the_last_report(data, tmp_path, monkeypatch):
    """Also at the end and after a resume, when these are fewer than `log_steps`."""
    step = ModelLearner.step
    stops = [2]

    def of_loss_one(self, table, rng):
        if self.steps in stops:
            stops.remove(self.steps)
            raise KeyboardInterrupt
        step(self, table, rng)
        return {"loss": 1.0}

    monkeypatch.setattr(ModelLearner, "step", of_loss_one)
    config = ModelRunConfig((data,), tmp_path, log_steps=3, model=replace(MODEL, steps=5))
    with pytest.raises(KeyboardInterrupt):
        train_model(config, screen=False)
    train_model(config, screen=False)
    assert [(line["step"], line["loss"]) for line in read_log(tmp_path) if line["kind"] == "train"] == [(3, 1.0), (5, 1.0)]


def test_data_that_changed_since_are_not_trained_on_further(trained, data, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    config = replace(trained, data=(folder,), out=tmp_path / "m")
    train_model(config, screen=False)
    arrays, texts = load_tensors(folder / "00000.safetensors")
    stated = save_tensors(folder / "00000.safetensors", arrays | {"reward": arrays["reward"] + 1}, texts)
    with pytest.raises(ValueError, match=r"00000\.safetensors is damaged: its checksum is not the one in dataset\.json"):
        train_model(config, screen=False)
    facts = read_json(folder / "dataset.json")
    write_json(folder / "dataset.json", sealed(facts | {"checksums": [stated, *facts["checksums"][1:]]}))
    with pytest.raises(ValueError, match="holds a training of data"):
        train_model(config, screen=False)


def test_too_few_episodes_to_validate_on_are_told(tmp_path):
    for _ in record(Recorder(("legal",), "covering_hard", episodes=4), tmp_path / "few", 1):
        pass
    with pytest.raises(ValueError, match="no placements to validate on: record 10 episodes or more, or name others with --valid"):
        train_model(ModelRunConfig((tmp_path / "few",), tmp_path / "m", model=MODEL), screen=False)


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
