"""Worlds that can be searched, by name: the simulator, or one of one's own."""

from __future__ import annotations

from typing import cast

from trilith.search.simulator import Simulator
from trilith.search.tree import World
from trilith.support.modules import imported, names_a_class
from trilith.world.episode import State
from trilith.world.scene import Placement


def make_world(name: str, forfeit: bool) -> World[State, Placement | None]:
    """The world of a name: simulator, or my_module:MyWorld, a class that is given the rule `forfeit`. Raises ValueError otherwise."""
    if name == "simulator":
        return Simulator(forfeit)
    if not names_a_class(name):
        raise ValueError(f"there is no world {name!r}: choose simulator, or name a class as my_module:MyWorld")
    return cast("World[State, Placement | None]", imported(name, "world")(forfeit))
