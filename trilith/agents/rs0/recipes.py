"""Recipes of RS0: the actor-critics of the paper. To add a recipe, add an entry to `ALGORITHM.recipes`.

Recipes have versions: if any part of a recipe changes, increase its `version`. Imports no learning framework.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.rs0.config import RS0Config
from trilith.networks.config import EncoderConfig


def _paper(encoder: Any) -> RS0Config:
    return RS0Config(net=EncoderConfig(encoder=encoder))


def _tuned(encoder: Any) -> RS0Config:
    """The paper's agent with the given encoder, with changes that make it learn within an hour on one core. A tenth of the actions are
    random legal placements."""
    return replace(_paper(encoder), updates_per_step=0.1, batch=32, act_with_target=True, legal=0.1)


_TUNED_RUN: dict[str, Any] = {"zero_on_hit": True, "curriculum": {"kind": "performance", "hardest_share": 0.0}}
"""Options of a training run. As in the paper, the curriculum depends on performance (§F). The paper does not say how levels are chosen; we
draw them from the mix of the task, limited to the levels reached so far."""
_PAPER_RUN = {**_TUNED_RUN, "minutes": 7 * 24 * 60.0, "actors": 8}
_PAPER = {
    "gn-rs0": ("gn", "GN-RS0 of the paper: a graph network, continuous actions through its globals"),
    "rnn-rs0": ("rnn", "RNN-RS0 of the paper: a GRU over the objects"),
    "cnn-rs0": ("cnn", "CNN-RS0 of the paper: from images"),
    "mlp-rs0": ("mlp", "the MLP agent of the paper's appendix: a padded list of objects"),
    "cnn-rn-rs0": ("cnn-rn", "the CNN-RN agent of the paper's appendix: images and a relation network"),
}
ALGORITHM = Algorithm(
    name="rs0",
    config=RS0Config,
    recipes=(
        *(Recipe(name, _paper(encoder), about, _PAPER_RUN, version=2) for name, (encoder, about) in _PAPER.items()),
        *(
            Recipe(f"{name}-tuned", _tuned(encoder), f"{name} with changes that make it learn in an hour", _TUNED_RUN)
            for name, (encoder, _) in _PAPER.items()
        ),
    ),
    policy="trilith.agents.rs0.policy:RS0Policy",
    learner="trilith.agents.rs0.learner:RS0Learner",
    shapes="trilith.agents.rs0.policy:weight_shapes",
    needed=("net", "actions", "components", "candidates", "scale", "min_scale"),
    searchable=False,
)
