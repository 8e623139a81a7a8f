"""Transition models by name: the simulator, a learned model, or a class of the user."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from trilith.agents.dynamics.files import MODEL
from trilith.agents.weights import learning, missing
from trilith.search.simulator import Simulator
from trilith.search.tree import TransitionModel
from trilith.utils.modules import imported, names_a_class
from trilith.utils.tensors import read_header
from trilith.world.episode import State
from trilith.world.scene import Placement


def make_world(name: str, zero_on_hit: bool) -> TransitionModel[State, Placement | None]:
    """Returns the transition model that `name` selects: "simulator", the folder of a learned model, or a class of your own, written
    my_module:MyWorld. With `zero_on_hit`, the model applies the rule that an episode that touches an obstacle has the return 0. A class of
    your own gets `zero_on_hit` as its argument.

    Raises ValueError for any other name, and if a learned model is named but torch is not installed.
    """
    if name == "simulator":
        return Simulator(zero_on_hit)
    if is_model(name):
        if not learning():
            raise ValueError(missing(f"the model {name}"))
        from trilith.agents.dynamics.world import ModelWorld

        return ModelWorld.read(Path(name), zero_on_hit)
    if not names_a_class(name):
        raise ValueError(f"there is no world {name!r}: choose simulator, the folder of a model, or name a class as my_module:MyWorld")
    return cast("TransitionModel[State, Placement | None]", imported(name, "world")(zero_on_hit))


def is_model(name: str) -> bool:
    """Whether a name is a folder with a learned model."""
    return (Path(name) / MODEL).exists()


def world_fingerprint(name: str) -> str | None:
    """The first 16 characters of the checksum of a learned model's weights; None if no learned model has this name."""
    return read_header(Path(name) / MODEL).checksum[:16] if is_model(name) else None
