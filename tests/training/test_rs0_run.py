"""A run of RS0: it resumes bit for bit, is evaluated from its card, samples if asked, and says in one line what it cannot do."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilith.agents.registry import load
from trilith.agents.rs0.config import RS0Config
from trilith.cli.main import main
from trilith.evaluation.runner import Evaluation
from trilith.networks.config import EncoderConfig
from trilith.training import checkpoint
from trilith.training.config import TrainConfig, recipe_config, run_config
from trilith.training.run import resume, train

pytestmark = pytest.mark.slow

AGENT = RS0Config(
    net=EncoderConfig(encoder="mlp", width=16, layers=2, features=16),
    batch=4,
    updates_per_step=0.2,
    learning_starts=20,
    replay_mb=0.3,
    components=2,
    samples=2,
)


def config(out: Path, **options: Any) -> TrainConfig[Any]:
    given = {"actors": 0, "episodes": 8, "evaluate_every": 20, "evaluate_scenes": 4, "task": "silhouette", "agent": AGENT, **options}
    return replace(recipe_config("mlp-rs0"), out=out, **given)


def kept(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, facts = checkpoint.load(out / checkpoint.NAME)
    return arrays, {
        name: value for name, value in asdict(facts).items() if name not in ("seconds", "core_seconds", "last_valid", "best", "validated")
    }


@pytest.mark.parametrize("ratio", [0.2, None])
def test_it_resumes_bit_for_bit_and_its_weights_build(ratio: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = replace(AGENT, updates_per_step=ratio)
    train(config(tmp_path / "whole", steps=40, agent=agent), screen=False)
    train(config(tmp_path / "parts", steps=15, agent=agent), screen=False)
    resume(replace(run_config(tmp_path / "parts"), steps=40), screen=False)
    (arrays, facts), (arrays2, facts2) = kept(tmp_path / "whole"), kept(tmp_path / "parts")
    assert facts == facts2
    assert arrays.keys() == arrays2.keys()
    assert all(array.tobytes() == arrays2[name].tobytes() for name, array in arrays.items())
    out = str(tmp_path / "whole")
    assert json.loads((tmp_path / "whole" / "best.json").read_text())["algorithm"] == "rs0"
    assert load(out).act([], []) == []
    with pytest.raises(ValueError, match="continuous actions, which a search cannot list: leave out --budget"):
        load(out, budget=3)
    with pytest.raises(ValueError, match="no policy to sample from"):
        load("legal", sample=True)
    assert "sample" not in Evaluation(out, "silhouette").identity(), "results from before there was such an option stay as good"
    results = []
    for extra in ([], ["--sample"], ["--sample", "--seed", "1"]):
        main(
            [
                "evaluate",
                out,
                "--task",
                "silhouette",
                "--level",
                "2",
                "--scenes",
                "8",
                "--out",
                str(tmp_path / f"{len(results)}.json"),
                *extra,
            ]
        )
        results.append(json.loads((tmp_path / f"{len(results)}.json").read_text()))
    assert [result.get("sample", False) for result in results] == [False, True, True]
    assert len({json.dumps(result["worst"]) for result in results}) == 3


def test_a_policy_that_points_resumes_bit_for_bit(tmp_path: Path) -> None:
    pointing = replace(AGENT, net=EncoderConfig("attention", width=16, layers=2), act_with_target=True, mirror=True, imitate=1.0, warmup=5)
    train(config(tmp_path / "whole", steps=12, agent=pointing, evaluate_scenes=0), screen=False)
    train(config(tmp_path / "parts", steps=5, agent=pointing, evaluate_scenes=0), screen=False)
    resume(replace(run_config(tmp_path / "parts"), steps=12), screen=False)
    (arrays, facts), (arrays2, facts2) = kept(tmp_path / "whole"), kept(tmp_path / "parts")
    assert facts == facts2
    assert all(array.tobytes() == arrays2[name].tobytes() for name, array in arrays.items())


def test_it_learns_with_an_actor_process_and_is_never_corrected(tmp_path: Path) -> None:
    agent = replace(AGENT, imitate=1.0, mirror=True, candidates=2, legal=0.2)
    train(config(tmp_path, steps=15, actors=1, agent=agent, evaluate_scenes=0), screen=False)
    arrays, facts = kept(tmp_path)
    assert facts["learner"]["steps"] == 15
    assert facts["corrections"] == 0
    assert facts["simulated"] == {"made": facts["actor_steps"], "counterfactual": 0, "corrections": 0}
    assert all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("net."))


def test_a_mask_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "--recipe", "gn-rs0", "--agent.mask", "legal"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "--agent.mask is for discrete actions" in said
    assert said.count("\n") == 1


def test_the_paper_recipes_are_as_printed() -> None:
    for name in ("gn", "rnn", "cnn", "mlp", "cnn-rn"):
        agent = recipe_config(f"{name}-rs0").agent
        assert (agent.net.encoder, agent.actions, agent.discount, agent.length, agent.replay) == (name, "relative", 0.98, 5, 100_000)
        assert (agent.components, agent.candidates, agent.imitate, agent.legal, agent.updates_per_step) == (1, 0, 0, 0, None)
