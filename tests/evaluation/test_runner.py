"""An evaluation gives one and the same file, however it was run, stopped, killed and taken up again."""

import json
import math
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shell import gone, interrupt, launch, refused, trilith, until

from trilith.agents.dynamics.files import save_model
from trilith.agents.random_agents import LegalAgent, RandomAgent
from trilith.agents.registry import AGENTS
from trilith.cli.main import main
from trilith.evaluation import runner as module
from trilith.evaluation.play import play
from trilith.evaluation.runner import GROUP, Evaluation, Run, evaluate, summary
from trilith.evaluation.scene_sets import VERSION, generator, set_name, start_in_set
from trilith.networks.config import DynamicsConfig
from trilith.networks.dynamics.registry import make_dynamics
from trilith.networks.parameters import parameters_of
from trilith.search.config import SearchConfig
from trilith.utils.distributed import process_pool
from trilith.utils.files import read_json, sealed, write_json
from trilith.world.episode import REASONS, Recording, step
from trilith.world.physics import PHYSICS
from trilith.world.scene import Placement, Role
from trilith.world.tasks import get_task

SMALL = Evaluation("legal", "connecting", "all", "valid", scenes=5 * GROUP - 7, seed=3, worst=4)
LONG = Evaluation("legal", "silhouette", 4, "test", scenes=1600, worst=2)
"""Long enough to be stopped on its way, on any machine."""


def arguments(e: Evaluation, out: Path, workers: int) -> list[str]:
    options = {"task": e.task, "level": e.level, "split": e.split, "scenes": e.scenes, "seed": e.seed, "worst": e.worst}
    return ["evaluate", e.agent, *(f"--{key}={value}" for key, value in options.items()), f"--workers={workers}", f"--out={out}"]


def measured(evaluation: Evaluation, out: Path, workers: int = 1, record: Path | None = None) -> dict:
    run = Run(evaluation, out, record)
    for _ in run.run(workers):
        pass
    return run.finish()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def groups_in(journal: Path) -> int:
    """Groups that a journal has so far, its heading not counted."""
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else -1


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """The file of a small evaluation by one process, with its recordings beside it."""
    out = tmp_path_factory.mktemp("small") / "small.json"
    measured(SMALL, out, record=out.parent / "episodes")
    return out


@pytest.fixture(scope="module")
def long(tmp_path_factory) -> Path:
    """The file of an uninterrupted long evaluation by one process."""
    out = tmp_path_factory.mktemp("long") / "long.json"
    measured(LONG, out)
    return out


def test_the_number_of_workers_changes_nothing(small, tmp_path):
    measured(SMALL, tmp_path / "two.json", workers=2)
    assert (tmp_path / "two.json").read_bytes() == small.read_bytes()
    assert names(tmp_path) == ["two.json"], "the journal is gone"


def test_more_workers_than_groups_do_no_harm(tmp_path):
    few = replace(SMALL, scenes=GROUP + 1)
    measured(few, tmp_path / "one.json")
    measured(few, tmp_path / "many.json", workers=5)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "many.json").read_bytes()


@pytest.mark.slow
def test_killed_half_way_and_run_again_it_gives_the_same_file(long, tmp_path):
    out, journal = tmp_path / "out.json", tmp_path / ".out.journal"
    process = launch(*arguments(LONG, out, workers=2), cwd=tmp_path)
    until(lambda: groups_in(journal) >= 4, "some groups")
    process.kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    assert 4 <= groups_in(journal) < len(LONG.groups())
    assert "Traceback" not in err
    until(lambda: gone(process.pid), "the workers to notice that they are alone")
    kept = groups_in(journal)
    again = trilith(*arguments(LONG, out, workers=1), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"resuming after {kept * GROUP} of {LONG.scenes} episodes" in again.stderr
    assert f"{LONG.scenes - kept * GROUP} episodes in " in again.stderr, "what was done is not done again"
    assert out.read_bytes() == long.read_bytes()
    assert names(tmp_path) == ["out.json"]


@pytest.mark.longest
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_keeps_what_is_done(long, tmp_path, workers):
    out, journal = tmp_path / "out.json", tmp_path / ".out.journal"
    process = launch(*arguments(LONG, out, workers), cwd=tmp_path)
    until(lambda: groups_in(journal) >= 2, "some groups")
    code, said, err = interrupt(process)
    assert code == 130
    assert "Traceback" not in err
    assert said == ""
    assert not out.exists()
    kept = len(Run(LONG, out).episodes())
    assert kept >= 2 * GROUP
    assert f"stopped: {kept} of {LONG.scenes} episodes are kept, the same command resumes from there" in err
    until(lambda: gone(process.pid), "the workers to end")
    measured(LONG, out)
    assert out.read_bytes() == long.read_bytes()


def test_an_interrupt_while_workers_start_is_as_quiet(tmp_path):
    out = tmp_path / "out.json"
    process = launch(*arguments(LONG, out, workers=2), cwd=tmp_path)
    until((tmp_path / ".out.journal").exists, "the journal")
    code, _, err = interrupt(process)
    assert code == 130
    assert "Traceback" not in err
    assert f"of {LONG.scenes} episodes are kept" in err
    until(lambda: gone(process.pid), "the workers to end")


@pytest.mark.parametrize("cut", [1, 40, 2000])
def test_a_line_of_the_journal_that_was_cut_off_is_done_again(small, tmp_path, cut):
    out, journal = tmp_path / "out.json", tmp_path / ".out.journal"
    stopped = Run(SMALL, out).run(1)
    for _ in range(3):
        next(stopped)
    stopped.close()
    journal.write_bytes(journal.read_bytes()[:-cut])
    run = Run(SMALL, out)
    assert sorted(run.done) == ([0, 1, 2] if cut == 1 else [0, 1]), "only the end of the last line is missing"
    for _ in run.run(1):
        pass
    run.finish()
    assert out.read_bytes() == small.read_bytes()


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 50 + b"\n", b"7\n", b"[0]\n", b"[99, []]\n", b"[4, [{}]]\n", b'[0, [{"index": 1}]]\n', b"\xff\n"]
)
def test_garbage_in_the_journal_is_passed_over(small, tmp_path, garbage):
    out, journal = tmp_path / "out.json", tmp_path / ".out.journal"
    stopped = Run(SMALL, out).run(1)
    next(stopped)
    stopped.close()
    journal.write_bytes(journal.read_bytes() + garbage)
    run = Run(SMALL, out)
    assert sorted(run.done) == [0]
    for _ in run.run(1):
        pass
    run.finish()
    assert out.read_bytes() == small.read_bytes()


@pytest.mark.parametrize(
    "change", [{"seed": 4}, {"agent": "random"}, {"zero_on_hit": True}, {"scenes": 70}, {"level": 0}, {"split": "test"}]
)
def test_a_journal_of_another_evaluation_is_not_taken_up(tmp_path, change):
    other = replace(SMALL, **change)
    stopped = Run(other, tmp_path / "out.json").run(1)
    next(stopped)
    stopped.close()
    assert Run(other, tmp_path / "out.json").episodes()
    assert Run(SMALL, tmp_path / "out.json").episodes() == []


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"{", b"\xff"])
def test_a_journal_that_is_none_is_not_taken_up(tmp_path, content):
    (tmp_path / ".out.journal").write_bytes(content)
    assert Run(SMALL, tmp_path / "out.json").episodes() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seed": 4}, "seed 3, not 4"), ({"task": "covering"}, "task 'connecting', not 'covering'"), ({"scenes": 9}, "scenes 73, not 9")],
)
def test_the_result_of_another_evaluation_is_not_overwritten(small, tmp_path, change, message):
    before = small.read_bytes()
    with pytest.raises(ValueError, match=f"holds a result of {message}: choose another --out, or start over with --fresh"):
        Run(replace(SMALL, **change), small)
    assert small.read_bytes() == before


def test_the_result_on_another_version_of_the_scenes_is_not_taken_for_this(small, monkeypatch):
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    with pytest.raises(ValueError, match=f"version {VERSION}, not {VERSION + 1}"):
        Run(SMALL, small)


@pytest.mark.parametrize("data", [{}, [], 7, {"agent": "legal"}, asdict(SMALL)])
def test_a_file_that_is_no_result_is_not_overwritten(tmp_path, data):
    write_json(tmp_path / "x.json", data)
    with pytest.raises(ValueError, match=r"x\.json is not a result of trilith evaluate: choose another --out"):
        Run(SMALL, tmp_path / "x.json")
    assert read_json(tmp_path / "x.json") == data


def test_a_result_that_is_there_is_not_measured_again(small, capsys, monkeypatch):
    before = small.read_bytes()
    monkeypatch.setattr(module, "run_group", lambda *_: pytest.fail("measured again"))
    main(arguments(SMALL, small, workers=1))
    assert small.read_bytes() == before
    shown = capsys.readouterr()
    assert "done before: to measure again, start over with --fresh" in shown.err
    assert f"{read_json(small)['reward']:.3f}" in shown.out


def test_more_worst_episodes_than_were_kept_are_not_to_be_had(small, capsys):
    with pytest.raises(ValueError, match=r"keeps the 4 worst episodes, no more: choose another --out"):
        Run(replace(SMALL, worst=5), small)
    main(arguments(replace(SMALL, worst=2), small, workers=1))
    assert capsys.readouterr().out.count("│ obstacle_hit │") == 2, "fewer are"


def plain_episodes(e: Evaluation):
    """The evaluation done slowly: one episode after another, step by step."""
    for index in range(e.scenes):
        state = first = start_in_set(e.task, e.level, e.split, index)
        rng = generator("trilith agent", e.seed, set_name(e.task, e.level, e.split), index)
        agent, rewards = AGENTS[e.agent](), []
        while not state.ended:
            after = step(state, agent.act([state], [rng])[0], e.zero_on_hit)
            rewards.append(after.reward)
            state = after.state
        yield first, math.fsum(rewards), state


def test_the_figures_are_those_of_a_plain_computation(small):
    result, plain = read_json(small), list(plain_episodes(SMALL))
    rewards, ends = [total for _, total, _ in plain], [end for *_, end in plain]
    most = [get_task("connecting").best(first.scene) for first, *_ in plain]
    near = {"rel": 1e-12, "abs": 1e-12}
    assert result["episodes"] == SMALL.scenes == len(result["rewards"])
    assert result["rewards"] == pytest.approx(rewards, **near)
    assert result["reward"] == pytest.approx(statistics.fmean(rewards), **near)
    assert result["interval"] == pytest.approx(1.96 * statistics.stdev(rewards) / math.sqrt(len(rewards)), **near)
    assert result["most"] == pytest.approx(statistics.fmean(most), **near)
    assert result["share"] == pytest.approx(sum(rewards) / sum(most), **near)
    assert result["solved"] == sum(end.ended == "complete" for end in ends) / len(ends)
    assert result["blocks"] == pytest.approx(statistics.fmean([(end.scene.role == Role.BLOCK).sum() for end in ends]), **near)
    assert result["glue"] == pytest.approx(statistics.fmean([end.scene.sticky.sum() for end in ends]), **near)
    assert result["reasons"] == {reason: sum(end.ended == reason for end in ends) for reason in REASONS}
    assert sum(result["reasons"].values()) == SMALL.scenes
    assert list(result["by_level"]) == [str(level) for level in get_task("connecting").levels]
    for level, each in result["by_level"].items():
        chosen = [k for k, (first, *_) in enumerate(plain) if str(first.level) == level]
        assert each["episodes"] == len(chosen) > 0
        assert each["reward"] == pytest.approx(statistics.fmean(rewards[k] for k in chosen), **near)
        assert each["most"] == pytest.approx(statistics.fmean(most[k] for k in chosen), **near)
    # Scenes and figures vary, or the above would show little.
    assert 0 < result["glue"] < result["blocks"] < 20
    assert len(set(rewards)) > 3


def test_figures_worked_out_by_hand():
    columns = ("index", "level", "reward", "kept", "forfeited", "best", "blocks", "glue", "reason")
    rows = [
        (0, 7, 4.0, 4.0, 4.0, 8.0, 6, 0, "max_steps"),
        (1, 0, 1.0, 1.0, 1.0, 1.0, 1, 1, "complete"),
        (2, 7, -2.0, -2.0, 0.0, 8.0, 2, 2, "obstacle_hit"),
    ]
    episodes = [dict(zip(columns, row, strict=True)) for row in rows]
    result = summary(Evaluation("legal", "silhouette", "all", scenes=3, worst=0), episodes)
    assert (result["reward"], result["most"], result["blocks"], result["glue"]) == (1, pytest.approx(17 / 3), 3, 1)
    assert result["share"] == pytest.approx(3 / 17), "of all there is to earn, not the mean of shares"
    assert result["solved"] == pytest.approx(1 / 3)
    assert (result["kept"], result["forfeited"]) == (1, pytest.approx(5 / 3))
    assert result["interval"] == pytest.approx(1.96 * 3 / 3**0.5)
    assert result["by_level"] == {"0": {"episodes": 1, "reward": 1, "most": 1}, "7": {"episodes": 2, "reward": 1, "most": 8}}
    assert result["rewards"] == [4, 1, -2]


def test_the_worst_are_those_that_fell_furthest_short_and_replay_to_their_reward(small):
    result = read_json(small)
    most = [get_task("connecting").best(start_in_set("connecting", "all", "valid", index).scene) for index in range(SMALL.scenes)]
    short = [best - reward for best, reward in zip(most, result["rewards"], strict=True)]
    assert len(result["worst"]) == SMALL.worst
    shown = [short[each["index"]] for each in result["worst"]]
    assert shown == sorted(shown, reverse=True)
    left_out = [short[k] for k in range(SMALL.scenes) if k not in {each["index"] for each in result["worst"]}]
    assert min(shown) >= max(left_out)
    for each in result["worst"]:
        assert each["reward"] == result["rewards"][each["index"]]
        *_, last = Recording.from_json(each).replay()
        assert (last.state.total, last.state.ended) == (each["reward"], each["reason"])


def test_an_evaluation_that_was_not_played_to_its_end_has_no_result(small, tmp_path):
    run = Run(SMALL, tmp_path / "out.json")
    next(run.run(1))
    with pytest.raises(ValueError, match=f"{GROUP} episodes of {SMALL.scenes}: a result needs all"):
        run.finish()
    assert not run.out.exists()
    assert run.journal.exists()
    measured(SMALL, run.out)
    assert run.out.read_bytes() == small.read_bytes()


def test_workers_that_share_no_disk_get_the_learned_model_of_a_search(tmp_path):
    """All that they get is the files of `_files`; here the folder of the model is gone."""
    net = DynamicsConfig(width=16, layers=1, heads=2, pair=8)
    save_model(tmp_path / "model", net, ["silhouette"], parameters_of(make_dynamics(net)), {})
    evaluation = Evaluation("legal", "silhouette", 1, scenes=2, search=SearchConfig(2, world=str(tmp_path / "model")))
    here = module._make_work(evaluation, {})((0, [0, 1]), None)
    files = module._files(evaluation)
    shutil.rmtree(tmp_path / "model")
    assert module._make_work(evaluation, files)((0, [0, 1]), None) == here


def test_both_rewards_of_an_obstacle_touched_come_from_the_same_episodes(tmp_path):
    kept = measured(replace(SMALL, agent="legal", task="covering_hard", scenes=48), tmp_path / "kept.json")
    forfeited = measured(replace(SMALL, agent="legal", task="covering_hard", scenes=48, zero_on_hit=True), tmp_path / "forfeited.json")
    assert kept["reward"] == kept["kept"] == forfeited["kept"]
    assert forfeited["reward"] == forfeited["forfeited"] == kept["forfeited"]
    assert kept["reasons"] == forfeited["reasons"]
    assert any(a != b for a, b in zip(kept["rewards"], forfeited["rewards"], strict=True))
    for each in forfeited["worst"]:  # as the rules have it, played again
        *_, last = Recording.from_json(each).replay()
        assert last.state.total == each["reward"]


def test_an_agent_that_searches_has_the_reward_of_its_own_rule_only(tmp_path):
    result = measured(replace(SMALL, agent="legal", scenes=2, search=SearchConfig(2)), tmp_path / "searched.json")
    assert result["kept"] == result["reward"]
    assert result["forfeited"] is None


def test_a_result_of_other_physics_is_not_taken_for_this_one(tmp_path):
    path = tmp_path / "x.json"
    result = measured(replace(SMALL, scenes=3), path)
    assert result["physics"] == PHYSICS
    write_json(path, sealed({**result, "physics": PHYSICS - 1}))
    with pytest.raises(ValueError, match="physics 1, not 2"):
        measured(replace(SMALL, scenes=3), path)


def test_no_worst_are_kept_if_none_are_asked_for(tmp_path):
    assert measured(replace(SMALL, scenes=3, worst=0), tmp_path / "x.json")["worst"] == []
    assert len(measured(replace(SMALL, scenes=3, worst=10), tmp_path / "y.json")["worst"]) == 3


def test_recordings_replay_to_the_rewards_of_the_result(small):
    result, folder = read_json(small), small.parent / "episodes"
    assert names(folder) == [f"{index:05d}.json" for index in range(SMALL.scenes)]
    for index, reward in enumerate(result["rewards"]):
        recording = Recording.from_json(read_json(folder / f"{index:05d}.json"))
        assert recording.start == start_in_set("connecting", "all", "valid", index)
        assert recording.by == SMALL.agent, "for its film"
        *_, last = recording.replay()
        assert last.state.total == reward
        assert last.state.ended


def test_episodes_that_were_not_recorded_are_not_passed_over_in_silence(small, tmp_path):
    assert Run(SMALL, small, small.parent / "episodes").result is not None
    with pytest.raises(ValueError, match=r"is done, but its episodes are not in .*elsewhere: to record them, choose another --out"):
        Run(SMALL, small, tmp_path / "elsewhere")


def test_timing_is_told_and_not_in_the_result(small, tmp_path, capsys):
    main(arguments(SMALL, tmp_path / "x.json", workers=1))
    shown = capsys.readouterr()
    assert f"{SMALL.scenes} episodes in " in shown.err
    assert " episodes/s" in shown.err
    assert " episodes/s" not in shown.out
    assert (tmp_path / "x.json").read_bytes() == small.read_bytes()
    assert not {"time", "seconds", "workers", "date"} & read_json(small).keys()


def test_with_zero_on_hit_touching_an_obstacle_takes_back_everything(tmp_path):
    e = Evaluation("legal", "connecting", 2, scenes=64)
    keeps, loses = measured(e, tmp_path / "keeps.json"), measured(replace(e, zero_on_hit=True), tmp_path / "loses.json")
    assert keeps["reasons"] == loses["reasons"], "what is done does not depend on what it earns"
    hit = [k for k, (_, _, end) in enumerate(plain_episodes(e)) if end.ended == "obstacle_hit"]
    assert {loses["rewards"][k] for k in hit} == {0.0}
    assert any(keeps["rewards"][k] > 0 for k in hit)
    for k in set(range(64)) - set(hit):
        assert keeps["rewards"][k] == loses["rewards"][k]


def test_an_agent_of_ones_own_is_measured_as_any_other(tmp_path):
    out = tmp_path / "own.json"
    options = ["--task=covering_hard", "--scenes=40", f"--out={out}"]
    done = trilith("evaluate", "own_agent:Flat", *options, cwd=Path(__file__).parents[2] / "examples")
    assert done.returncode == 0, done.stderr
    result = read_json(out)
    assert (result["agent"], result["weights"], result["episodes"]) == ("own_agent:Flat", None, 40)
    assert result["blocks"] > 1
    assert not {"spawn_collision", "bad_choice"} & {reason for reason, count in result["reasons"].items() if count}


GREEDY = """from trilith.agents.random_agents import LegalAgent
class Greedy(LegalAgent):
    def act(self, states, rngs):
        return {}
"""
STOPS, PLAYS = GREEDY.format("[None for _ in states]"), GREEDY.format("super().act(states, rngs)")


@pytest.mark.slow
def test_a_result_of_ones_own_code_is_not_taken_for_that_of_the_edited_code(tmp_path):
    (tmp_path / "mine.py").write_text(STOPS)
    command = ["evaluate", "mine:Greedy", "--task=covering", "--scenes=8", "--workers=1", "--out=x.json"]
    assert trilith(*command, cwd=tmp_path).returncode == 0
    first = read_json(tmp_path / "x.json")
    assert "done before" in trilith(*command, cwd=tmp_path).stderr
    (tmp_path / "mine.py").write_text(PLAYS)
    said = refused(trilith(*command, cwd=tmp_path))
    assert said.startswith(f"x.json holds a result of code of mine.py '{first['code']['mine.py']}', not ")
    assert said.endswith("': choose another --out, or start over with --fresh")
    done = trilith(*command, "--fresh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    second = read_json(tmp_path / "x.json")
    assert (first["blocks"], second["blocks"] > 1) == (0, True)
    assert "done before" in trilith(*command, cwd=tmp_path).stderr


def own_agent(folder, monkeypatch, text: str) -> Evaluation:
    """An evaluation of an agent in a module of the working folder, imported anew."""
    (folder / "mine_here.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "mine_here", raising=False)
    return replace(SMALL, agent="mine_here:Greedy")


def test_episodes_of_two_programs_are_never_in_one_mean(tmp_path, monkeypatch):
    evaluation, out = own_agent(tmp_path, monkeypatch, STOPS), tmp_path / "out.json"
    stopped = Run(evaluation, out).run(1)
    next(stopped)
    stopped.close()
    assert len(Run(evaluation, out).done) == 1
    own_agent(tmp_path, monkeypatch, PLAYS)
    with pytest.raises(ValueError, match=r"\.out\.journal holds episodes of code of mine_here\.py .*or start over with --fresh"):
        Run(evaluation, out)
    run = Run(evaluation, out, fresh=True)
    assert run.episodes() == []
    for _ in run.run(1):
        pass
    (tmp_path / "mine_here.py").write_text(STOPS)
    with pytest.raises(ValueError, match=r"mine_here\.py changed after it was imported: start again in a new Python process"):
        run.finish()
    assert not out.exists()


def test_the_old_code_of_an_edited_file_is_not_measured_as_the_new(tmp_path, monkeypatch):
    """A process keeps the class that it imported first."""
    own_agent(tmp_path, monkeypatch, STOPS)
    given = {"agent": "mine_here:Greedy", "task": "covering", "level": 0, "scenes": 4, "out": tmp_path / "x.json"}
    assert evaluate(**given)["blocks"] == 0
    (tmp_path / "mine_here.py").write_text(PLAYS)
    for options in ({}, {"fresh": True}, {"out": None}):
        with pytest.raises(ValueError, match=r"^mine_here\.py changed after it was imported"):
            evaluate(**{**given, **options})
    own_agent(tmp_path, monkeypatch, PLAYS)
    assert evaluate(**given, fresh=True)["blocks"] > 0


def test_a_result_of_code_without_a_source_file_is_never_taken_for_that_of_the_code_of_now(tmp_path, monkeypatch):
    """A class in a notebook may have been made anew since."""
    notebook = ModuleType("notebook_here")
    notebook.Greedy = type("Greedy", (LegalAgent,), {})
    monkeypatch.setitem(sys.modules, "notebook_here", notebook)
    evaluation, out = replace(SMALL, agent="notebook_here:Greedy"), tmp_path / "x.json"
    stopped = Run(evaluation, out).run(1)
    next(stopped)
    stopped.close()
    told = r"of code of notebook_here, which has no source file to compare: choose another --out, or start over with --fresh$"
    with pytest.raises(ValueError, match=rf"\.x\.journal holds episodes {told}"):
        Run(evaluation, out)
    for _ in range(2):
        run = Run(evaluation, out, fresh=True)
        for _ in run.run(1):
            pass
        assert run.finish()["code"]["notebook_here"] == "no source file"
        with pytest.raises(ValueError, match=rf"x\.json holds a result {told}"):
            Run(evaluation, out)


def test_fresh_measures_again_and_leaves_what_is_no_result(small, tmp_path):
    out = tmp_path / "out.json"
    write_json(out, read_json(small) | {"reward": 99.0})
    with pytest.raises(ValueError, match="is damaged"):
        Run(SMALL, out)
    run = Run(SMALL, out, fresh=True)
    assert out.exists(), "until it runs"
    started = run.run(1)
    next(started)
    started.close()
    assert not out.exists()
    assert len(Run(SMALL, out).done) == 1, "without fresh it resumes"
    run = Run(SMALL, out, fresh=True)
    assert run.done == {}
    for _ in run.run(1):
        pass
    run.finish()
    assert out.read_bytes() == small.read_bytes()
    write_json(out, {"mine": 1})
    with pytest.raises(ValueError, match="is not a result of trilith evaluate: choose another --out"):
        Run(SMALL, out, fresh=True)


def test_a_run_that_was_trained_further_is_measured_again_with_fresh(tmp_path):
    from trilith.agents.dqn.config import DQNConfig
    from trilith.agents.dqn.policy import DQNPolicy
    from trilith.agents.weights import save_weights
    from trilith.networks.config import NetConfig

    config = DQNConfig(net=NetConfig(width=8, layers=1, heads=1))
    weights = DQNPolicy(config, "covering").weights()
    evaluation, out = Evaluation(str(tmp_path), "covering", scenes=2), tmp_path / "results" / "x.json"
    save_weights(tmp_path / "last.safetensors", "dqn", config, "covering", weights, {})
    measured(evaluation, out)
    save_weights(tmp_path / "last.safetensors", "dqn", config, "covering", {name: each + 1 for name, each in weights.items()}, {})
    with pytest.raises(ValueError, match=r"holds a result of weights '\w+', not '\w+': choose another --out, or start over with --fresh"):
        Run(evaluation, out)
    run = Run(evaluation, out, fresh=True)
    for _ in run.run(1):
        pass
    assert run.finish()["weights"] == Run(evaluation, out).result["weights"]


def test_what_a_worker_cannot_load_is_told_by_the_main_process(small, tmp_path):
    evaluation = replace(SMALL, agent="for_this_process_only")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(AGENTS, evaluation.agent, LegalAgent)
        with pytest.raises(ValueError, match="there is no agent 'for_this_process_only'"):
            measured(evaluation, tmp_path / "out.json", workers=2)


def test_a_worker_that_dies_is_told_and_nothing_is_lost(small, tmp_path):
    run = Run(SMALL, tmp_path / "out.json")
    running = run.run(2)
    next(running)
    for worker in multiprocessing.active_children():
        worker.kill()
    with pytest.raises(ChildProcessError, match=r"a worker died \(killed by SIGKILL.*finished work is kept, and the same command resumes"):
        for _ in running:
            pass
    assert multiprocessing.active_children() == []
    assert len(Run(SMALL, tmp_path / "out.json").done) >= 1
    measured(SMALL, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == small.read_bytes()


def test_a_worker_that_dies_at_once_is_one_line_of_the_command(tmp_path, capsys, monkeypatch):
    def start_and_lose(process):
        process.start()
        process.kill()
        process.join()

    monkeypatch.setattr(process_pool, "start_ignoring_sigint", start_and_lose)
    with pytest.raises(SystemExit) as stop:
        main(arguments(SMALL, tmp_path / "out.json", workers=2))
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("trilith: a worker died (killed by SIGKILL")
    assert err.count("\n") == 1


def test_an_interrupt_does_not_reach_a_worker_from_its_first_moment_on(small, tmp_path, monkeypatch):
    start = process_pool.start_ignoring_sigint

    def start_and_interrupt(process):
        start(process)
        os.kill(process.pid, signal.SIGINT)

    monkeypatch.setattr(process_pool, "start_ignoring_sigint", start_and_interrupt)
    run = Run(SMALL, tmp_path / "out.json")
    for _ in run.run(2):
        for worker in multiprocessing.active_children():
            os.kill(worker.pid, signal.SIGINT)
    run.finish()
    assert (tmp_path / "out.json").read_bytes() == small.read_bytes()


@pytest.mark.parametrize(("kind", "line"), [("Refusing", "^no plan for this task$"), ("Broken", "in act\n(.*\n)*KeyError: 'oops'")])
def test_what_goes_wrong_in_a_worker_is_told_by_the_main_process(tmp_path, monkeypatch, kind, line):
    (tmp_path / "faulty_agents.py").write_text(
        "class Refusing:\n    def act(self, states, rngs):\n        raise ValueError('no plan for this task')\n"
        "class Broken:\n    def act(self, states, rngs):\n        raise KeyError('oops')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError if kind == "Refusing" else RuntimeError, match=line):
        measured(replace(SMALL, agent=f"faulty_agents:{kind}"), tmp_path / "out.json", workers=2)
    assert multiprocessing.active_children() == []


class Watched(LegalAgent):
    """Notes how many states it gets at a time."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def act(self, states, rngs):
        self.seen.append(len(states))
        assert all(state.ended is None for state in states)
        return super().act(states, rngs)


def test_episodes_run_side_by_side_and_those_that_ended_drop_out():
    agent = Watched()
    starts = [start_in_set("silhouette", 2, "valid", index) for index in range(10)]
    played = play(agent, starts, [generator("x", index) for index in range(10)])
    assert agent.seen[0] == 10
    assert agent.seen == sorted(agent.seen, reverse=True)
    assert agent.seen[-1] < 10
    assert sum(agent.seen) == sum(len(recording.placements) for recording, _ in played) == sum(end.steps for _, end in played)
    for recording, end in played:
        *_, last = recording.replay()
        assert last.state == end


def test_an_agent_that_answers_for_too_few_episodes_is_found_out():
    class Short(RandomAgent):
        def act(self, states, rngs):
            return super().act(states, rngs)[:-1]

    with pytest.raises(ValueError, match=r"^the method act of Short returned \[\]: must be a list of 1, with a placement or None for each"):
        play(Short(), [start_in_set("covering", 0, "valid", 0)], [generator("x")])


class Mute:
    """Forgets to return what it has chosen."""

    def act(self, states, rngs):
        LegalAgent().act(states, rngs)


FIRST, RNG = start_in_set("covering", 0, "valid", 0), generator("x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("objects", [FIRST], [RNG]), r"^agent 'objects': must be an object with a method act, such as trilith\.load\('legal'\)$"),
        ((None, [FIRST], [RNG]), "^agent None: must be an object with a method act"),
        ((LegalAgent, [FIRST], [RNG]), "^agent <class .*LegalAgent'>: must be an object with a method act"),
        ((LegalAgent(), FIRST, [RNG]), r"^states State\(.*: must be a list in which each is a trilith\.State, as trilith\.start gives$"),
        ((LegalAgent(), [FIRST.scene], [RNG]), r"^states Scene\(.*: must be a list in which each is a trilith\.State"),
        ((LegalAgent(), ["x"], [RNG]), r"^states 'x': must be"),
        ((LegalAgent(), [FIRST], 3), r"^rngs 3: must be a list in which each is a numpy\.random\.Generator$"),
        ((LegalAgent(), [FIRST], [3]), r"^rngs 3: must be"),
        ((LegalAgent(), [FIRST], RNG), r"^rngs Generator\(PCG64\).*: must be"),
        ((LegalAgent(), [FIRST], [RNG], "no"), "^zero_on_hit 'no': must be true or false$"),
        ((Mute(), [FIRST], [RNG]), r"^the method act of Mute returned None: must be a list of 1, with a placement or None for each"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        play(*arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_blocks_are_those_in_the_scene_not_the_attempts(tmp_path, monkeypatch):
    class Stubborn:
        """Puts a block down, then another one into it."""

        def act(self, states, rngs):
            return [Placement(6, 0.0, 0.4, True) for _ in states]

    monkeypatch.setitem(AGENTS, "stubborn", Stubborn)
    result = measured(Evaluation("stubborn", "connecting", 0, "valid", scenes=4), tmp_path / "x.json")
    assert result["reasons"]["spawn_collision"] == 4
    assert (result["blocks"], result["glue"]) == (1, 1)


def test_one_scene_has_no_interval(tmp_path, capsys):
    main(["evaluate", "legal", "--task=covering", "--scenes=1", f"--out={tmp_path / 'x.json'}"])
    assert read_json(tmp_path / "x.json")["interval"] is None
    assert "±" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "tower"}, "no task 'tower'"),
        ({"level": "easy"}, "connecting has no level 'easy'"),
        ({"split": "train"}, "no split 'train'"),
        ({"scenes": 0}, "0 scenes: a valid set has 1 to 1000"),
        ({"scenes": 1001}, "1001 scenes: a valid set has 1 to 1000"),
        ({"worst": -1}, "-1 worst episodes: must be 0 or more"),
        ({"scenes": "3"}, "scenes '3': must be a whole number"),
        ({"scenes": 3.0}, "scenes 3.0: must be a whole number"),
        ({"seed": None}, "seed None: must be a whole number"),
        ({"zero_on_hit": "no"}, "zero_on_hit 'no': must be true or false"),
        ({"task": get_task("covering")}, "no task <.*Covering object.*>: choose silhouette"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_hardest_and_the_last_level_are_one_evaluation():
    assert Evaluation("legal", "covering") == Evaluation("legal", "covering", "2") == Evaluation("legal", "covering", 2)


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(small, tmp_path):
    out = tmp_path / "out.json"
    full = trilith(*arguments(SMALL, out, workers=1), cwd=tmp_path, preexec_fn=limit_files)
    assert refused(full) == f"cannot write {tmp_path / '.out.journal'}: File too large"
    assert not out.exists()
    assert 1 <= len(Run(SMALL, out).done) < len(SMALL.groups())
    measured(SMALL, out)
    assert out.read_bytes() == small.read_bytes()


@pytest.mark.parametrize("option", ["out", "record"])
def test_a_folder_that_cannot_be_is_told_before_any_episode(tmp_path, option):
    (tmp_path / "file").touch()
    where = {"out": tmp_path / "x.json", "record": tmp_path / "episodes", option: tmp_path / "file" / "x.json"}
    run = Run(SMALL, where["out"], where["record"])
    with pytest.raises(OSError, match=r"file is not a folder|Not a directory"):
        next(run.run(1))
    assert not (tmp_path / "x.json").exists()


def test_the_default_name_says_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["evaluate", "legal", "--task=covering", "--scenes=2", "--workers=1", "--worst=0"]
    main(common)
    main([*common, "--seed=5", "--zero-on-hit", "--level=all", "--split=valid"])
    assert names(tmp_path / "results") == ["legal-covering-all-valid-2-seed5-zero-on-hit.json", "legal-covering-hardest-test-2.json"]


def test_a_line_of_the_journal_is_json_and_a_checksum(tmp_path):
    stopped = Run(SMALL, tmp_path / "x.json").run(1)
    next(stopped)
    stopped.close()
    heading, line = (json.loads(each.rsplit(" ", 1)[0]) for each in (tmp_path / ".x.journal").read_text().splitlines())
    assert heading == SMALL.identity()
    number, episodes = line
    assert number == 0
    assert [episode["index"] for episode in episodes] == list(range(GROUP))
    assert os.listdir(tmp_path) == [".x.journal"]


def test_a_flipped_bit_in_the_journal_is_noticed_and_its_group_runs_again(small, tmp_path):
    out, journal = tmp_path / "out.json", tmp_path / ".out.journal"
    stopped = Run(SMALL, out).run(1)
    for _ in range(2):
        next(stopped)
    stopped.close()
    before, rng = journal.read_bytes(), np.random.default_rng(0)
    first = before.index(b"\n") + 1
    for _ in range(40):
        damaged = bytearray(before)
        damaged[int(rng.integers(first, len(before) - 1))] ^= 1 << int(rng.integers(8))
        journal.write_bytes(damaged)
        assert len(Run(SMALL, out).done) < 2
    journal.write_bytes(damaged)
    (tmp_path / ".out.999999999.part.json").write_text("half")
    run = Run(SMALL, out)
    for _ in run.run(1):
        pass
    run.finish()
    assert out.read_bytes() == small.read_bytes()
    assert names(tmp_path) == ["out.json"], "what a killed writer left is cleared"


def test_an_agent_itself_is_refused_in_one_line_that_says_what_is_taken():
    with pytest.raises(ValueError, match=r"^agent <trilith.*LegalAgent.*: evaluate takes a name, .* or my_module:MyAgent") as error:
        evaluate(LegalAgent(), "covering")
    assert "\n" not in str(error.value)


def test_a_budget_is_a_number():
    with pytest.raises(ValueError, match="budget '3': must be 0 or more"):
        evaluate("legal", "covering", budget="3")
