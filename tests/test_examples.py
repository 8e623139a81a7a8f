"""The examples of a task and an agent of one's own, through evaluation and training, in processes that were told but their names."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_task import Tower
from shell import ENVIRONMENT, refused, trilith
from training.tiny import AGENT, CORRECTED, NET

import trilith as package
from trilith.agents.random_agents import LegalAgent
from trilith.evaluation.play import play
from trilith.evaluation.report import write_report
from trilith.evaluation.runner import evaluate
from trilith.planners import Planner, plans
from trilith.planners import registry as builders
from trilith.training import checkpoint
from trilith.training.actor import valid_states
from trilith.training.config import TrainConfig, recipe_config
from trilith.training.curriculum import CurriculumConfig
from trilith.training.run import train
from trilith.utils.files import read_json
from trilith.world.episode import State, start
from trilith.world.scene import BLOCK_HEIGHT, Placement, Role, Scene
from trilith.world.tasks import registry

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
SPEC = "own_task:Tower"


@pytest.mark.parametrize("name", ["own_task.py", "own_agent.py"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 60


def test_own_agents_are_measured_on_an_own_task_whatever_the_workers(tmp_path: Path) -> None:
    for workers in (1, 2):
        options = [f"--task={SPEC}", "--scenes=20", f"--workers={workers}", f"--out={tmp_path / str(workers)}.json"]
        done = trilith("evaluate", "own_agent:Flat", *options, cwd=EXAMPLES)
        assert done.returncode == 0, done.stderr
        notes = [line for line in done.stderr.splitlines() if "no checksum in the package guards the scenes of own_task:Tower" in line]
        assert len(notes) == 1
    one, two = (tmp_path / f"{workers}.json" for workers in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    result = read_json(one)
    assert (result["agent"], result["task"], result["level"], result["episodes"]) == ("own_agent:Flat", SPEC, 2, 20)
    assert result["worst"][0]["start"]["task"] == SPEC
    assert len(result["checksum"]) == 32
    report = write_report(tmp_path, tmp_path / "report").read_text()
    assert "| Tower all | hardest |" in report


def test_results_on_other_scenes_of_an_own_task_do_not_pass_for_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.json"
    first = evaluate("scripted", SPEC, scenes=2, out=out)
    assert first["solved"] == 1  # by the script that the example brings along
    assert evaluate("scripted", SPEC, scenes=2, out=out) == first
    generate = Tower.generate
    monkeypatch.setattr(Tower, "generate", lambda self, rng, level: generate(self, rng, 0))
    with pytest.raises(ValueError, match="holds a result of checksum"):
        evaluate("scripted", SPEC, scenes=2, out=out)


def test_what_an_own_task_lacks_is_told_in_one_line(tmp_path: Path) -> None:
    line = refused(trilith("evaluate", "planner", f"--task={SPEC}", cwd=EXAMPLES))
    assert line.startswith(f"there is no planner for {SPEC}: there is one for ")
    (tmp_path / "bare.py").write_text("from own_task import Tower\nclass Bare(Tower):\n    name = 'bare'\n")
    (tmp_path / "own_task.py").write_text((EXAMPLES / "own_task.py").read_text())
    line = refused(trilith("evaluate", "scripted", "--task=bare:Bare", cwd=tmp_path))
    assert line.startswith("there is no script for bare:Bare: there is one for ")
    assert "silhouette" in line
    assert "objects was not trained for own_task:Tower" in refused(trilith("evaluate", "objects", f"--task={SPEC}", cwd=EXAMPLES))


def test_an_own_builder_is_found_by_the_name_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "_PLANS", dict(builders._PLANS))
    assert not builders.has_planner(SPEC)

    @plans("tower")
    def plan(state: State) -> list[Placement]:
        return [Placement(0, -7.5, 0.36)]

    assert builders.plan_for(SPEC) is plan
    first = start(SPEC, 0, np.random.default_rng(0))
    assert Planner().plan(first) == [Placement(0, -7.5, 0.36)]


def tiny(out: Path, task: str, **options) -> TrainConfig:
    given = {"actors": 1, "steps": 3, "agent": AGENT, **options}
    return TrainConfig(task=task, out=out, episodes=4, evaluate_every=100, evaluate_scenes=2, **given)


def test_an_agent_is_trained_on_an_own_task_and_then_measured(tmp_path: Path) -> None:
    result = train(tiny(tmp_path / "run", SPEC), screen=False)
    assert {"hardest", "all"} <= result.keys()
    assert evaluate(str(tmp_path / "run"), SPEC, scenes=20, workers=2)["episodes"] == 20
    train(tiny(tmp_path / "run", SPEC, steps=5), screen=False)  # the same command goes on
    with pytest.raises(ValueError, match="was not trained for covering"):
        evaluate(str(tmp_path / "run"), "covering", scenes=2)


def test_a_planner_that_there_is_not_cannot_correct_and_that_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"there is no planner for {SPEC}") as error:
        train(tiny(tmp_path / "run", SPEC, agent=CORRECTED, actors=0), screen=False)
    assert "\n" not in str(error.value)


class Endless(Tower):
    """Build as high as you can, and nobody knows how high that is."""

    name, title = "endless", "Endless"

    def score(self, scene: Scene) -> float:
        return float((scene.pose[scene.rows(Role.BLOCK), 1] + BLOCK_HEIGHT / 2).max(initial=0.0))

    def best(self, scene: Scene) -> float:
        raise AssertionError("nobody knows the most there is to earn")

    def complete(self, scene: Scene, score: float) -> bool:
        return False


def test_objects_learns_an_own_task_without_a_planner_or_a_known_maximum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred updates of the recipe, with a network and a batch so small that they take seconds."""
    monkeypatch.setattr(registry, "_OWN", {})
    package.register(Endless)
    assert not builders.has_planner("endless")
    config = recipe_config("objects", "endless")
    small = {"net": replace(NET, clock=True), "batch": 8, "learning_starts": 50, "replay_mb": 5.0, "warmup": 20}
    agent = replace(config.agent, **small, updates_per_step=1.0, learning_rate=2e-3, tau=0.05)
    short = {"actors": 0, "episodes": 4, "evaluate_every": 300, "evaluate_scenes": 20, "steps": 300}
    result = train(replace(config, out=tmp_path, agent=agent, curriculum=CurriculumConfig(50), **short), screen=False)
    _, facts = checkpoint.load(tmp_path / checkpoint.NAME)
    assert facts.learner["steps"] == 300
    assert facts.simulated.counterfactual > facts.simulated.made > 0
    assert np.isfinite(list(facts.figures.values())).all()
    chance = [end.total for _, end in play(LegalAgent(), valid_states("endless", "all", 20), [np.random.default_rng(k) for k in range(20)])]
    assert result["all"] > np.mean(chance) + 0.5


def test_a_task_registered_in_this_process_only_works_here_and_is_refused_in_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_OWN", {})
    package.register(Tower)
    assert evaluate("legal", "tower", scenes=2)["task"] == "tower"
    line = "there is no task 'tower': choose silhouette, .*, or one of your own as my_module:MyTask, which every process finds"
    with pytest.raises(ValueError, match=line):
        evaluate("legal", "tower", scenes=20, workers=2)
    with pytest.raises(ValueError, match=rf"actor 0 \(process \d+\) cannot start: {line}"):
        train(tiny(tmp_path / "run", "tower"), screen=False)


@pytest.mark.parametrize(
    ("library", "arguments", "said"),
    [
        ("sb3_contrib", ["sb3_maskable_ppo.py", "1024", "3"], ["after 0 steps: mean reward", "after 1024 steps: mean reward"]),
        (
            "optuna",
            ["optuna_search.py", "2", "8"],
            ["trial 0, 2 learner", "trial 0, 8 learner", "trial 1, 2 learner", "best of 2"],
        ),
    ],
)
def test_an_example_for_another_library_runs_in_a_short_form(tmp_path: Path, library: str, arguments: list[str], said: list[str]) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    line = [sys.executable, str(EXAMPLES / arguments[0]), *arguments[1:]]
    done = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    places = [done.stdout.index(each) for each in said]
    assert places == sorted(places)
    if library == "sb3_contrib":
        assert [row.split(",")[0] for row in (tmp_path / "sb3_maskable_ppo_3.csv").read_text().splitlines()] == ["steps", "0", "1024"]
    else:
        assert len(list(tmp_path.glob("runs/optuna/trial*/best.safetensors"))) == 2
