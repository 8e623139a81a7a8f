"""A file may hold a value of any length. What is wrong with it is told in one line that fits on a screen."""

import json
from shutil import copyfile

import numpy as np
import pytest

from trilith.agents.registry import shipped
from trilith.agents.weights import load_policy
from trilith.training.config import recipe_config, run_config
from trilith.utils.checks import LONGEST
from trilith.utils.config import to_json
from trilith.utils.files import sealed
from trilith.world.episode import State, start

LONG = "x" * 50_000
CARD = shipped("objects")["covering"]
FILES = {
    "config of objects": to_json(recipe_config("objects")),
    "config of gn-rs0": to_json(recipe_config("gn-rs0")),
    "card": json.loads(CARD.with_suffix(".json").read_text()),
    "state": start("covering", "hardest", np.random.default_rng(0)).to_json(),
}


def with_a_long_value(data):
    """Yields `data`, JSON values, with one of them replaced by a long one, or with a field more that has a long name."""
    yield LONG
    yield [LONG]
    if isinstance(data, dict):
        yield data | {LONG: 1}
        for name, value in data.items():
            yield from (data | {name: changed} for changed in with_a_long_value(value))
    elif isinstance(data, list) and data:
        yield from ([changed, *data[1:]] for changed in with_a_long_value(data[0]))


@pytest.mark.parametrize("kind", FILES)
def test_the_message_about_a_long_value_is_one_short_line(tmp_path, kind):
    copyfile(CARD, tmp_path / "w.safetensors")

    def read(data):
        if kind == "state":
            State.from_json(data)
        elif kind == "card":
            (tmp_path / "w.json").write_text(json.dumps(sealed(data) if isinstance(data, dict) else data))
            load_policy(tmp_path / "w.safetensors")
        else:
            (tmp_path / "config.json").write_text(json.dumps(data))
            run_config(tmp_path)

    messages = []
    for data in with_a_long_value(FILES[kind]):
        try:
            read(data)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 40
    for message in messages:
        assert "\n" not in message
        assert len(message) <= LONGEST, message[:100]
