"""A run can be interrupted, killed and resumed, and says in one line what is wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from errno import ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
import pytest
from training.tiny import AGENT, CORRECTED, NET, ONLINE, never_told_the_most

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dynamics.config import OnlineConfig
from trilith.agents.registry import load
from trilith.agents.weights import load_policy, weights_file
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.config import NetConfig
from trilith.search.config import SearchConfig
from trilith.training import checkpoint
from trilith.training.actor import CorrectRequest, PlayRequest, Request, Result, Simulated, ValidateRequest, collect
from trilith.training.actor_pool import Inline
from trilith.training.config import TrainConfig, recipe_config, run_config
from trilith.training.curriculum import CurriculumConfig
from trilith.training.run import Run, resume, train
from trilith.utils.config import to_json
from trilith.utils.files import folder_lock, read_json, sealed, write_json
from trilith.utils.tensors import save_tensors

pytestmark = pytest.mark.slow

SEARCHING = replace(AGENT, search=SearchConfig(3))


def tiny(out: Path, agent: DQNConfig = AGENT, **options: Any) -> TrainConfig:
    given: dict[str, Any] = {"actors": 0, "curriculum": CurriculumConfig(10), "evaluate_scenes": 2, **options}
    return TrainConfig(out=out, episodes=4, evaluate_every=5, agent=agent, **given)


def loaded(path: Path) -> Any:
    return load_policy(weights_file(path))[0]


def learnt(out: Path) -> int:
    """Learner steps of the last checkpoint."""
    return int(checkpoint.load(out / checkpoint.NAME)[1].learner["steps"])


def saved(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, found = checkpoint.load(out / checkpoint.NAME)
    facts = asdict(found)
    for mine in ("seconds", "core_seconds", "validated", "best", "last_valid"):  # when it was evaluated; nothing of learning depends on it
        del facts[mine]
    return arrays, facts


def go_on(out: Path, screen: bool = False, **changes: Any) -> None:
    resume(replace(run_config(out), **changes), screen)


def timeless(lines: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Lines of a log by their steps, without how long it took."""
    return {line["step"]: {**line, "minutes": 0, "core_minutes": 0} for line in lines}


def log(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


PIXELS = replace(CORRECTED, net=replace(NET, network="pixel-attention"))
AGENTS = {"plain": AGENT, "searching": SEARCHING, "corrected": CORRECTED, "online": ONLINE, "pixels": PIXELS}
QUICKLY_PLANNED = "connecting"
"""A task in which the planner is quick."""


@pytest.mark.parametrize("name", AGENTS)
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path, name: str) -> None:
    agent = AGENTS[name]
    corrected = agent.corrections_per_update > 0
    task = QUICKLY_PLANNED if corrected else "covering_hard"
    train(tiny(tmp_path / "whole", agent, steps=24, task=task), screen=False)
    train(tiny(tmp_path / "parts", agent, steps=7, task=task), screen=False)
    go_on(tmp_path / "parts", steps=13)
    go_on(tmp_path / "parts", steps=24)
    (arrays, facts), (arrays2, facts2) = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    assert facts == facts2
    assert facts["learner"]["steps"] == 24
    assert arrays.keys() == arrays2.keys()
    for each, array in arrays.items():
        assert array.tobytes() == arrays2[each].tobytes(), each
    for out in (tmp_path / "whole", tmp_path / "parts"):
        valid = [line["step"] for line in log(out, "valid")]
        assert valid == sorted(set(valid))
        assert valid[-1] == 24
        assert loaded(out).config.discount == AGENT.discount
    # Evaluations at the same steps are the same, whatever others there were at the ends of the parts.
    whole, parts = (timeless(log(tmp_path / each, "valid")) for each in ("whole", "parts"))
    assert list(parts) == [5, 7, 10, 13, 15, 20, 24]
    assert {step: parts[step] for step in whole} == whole
    assert facts["corrections"] == (16 if corrected else 0)  # one for two learner steps, eight at once
    assert (facts["simulated"]["corrections"] > 0) == corrected
    assert facts["simulated"]["made"] == facts["actor_steps"]
    assert facts["simulated"]["counterfactual"] <= 2 * facts["actor_steps"]
    assert (facts["simulated"]["counterfactual"] > 1.5 * facts["actor_steps"]) == (agent not in (SEARCHING, ONLINE))
    assert not corrected or arrays["corrected.ring"].size > 0


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    train(tiny(tmp_path / "a", steps=3), screen=False)
    train(tiny(tmp_path / "b", steps=3, seed=1), screen=False)
    assert saved(tmp_path / "a")[1] != saved(tmp_path / "b")[1]


def test_the_ratio_of_learner_to_actor_steps_holds(tmp_path: Path) -> None:
    config = tiny(tmp_path, steps=40)
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    run.go(screen=False)
    longest = config.episodes * 7
    assert (
        AGENT.learning_starts + 40 / AGENT.updates_per_step
        <= run.facts.actor_steps
        <= AGENT.learning_starts + 41 / AGENT.updates_per_step + longest
    )


def test_random_first_steps_say_nothing_of_the_length_of_episodes(tmp_path: Path) -> None:
    config = tiny(
        tmp_path, replace(recipe_config("gn-dqn").agent, net=NetConfig(network="graph", width=4, recurrent=1), learning_starts=200), steps=1
    )
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    learner: Any = run.learner
    before = list(learner.lengths)
    for warm_up in (True, False):
        request = run._next_request(True)
        assert isinstance(request, PlayRequest)
        assert request.exploration.warm_up == warm_up
        assert request.exploration.epsilon == (1 if warm_up else config.agent.epsilon)
        run._take(collect(learner.policy, config.task, request), None)  # type: ignore[arg-type]
        assert run.facts.actor_steps > 0
        assert (learner.lengths == before) == warm_up
        learner.replay.added = 200


def test_corrections_are_requested_as_learning_goes_on_and_episodes_otherwise(tmp_path: Path) -> None:
    run = Run(tiny(tmp_path, replace(CORRECTED, corrections_per_update=0.5)))
    learner: Any = run.learner
    assert run._next_request(wanted=False) is None
    assert isinstance(run._next_request(wanted=True), PlayRequest)
    learner.steps = 1
    request = run._next_request(wanted=True)
    assert isinstance(request, CorrectRequest)
    assert request.episodes == 8
    assert request.levels == run.curriculum.final() != run.curriculum.levels(1), "of all levels from the beginning"
    for steps in (1, 16):  # eight are enough for sixteen learner steps
        learner.steps = steps
        run.facts.validated = steps
        assert run._next_request(wanted=False) is None
        assert isinstance(run._next_request(wanted=True), PlayRequest)
    learner.steps = run.facts.validated = 17
    assert isinstance(run._next_request(wanted=False), CorrectRequest)
    assert (run.corrections, run.facts.corrections) == (16, 0)
    run._take(Result(request, [], {}, simulated=Simulated(corrections=5), cpu_seconds=0.25), None)  # type: ignore[arg-type]
    assert (run.facts.corrections, run.facts.simulated, run.facts.core_seconds) == (8, Simulated(0, 0, 5), 0.25)
    assert run.facts.actor_steps == 0, "corrections are no steps of actors"


def test_corrections_that_were_on_their_way_are_requested_anew(tmp_path: Path) -> None:
    """A checkpoint counts those that were answered."""
    train(tiny(tmp_path, CORRECTED, steps=1, task=QUICKLY_PLANNED), screen=False)
    run = Run(run_config(tmp_path))
    run.load()
    before = run.facts.corrections
    assert run.corrections == before
    learner: Any = run.learner
    learner.steps = run.facts.validated = 100
    assert isinstance(run._next_request(wanted=False), CorrectRequest)
    run._save(Quiet())  # type: ignore[arg-type]
    again = Run(run_config(tmp_path))
    again.load()
    assert again.corrections == before


class Quiet:
    """A log that nobody reads."""

    def say(self, line: str) -> None:
        raise AssertionError(line)


PROGRAM = """
import sys
from pathlib import Path
from training.test_run import tiny
from dataclasses import asdict, replace
from trilith.training.run import train
if __name__ == "__main__":
    train(replace(tiny(Path(sys.argv[1])), actors=1, checkpoint_seconds=0.2, log_seconds=0.2))
"""


def test_a_killed_run_goes_on_and_ctrl_c_saves(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out = tmp_path / "run"
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = subprocess.Popen([sys.executable, str(program), str(out)], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)
    while process.poll() is None and not ((out / checkpoint.NAME).exists() and learnt(out) > 3):
        time.sleep(0.1)
    process.kill()
    process.wait()
    step = learnt(out)
    assert step > 3

    def interrupt() -> None:
        before = len(log(out, "train"))
        while len(log(out, "train")) < before + 3:  # by then the run is under way again
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        go_on(out, actors=0, minutes=30)  # far longer than until the interrupt
    thread.join()
    assert learnt(out) > step
    steps = [line["step"] for line in log(out, "train")]
    assert steps == sorted(steps)


def test_what_does_not_go_together_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the world online is learned for a search: choose a budget"):
        Run(tiny(tmp_path / "a", replace(ONLINE, search=SearchConfig(world="online"))))
    with pytest.raises(ValueError, match=r"the planner shows relative actions: for absolute ones choose --agent.corrections-per-update 0"):
        Run(tiny(tmp_path / "b", replace(CORRECTED, actions="absolute", mask="edges")))
    with pytest.raises(ValueError, match="evaluate_scenes 1001: there are 1000"):
        Run(replace(tiny(tmp_path / "c"), evaluate_scenes=1001))
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    def refused(what: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(ValueError, match=what) as error:
            go_on(*arguments, **options)
        assert "\n" not in str(error.value)

    refused("cannot read", tmp_path / "nowhere")
    train(tiny(tmp_path / "run", steps=1), screen=False)
    with pytest.raises(ValueError, match="holds another run, with seed 0"):
        train(tiny(tmp_path / "run", steps=1, seed=1), screen=False)
    with pytest.raises(ValueError, match=r"holds another run, with agent.model.batch 64"):  # the agent's own is the same
        train(tiny(tmp_path / "run", replace(AGENT, model=OnlineConfig(batch=7)), steps=1), screen=False)
    path = tmp_path / "run" / checkpoint.NAME
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused("cannot be read", tmp_path / "run")
    path.write_bytes(b"")
    refused("cannot be read", tmp_path / "run")
    path.unlink()
    refused("nothing to resume", tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        train(tiny(tmp_path / "file" / "run", steps=1), screen=False)
    with pytest.raises(ValueError, match="choose objects, gn-dqn"):
        recipe_config("slow")


def test_a_folder_that_vanishes_ends_the_run_with_a_message(tmp_path: Path) -> None:
    config = tiny(tmp_path / "run", log_seconds=0.2, checkpoint_seconds=0.5)
    write_json(config.out / "config.json", to_json(config))

    def vanish() -> None:
        while not (config.out / "log.jsonl").exists():  # the run is under way
            time.sleep(0.05)
        (config.out / "config.json").unlink()
        while config.out.exists():  # a file may be written while others are removed
            shutil.rmtree(config.out, ignore_errors=True)

    threading.Thread(target=vanish).start()
    with pytest.raises(ValueError, match="cannot write to"):
        Run(config).go(screen=False)


def test_the_same_command_goes_on_with_its_run(tmp_path: Path) -> None:
    train(tiny(tmp_path / "whole", steps=12), screen=False)
    train(tiny(tmp_path / "parts", steps=7), screen=False)
    train(tiny(tmp_path / "parts", steps=12), screen=False)
    assert saved(tmp_path / "parts")[1] == saved(tmp_path / "whole")[1]
    (tmp_path / "parts" / checkpoint.NAME).unlink()  # killed before its first
    train(tiny(tmp_path / "parts", steps=12), screen=False)
    assert saved(tmp_path / "parts")[1] == saved(tmp_path / "whole")[1]
    assert [line["step"] for line in log(tmp_path / "parts", "valid")] == [5, 10, 12]


def test_the_best_weights_are_those_that_were_evaluated(tmp_path: Path) -> None:
    """Learning goes on while they are, and after it."""
    run = Run(tiny(tmp_path, steps=9))
    write_json(tmp_path / "config.json", to_json(run.config))
    played: list[Any] = []
    send = Inline.send

    def spy(self: Inline, request: Request, weights: Any) -> None:
        if isinstance(request, ValidateRequest) and request.step == 5:
            played.append(weights)
        send(self, request, weights)

    def equal(one: dict[str, Any], two: dict[str, Any]) -> bool:
        return all(np.array_equal(one[name], two[name]) for name in one.keys() | two.keys())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inline, "send", spy)
        patch.setattr(run.facts, "best", -100.0)
        patch.setattr(Run, "_finish", lambda *_: None)
        run.go(screen=False)
    [weights] = played
    assert equal(weights, loaded(tmp_path / "best.safetensors").weights())
    assert json.loads((tmp_path / "best.json").read_text())["learner_steps"] == 5
    assert not equal(weights, loaded(tmp_path / "last.safetensors").weights())


@pytest.mark.parametrize("name", ["corrected", "online", pytest.param("pixels", marks=pytest.mark.longest)])
def test_a_run_killed_after_any_checkpoint_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A checkpoint after every round of the loop, one of them taken up again: also in the midst of an evaluation."""
    agent = AGENTS[name]
    task = QUICKLY_PLANNED if agent.corrections_per_update else "covering_hard"
    validated = Run._validated

    def worse(self: Run, due: int, steps: int, weights: Any, means: dict[str, float], log: Any) -> None:
        validated(self, due, steps, weights, {**means, "hardest": -float(due)}, log)  # so the first weights stay the best

    monkeypatch.setattr(Run, "_validated", worse)
    train(tiny(tmp_path / "whole", agent, steps=14, task=task), screen=False)
    kept: list[Path] = []
    save = Run._save

    def copied(self: Run, log: Any) -> None:
        save(self, log)
        if self.config.out.name == "parts":
            kept.append(Path(shutil.copytree(self.config.out, tmp_path / f"{len(kept):02d}-{self.learner.steps}")))

    monkeypatch.setattr(Run, "_save", copied)
    train(tiny(tmp_path / "parts", agent, steps=12, task=task, checkpoint_seconds=0.0), screen=False)
    at_five = [out for out in kept if out.name.endswith(("-5", "-6"))]
    assert len(at_five) >= 2
    for out in at_five:
        shutil.copy(tmp_path / "parts" / "log.jsonl", out)  # what it wrote before it was killed, later than the checkpoint
        go_on(out, steps=14)
        assert saved(out)[1] == saved(tmp_path / "whole")[1]
        valid, whole = (timeless(log(each, "valid")) for each in (out, tmp_path / "whole"))
        assert valid == whole
        for kept_as in ("best", "last"):
            resumed, undisturbed = (each / f"{kept_as}.safetensors" for each in (out, tmp_path / "whole"))
            assert resumed.read_bytes() == undisturbed.read_bytes(), kept_as
            assert read_json(resumed.with_suffix(".json"))["learner_steps"] == read_json(undisturbed.with_suffix(".json"))["learner_steps"]


def test_a_network_that_diverged_ends_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=3), screen=False)
    before = (tmp_path / checkpoint.NAME).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trilith.agents.dqn.learner.F.huber_loss", lambda taken, *_, **__: taken.sum() * np.nan)
        with pytest.raises(ValueError, match="the loss is nan at learner step 3"):
            go_on(tmp_path, steps=6)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before


@pytest.mark.parametrize("actors", [0, 1])
def test_a_model_is_learned_beside_an_agent_whose_actors_search_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actors: int) -> None:
    played: list[tuple[PlayRequest, Any, int]] = []
    send = Run._send

    def spy(self: Run, to: Any, request: Request) -> None:
        send(self, to, request)
        if isinstance(request, PlayRequest):
            learner: Any = self.learner
            played.append((request, self._weights[1], learner.model.learner.steps))

    monkeypatch.setattr(Run, "_send", spy)
    train(tiny(tmp_path, ONLINE, steps=24, actors=actors, log_seconds=0.0), screen=False)
    # Until it has learned enough nobody searches in it; from then on, whoever plays has what it is by then.
    assert {model_steps >= 9 for _, _, model_steps in played} == {False, True}
    assert all(request.exploration.search == (model_steps >= 9) for request, _, model_steps in played)
    first, last = ({name for name in weights if name.startswith("world.")} for _, weights, _ in (played[0], played[-1]))
    assert first == last
    assert first
    assert not any(np.array_equal(played[0][1][name], played[-1][1][name]) for name in first if name.endswith("weight"))
    # At every learner step at first, then at every second one.
    assert checkpoint.load(tmp_path / checkpoint.NAME)[1].learner["model"]["steps"] == 9 + (24 - 9) // 2 + 1
    line = log(tmp_path, "train")[-1]
    assert all(
        np.isfinite(line[f"model_{name}"]) for name in ("loss", "pose", "end", "brier", "brier_constant", "reward_error", "reward_variance")
    )
    # What is kept: an agent that needs no model, and a model that any agent can search in.
    assert not any(name.startswith("world.") for name in loaded(tmp_path).weights())
    states = [start_in_set("covering_hard", "hardest", "valid", k) for k in range(2)]
    searching = load(str(tmp_path), SearchConfig(3, world=str(tmp_path)))
    assert len(searching.act(states, [np.random.default_rng(k) for k in range(2)])) == 2
    assert json.loads((tmp_path / "model.json").read_text())["steps"] >= 9
    with pytest.raises(ValueError, match="the world online is learned in a training: here name the folder of such a run"):
        load(str(tmp_path), SearchConfig(3, world="online"))


@pytest.mark.longest
def test_how_good_the_model_of_a_run_is_can_be_plotted(tmp_path: Path) -> None:
    from trilith.training.plot import model_curve, plot

    earning = {"task": "connecting"}  # where rewards differ, even by chance
    train(tiny(tmp_path / "a", replace(ONLINE, updates_per_step=0.05), steps=40, log_seconds=0.0, **earning), screen=False)
    train(tiny(tmp_path / "b", steps=5), screen=False)
    found = model_curve(tmp_path / "a", "step")
    last = log(tmp_path / "a", "train")[-1]
    assert found["end"][-1] == (last["step"], last["model_brier"] / last["model_brier_constant"])
    assert found["reward"][-1] == (last["step"], last["model_reward_error"] / last["model_reward_variance"])
    assert model_curve(tmp_path / "b") == {"end": [], "reward": []}
    plot([tmp_path / "a", tmp_path / "b"], tmp_path / "three.png")
    plot([tmp_path / "b"], tmp_path / "two.png")
    three, two = (plt.imread(tmp_path / f"{name}.png").shape[1] for name in ("three", "two"))
    assert three > 1.4 * two


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    with folder_lock(tmp_path), pytest.raises(ValueError, match="another process is at work in"):
        go_on(tmp_path, steps=2)
    go_on(tmp_path, steps=2)
    assert learnt(tmp_path) == 2


def test_a_full_disk_is_told_and_the_old_checkpoint_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny(tmp_path, steps=2), screen=False)
    before = (tmp_path / checkpoint.NAME).read_bytes()

    write = Path.write_bytes

    def full(path: Path, data: Any) -> int:
        if path.suffix != ".safetensors":
            return write(path, data)
        write(path, data[: len(data) // 2])
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    capsys.readouterr()
    go_on(tmp_path, steps=12, screen=True)
    assert not list(tmp_path.glob(".*.part*"))
    assert (tmp_path / checkpoint.NAME).read_bytes() == before
    assert log(tmp_path, "valid")[-1]["step"] == 12
    told = capsys.readouterr().err.replace("\n", "")
    assert all(f"cannot write {tmp_path / name}: No space left" in told for name in (checkpoint.NAME, "last.safetensors"))


@pytest.mark.skipif(os.name != "posix", reason="the command that is offered is a shell's")
def test_the_checkpoint_before_the_last_is_kept_and_offered(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    train(tiny(out, steps=3), screen=False)
    go_on(out, steps=6)
    last, previous = out / checkpoint.NAME, out / checkpoint.PREVIOUS
    whole = last.read_bytes()
    damaged = bytearray(whole)
    damaged[-1000] ^= 1
    last.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged") as error:
        go_on(out, steps=9)
    told = str(error.value)
    assert "\n" not in told
    assert str(last) in told
    command = told.split("`")[1]
    subprocess.run(command, shell=True, check=True)  # as it is told, the name of the folder has a space
    assert not previous.exists()
    go_on(out, steps=9)
    assert learnt(out) == 9
    assert checkpoint.load(previous)[1].learner["steps"] >= 3

    for path in (last, previous):  # nothing is offered that is not whole
        path.write_bytes(damaged[:-7])
    with pytest.raises(ValueError, match="cannot be read") as error:
        go_on(out, steps=10)
    assert "mv" not in str(error.value)


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that changes the folder is, once, the last that is made."""
    train(tiny(tmp_path / "run", steps=2), screen=False)
    arrays, facts = checkpoint.load(tmp_path / "run" / checkpoint.NAME)
    path = tmp_path / "run" / checkpoint.NAME
    count = 0

    class Killed(BaseException):
        pass

    def dying(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count -= 1
            if count < 0:
                raise Killed
            return function(*arguments, **options)

        return call

    for name in ("link", "replace", "fsync"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    monkeypatch.setattr(Path, "write_bytes", dying(Path.write_bytes))
    monkeypatch.setattr(Path, "unlink", dying(Path.unlink))
    for moment in range(20):
        count = moment
        try:
            checkpoint.save(path, arrays, facts)
            break
        except Killed:
            count = 1000
            assert checkpoint.load(path)[1] == facts
    assert moment > 6
    assert checkpoint.load(path.with_name(checkpoint.PREVIOUS))[1] == facts


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nothing is cleared")
def test_what_a_killed_writer_left_is_cleared_when_the_run_goes_on(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    process = subprocess.Popen(["true"])
    process.wait()
    left = tmp_path / f".best.{process.pid}.part.safetensors"
    left.write_bytes(b"half")
    lives = tmp_path / f".other.{os.getppid()}.part.json"
    lives.write_bytes(b"under way")
    go_on(tmp_path, steps=2)
    assert not left.exists()
    assert lives.exists()


def test_best_weights_without_their_card_are_written_anew(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=5), screen=False)
    card = tmp_path / "best.json"
    facts = read_json(card)
    write_json(card, sealed(facts | {"weights": "0" * len(facts["weights"])}))
    with pytest.raises(ValueError, match="not a pair"):
        loaded(tmp_path)
    run = Run(run_config(tmp_path))
    run.load()
    assert run.facts.best is None
    go_on(tmp_path, steps=10)
    assert loaded(tmp_path)


def test_if_actors_cannot_start_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilith.utils.distributed import process_pool

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    start, started = process_pool.start_ignoring_sigint, []

    def second_fails(process: Any) -> None:
        if started:
            raise OSError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process)

    monkeypatch.setattr(process_pool, "start_ignoring_sigint", second_fails)
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        train(tiny(tmp_path, actors=2, steps=1), screen=False)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert not started[0].is_alive()


def test_the_last_checkpoint_is_as_it_was_only_if_it_is(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    run = Run(run_config(tmp_path))
    assert run._left() == "the last checkpoint is as it was"
    (tmp_path / checkpoint.NAME).write_bytes(b"somebody else's")
    assert "not of this process" in run._left()
    (tmp_path / checkpoint.NAME).unlink()
    assert run._left() == "there is no checkpoint"


def test_what_a_run_has_taken_is_kept_and_told(tmp_path: Path) -> None:
    """Processor time, and steps of the simulator by what they were for: in the checkpoint, in the log, and on the card of the weights."""
    train(tiny(tmp_path, CORRECTED, steps=12, task=QUICKLY_PLANNED, log_seconds=0.0), screen=False)
    run = Run(run_config(tmp_path))
    run.load()
    assert run.facts.corrections == run.corrections > 0
    assert run.facts.core_seconds > 0
    assert run.facts.simulated.made == run.facts.actor_steps > 0
    assert run.facts.actor_steps < run.facts.simulated.counterfactual <= 2 * run.facts.actor_steps
    assert run.facts.simulated.corrections > 0
    told = [run._spent(), json.loads((tmp_path / "last.json").read_text())["spent"], log(tmp_path, "valid")[-1], log(tmp_path, "train")[-1]]
    names = {"minutes", "core_minutes", "actor_steps", "simulator_steps"} | {f"simulated_{name}" for name in asdict(Simulated())}
    assert all(names <= each.keys() for each in told)
    assert told[0].keys() == told[1].keys() == names
    for line in told[1:3]:
        assert line["simulator_steps"] == run.facts.simulated.total
        assert {name: line[name] for name in names if name.startswith("simulated")} == {
            f"simulated_{name}": count for name, count in asdict(run.facts.simulated).items()
        }
    minutes = [line["core_minutes"] for line in log(tmp_path, "train")]
    assert minutes == sorted(minutes)
    assert minutes[-1] * 60 == pytest.approx(run.facts.core_seconds, abs=1.0)


def test_a_run_stops_after_its_core_minutes_and_goes_on_with_more(tmp_path: Path) -> None:
    def spent() -> float:
        return float(checkpoint.load(tmp_path / checkpoint.NAME)[1].core_seconds)

    train(tiny(tmp_path, core_minutes=0.5 / 60), screen=False)
    first, steps = spent(), learnt(tmp_path)
    assert 0.5 <= first < 5
    assert steps > 0
    assert run_config(tmp_path).core_minutes == 0.5 / 60
    go_on(tmp_path)  # what there was has been used up
    assert learnt(tmp_path) == steps
    assert spent() == pytest.approx(first, abs=0.1)
    go_on(tmp_path, core_minutes=(first + 0.5) / 60)
    assert learnt(tmp_path) > steps
    assert first + 0.5 <= spent() < first + 5


def test_core_minutes_are_those_of_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time of actor processes too, which each result tells."""
    told: list[float] = []
    take = Run._take

    def spy(self: Run, result: Result, log: Any) -> None:
        told.append(result.cpu_seconds)
        take(self, result, log)

    monkeypatch.setattr(Run, "_take", spy)
    began = time.process_time()
    config = tiny(tmp_path, steps=20, actors=1, evaluate_scenes=0)
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    run.go(screen=False)
    assert all(seconds > 0 for seconds in told)
    assert sum(told) < run.facts.core_seconds <= sum(told) + time.process_time() - began + 0.01


FACTS = [
    ("format", 7, "of format 7, this version of trilith knows 2"),
    ("format", 1, "of format 1, this version of trilith knows 2"),
    ("requests", "x", "requests: Expected int"),
    ("requests", -1, "requests"),
    ("seconds", None, "seconds"),
    ("core_seconds", -1.0, "core_seconds"),
    ("corrections", "x", "corrections: Expected int"),
    ("simulated", {"made": -1}, "simulated"),
    ("simulated", {"dreamt": 3}, "has no field 'dreamt'"),
    ("rng", 7, "rng: Expected object"),
    ("learner", [], "learner: Expected object"),
    ("recent", 3, "recent"),
    ("figures", {"loss": "low"}, "figures"),
]


def test_facts_that_cannot_be_are_refused_by_name(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    path = tmp_path / checkpoint.NAME
    arrays, facts = checkpoint.load(path)
    for name, value, told in FACTS:
        checkpoint.save(path, arrays, replace(facts, **{name: value}))
        (tmp_path / checkpoint.PREVIOUS).unlink()  # which would be offered
        with pytest.raises(ValueError, match=f"is not the checkpoint of a run: .*{told}"):
            checkpoint.load(path)
    data = asdict(facts)
    del data["requests"]
    save_tensors(path, arrays, {"facts": json.dumps(data)})
    with pytest.raises(ValueError, match="is not the checkpoint of a run: there is no requests"):
        go_on(tmp_path, steps=2)


@pytest.mark.parametrize("rng", [{}, {"bit_generator": "MT19937"}, {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}}])
def test_a_generator_of_another_kind_is_refused(tmp_path: Path, rng: dict[str, Any]) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    path = tmp_path / checkpoint.NAME
    arrays, facts = checkpoint.load(path)
    checkpoint.save(path, arrays, replace(facts, rng=rng))
    with pytest.raises(ValueError, match=r"the checkpoint .* (is of another run|lacks)") as error:
        go_on(tmp_path, steps=2)
    assert "\n" not in str(error.value)


OBJECTS = {"net": NET, "batch": 8, "updates_per_step": 0.5, "learning_starts": 20, "replay_mb": 1.0}
"""What makes the recipe `objects` quick, and leaves all that it does as it is."""


@pytest.mark.parametrize("task", ["silhouette", "connecting", "covering", "covering_hard"])
def test_objects_learns_without_being_told_the_most_there_is_to_earn(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run of the recipe: by chance, by value, and validated."""
    config = recipe_config("objects", task)
    agent = replace(config.agent, **{**OBJECTS, "net": replace(NET, clock=True)})
    assert agent.corrections_per_update == 0, "nobody shows it anything"
    assert agent.counterfactual_actions > 0
    assert agent.lookahead > 0
    never_told_the_most(monkeypatch)
    given = {"actors": 0, "episodes": 4, "evaluate_every": 5, "evaluate_scenes": 2, "steps": 12}
    train(replace(config, out=tmp_path, agent=agent, curriculum=CurriculumConfig(10), **given), screen=False)
    facts = saved(tmp_path)[1]
    assert facts["learner"]["steps"] == 12
    made, beside, corrections = (facts["simulated"][name] for name in ("made", "counterfactual", "corrections"))
    assert beside > made > 0
    assert corrections == facts["corrections"] == 0


@pytest.mark.longest
def test_every_ablation_of_objects_trains(tmp_path: Path) -> None:
    base = replace(CORRECTED, counterfactual_actions=4)
    ablations: list[dict[str, Any]] = [
        {"counterfactual_actions": 0},
        {"counterfactual_actions": 1},
        {"lookahead": 0.0, "lower_bounds": False},
        {"lookahead": 1.0},
        {"outcome_weight": 0.0, "margin_weight": 0.0},
        {"correction_share": 1.0},
        {"n_step": 3, "double": False, "mirror": False},
        {"net": replace(NET, clock=True), "mask": "edges"},
        {"net": NetConfig("graph", width=8, recurrent=1), "actions": "absolute", "mask": "edges", "corrections_per_update": 0.0},
    ]
    for i, options in enumerate(ablations):
        train(tiny(tmp_path / str(i), replace(base, **options), steps=6, evaluate_scenes=0, task=QUICKLY_PLANNED), screen=False)
        arrays, facts = saved(tmp_path / str(i))
        assert facts["learner"]["steps"] == 6
        assert np.isfinite(facts["figures"]["loss"])
        assert (arrays["corrected.added"] > 0) == (options.get("corrections_per_update") != 0), "something was shown"
        assert ("reward_loss" in facts["figures"]) == (options.get("net", NET).network == "objects")
        assert all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("net."))


def test_every_ablation_of_the_paper_trains(tmp_path: Path) -> None:
    paper = recipe_config("gn-dqn").agent
    graph = replace(paper.net, width=8)
    short = replace(paper, net=graph, learning_starts=5, batch=4, tau=0.005)
    ablations = [
        short,
        replace(short, mask="edges", net=replace(graph, connectivity="sparse")),
        replace(short, actions="absolute"),
        replace(short, actions="relative_xy", offsets=5, mask="legal"),
        replace(short, offsets=7, net=replace(graph, recurrent=1), n_step=3, double=False, tau=0.0, target_period=2),
    ]
    for i, agent in enumerate(ablations):
        config = TrainConfig(out=tmp_path / str(i), recipe="gn-dqn", actors=0, episodes=4, evaluate_scenes=1, steps=4, agent=agent)
        train(config, screen=False)
        arrays, facts = checkpoint.load(config.out / checkpoint.NAME)
        assert facts.learner["steps"] == 4
        assert np.isfinite(facts.figures["loss"])
        assert all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("net."))
        copied = all(np.array_equal(array, arrays["target." + name[4:]]) for name, array in arrays.items() if name.startswith("net."))
        assert copied == (not agent.tau)  # two steps ago and now


def test_several_seeds_are_several_runs_and_can_be_plotted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    from trilith.training.plot import curve, plot

    train(tiny(tmp_path / "runs", steps=6, seeds=2), screen=False)
    runs = [tmp_path / "runs" / f"seed{seed}" for seed in (0, 1)]
    assert all(loaded(run) for run in runs)
    with pytest.raises(ValueError, match=f"several seeds: choose one, such as {runs[0]}"):
        loaded(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    for across in ("core_minutes", "minutes", "step", "actor_steps", "simulator_steps"):
        plot([runs[0], Path("runs/seed1")], tmp_path / "curves.png", across)  # type: ignore[arg-type]
        assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
        assert [x for x, _ in curve(runs[0], across)["all"]] == [line[across] for line in log(runs[0], "valid")]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a run"):
        plot([tmp_path], tmp_path / "curves.png")
    with patch("trilith.training.plot.Figure.savefig", autospec=True, side_effect=Figure.savefig) as drawn:
        plot([tmp_path / "runs"], tmp_path / "curves.png")
        plot([tmp_path / "runs", runs[0]], tmp_path / "curves.png")
    alone, beside = ([axis.get_legend_handles_labels()[1] for axis in call.args[0].axes] for call in drawn.call_args_list)
    assert alone == [["runs, 2 seeds"]] * 2
    assert beside == [["runs, 2 seeds", "runs/seed0"]] * 2
    hardest = drawn.call_args_list[0].args[0].axes[0]
    ends = [curve(run)["hardest"][-1] for run in runs]
    assert hardest.lines[0].get_xydata()[-1].tolist() == pytest.approx(np.mean(ends, axis=0).tolist())  # the median of two
    shade = hardest.collections[0].get_paths()[0].vertices[:, 1]
    rewards = [y for seed in runs for _, y in curve(seed)["hardest"]]
    assert (shade.min(), shade.max()) == (min(rewards), max(rewards))


def test_runs_of_two_tasks_are_plotted_in_rows_of_their_own(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from trilith.training.plot import plot

    for task in ("silhouette", "covering_hard"):
        train(replace(tiny(tmp_path / task, steps=2), task=task), screen=False)
    with patch("trilith.training.plot.Figure.savefig", autospec=True, side_effect=Figure.savefig) as drawn:
        plot([tmp_path / "silhouette", tmp_path / "covering_hard"], tmp_path / "curves.png")
    titles = [axis.get_title().split(",")[0] for axis in drawn.call_args.args[0].axes]
    assert titles == ["silhouette", "silhouette", "covering_hard", "covering_hard"]


def test_what_a_run_waits_for_is_told_and_why_it_ended_before_its_first_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = replace(AGENT, learning_starts=10_000, replay_mb=100.0)
    train(tiny(tmp_path, waiting, minutes=0.005, log_seconds=0.0), screen=True)
    told = capsys.readouterr().err
    assert "warm-up: " in told
    assert "of 10000 steps by chance" in told
    assert "ended before the first learner step" in told
    assert "0.0 learner" not in told
