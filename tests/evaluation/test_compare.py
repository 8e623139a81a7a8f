"""Two agents on the same scenes: differences, their interval, and pictures of the largest."""

import imageio.v3 as iio
import numpy as np
import pytest
from shell import trilith

from trilith.evaluation.compare import compare, ends
from trilith.evaluation.runner import Evaluation, Run
from trilith.utils.files import read_json


def test_the_difference_is_paired_and_its_interval_is_that_of_the_differences():
    rng = np.random.default_rng(0)
    scenes = rng.normal(5, 3, 400)  # which differ much more than the agents
    first, second = scenes + rng.normal(0.1, 0.2, 400), scenes
    found = compare(first.tolist(), second.tolist(), 3)
    assert found.difference == pytest.approx((first - second).mean())
    assert found.interval == pytest.approx(1.96 * (first - second).std(ddof=1) / 20)
    assert found.interval < 0.03 < 1.96 * scenes.std() / 20, "far narrower than that of either mean"
    assert (found.won, found.lost) == ((first > second).sum(), (first < second).sum())
    assert found.largest == tuple(np.argsort(-np.abs(first - second))[:3])


def test_equal_rewards_are_neither_won_nor_lost_nor_shown():
    found = compare([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    assert (found.scenes, found.won, found.lost, found.largest) == (3, 0, 1, (1,))
    assert compare([1.0], [0.5]).interval is None


def test_the_interval_holds_what_it_promises():
    """Of many comparisons of agents that differ by a known amount, about 95 % have it in their interval."""
    rng = np.random.default_rng(1)
    pairs = [(rng.normal(5.3, 2, 100), rng.normal(5.0, 2, 100)) for _ in range(600)]
    held = [abs(found.difference - 0.3) < found.interval for found in (compare(a.tolist(), b.tolist()) for a, b in pairs)]
    assert 0.92 < np.mean(held) < 0.98


def test_what_was_built_is_the_same_from_memory_and_played_again(tmp_path):
    evaluation = Evaluation("scripted", "covering_hard", scenes=20)
    run = Run(evaluation, tmp_path / "x.json")
    for _ in run.run(1):
        pass
    before = ends(run, [3, 17])
    rewards = run.finish()["rewards"]
    again = Run(evaluation, tmp_path / "x.json")
    assert again.episodes() == []
    assert ends(again, [3, 17]) == before
    assert [state.total for state in before] == [rewards[3], rewards[17]]


@pytest.mark.slow
def test_the_command_measures_compares_draws_and_uses_what_was_measured(tmp_path):
    line = ["compare", "scripted", "legal", "--task", "covering_hard", "--scenes", 20, "--shown", 2, "--workers", 1]
    done = trilith(*line, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = [
        read_json(tmp_path / "results" / f"{agent}-covering_hard-hardest-test-20.json")["rewards"] for agent in ("scripted", "legal")
    ]
    difference = np.subtract(*results)
    assert (
        f"scripted earns {difference.mean():+.3f} ± {1.96 * difference.std(ddof=1) / 20**0.5:.3f} (95 % interval over scenes)"
        in done.stdout
    )
    height, width, _ = iio.imread(tmp_path / "compare.png").shape
    assert width > height, "two scenes, each with two pictures side by side"
    again = trilith(*line, cwd=tmp_path)
    assert again.stderr.count("done before") == 2
    assert again.stdout == done.stdout


def test_folders_of_seeds_are_measured_and_compared_over_their_seeds(tmp_path, monkeypatch, capsys):
    """The two seeds of a run are the same weights of the package here, so that nothing need be trained."""
    from trilith.agents.registry import shipped
    from trilith.cli.main import main

    monkeypatch.chdir(tmp_path)
    for seed in (0, 1, 10):
        (tmp_path / f"runs/x/seed{seed}").mkdir(parents=True)
        for suffix in (".safetensors", ".json"):
            weights = shipped("objects")["covering_hard"].with_suffix(suffix)
            (tmp_path / f"runs/x/seed{seed}/last{suffix}").write_bytes(weights.read_bytes())
    main(["evaluate", "runs/x", "--task", "covering_hard", "--scenes", "4", "--workers", "1"])
    rewards = [read_json(tmp_path / f"results/x-seed{seed}-covering_hard-hardest-test-4.json")["reward"] for seed in (0, 1, 10)]
    assert len(set(rewards)) == 1
    assert f"{rewards[0]:.3f} ({rewards[0]:.3f} to {rewards[0]:.3f})" in capsys.readouterr().out

    main(["compare", "runs/x", "legal", "--task", "covering_hard", "--scenes", "4", "--workers", "1"])
    told = capsys.readouterr().out
    legal = read_json(tmp_path / "results/legal-covering_hard-hardest-test-4.json")["reward"]
    assert f"runs/x earns {rewards[0] - legal:+.3f} ± 0.000 (95 % interval over seeds) compared with legal" in told
    assert "100%" in told

    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "runs/x", "--task", "covering_hard", "--scenes", "4", "--out", "y.json"])
    assert stop.value.code == 2
    assert "runs/x holds 3: choose runs/x/seed0" in capsys.readouterr().err
