"""The learned transition model as a search uses it. The network predicts only the physics; the rules of the task decide everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trilith.agents.base import Weights
from trilith.agents.dynamics.files import read_model
from trilith.agents.dynamics.learner import contacts
from trilith.agents.dynamics.transitions import is_last, placed_scene
from trilith.networks.dynamics.base import Dynamics
from trilith.networks.dynamics.registry import make_dynamics
from trilith.networks.inputs.rigid_body_features import Placed, placed_arrays
from trilith.networks.parameters import load_parameters, parameters_of
from trilith.utils.files import prefix_errors
from trilith.world.actions import reference_rows
from trilith.world.bonds import bond_frame
from trilith.world.episode import State, collides, step
from trilith.world.scene import INVALID_EDGE, Bools, Floats, Placement, Role, Scene


class Outcome(NamedTuple):
    """The predicted result of a placement."""

    scene: Scene
    """The predicted scene at rest, given that no obstacle is touched."""
    hit: float
    """Probability that an obstacle is touched."""
    complete: float
    """Probability that the task is complete, given that no obstacle is touched."""
    reward: float
    """The reward that the network predicts."""


class ModelWorld:
    """A transition model in which a network predicts the result of every placement that needs physics.

    The next state is the predicted state at rest, given that no obstacle is touched. The rules of the task give the reward r for this
    state. The network predicts the probability p that an obstacle is touched. R is the sum of the rewards earned so far. The expected
    reward is

        (1 - p) r          without `zero_on_hit`
        (1 - p) r - p R    with `zero_on_hit`, because a hit then costs all rewards earned so far
    """

    def __init__(self, net: Dynamics, zero_on_hit: bool = False) -> None:
        self.net, self.zero_on_hit = net, zero_on_hit

    @staticmethod
    def read(folder: Path, zero_on_hit: bool = False) -> ModelWorld:
        """Reads a learned model from a folder. With `zero_on_hit`, touching an obstacle costs all rewards earned so far. Raises ValueError
        if the model cannot be used."""
        config, weights, _ = read_model(folder)
        world = ModelWorld(make_dynamics(config), zero_on_hit)
        with prefix_errors(f"cannot use the model {folder}: "):
            world.load(weights)
        return world

    def weights(self) -> Weights:
        """A copy of the network's parameters."""
        return parameters_of(self.net)

    def load(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Loads the parameters of the network."""
        load_parameters(self.net, weights)

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> list[tuple[State, float, float]]:
        """Makes one placement in each state; None stops the episode. Returns, for each state, (next state, expected reward, probability
        that the episode ends)."""
        open_ = [k for k, (state, placement) in enumerate(zip(states, placements, strict=True)) if _simulated(state, placement)]
        asked = [(states[k], placement) for k in open_ if (placement := placements[k]) is not None]
        predicted = dict(zip(open_, self.predict(asked), strict=True))
        return [
            self.after(state, predicted[k]) if k in predicted else self._ended(state, placement)
            for k, (state, placement) in enumerate(zip(states, placements, strict=True))
        ]

    def predict(self, asked: Sequence[tuple[State, Placement]]) -> list[Outcome]:
        """Predicts the outcome of each pair (state, placement) in `asked`. The placed blocks must not overlap anything solid."""
        if not asked:
            return []
        scenes, rows = zip(*(placed_scene(state, placement) for state, placement in asked), strict=True)
        placed = placed_arrays(scenes, rows)
        with torch.no_grad():
            predicted = self.net(placed)
        touch, _ = contacts(predicted, placed)
        pose = predicted.pose.numpy().astype(np.float64)
        loose = ~predicted.fixed
        figures = (predicted.hit.sigmoid(), predicted.complete.sigmoid(), predicted.reward)
        hit, complete, reward = (each.tolist() for each in figures)
        return [
            Outcome(_settled(scene, placed, k, pose[k], loose[k], touch[k]), hit[k], complete[k], reward[k])
            for k, scene in enumerate(scenes)
        ]

    def after(self, state: State, outcome: Outcome) -> tuple[State, float, float]:
        """Returns (next state, expected reward, probability that the episode ends) for a placement in `state` with the predicted result
        `outcome`."""
        rules, scene = state.rules, outcome.scene
        total = rules.score(scene) - rules.sticky_cost * int(scene.sticky.sum())
        lost = -state.total if self.zero_on_hit else 0.0
        reward = (1 - outcome.hit) * (total - state.total) + outcome.hit * lost
        after = State(scene, state.task, state.level, state.steps + 1, total)
        ended = 1.0 if is_last(state) else 1 - (1 - outcome.hit) * (1 - outcome.complete)
        return after, reward, ended

    def _ended(self, state: State, placement: Placement | None) -> tuple[State, float, float]:
        """Returns (next state, reward, 1.0) for a placement that ends the episode by the rules alone, without physics."""
        after = step(state, placement, self.zero_on_hit)
        return after.state, after.reward, 1.0


def _simulated(state: State, placement: Placement | None) -> bool:
    """Whether the result of a placement depends on physics. False if the placement ends the episode by the rules alone."""
    if placement is None or placement == INVALID_EDGE or state.scene.role[placement.slot] != Role.AVAILABLE:
        return False
    return not collides(state.scene, placement, state.scene.solid)


def _settled(scene: Scene, placed: Placed, k: int, pose: Floats, loose: Bools, touch: Bools) -> Scene:
    """The predicted scene at rest. `scene`, which contains the new block, is the k-th of the scenes in `placed`.

    The other arguments are the predictions for this scene of up to R objects: poses (R, 3), a mask `loose` (R,) of the objects that can
    move, and a mask `touch` (R, R) of the pairs that touch. Objects that can move get their predicted poses. All others stay exactly where
    they were.
    """
    rows, n = reference_rows(scene), int(placed.objects[k])
    where = scene.pose.copy()
    where[rows[loose[:n]]] = pose[:n][loose[:n]]
    i, j = np.triu(touch[:n, :n]).nonzero()
    contact = np.stack([rows[i], rows[j]], axis=1)
    contact = contact[np.lexsort((contact[:, 1], contact[:, 0]))]
    bonded = {tuple(pair) for pair in scene.glue.tolist()}
    sticky, bonds = scene.sticky, np.isin(scene.role, (Role.BLOCK, Role.FLOOR))
    new = [(a, b) for a, b in contact.tolist() if (sticky[a] or sticky[b]) and bonds[a] and bonds[b] and (a, b) not in bonded]
    frames = [bond_frame((*where[a], *scene.size[a]), (*where[b], *scene.size[b])) for a, b in new]
    return Scene(
        where,
        scene.size,
        np.zeros_like(scene.velocity),
        scene.role,
        scene.sticky,
        contact,
        np.concatenate([scene.glue, np.array(new, dtype=np.int64).reshape(-1, 2)]),
        np.concatenate([scene.glue_frame, np.array(frames).reshape(-1, 5)]),
    )
