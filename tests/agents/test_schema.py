"""Cards say in words what a network sees and how it acts; weights that saw something else are refused in one line."""

import json
import shutil
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from trilith.agents import schema
from trilith.agents.registry import ZOO, shipped
from trilith.agents.schema import ACTIONS, NETWORKS, action_parts, observation_columns
from trilith.agents.weights import load_policy, read_card
from trilith.networks.config import EncoderConfig, NetConfig
from trilith.networks.inputs.image_moments import RELATIONS
from trilith.networks.inputs.objects import PAIR_COLUMNS
from trilith.networks.inputs.placements import COLUMNS
from trilith.networks.q import registry
from trilith.training.config import recipe_config
from trilith.utils.files import sealed, write_json
from trilith.world.actions import CODECS

SHIPPED = [path for folder in sorted(ZOO.glob("*")) for path in shipped(folder.name).values()]


def test_every_network_and_every_action_space_is_described() -> None:
    assert NETWORKS.keys() == {*registry.NETWORKS, *get_args(get_args(get_type_hints(EncoderConfig, include_extras=True)["encoder"])[0])}
    assert ACTIONS.keys() == CODECS.keys()
    assert all(len(ACTIONS[name]) - ("relative" in name) == codec.length for name, codec in CODECS.items())
    assert len(PAIR_COLUMNS) - 2 == RELATIONS
    assert len(NETWORKS["objects"]["placement and object"]) == COLUMNS


def test_columns_are_those_of_the_config() -> None:
    with_clock, without = (recipe_config(name).agent for name in ("objects", "pixels"))
    assert with_clock.net == NetConfig(clock=True)
    assert [each for each in observation_columns(with_clock) if each.startswith("clock")][-1] == "clock: 1 / steps left"
    assert not [each for each in observation_columns(without) if each.startswith("clock")]
    assert action_parts(with_clock, listed=True)[:4] == ["block", "object", "offset along x", "sticky"]
    assert action_parts(recipe_config("gn-rs0").agent, listed=False)[0] == "block"
    assert observation_columns(object()) == action_parts(object(), listed=True) == [], "an algorithm of one's own"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_shipped_card_names_what_the_code_has(path: Path) -> None:
    _, card = load_policy(path)
    assert card["observation"]
    assert card["recipe"].rpartition("-v")[0] == path.parent.name


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of shipped weights and their card."""
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped("objects")["silhouette"].with_suffix(suffix), tmp_path)
    return tmp_path / "silhouette.safetensors"


def change(path: Path, **fields: Any) -> None:
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    write_json(path.with_suffix(".json"), sealed(card | fields))


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match=path.stem) as error:
        load_policy(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_changed_column_of_the_code_is_refused_in_one_line(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = list(schema.NETWORKS["objects"]["object"])
    monkeypatch.setitem(schema.NETWORKS, "objects", schema.NETWORKS["objects"] | {"object": [*columns[:4], "width / 3", *columns[5:]]})
    assert refusal(copy).endswith("observation column 6 is 'object: width', this version of trilith has 'object: width / 3'")


def test_other_columns_or_parts_of_an_action_in_the_card_are_refused(copy: Path) -> None:
    seen = read_card(copy)["observation"]
    change(copy, observation=seen[:-1])
    assert "observation column 81 is None" in refusal(copy)
    change(copy, observation=seen, action=["block", "object", "offset along y"])
    assert "action column 3 is 'offset along y'" in refusal(copy)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [("objects", "must name its version"), ("objects-v9", "this version of trilith knows objects-v3")],
)
def test_a_recipe_without_version_or_of_a_later_one_is_refused(copy: Path, recipe: str, said: str) -> None:
    change(copy, recipe=recipe)
    assert f"recipe '{recipe}': {said}" in refusal(copy)
    change(copy, recipe="mine:tower-v7")
    load_policy(copy)
