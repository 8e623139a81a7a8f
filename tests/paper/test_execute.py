"""Jobs run side by side in their order, failures stop only what needs them, and a killed re-run continues."""

import signal
from pathlib import Path

import pytest
from shell import gone, launch, refused, trilith, until

from trilith.cli import main as cli
from trilith.paper.execute import Job, Place, execute, last_line, make_jobs
from trilith.paper.figures import figures_named
from trilith.paper.ledger import read_ledger, write_entry
from trilith.paper.plan import make_plan
from trilith.paper.scales import SCALES


def job(name: str, folder: Path, *command: str, needs: tuple[Job, ...] = ()) -> Job:
    return Job(name, [*command], 1.0, folder / f"{name}.log", [*needs])


def test_a_failure_stops_only_what_needs_it(tmp_path):
    bad = job("bad", tmp_path, "evaluate", "nobody", "--task=covering")
    after = job("after", tmp_path, "--version", needs=(bad,))
    good = job("good", tmp_path, "--version")
    seen: set[tuple[str, ...]] = set()
    failed = execute([bad, after, good], tmp_path, 1, lambda jobs: seen.add(tuple(each.state for each in jobs)))
    assert failed == [bad, after]
    assert good.state == "done"
    assert "there is no agent 'nobody'" in last_line(bad)
    assert last_line(after) == "", "it was never started"
    assert ("running", "waiting", "waiting") in seen
    assert all(states.count("running") <= 1 for states in seen)


def planned(*names: str, tasks: tuple[str, ...] = ("covering_hard",)):
    return make_plan(figures_named(names), "smoke", SCALES["smoke"], tasks, 1)


def test_what_is_done_is_not_done_again(tmp_path, entry_for):
    plan = planned("n_rec")
    jobs = make_jobs(plan, SCALES["smoke"], tmp_path / "runs", tmp_path / "ledger")
    assert [each.command[0] for each in jobs] == ["train", "evaluate"] * 3 + ["evaluate"]
    for measurement in plan[:2]:
        write_entry(tmp_path / "ledger", entry_for(measurement))
    (tmp_path / "runs" / plan[2].agent.name).mkdir(parents=True)
    (tmp_path / "runs" / plan[2].agent.name / "trained").touch()
    again = make_jobs(plan, SCALES["smoke"], tmp_path / "runs", tmp_path / "ledger")
    assert [(each.command[0], each.state) for each in again] == [("train", "done"), ("evaluate", "waiting"), ("evaluate", "waiting")], (
        "the last is of random placements"
    )


def test_a_model_is_trained_between_two_trainings(tmp_path):
    jobs = make_jobs(planned("E.2"), SCALES["smoke"], tmp_path, tmp_path / "ledger")
    names = [each.command[0] for each in jobs if each.command[0] != "evaluate"]
    model = ["record-episodes", "train-model", "train"]
    assert names == ["train", "train", *model, *model, *model[1:]], "two models learn from the same episodes"
    last = [each for each in jobs if each.command[0] == "train"][-1]
    [model] = last.needs
    [episodes] = model.needs
    assert (model.command[0], episodes.command[0]) == ("train-model", "record-episodes")
    assert f"--world=models/{episodes.needs[0].name}-attention" in last.command
    assert "--model.net.network=attention" in model.command


def test_actors_and_evaluations_can_be_on_a_cluster(tmp_path):
    """The commands are those of a cluster, and the run is the same one."""
    plan = planned("D.2")
    there = make_jobs(plan, SCALES["smoke"], tmp_path, tmp_path / "ledger", Place(3, "auto"))
    here = make_jobs(plan, SCALES["smoke"], tmp_path, tmp_path / "ledger")
    assert [each.name for each in there] == [each.name for each in here]
    for job in there:
        given = cli._parse(job.command)
        assert (given.config if job.command[0] == "train" else given).cluster == "auto"
        assert "--actors=3" in job.command or "--workers=3" in job.command
    assert not any("--cluster" in argument for job in here for argument in job.command)
    assert not any("--actors" in argument for argument in make_jobs(plan, SCALES["smoke"], tmp_path, tmp_path, Place(None))[0].command)


def test_wrong_arguments_get_one_line(tmp_path):
    assert "choose --actors 1 or more" in refused(trilith("reproduce", "--cluster=auto", cwd=tmp_path))
    assert "there is no figure '9'" in refused(trilith("reproduce", "9", cwd=tmp_path))
    assert "the scale smoke runs no parts first" in refused(trilith("reproduce", "--first", "--scale=smoke", cwd=tmp_path))


def test_at_the_scale_of_the_paper_the_recipes_say_how_many_actors_run_on_a_cluster(tmp_path, capsys):
    cli.main(["reproduce", "D.2", "--scale=paper", "--cluster=auto", "--plan", f"--folder={tmp_path}", f"--ledger={tmp_path}"])
    assert "--cluster=auto" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "tasks"), [((), "4"), (("--tasks", "covering", "silhouette"), "2"), (("--scale=smoke",), "1")])
def test_the_list_counts_the_tasks_that_run(given, tasks, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    cli.main(["reproduce", "4a", "--list", *given])
    [cells] = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│ 4a" in line]
    assert cells[3].strip() == tasks


@pytest.mark.longest
@pytest.mark.slow
def test_a_figure_end_to_end_killed_and_resumed(tmp_path):
    """Two trainings of seconds and their evaluations; the first process is killed while it trains."""
    line = ["reproduce", "D.2", "--scale=smoke", "--tasks=covering_hard", "--workers=2"]
    process = launch(*line, cwd=tmp_path)
    until(lambda: len([*(tmp_path / "runs/paper").glob("smoke-*/config.json")]) >= 1, "a training to begin")
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    until(lambda: gone(process.pid), "the trainings to end with it")
    assert not read_ledger(tmp_path / "ledger")
    resumed = launch(*line, cwd=tmp_path)
    out, err = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, out + err
    entries = read_ledger(tmp_path / "ledger")
    assert {entry.training.recipe for entry in entries if entry.training} == {"gn-dqn-tuned-v1"}
    assert {entry.agent for entry in entries if not entry.training} == {"legal"}
    assert len(entries) == 3
    assert all(entry.training.learner_steps == 4 and entry.training.curve for entry in entries if entry.training)
    verified = trilith("verify", "ledger", "--workers=1", cwd=tmp_path)
    assert "3 agents decided the same again" in verified.stdout, verified.stdout + verified.stderr
    assert "of which the ledger has 3" in trilith(*line, "--plan", cwd=tmp_path).stdout
