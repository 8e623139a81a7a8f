"""The paper's recipes have the paper's numbers: each is equal to the printed one, or ours with a reason, and the docs say the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from trilith.agents.algorithms import ALGORITHMS
from trilith.training.config import recipe_config
from trilith.utils.config import to_json

DATA = json.loads((Path(__file__).parent / "printed.json").read_text(encoding="utf-8"))
DOCS = (Path(__file__).parents[2] / "docs" / "reference" / "paper_recipes.md").read_text(encoding="utf-8")
FAMILIES = {
    algorithm.name: [recipe.name.removesuffix("-tuned") for recipe in algorithm.recipes if recipe.name.endswith("-tuned")]
    for algorithm in ALGORITHMS.values()
}
NOT_OPTIONS = ("recipe", "out")


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def options(recipe: str) -> dict[str, Any]:
    return {name: value for name, value in flat(to_json(recipe_config(recipe))).items() if name not in NOT_OPTIONS}


@pytest.mark.parametrize("row", DATA["printed"], ids=lambda row: row["parameter"])
def test_a_recipe_has_the_printed_number_or_a_reason(row: dict[str, Any]) -> None:
    for recipe in row["recipes"]:
        equal = options(recipe)[row["field"]] == row["printed"]
        assert equal != bool(row["ours"]), f"{recipe}: {row['field']} is {options(recipe)[row['field']]}"
    assert f"| {row['parameter']} | {row['where']} |" in DOCS
    assert f"| {row['ours'] or 'equal'} |" in DOCS


def test_every_recipe_of_the_paper_is_in_the_table_and_has_a_tuned_sibling() -> None:
    assert {recipe for row in DATA["printed"] for recipe in row["recipes"]} == {*FAMILIES["dqn"], *FAMILIES["rs0"]}
    assert len(FAMILIES["dqn"]) == 4
    assert len(FAMILIES["rs0"]) == 5


@pytest.mark.parametrize(("algorithm", "name"), [(algorithm, name) for algorithm, names in FAMILIES.items() for name in names])
def test_a_tuned_sibling_changes_what_is_listed_and_nothing_else(algorithm: str, name: str) -> None:
    paper, tuned = options(name), options(f"{name}-tuned")
    assert {field for field in paper if paper[field] != tuned[field]} == set(DATA["tuned"][algorithm])
    for field, why in DATA["tuned"][algorithm].items():
        assert f"`{field}` | {why} |" in DOCS


def test_tuned_siblings_of_an_algorithm_are_equal_but_for_what_the_paper_distinguishes() -> None:
    """So no agent is favoured over another: they differ in network and search only."""
    for algorithm, names in FAMILIES.items():
        rest = [{k: v for k, v in options(f"{name}-tuned").items() if not k.startswith(("agent.net.", "agent.search."))} for name in names]
        assert all(each == rest[0] for each in rest), algorithm
        assert rest[0]["zero_on_hit"]
        if algorithm == "dqn":
            assert rest[0]["agent.mask"] != "legal", "absolute actions have no mask of placements that overlap something"
