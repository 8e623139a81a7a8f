"""The command line: help at once, bad input in one line, and files that are whole."""

import importlib
import io
import json
import re
import runpy
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
from shell import ENVIRONMENT, interrupt, launch, refused, trilith, until

import trilith as trilith_package
from trilith.agents.dqn.recipes import GN_DQN
from trilith.agents.random_agents import LegalAgent
from trilith.agents.registry import ZOO, shipped
from trilith.agents.weights import read_card
from trilith.cli import lists
from trilith.cli import main as cli
from trilith.cli.demo import learned
from trilith.evaluation import scene_sets
from trilith.evaluation.play import play
from trilith.render.pictures import picture
from trilith.training.config import TrainConfig, recipe_config
from trilith.utils.config import to_json
from trilith.utils.console import Progress
from trilith.utils.files import write_json
from trilith.world.episode import start
from trilith.world.tasks import TASKS

HEAVY = ("torch", "numba", "pyb2d3", "matplotlib", "PIL", "imageio", "starlette", "uvicorn", "trilith.world.physics")


@pytest.fixture(scope="module")
def recording() -> dict:
    """An episode with something to see."""
    states = [start("silhouette", 2, np.random.default_rng(seed)) for seed in range(8)]
    played = play(LegalAgent(), states, [np.random.default_rng(seed) for seed in range(8)])
    return min((each for each, _ in played if len(each.placements) > 1), key=lambda each: len(each.placements)).to_json()


def run(*arguments: object) -> None:
    """A command in this process, which is quicker."""
    cli.main([str(each) for each in arguments])


def refused_here(capsys, *arguments: object) -> str:
    """The one line that bad input gets, after checking that it is all it gets."""
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert shown.out == ""
    assert shown.err.startswith("trilith: ")
    assert shown.err.count("\n") == 1, f"one line, not\n{shown.err}"
    return shown.err.removeprefix("trilith: ").strip()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flat(text: str) -> str:
    """Text as one line, without the frames around it."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        run(command, "--help")
    shown = capsys.readouterr()
    assert stop.value.code == 0
    assert f"Example: trilith {command}" in flat(shown.out)
    assert shown.err == ""


def test_train_shows_a_dozen_options_and_all_of_them_if_asked(capsys):
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as stop:
            run("train", "--recipe", "gn-dqn", option)
        assert stop.value.code == 0
        plain = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        shown[option] = re.findall(r"^[^\w-]{0,2}(--\w[\w.-]+)", plain, re.MULTILINE)
    few, every = shown.values()
    assert len(few) == 12
    assert {"--resume", "--task", "--recipe", "--out", "--minutes", "--seed"} < {*few} < {*every}
    assert {"--agent.learning-rate", "--agent.net.recurrent", "--curriculum.steps"} < {*every}
    with pytest.raises(SystemExit):
        run("draw", "--help-all")
    assert "--search.algorithm" in capsys.readouterr().out


def test_an_option_by_its_initials_is_told_in_full(capsys):
    assert refused_here(capsys, "train", "--agent.lr", "0.1") == "there is no option --agent.lr: do you mean --agent.learning-rate?"
    assert refused_here(capsys, "train", "--cm=3") == "there is no option --cm: do you mean --core-minutes?"


def test_a_line_that_quotes_what_is_too_long_is_cut(tmp_path, capsys):
    write_json(tmp_path / "config.json", {**to_json(recipe_config()), "recipe": "y" * 20_000})
    assert len(refused_here(capsys, "train", "--resume", tmp_path)) < 620
    said = refused_here(capsys, "z" * 20_000)
    assert len(said) < 620
    assert said.endswith("verify"), "what would be right is still there"


def test_the_examples_are_commands_that_can_be_given(capsys, monkeypatch):
    given = []
    monkeypatch.setattr(cli, "run_config", lambda out: TrainConfig(out=out))  # there is no such run
    for name, command in cli.COMMANDS.items():
        monkeypatch.setattr(command, "run", lambda self: given.append(type(self).__name__.lower()))
        examples = re.findall("Example: trilith (.*)", command.__doc__)
        assert examples
        for example in examples:
            run(*example.split())
            assert given.pop() == name.replace("-", "")


def trains(monkeypatch, *options: str) -> TrainConfig:
    """The config of a training that is given these options."""
    given: list[TrainConfig] = []
    monkeypatch.setattr(cli.COMMANDS["train"], "run", lambda self: given.append(self.config))
    run("train", *options)
    return given.pop()


def test_a_recipe_has_other_defaults_in_some_tasks_and_options_win(monkeypatch):
    assert recipe_config("objects", "silhouette").agent != recipe_config("objects", "connecting").agent
    for task in (*TASKS, "own_task:Tower"):
        expected = recipe_config("objects", task)
        assert expected.task == task
        for options in (["--recipe", "objects", "--task", task], [f"--task={task}", "--recipe=objects"], ["--task", task]):
            config = trains(monkeypatch, *options)
            assert (config.task, config.recipe, config.agent) == (task, "objects-v3", expected.agent)
    easy, hard = (trains(monkeypatch, "--recipe", "objects", "--task", task).agent for task in ("connecting", "silhouette"))
    assert (easy.discount, hard.discount) == (0.9, 0.97)
    assert (easy.decay_steps, hard.decay_steps) == (20_000, 36_000)
    for options in (["--task", "silhouette", "--agent.discount", "0.5"], ["--agent.discount=0.5", "--task=silhouette"]):
        config = trains(monkeypatch, "--recipe", "objects", *options)
        assert config.agent == replace(hard, discount=0.5), "the others are those of the task"
    assert trains(monkeypatch, "--recipe", "gn-dqn", "--task", "silhouette").agent == GN_DQN
    assert trains(monkeypatch).agent == recipe_config().agent, "those of the task that is the default"


def test_the_task_of_another_command_is_no_business_of_a_recipe(monkeypatch):
    given = []
    monkeypatch.setattr(cli.COMMANDS["evaluate"], "run", lambda self: given.append(self.task))
    run("evaluate", "legal", "--task", "silhouette")
    assert given == ["silhouette"]


def test_a_run_that_goes_on_has_its_own_options_and_not_those_of_a_recipe(tmp_path, monkeypatch):
    config = replace(recipe_config("objects", "silhouette"), out=tmp_path, steps=3)
    config = replace(config, agent=replace(config.agent, discount=0.25))
    write_json(tmp_path / "config.json", to_json(config))
    assert trains(monkeypatch, "--resume", str(tmp_path), "--core-minutes", "7") == replace(config, core_minutes=7.0)


def test_the_version_is_that_of_the_package(capsys):
    run("--version")
    assert capsys.readouterr().out == f"trilith {trilith_package.__version__}\n"


def test_films_of_an_empty_ledger_are_refused_and_leave_no_folder(capsys, tmp_path):
    (tmp_path / "ledger").mkdir()
    said = refused_here(capsys, "reproduce", "--films", tmp_path / "films", "--ledger", tmp_path / "ledger")
    assert said.endswith("has no entries of the agents of Table G.1 at the scale laptop")
    assert not (tmp_path / "films").exists()


@pytest.mark.parametrize(("option", "value"), [("--base", "no-such-commit"), ("--only", "no-such-figure")])
def test_a_benchmark_of_a_commit_or_a_figure_that_does_not_exist_is_refused_in_one_line(option, value):
    line = [sys.executable, "benchmarks/bench.py", option, value]
    done = subprocess.run(line, env=ENVIRONMENT, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert repr(value) in done.stderr


def test_a_figure_that_an_older_commit_cannot_give_leaves_the_others(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    bench = runpy.run_path("benchmarks/bench.py")
    figure, table = bench["Figure"], bench["FIGURES"]
    monkeypatch.setitem(table, "lost", figure(lambda: importlib.import_module("trilith.not_there_yet")))
    monkeypatch.setitem(table, "kept", figure(lambda: lambda: 2.0))
    monkeypatch.setattr(sys, "stdin", io.StringIO("lost\nkept\n"))
    bench["serve"]()
    shown = capsys.readouterr()
    assert shown.out.split() == ["NaN", "2.0"]
    assert "not_there_yet" in shown.err


def test_the_help_of_an_option_flows_across_the_lines_of_its_docstring(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run("train", "--help-all")
    rows = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    pairs = [(here, below) for here, below in pairwise(rows) if here.startswith(" " * 20) and below.startswith(" " * 20)]
    assert len(pairs) > 100
    for here, below in pairs:
        assert len(here) + len(f" {below.split()[0]}") > 80, f"{below.split()[0]!r} has room behind {here.strip()!r}"


def test_the_first_help_names_every_command():
    script = f"""
import sys
from trilith.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    loaded = [name for name in {HEAVY!r} + ("typeguard",) * (len(sys.argv) == 2) if name in sys.modules]
    print(stop.code, loaded, file=sys.stderr)
"""
    for arguments in ([], ["draw"], ["evaluate"], ["web"]):
        line = [sys.executable, "-c", script, *arguments, "--help"]
        result = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert result.stderr == "0 []\n", f"help of {arguments} loads nothing heavy"
        assert all(command in result.stdout for command in (arguments or cli.COMMANDS))


def test_importing_the_package_loads_nothing_heavy():
    heavy = [name for name in HEAVY if name != "trilith.world.physics"]
    line = f"import sys, trilith; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", line], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert result.stdout == "[]\n", result.stderr


def test_tasks_are_listed_with_levels_rewards_and_sizes(capsys, monkeypatch):
    monkeypatch.setattr(lists, "SCENES", 20)
    run("tasks")
    shown = capsys.readouterr().out
    rows = {line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in shown.splitlines() if "│ " in line}
    assert set(TASKS) <= set(rows)
    for name, task in TASKS.items():
        levels, _, most, hardest, sticky, objects, *sizes = rows[name]
        assert levels == f"{task.levels[0]} to {task.levels[-1]}"
        assert float(most) <= float(hardest)
        assert sticky == (f"costs {task.sticky_cost:g}" if task.sticky_cost else "free")
        assert objects == f"≤ {task.objects_for('hardest')}"
        assert len(sizes) == 3
        assert all(int(size.replace(",", "")) > 1000 for size in sizes)
    assert all(name in shown for task in TASKS.values() for name in task.generalisation)


def test_a_scene_is_drawn_as_its_seed_has_it(tmp_path, capsys):
    run("draw", "covering", "--level", 2, "--seed", 7, "--out", tmp_path / "new" / "a.png", "--pixels", 160)
    assert capsys.readouterr().out == f"{tmp_path / 'new' / 'a.png'}\n"
    expected = picture(start("covering", 2, np.random.default_rng(7)).scene, 160)
    assert np.array_equal(iio.imread(tmp_path / "new" / "a.png"), expected)
    run("draw", "covering", "--level", "hardest", "--seed", 8, "--out", tmp_path / "new" / "b.png", "--pixels", 160)
    assert not np.array_equal(iio.imread(tmp_path / "new" / "b.png"), expected)
    assert names(tmp_path / "new") == ["a.png", "b.png"]


@pytest.mark.parametrize("kind", [".gif", ".mp4"])
def test_a_recording_becomes_a_film(tmp_path, capsys, recording, kind):
    write_json(tmp_path / "episode.json", recording)
    run("film", tmp_path / "episode.json", "--out", tmp_path / f"film{kind}", "--pixels", 64)
    frames = iio.imread(tmp_path / f"film{kind}")
    assert len(frames) > 10
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 50, "something happens"
    assert names(tmp_path) == ["episode.json", f"film{kind}"]


def test_shipped_agents_are_listed_with_what_they_earn(capsys):
    run("agents")
    said = capsys.readouterr().out
    assert "planner" in said
    rows = Counter(tuple(cell.strip() for cell in line.split("│")[1:3]) for line in said.splitlines() if line.startswith("│"))
    assert set(shipped("objects")) == set(TASKS)
    for name in ("objects", "pixels"):
        for task, weights in shipped(name).items():
            hardest = [each for each in read_card(weights)["test"] if each["level"] == "hardest"]
            assert rows[name, task] == len(hardest) > 1, "without search and with, a line each"
    assert "physics" in said, "figures of another world are told as such"


def test_what_a_search_thinks_is_drawn(tmp_path):
    run("draw", "covering_hard", "--agent", "objects", "--budget", 20, "--steps", 1, "--out", tmp_path / "thoughts.png")
    height, width, _ = iio.imread(tmp_path / "thoughts.png").shape
    assert width > height > 400


def test_a_picture_of_a_search_counts_all_placements_and_takes_the_options_of_a_search(tmp_path, monkeypatch):
    """The tree of `rollout` holds 64 actions at most."""
    drawn = []
    monkeypatch.setattr("trilith.render.pictures.thoughts_picture", lambda *given: drawn.append(given))
    for algorithm in ("rollout", "halving"):
        run("draw", "covering_hard", "--agent", "objects", "--budget", 8, "--search.algorithm", algorithm, "--out", tmp_path / "x.png")
    (_, few, _, first, _), (_, many, _, second, _) = drawn
    assert len(few) < len(many)
    [count] = {re.search(r"(\d+) could be made", title)[1] for title in (first, second)}
    assert int(count) > 64


@pytest.mark.slow
def test_a_demonstration_has_a_table_a_sheet_a_film_of_each_task_and_steady_progress(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Progress, "pause", 0.0)
    run("demo", "--agents", "random", "legal", "--scenes", 1, "--out", tmp_path / "demo")
    shown = capsys.readouterr()
    assert names(tmp_path / "demo") == sorted([*(f"{task}.gif" for task in TASKS), "sheet.png"])
    assert all(task.title in shown.out for task in TASKS.values())
    assert "random" in shown.out
    assert "legal" in shown.out
    height, width, _ = iio.imread(tmp_path / "demo" / "sheet.png").shape
    assert 1.2 < height / width < 2, "two agents beside each other, four tasks below each other"
    lines = re.findall(r"^building: (\d+)%, (\d+) s left, ", shown.err, re.MULTILINE)
    shares = [int(share) for share, _ in lines]
    assert len(shares) > 3 * len(TASKS), "not only where an agent has ended"
    assert shares == sorted(shares)
    assert lines[-1] == ("100", "0")


@pytest.fixture
def few_scenes(monkeypatch, tmp_path):
    """Frozen scenes so few that they can be checked here."""
    monkeypatch.setattr(scene_sets, "CHECKSUMS", tmp_path / "scenes.json")
    monkeypatch.setattr(scene_sets, "SIZES", {"test": 5, "valid": 3})
    monkeypatch.setattr(scene_sets, "FIRST", 2)


def test_frozen_scenes_are_checked_set_by_set(few_scenes, tmp_path, capsys):
    run("check-scenes", "--freeze")
    assert capsys.readouterr().out.count("frozen\n") == len(scene_sets.all_sets())
    run("check-scenes")
    shown = capsys.readouterr().out.splitlines()
    assert shown == [f"{scene_sets.set_name(*each)} ok" for each in scene_sets.all_sets()]
    data = json.loads((tmp_path / "scenes.json").read_text())
    data["sets"]["covering/1/valid"]["all"] = "0" * 32
    write_json(tmp_path / "scenes.json", data)
    with pytest.raises(SystemExit) as stop:
        run("check-scenes")
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert "covering/1/valid CHANGED" in shown.out
    advice = "raise scene_sets.VERSION and run trilith check-scenes --freeze"
    assert shown.err == f"trilith: 1 sets changed, the first covering/1/valid: {advice}\n"


def test_scenes_without_checksums_are_told(few_scenes, tmp_path, capsys):
    assert refused_here(capsys, "check-scenes").startswith(f"cannot read {tmp_path / 'scenes.json'}: No such file")


OTHER = ZOO / "objects" / "covering.safetensors"
"""Weights for another task."""
BAD = {
    "draw tower": "there is no task 'tower': choose silhouette, connecting, covering, covering_hard",
    "draw covering --level 9": "covering has no level 9: choose hardest, all, 0 to 2",
    "draw covering --level -1": "covering has no level '-1'",
    "draw covering --level nan": "covering has no level 'nan'",
    "draw covering --level 1e0": "covering has no level '1e0'",
    "draw covering --seed -3": "seed -3: must be 0 or more",
    "draw covering --seed nan": "--seed: 'nan' is not a whole number",
    "draw covering --seed 1.5": "--seed: '1.5' is not a whole number",
    "draw covering --pixels inf": "--pixels: 'inf' is not a whole number",
    "draw covering --pixels 0": "0 pixels: must be 16 to 4096",
    "draw covering --pixels 99999999": "99999999 pixels: must be 16 to 4096",
    "draw covering --out x.jpg": "picture 'x.jpg': its name must end in .png",
    "draw covering --sede 3": "Unrecognized options: --sede",
    "draw": "Missing from trilith draw: TASK",
    "film none.json": "cannot read none.json: No such file or directory",
    "film cut.json": "cut.json is not JSON",
    "film episode.json --out x.avi": "film 'x.avi': its name must end in .gif or .mp4",
    "film episode.json --pixels 1": "1 pixels: must be 16 to 2048",
    "demo --agents legal wizard": "there is no agent 'wizard': choose random, legal, scripted, planner",
    "demo --agents": "no agents: name at least one",
    "demo --scenes 0": "0 scenes: a test set has 1 to 10000",
    "demo --agents legal --out file/demo": "cannot write file/demo: Not a directory",
    "evaluate wizard --task covering": "there is no agent 'wizard': choose random, legal, scripted, planner",
    "evaluate legal": "Missing from trilith evaluate: --task",
    "evaluate legal --task tower": "there is no task 'tower'",
    "evaluate legal --task covering --level easy": "covering has no level 'easy'",
    "evaluate legal --task covering --split train": "there is no split 'train': choose test, valid",
    "evaluate legal --task covering --scenes 0": "0 scenes: a test set has 1 to 10000",
    "evaluate legal --task covering --scenes 10001": "10001 scenes: a test set has 1 to 10000",
    "evaluate legal --task covering --scenes NaN": "--scenes: 'NaN' is not a whole number",
    "evaluate legal --task covering --scenes 1e3": "--scenes: '1e3' is not a whole number",
    "evaluate legal --task covering --workers 0": "0 workers: must be 1 or more",
    "evaluate legal --task covering --worst -1": "-1 worst episodes: must be 0 or more",
    "evaluate legal --task covering --out cut.json": "cut.json is not JSON",
    "evaluate legal --task covering --out episode.json": "episode.json is not a result of trilith evaluate",
    "evaluate legal --task covering --out folder": "cannot read folder: Is a directory",
    "evaluate legal --task covering --out file/x.json": "cannot write file: file is not a folder",
    "evaluate legal --task covering --record file": "cannot write file: file is not a folder",
    "evaluate planner --task covering --budget 0,10": "the agent 'planner' does not value actions, so it cannot search",
    "evaluate legal --task covering --budget ten": "budget 'ten': must be a number of simulations, or several as 0,10,50",
    "evaluate legal --task covering --budget 0,5 --out x.json": "--out and --record are for one budget, not for 0,5",
    "evaluate legal --task covering --budget 5 --search.c nan": "c nan: must be 0 or more",
    "evaluate legal --task covering --budget 5 --search.max-candidates 0": "max_candidates 0: must be 1 or more",
    "evaluate legal --task covering --search.algorithm bound": "there is no search algorithm 'bound': choose rollout, halving, mcts",
    "evaluate legal --task covering --budget 5 --search.algorithm json:JSONDecoder": "json:JSONDecoder is not a search algorithm",
    f"evaluate {OTHER} --task silhouette": "was not trained for silhouette",
    "draw covering --agent planner": "the agent 'planner' does not value actions, so it cannot search",
    f"draw silhouette --agent {OTHER}": "was not trained for silhouette",
    "draw covering_hard --agent objects --budget 0": "budget 0: must be 1 or more",
    "draw covering_hard --agent legal --steps 50 --budget 5": "the episode ends",
    "demo --budget -1": "budget -1: must be 0 or more",
    "train --task tower": "there is no task 'tower'",
    "train --recipe slow": "there is no recipe 'slow': choose objects, gn-dqn, gn-dqn-mcts, cnn-gn-dqn, cnn-gn-dqn-mcts",
    "train --actors -1": "actors -1: must be 0 or more",
    "train --evaluate-every 0": "evaluate_every 0: must be 1 or more",
    "train --recipe fast": "there is no recipe 'fast': choose objects",
    "train --core-minutes -1": "core_minutes -1.0: must be 0 or more",
    "train --core-minutes nan": "core_minutes nan: must be 0 or more",
    "train --agent.lookahead 1.5": "lookahead 1.5: must be from 0 to 1",
    "train --agent.counterfactual-actions -1": "counterfactual_actions -1: must be 0 or more",
    "train --recipe pixels --actions absolute --agent.net.network graph --agent.mask edges": "the planner shows relative actions",
    "train --agent.net.network attention": "there is no network 'attention': choose objects, graph, pixels, pixel-attention",
    "train --out file/run": "cannot write file/run: Not a directory",
    "train --resume folder": "cannot read folder/config.json",
    "train --evaluate-scenes 2000": "evaluate_scenes 2000: there are 1000",
    "evaluate nowhere:Agent --task covering": "there is no agent 'nowhere:Agent': No module named 'nowhere'",
    "evaluate json:Agent --task covering": "there is no agent 'json:Agent': module 'json' has no attribute 'Agent'",
    "evaluate legal --task covering --seed -1": "seed -1: must be 0 or more",
    "evaluate legal --task covering --out .": "cannot read .: Is a directory",
    "draw covering --steps -1": "steps -1: must be 0 or more",
    "draw covering_hard --agent objects --out thoughts": "picture 'thoughts': its name must end in .png",
    "plot folder --out curves": "picture 'curves': its name must end in .png",
    "web --port 99999": "port 99999: must be 0 to 65535",
    "train --seed -1": "seed -1: must be 0 or more",
    "train --minutes nan": "minutes nan: must be 0 or more",
    "train --steps -5": "steps -5: must be 0 or more",
    "train --agent.replay-mb inf": "replay_mb inf: must be above 0",
    "train --resume episode.json": "cannot read episode.json/config.json",
    "train --agent.net.heads 3": "width 64: must be a multiple of heads, 3",
    "train --agent.discount 2": "discount 2.0: must be from 0 to 1",
    "compare legal --task covering": "Missing value for argument 'agents'. Expected 2 values.",
    "compare legal legal --task covering": "legal twice: name two agents, or give one two --budgets",
    "compare legal wizard --task covering": "there is no agent 'wizard'",
    "compare legal random --task covering --out x.jpg": "picture 'x.jpg': its name must end in .png",
    "compare legal random --task covering --scenes 0": "0 scenes: a test set has 1 to 10000",
    "compare legal scripted --task covering --budgets 0 5": "the agent 'scripted' does not value actions",
    "report nowhere": "nowhere is not a folder with results",
    "report folder": "folder has no result of trilith evaluate",
    "report .": "cut.json is not JSON",
    "tower": "there is no command 'tower': choose tasks, agents, ",
    "tower --help": "there is no command 'tower': choose tasks, agents, ",
    "": "Expected one of {tasks, agents, recipes, draw, film, demo, web, evaluate, compare, report, record-episodes, train, train-model",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(line, tmp_path, monkeypatch, capsys, recording):
    monkeypatch.chdir(tmp_path)
    write_json("episode.json", recording)
    Path("cut.json").write_text(json.dumps(recording)[:500])
    Path("file").write_text("kept")
    Path("folder").mkdir()
    before = names(tmp_path)
    assert BAD[line] in refused_here(capsys, *line.split())
    after = [name for name in names(tmp_path) if name != "results"]
    assert after == before
    assert Path("file").read_text() == "kept"
    assert not list(tmp_path.glob("results/*.json"))


CHANGES = {
    "no start": (lambda data: data.pop("start"), "'start' and 'placements'"),
    "no placements": (lambda data: data.pop("placements"), "'start' and 'placements'"),
    "no scene": (lambda data: data["start"].pop("scene"), "state has no field 'scene'"),
    "no task": (lambda data: data["start"].update(task="tower"), "no task 'tower'"),
    "no level": (lambda data: data["start"].update(level=99), "no level 99"),
    "a total that is no number": (lambda data: data["start"].update(total=float("nan")), "not JSON"),
    "a slot that is none": (lambda data: data["placements"].append([7, 0, 0, False]), "slot must be 0 to 6"),
    "a place that is none": (lambda data: data["placements"].insert(0, [0, float("inf"), 0, False]), "not JSON"),
    "a placement too short": (lambda data: data["placements"].insert(0, [0, 1]), "must be [slot, x, y, sticky]"),
    "a placement after the end": (lambda data: data["placements"].append([0, 0, 1, False]), "has ended"),
    "a row too few": (lambda data: data["start"]["scene"]["pose"].pop(), "scene"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_recording_that_cannot_be_is_refused_by_what_is_wrong(change, tmp_path, capsys, recording):
    data = json.loads(json.dumps(recording))
    spoil, message = CHANGES[change]
    spoil(data)
    (tmp_path / "bad.json").write_text(json.dumps(data))
    said = refused_here(capsys, "film", tmp_path / "bad.json", "--out", tmp_path / "film.gif")
    assert said.startswith(f"{tmp_path / 'bad.json'}")
    assert message in said
    assert names(tmp_path) == ["bad.json"]


@pytest.mark.parametrize("data", ["7", "null", "[]", '"x"', "{}", '{"start": [], "placements": []}'])
def test_json_that_is_no_recording_is_refused(data, tmp_path, capsys):
    (tmp_path / "bad.json").write_text(data)
    assert "bad.json: " in refused_here(capsys, "film", tmp_path / "bad.json", "--out", tmp_path / "film.gif")
    assert names(tmp_path) == ["bad.json"]


def test_as_a_program_it_refuses_in_the_same_way(tmp_path):
    assert refused(trilith("evaluate", "wizard", "--task", "covering", cwd=tmp_path)).startswith("there is no agent 'wizard'")
    assert names(tmp_path) == []
    mistyped = trilith("evaluate", "legal", "--task", "covering", "--nonsense", 3, cwd=tmp_path)
    assert refused(mistyped) == "Unrecognized options: --nonsense, 3"  # and no warning of the parser, which pytest would catch here


def test_where_letters_are_plain_messages_and_tables_are_as_well(tmp_path):
    plain = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    for line, code, said in (
        ("draw covering --seed nan", 2, "trilith: Error parsing --seed: 'nan' is not a whole number\n"),
        ("tasks", 0, ""),
    ):
        command = [sys.executable, "-m", "trilith.cli", *line.split()]
        result = subprocess.run(command, env=plain, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (code, said)


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    line = f"{sys.executable} -m trilith.cli draw covering --out {tmp_path / 'x.png'} | true"
    for buffered in ("", "1"):
        environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": buffered}
        result = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60)
        assert result.stderr == ""


@pytest.mark.parametrize("redirection", [">&-", "| head -1", "2>&-", "<&-"])
def test_closed_streams_are_no_error(redirection):
    for line in ("recipes", "--help") if redirection == ">&-" else ("recipes",):
        command = f"set -o pipefail; {sys.executable} -m trilith.cli {line} {redirection}"
        result = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert result.stderr == ""
        assert result.returncode in ((0, 1) if "head" in redirection else (0,))


BENCHMARKS = [path for path in sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_explains_itself(path, monkeypatch, capsys):
    if re.search(r"^import torch|agents\.\w+\.(policy|learner)|trilith\.training\.run", path.read_text(), re.MULTILINE):
        pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(path.parent)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert shown.startswith("usage:")
    assert len(shown.splitlines()) > 5, "what it measures is said as well"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--scales", "3", "15", "75")], ids=["the package's scales", "other scales"])
def test_the_bench_of_outcomes_trains_the_network_as_it_is(options):
    pytest.importorskip("torch")
    line = [sys.executable, "benchmarks/outcomes.py", "--states", "40", "--updates", "2", "--agent", "legal", *options]
    done = subprocess.run(line, env=ENVIRONMENT, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"2 updates in [\d.]+ s; ends told right [\d.]+%", done.stdout)


@pytest.mark.longest
@pytest.mark.slow
def test_a_demonstration_that_is_stopped_says_what_it_leaves_behind_and_leaves_nothing_empty(tmp_path):
    for early in (True, False):
        out = tmp_path / ("early" if early else "late")
        process = launch("demo", "--agents", "scripted", "--scenes", 100 if not early else 400, "--out", out, cwd=tmp_path)
        until(lambda out=out, early=early: out.exists() if early else any(out.glob("[!.]*.gif")), "the demonstration")
        code, _, said = interrupt(process)
        assert code == 130
        written = sorted(out.glob("*.gif")) if out.exists() else []
        last = said.splitlines()[-1]
        if early:
            assert last == "stopped: nothing was written"
            assert not out.exists()
        else:
            assert last.startswith("stopped: what was written is kept: ")
            assert all(str(path) in last for path in written)
            assert all(path.stat().st_size > 0 for path in written)
        assert not list(tmp_path.rglob(".*"))


def test_ctrl_c_while_something_is_imported_ends_with_its_own_exit_code(tmp_path):
    (tmp_path / "pressed.py").write_text('exec("raise KeyboardInterrupt")')
    result = trilith("evaluate", "pressed:Agent", "--task", "covering", "--scenes", 1, cwd=tmp_path)
    assert result.returncode == 130, result


def test_a_demonstration_says_how_an_agent_has_learned():
    told = learned("objects", "objects", 2)
    assert told.startswith("objects: a network that sees objects and learned what each placement is worth from its own play alone, in ")
    assert "minutes of one core a task" in told
    assert learned("objects + search", "objects", 2).startswith("objects + search: the same network, which now tries 2 placements")
    assert learned("planner", "planner", 2) == ""


def cells(lines: str, bar: str) -> dict[str, list[str]]:
    """The rows of tables: first cell, and the others."""
    rows = [[cell.strip(" *") for cell in line.strip().strip(bar).split(bar)] for line in lines.splitlines() if line.startswith(bar)]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.slow
def test_the_most_there_is_to_earn_is_one_figure_on_the_page_of_results_and_in_the_list_and_no_agent_has_more(capsys):
    run("tasks")
    listed = cells(capsys.readouterr().out, "│")
    figures = cells((Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8"), "|")
    [most] = [row for name, row in figures.items() if name.startswith("most there is to earn in the first 1,000")]
    [fewer] = [row for name, row in figures.items() if name.startswith("… and in the first ")]
    assert most == [listed[task][at] for task in TASKS for at in (2, 3)]
    bounds = [max(map(float, column)) for column in zip(most, fewer, strict=True)]
    agents = [row for name, row in figures.items() if name.startswith("`") and len(row) == len(bounds)]
    assert len(agents) > 4
    for row in agents:
        assert all(not cell or float(cell.replace("−", "-")) <= bound for cell, bound in zip(row, bounds, strict=True))


def test_the_figures_of_shipped_agents_are_the_same_on_their_cards_and_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "agents.md").read_text(encoding="utf-8")
    for weights in (ZOO / "objects").glob("*.json"):
        card = json.loads(weights.read_text())
        [section] = [part for part in page.split("\n## ") if part.startswith(TASKS[weights.stem].title + "\n")]
        cost = card["cost"]
        assert f"**{cost['core_minutes']:.0f} core-minutes** ({cost['minutes']:.0f} minutes by the clock)" in section
        assert (f"The weights are those of core-minute {cost['kept']:.0f}" if "seeds" not in card else "Final weights; seed") in section
        assert f"Steps of the simulator: {sum(cost['simulated'].values()):,}, of which {cost['simulated']['made']:,} were made" in section
        for each in card["test"]:
            assert f"| {each['scenes']:,} | **{each['reward']:.2f}** ± {each['interval']:.2f} |" in section


def test_ctrl_c_while_the_command_is_being_loaded_is_quiet(tmp_path):
    program = """
import sys
class Pressed:
    def find_spec(self, name, *_):
        if name == "tyro":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
from trilith.cli import start
start()
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 130
    assert result.stderr == ""


def test_ctrl_c_after_the_last_word_changes_nothing() -> None:
    code = "import atexit, os, signal, sys; sys.argv = ['trilith', 'tasks', '--no-such-option']; from trilith.cli.main import main\n"
    code += "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
