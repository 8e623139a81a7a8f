"""Recipes of RS0: the actor-critics of the paper. A new one is an entry of `ALGORITHM.recipes`.

A recipe is a release: when any part of it changes, its `version` rises. Imports no learning framework.
"""

from __future__ import annotations

from typing import Any

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.rs0.config import RS0Config
from trilith.networks.config import EncoderConfig


def _paper(encoder: Any) -> RS0Config:
    return RS0Config(net=EncoderConfig(encoder=encoder))


_PAPER_RUN = {"curriculum": {"kind": "performance", "hardest_share": 0.0}}
"""Levels are raised by performance (§F). All reached levels are equally likely: this is our choice, because the paper does not say."""
ALGORITHM = Algorithm(
    name="rs0",
    config=RS0Config,
    recipes=(
        Recipe("gn-rs0", _paper("gn"), "GN-RS0 of the paper: a graph network, continuous actions through its globals", _PAPER_RUN),
        Recipe("rnn-rs0", _paper("rnn"), "RNN-RS0 of the paper: a GRU over the objects", _PAPER_RUN),
        Recipe("cnn-rs0", _paper("cnn"), "CNN-RS0 of the paper: from images", _PAPER_RUN),
        Recipe("mlp-rs0", _paper("mlp"), "the MLP agent of the paper's appendix: a padded list of objects", _PAPER_RUN),
        Recipe("cnn-rn-rs0", _paper("cnn-rn"), "the CNN-RN agent of the paper's appendix: images and a relation network", _PAPER_RUN),
    ),
    policy="trilith.agents.rs0.policy:RS0Policy",
    learner="trilith.agents.rs0.learner:RS0Learner",
    shapes="trilith.agents.rs0.policy:weight_shapes",
    needed=("net", "actions", "components", "candidates", "scale", "min_scale"),
    searchable=False,
)
