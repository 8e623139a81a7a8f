"""An entry of the ledger is whole, small, and true: a replay of its actions gives its rewards."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from shell import trilith

from trilith.cli.main import main
from trilith.evaluation.runner import Evaluation, Run
from trilith.paper.actions import pack, unpack
from trilith.paper.ledger import Entry, make_entry, read_entry, read_ledger, write_entry
from trilith.paper.verify import check, verify
from trilith.search.config import SearchConfig
from trilith.utils.files import read_json, sealed, write_json
from trilith.world.scene import INVALID_EDGE, Placement

SCRIPT = Evaluation("scripted", "silhouette", "all", scenes=24, zero_on_hit=True, worst=0)
SEARCH = Evaluation("legal", "silhouette", 1, scenes=20, seed=3, search=SearchConfig(3), worst=0)


def measured(evaluation: Evaluation, folder: Path) -> Entry:
    run = Run(evaluation, folder / "result.json")
    for _ in run.run(1):
        pass
    return make_entry(evaluation, run.episodes())


@pytest.fixture(scope="module")
def entry(tmp_path_factory) -> Entry:
    return measured(SCRIPT, tmp_path_factory.mktemp("entry"))


def test_actions_come_back_to_the_last_bit():
    rng = np.random.default_rng(0)
    episodes: list[list[Placement | None]] = [
        [Placement(int(rng.integers(7)), *rng.normal(size=2).tolist(), bool(rng.integers(2))) for _ in range(length)] for length in range(9)
    ]
    episodes += [[INVALID_EDGE], [None], [Placement(3, 0.1 + 0.2, -0.0, True), None]]
    assert unpack(pack(episodes), len(episodes)) == [tuple(each) for each in episodes]


@pytest.mark.parametrize("text", ["", "\x00", "abcde", pack([[Placement(0, 1.0, 2.0)]] * 2)], ids=["empty", "zero", "noise", "fewer"])
def test_text_that_is_no_actions_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="actions") as error:
        unpack(text, 3)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("evaluation", [SCRIPT, SEARCH], ids=["script", "search"])
def test_an_entry_is_what_was_measured_and_holds(evaluation, tmp_path):
    made = measured(evaluation, tmp_path)
    path = write_entry(tmp_path / "ledger", made)
    assert read_ledger(path.parent) == [made]
    checked = check(path, tmp_path)
    assert (checked.problem, checked.episodes, checked.redecided) == ("", evaluation.scenes, evaluation.scenes)
    assert made.evaluation(made.agent) == evaluation
    assert path.stat().st_size < 150 * evaluation.scenes + 3000


CHANGES = {
    "reward": lambda entry: {"rewards": [*entry.rewards[:5], entry.rewards[5] + 1, *entry.rewards[6:]]},
    "reason": lambda entry: {"reasons": [*entry.reasons[:-1], "bad_simulation"]},
    "action": lambda entry: {"actions": pack([*entry.placements()[:-1], [Placement(0, 3.0, 0.39)]])},
    "fewer actions": lambda entry: {"actions": pack([*entry.placements()[:-1], entry.placements()[-1][:-1]])},
    "level": lambda entry: {"level": 7},
    "split": lambda entry: {"split": "valid"},
    "task": lambda entry: {"task": "connecting"},
    "seed": lambda entry: {"seed": 1},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_entry_is_named(entry, tmp_path, what):
    """Edited by hand, its checksum is wrong. If the checksum is made anew but the name is kept, the name is wrong."""
    changed = msgspec.structs.replace(entry, **CHANGES[what](entry))
    path = write_entry(tmp_path, entry)
    whole = read_json(path)
    write_json(path, {**whole, **{name: getattr(changed, name) for name in CHANGES[what](entry)}})
    problem = check(path, tmp_path).problem
    assert str(path) in problem
    assert "checksum" in problem
    assert "\n" not in problem
    anew = write_entry(tmp_path / "anew", changed)
    if anew.name != path.name:
        anew = anew.rename(anew.parent / path.name)
    assert str(anew) in check(anew, tmp_path).problem


@pytest.mark.parametrize("what", [what for what in CHANGES if what != "seed"])
def test_a_forged_entry_is_named_by_its_replay(entry, tmp_path, what):
    """Checksum and name are made anew. Only the seed of an agent that is not random cannot be found out."""
    path = write_entry(tmp_path, msgspec.structs.replace(entry, **CHANGES[what](entry)))
    assert read_entry(path).agent == entry.agent
    assert str(path) in check(path, tmp_path).problem


IMPOSSIBLE = {
    "no such task": ({"task": "towers"}, "not for towers"),
    "level": ({"level": 99}, "level 99"),
    "scenes": ({"scenes": 10_001, "rewards": [0.0] * 10_001, "reasons": ["stopped"] * 10_001, "actions": pack([[None]] * 10_001)}, "10001"),
    "option of a search": ({"search": {"budget": 3, "depth": 5}}, "SearchConfig has no field 'depth'"),
    "type of an option": ({"search": {"budget": 3, "c": "two"}}, "c: Expected float"),
    "no budget": ({"search": {"c": 2.0}}, "budget None"),
    "an agent that cannot search": ({"search": {"budget": 3}}, "does not value actions"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_an_entry_that_names_what_does_not_exist_is_named_and_the_others_are_checked(entry, tmp_path, what):
    change, said = IMPOSSIBLE[what]
    good = write_entry(tmp_path, entry)
    changed = msgspec.structs.replace(entry)
    for name, value in change.items():
        msgspec.structs.force_setattr(changed, name, value)
    bad = tmp_path / "zzz.json"
    write_json(bad, sealed(msgspec.to_builtins(changed)))
    if what not in ("no such task", "no budget"):  # these have no name, because they are refused before
        bad = bad.rename(tmp_path / changed.file_name)
    problems = {each.path: each.problem for each in verify(tmp_path, tmp_path)}
    assert problems.pop(good) == ""
    [problem] = problems.values()
    assert str(bad) in problem
    assert said in problem
    assert "\n" not in problem


@pytest.mark.parametrize("where", ["task", "agent", "algorithm", "world"])
def test_an_entry_never_runs_code_of_its_naming(tmp_path, monkeypatch, where):
    (tmp_path / "foreign.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = measured(replace(SEARCH, scenes=2), tmp_path)
    assert made.search
    named = {"task": "foreign:Task"} if where == "task" else {"agent": "foreign:Agent"} if where == "agent" else {}
    changed = msgspec.structs.replace(made, search=made.search | ({} if named else {where: "foreign:Class"}))
    for name, value in named.items():
        msgspec.structs.force_setattr(changed, name, value)
    path = write_entry(tmp_path / "ledger", changed)
    checked = check(path, tmp_path)
    assert checked.redecided == 0
    assert bool(checked.problem) == (where == "task")


def test_only_agents_are_called_of_the_package(entry, tmp_path, monkeypatch):
    """Not whatever an entry names in it."""
    called = Mock()
    monkeypatch.setattr("trilith.cli.main.main", called)
    assert check(write_entry(tmp_path, msgspec.structs.replace(entry, agent="trilith.cli.main:main")), tmp_path).problem == ""
    called.assert_not_called()


def test_files_that_are_no_entries_are_named(entry, tmp_path):
    data = msgspec.to_builtins(entry)
    for name, content in {"list": [], "result": {"agent": "x"}, "later": {**data, "format": 2, "checksum": ""}}.items():
        path = tmp_path / f"{name}.json"
        write_json(path, content)
        assert str(path) in check(path, tmp_path).problem


def test_evaluate_adds_to_a_ledger_and_verify_proves_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = ["evaluate", "scripted", "--task", "covering_hard", "--scenes", "16", "--workers", "1", "--worst", "0", "--ledger", "ledger"]
    main(line)
    [made] = read_ledger(tmp_path / "ledger")
    assert made.rewards == read_json(tmp_path / "results/scripted-covering_hard-hardest-test-16.json")["rewards"]
    with pytest.raises(SystemExit):
        main(line)
    assert "its actions are not kept" in capsys.readouterr().err
    main(["verify", "ledger", "--workers", "1"])
    assert "1 entries, 16 episodes: all rewards and reasons are those of the replay." in capsys.readouterr().out
    [path] = (tmp_path / "ledger").iterdir()
    write_json(path, {**read_json(path), "seed": 1})
    with pytest.raises(SystemExit) as stop:
        main(["verify", "ledger", "--workers", "1"])
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert str(path.relative_to(tmp_path)) in shown.out
    assert "1 of 1 entries do not hold" in shown.err


def test_verify_without_entries_is_refused(tmp_path):
    assert "has no entries" in trilith("verify", "nothing", cwd=tmp_path).stderr


def test_what_cannot_be_entered_is_refused_before_anything_is_played(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "own.py").write_text("from own_task import Tower\n")
    monkeypatch.syspath_prepend(tmp_path)
    for given, said in {
        ("legal", "covering_hard", "file/ledger"): "file/ledger",
        ("legal", "own:Tower", "ledger"): "the ledger is for the tasks of the paper, not for own:Tower",
    }.items():
        agent, task, folder = given
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", agent, "--task", task, "--scenes", "16", "--workers", "1", "--ledger", folder])
        assert stop.value.code == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert "episodes in" not in shown
    assert not (tmp_path / "results").exists()


def test_a_ledger_that_cannot_be_written_costs_no_episode(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = ["evaluate", "scripted", "--task", "covering_hard", "--scenes", "16", "--workers", "1", "--worst", "0", "--ledger", "ledger"]
    monkeypatch.setattr("trilith.paper.ledger.write_json", refuse := Mock(side_effect=OSError("no space left")))
    with pytest.raises(SystemExit):
        main(line)
    assert refuse.called
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    main(line)
    assert "resuming after 16 of 16 episodes" in capsys.readouterr().err
    assert read_ledger(tmp_path / "ledger")
