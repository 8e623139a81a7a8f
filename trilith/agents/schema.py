"""Descriptions, in words, of a network's input columns and of the parts of an action. The card of weights stores these descriptions.

Weights cannot be loaded if they were trained with other columns than the current code has.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from trilith.networks.inputs.image_moments import MOMENT_COLUMNS
from trilith.networks.inputs.objects import CLOCK_COLUMNS, MAX_WIDTH, OBJECT_COLUMNS, PAIR_COLUMNS, SCALE, SHARP
from trilith.networks.inputs.placements import CLIPS, LENGTHS, SCALES
from trilith.utils.checks import shortened
from trilith.world.actions import CLEARANCE
from trilith.world.observations.graph import EDGE_COLUMNS
from trilith.world.observations.image import COLUMNS as IMAGE_COLUMNS
from trilith.world.observations.objects import COLUMNS as ROW_COLUMNS
from trilith.world.observations.segments import COLUMNS as SEGMENT_COLUMNS

Schema = dict[str, Sequence[str]]
"""Maps a kind of input (an object, a pair, …) to the names of its columns."""

_LENGTHS = (f"lengths are divided by {SCALE:g} m, widths at most {MAX_WIDTH:g} m, tanh of {SHARP:g} / m",)
_ATTENTION: Schema = {"unit": _LENGTHS, "object": OBJECT_COLUMNS, "pair": PAIR_COLUMNS}
_GRAPH: Schema = {"object": ROW_COLUMNS, "pair": EDGE_COLUMNS}
_LIST: Schema = {"object": (*ROW_COLUMNS, "padding")}
_IMAGE: Schema = {"image": IMAGE_COLUMNS}
_SEGMENTS: Schema = {"image of an object": SEGMENT_COLUMNS, "pair": EDGE_COLUMNS}

NETWORKS: dict[str, Schema] = {
    "objects": _ATTENTION
    | {"placement and object": [f"{name} · {s:g}, within ±{c:g}" for s, c in zip(SCALES, CLIPS, strict=True) for name in LENGTHS]},
    "pixel-attention": {**_SEGMENTS, "unit": _LENGTHS, "moment of an image": MOMENT_COLUMNS, "pair of images": PAIR_COLUMNS[:-2]},
    "graph": _GRAPH,
    "pixels": _SEGMENTS,
    **{"mlp": _LIST, "rnn": _LIST, "cnn": _IMAGE, "cnn-rn": _IMAGE, "gn": _GRAPH, "attention": _ATTENTION},
}
"""Maps the name of each Q-network, and of each encoder of an actor-critic, to its input columns."""
_CLEARANCE = f"placed {CLEARANCE:g} m clear of the object"
ACTIONS = {
    "discrete_relative": ("block", "object", "offset along x", "sticky", _CLEARANCE),
    "discrete_relative_xy": ("block", "object", "offset along x", "offset along y", "sticky", _CLEARANCE),
    "discrete_absolute": ("block", "row of the grid", "column of the grid", "sticky"),
    "continuous_relative": ("block", "x of the object", "y of the object", "offset along x", "sticky", _CLEARANCE),
    "continuous_absolute": ("block", "x", "y", "sticky"),
}
"""Maps the name of each codec (`world.actions`) to the parts of its actions, in order."""


def observation_columns(config: Any) -> list[str]:
    """The input columns of the network in an algorithm's config, each as "kind of input: column". Empty for a network of the user's own."""
    net = getattr(config, "net", None)
    schema = dict(NETWORKS.get(getattr(net, "network", getattr(net, "encoder", "")), {}))
    if getattr(net, "clock", False):
        schema["clock"] = CLOCK_COLUMNS
    return [f"{part}: {column}" for part, columns in schema.items() for column in columns]


def action_parts(config: Any, listed: bool) -> list[str]:
    """The parts of an action, in words, for the action space of an algorithm's config. `listed` says whether the actions are discrete.
    Empty for an algorithm of the user's own."""
    return list(ACTIONS.get(f"{'discrete' if listed else 'continuous'}_{getattr(config, 'actions', '')}", ()))


def check_same(field: str, stored: Sequence[str], known: Sequence[str]) -> None:
    """Raises ValueError if the columns `stored` in a card differ from the columns `known` to the code. The message names the field of the
    card and the first difference."""
    for number, (old, new) in enumerate(zip_longest(stored, known), start=1):
        if old != new:
            raise ValueError(f"{field} column {number} is {shortened(old)}, this version of trilith has {shortened(new)}")
