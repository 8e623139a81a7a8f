"""A task of one's own is found by its name in this process, and as my_module:MyTask in every one."""

import json
import pickle

import gymnasium
import numpy as np
import own_task
import pytest
from own_task import Tower

import trilith
from trilith.world.episode import State, start, step
from trilith.world.scene import Placement
from trilith.world.tasks import TASKS, Task, get_task, known_tasks, registry

SPEC = "own_task:Tower"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """What a test registers, no other one sees."""
    monkeypatch.setattr(registry, "_OWN", {})
    yield
    gymnasium.registry.pop("trilith/Tower-v0", None)


def test_a_task_named_by_its_module_keeps_that_name_in_its_states():
    task = get_task(SPEC)
    assert isinstance(task, Tower)
    assert task is get_task(SPEC)
    assert (task.name, task.title, Tower.name) == (SPEC, "Tower", "tower")
    state = start(SPEC, "hardest", np.random.default_rng(0))
    assert (state.task, state.level) == (SPEC, 2)
    state, reward, _ = step(state, Placement(0, -7.5, 0.36))
    assert reward == pytest.approx(0.7, abs=0.01)
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert pickle.loads(pickle.dumps(state)).rules is task
    assert list(known_tasks()) == [*TASKS, SPEC]


def test_an_instance_in_a_module_is_a_task_too_and_stays_as_it_was(monkeypatch):
    tower = Tower()
    monkeypatch.setattr(own_task, "tower", tower, raising=False)
    assert get_task("own_task:tower").name == "own_task:tower"
    assert tower.name == "tower"


@pytest.mark.parametrize("given", [Tower, Tower()], ids=["class", "instance"])
def test_a_registered_task_is_found_by_its_name_and_its_environment_by_its_title(given):
    assert trilith.register(given) is given
    assert trilith.register(given) is given  # as when a cell of a notebook is run again
    assert isinstance(get_task("tower"), Tower)
    assert start("tower", 0, np.random.default_rng(0)).task == "tower"
    assert gymnasium.make("trilith/Tower-v0", level=0).reset(seed=0)[1]["level"] == "0"
    with pytest.raises(
        ValueError, match=r"there is no task 'bridge': choose silhouette, .*, tower, or one of your own as my_module:MyTask"
    ):
        get_task("bridge")


def test_any_task_is_an_environment_by_its_name():
    for name in (SPEC, "covering"):
        env = gymnasium.make("trilith:trilith/Construction-v0", task=name)
        _, info = env.reset(seed=1)
        block, reference, offset = np.argwhere(info["legal"])[0]
        _, reward, *_ = env.step(np.array([block, reference, offset, 0]))
        assert env.unwrapped.state.task == name  # type: ignore[attr-defined]
        assert np.isfinite(reward)


def make_environment() -> gymnasium.Env:
    return gymnasium.make("trilith:trilith/Construction-v0", task=SPEC, level=0)


def test_a_vector_of_environments_in_processes_of_their_own_finds_the_task():
    envs = gymnasium.vector.AsyncVectorEnv([make_environment] * 2, context="spawn")
    try:
        assert envs.reset(seed=0)[1]["level"].tolist() == ["0", "0"]
    finally:
        envs.close()


class Nameless(Tower):
    name = "not a name"


class Mixed(Tower):
    mix = (0.5, 0.5)


class Taken(Tower):
    name = "covering"


class Entitled(Tower):
    title = "Covering"


class Towering(Tower):
    name = "towering"


def test_the_environment_of_a_task_is_not_taken_by_another_one():
    trilith.register(Tower)
    with pytest.raises(ValueError, match="the title 'Tower' of the task towering is taken: choose another title"):
        trilith.register(Towering)
    assert gymnasium.spec("trilith/Tower-v0").kwargs["task"] == "tower"
    assert "towering" not in known_tasks()


class Half(Task):
    name = "half"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (Nameless, "the name 'not a name' of the task Nameless must be made of letters, digits and _"),
        (Mixed, r"the mix \(0.5, 0.5\) of the task Mixed must have a probability for each of the levels \(0, 1, 2\)"),
        (Taken, "the name 'covering' is that of a task of the paper"),
        (Entitled, "the title 'Covering' of the task tower is taken"),
        (Half, "the task Half cannot be made: .*abstract.*"),
        (int, "int is not a task: it must be a subclass of trilith.Task"),
        ("tower", "str is not a task"),
    ],
)
def test_what_is_not_a_task_is_refused_in_one_line(given, line):
    with pytest.raises(ValueError, match=line) as error:
        trilith.register(given)
    assert "\n" not in str(error.value)
    assert list(known_tasks()) == [*TASKS]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no_such_module:Tower", "there is no task 'no_such_module:Tower': No module named 'no_such_module'"),
        ("own_task:Bridge", "there is no task 'own_task:Bridge': module 'own_task' has no attribute 'Bridge'"),
        ("own_task:STEPS", "own_task:STEPS is not a task"),
        ("own_task:", "there is no task 'own_task:': choose"),
        ("a b:c", "there is no task 'a b:c': choose"),
    ],
)
def test_a_module_without_the_task_is_refused_in_one_line(name, line):
    with pytest.raises(ValueError, match=line):
        get_task(name)
