"""Recipes are releases: a name with a version always means the same."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilith.agents import algorithms as module
from trilith.agents.algorithms import ALGORITHMS, exact_name, get_algorithm, get_recipe
from trilith.agents.base import Algorithm, Recipe
from trilith.training.actor import PlayRequest, collect
from trilith.training.config import TrainConfig, recipe_config
from trilith.utils.config import to_json

pytestmark = pytest.mark.slow

FROZEN = Path(__file__).parent / "recipes.json"
"""Every recipe by its exact name, as JSON: options of the agent, of the run, and by task."""


def contents() -> dict[str, Any]:
    every = [recipe for algorithm in ALGORITHMS.values() for recipe in algorithm.recipes]
    assert len({recipe.exact for recipe in every}) == len(every)
    found = {recipe.exact: {"agent": to_json(recipe.config), "run": recipe.run, "tasks": recipe.tasks} for recipe in every}
    return json.loads(json.dumps(found))


def test_a_recipe_that_changes_is_a_new_version() -> None:
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    for name, content in contents().items():
        assert content == frozen.get(name), f"{name} is not what it was: raise its version, and add the new one to {FROZEN.name}"


@pytest.fixture
def two_versions(monkeypatch: pytest.MonkeyPatch) -> Algorithm:
    dqn = ALGORITHMS["dqn"]
    old = get_recipe("objects")[1]
    new: Recipe = replace(old, version=4, config=replace(old.config, batch=65))
    both = replace(dqn, recipes=(new, *dqn.recipes))
    monkeypatch.setattr(module, "ALGORITHMS", {**ALGORITHMS, "dqn": both})
    return both


@pytest.mark.usefixtures("two_versions")
def test_a_name_is_its_newest_version_and_an_exact_one_stays() -> None:
    assert get_recipe("objects")[1].version == 4
    assert [get_recipe(f"objects-v{version}")[1].config.batch for version in (3, 4)] == [64, 65]
    assert exact_name("objects") == "objects-v4"
    assert recipe_config("objects").recipe == "objects-v4"
    assert TrainConfig(recipe="objects-v2").recipe == "objects-v2"


def test_a_recipe_and_a_task_are_the_whole_command() -> None:
    config = recipe_config("objects", "silhouette")
    assert config.steps == config.agent.decay_steps == 36_000
    assert config.agent.discount == 0.97 != get_recipe("objects")[1].config.discount


def test_a_version_that_there_is_not_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match="there is no recipe 'objects-v9': choose objects") as error:
        recipe_config("objects-v9")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [recipe.exact for algorithm in ALGORITHMS.values() for recipe in algorithm.recipes])
def test_a_learner_step_with_a_recipes_own_settings(name: str) -> None:
    """Recipes are often tested with smaller settings; this one changes nothing but how few episodes were played before."""
    task = "covering_hard"
    config = recipe_config(name, task)
    learner = get_algorithm(config.algorithm).make_learner(config.agent, task, seed=0)
    request = PlayRequest((0, 1), 4, (1.0, 0.0), config.zero_on_hit, learner.exploration())
    for episode in collect(learner.policy, task, request).episodes:
        learner.add(episode)
    before = {key: value.copy() for key, value in learner.state()[0].items() if key.startswith("net.")}
    figures = learner.step(np.random.default_rng(0))
    assert learner.steps == 1
    assert all(np.isfinite(value) for value in figures.values())
    after = learner.state()[0]
    assert any((after[key] != value).any() for key, value in before.items())
