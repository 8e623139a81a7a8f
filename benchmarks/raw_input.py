"""Mean rewards of linear fits to the raw input of placements, played greedily, beside the agent `objects`.

    python benchmarks/raw_input.py [--task silhouette] [--scenes 200] [--placements 20000]

The features of a placement are the input columns of the first layer of `objects` (`trilith/networks/inputs/placements.py`), as sums and
maxima over the objects of each role; and its kind of block, the role of its reference and its offset, one-hot. Ridge regressions, one
without and one with glue, predict the reward of a placement and the return from it on. Their data are placements of random legal play, half
of the episodes on the hardest level and half on all. Then the first hardest test scenes are played by these agents:

- *reward*, *return*: the legal placement with the highest prediction;
- *rule*: the same by reward, after predictions are rounded to a tenth; ties are broken at random.

Mean rewards have 95 % intervals. An agent that earned little more than these would owe it to its input, not to what it has learned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import tyro

from trilith.agents.base import Agent
from trilith.agents.dqn.policy import make_schema, observe
from trilith.agents.dqn.recipes import OBJECTS
from trilith.agents.random_agents import LegalAgent
from trilith.agents.registry import load, shipped
from trilith.evaluation.play import play, trajectories
from trilith.evaluation.scene_sets import generator, start_in_set
from trilith.networks.inputs.placements import COLUMNS, SUM_SCALE, boxes, locate, look_forward
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, KIND_WIDTHS, KINDS, Floats32, ReplaySchema, SceneBatch
from trilith.utils.console import show, table_of
from trilith.world.episode import State, start
from trilith.world.scene import SLOTS, Floats, Ints, Placement, Role

TYPES = (Role.BLOCK, Role.TARGET, Role.OBSTACLE, Role.FLOOR)
"""The roles of the objects that are pooled separately."""
RAISED = 32.0
"""A number above the absolute value of every input column."""
RIDGE = 1e-3
"""Ridge penalty: the weight of the squared coefficients of standardized columns, relative to the mean squared error."""
TOGETHER = 32
"""Number of states whose features are computed at once. It limits the memory."""


@dataclass
class Options:
    """Linear fits beside the agent."""

    task: str = "silhouette"
    """silhouette, connecting, covering or covering_hard."""
    scenes: int = 200
    """Number of hardest test scenes to play."""
    placements: int = 20_000
    """Number of placements of random legal play in the data of the fits."""
    seed: int = 0


def described(scenes: SceneBatch, offsets: int, scene: Ints, kind: Ints, reference: Ints, offset: Ints) -> Floats32:
    """(m, 342): the features of m placements, with 15 offsets. The placements of a scene follow one another."""
    placed = locate(scenes, offsets, np.array(KIND_WIDTHS, np.float32), scene, kind, reference, offset.astype(np.float32))
    # The layer itself, with the identity as weights for each role. The ReLU keeps the columns of objects of this role, because RAISED is
    # added to them, and removes those of other objects, because RAISED is subtracted.
    of_type = np.equal.outer(scenes.role[scenes.present], TYPES).repeat(COLUMNS, axis=1)  # (n, 4 · 40)
    weight = np.tile(np.eye(COLUMNS, dtype=np.float32), (len(TYPES), 1))
    seen = np.empty((len(scene), 2 * len(weight)), np.float32)
    first = np.searchsorted(scene, np.arange(len(scenes) + 1))
    raised = np.where(of_type, np.float32(RAISED), np.float32(-RAISED))
    look_forward(first, *placed, scenes.first, boxes(scenes), raised, weight, seen)
    count = np.add.reduceat(of_type, scenes.first[:-1], axis=0, dtype=np.int64)[scene]
    sums, most = np.split(seen, 2, axis=1)
    pooled = [sums - count * np.float32(RAISED * SUM_SCALE), np.where(count > 0, most - np.float32(RAISED), 0)]
    one_hot = [
        np.equal.outer(scenes.role[scene, reference], TYPES),
        np.equal.outer(kind, range(KINDS)),
        np.equal.outer(offset, range(offsets)),
    ]
    return np.concatenate([*pooled, *one_hot], axis=1, dtype=np.float32)


class Linear:
    """An agent that makes the legal placement with the highest linear prediction."""

    def __init__(self, schema: ReplaySchema, weights: Floats, tenths: bool = False) -> None:
        self.schema, self.weights, self.tenths = schema, weights, tenths
        """`weights` (343, 2): coefficients of the features and a constant, without and with glue. `tenths`: round predictions to tenths."""

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        """The placement with the highest prediction in each state; ties are broken at random. Stops if nothing is legal."""
        found: list[Placement | None] = []
        for begin in range(0, len(states), TOGETHER):
            some = states[begin : begin + TOGETHER]
            scenes = self.schema.unpack(observe(self.schema, some))
            assert scenes.legal is not None
            rows = np.stack(scenes.legal.nonzero(), axis=1)  # scene, kind, reference, offset
            values = described(scenes, self.schema.offsets, *rows.T) @ self.weights[:-1] + self.weights[-1]
            values = values.round(1) if self.tenths else values
            first = np.searchsorted(rows[:, 0], np.arange(len(some) + 1))
            for i, (state, rng) in enumerate(zip(some, rngs[begin : begin + TOGETHER], strict=True)):
                there = values[first[i] : first[i + 1]]
                if not len(there):
                    found.append(None)
                    continue
                best = np.argwhere(there == there.max())
                row, sticky = best[rng.integers(len(best))].tolist()
                _, kind, reference, offset = rows[first[i] + row].tolist()
                slot = int((scenes.available[i] & (kind == KIND_OF_SLOT)).argmax())
                found.append(self.schema.decode(state.scene, (slot, SLOTS + reference, offset, sticky)))
        return found


def fit(schema: ReplaySchema, options: Options) -> tuple[Floats, Floats]:
    """Weights (343, 2) that predict the reward of a placement, and weights (343, 2) for the return; without and with glue."""
    rng = np.random.default_rng(options.seed)
    seen, sticky, rewards, returns = list[Floats32](), list[bool](), list[float](), list[float]()
    while len(sticky) < options.placements:
        starts = [start(options.task, "hardest" if k % 2 else "all", rng) for k in range(TOGETHER)]
        for episode in trajectories(LegalAgent(), starts, rng.spawn(TOGETHER)):
            made = [(state, placement) for state, placement in zip(episode.states, episode.placements, strict=False) if placement]
            if not made:
                continue
            actions = np.array([schema.encode(state.scene, placement) for state, placement in made])
            scenes = schema.unpack(observe(schema, [state for state, _ in made]))
            kind, reference = KIND_OF_SLOT[actions[:, 0]], actions[:, 1] - SLOTS
            seen.append(described(scenes, schema.offsets, np.arange(len(made)), kind, reference, actions[:, 2]))
            sticky += [placement.sticky for _, placement in made]
            rewards += episode.rewards[: len(made)]
            returns += np.cumsum(episode.rewards[: len(made)][::-1])[::-1].tolist()
    glued, inputs, targets = np.array(sticky), np.concatenate(seen), np.array([rewards, returns]).T
    both = [ridge(inputs[glued == glue], targets[glued == glue]) for glue in (False, True)]  # (343, 2) each: reward, return
    for name, k in (("reward", 0), ("return", 1)):
        predicted = np.where(glued, *(inputs @ weights[:-1, k] + weights[-1, k] for weights in both[::-1]))
        left = np.mean((predicted - targets[:, k]) ** 2) / targets[:, k].var()
        print(
            f"{options.task}: {len(glued)} placements of random legal play; the fit explains {1 - left:.0%} of the variance of their {name}"
        )
    weights = np.stack(both, axis=-1)  # (343, reward or return, glue)
    return weights[:, 0], weights[:, 1]


def ridge(inputs: Floats32, targets: Floats) -> Floats:
    """Ridge regression: coefficients and a constant (d + 1, t) that predict `targets` (m, t) from `inputs` (m, d)."""
    mean, spread = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1
    scaled, middle = (inputs - mean) / spread, targets.mean(axis=0)
    squares = scaled.T @ scaled / len(scaled) + RIDGE * np.eye(scaled.shape[1])
    weights = np.linalg.solve(squares, scaled.T @ (targets - middle) / len(scaled)) / spread[:, None]
    return np.vstack([weights, middle - mean @ weights])


def main(options: Options) -> None:
    """Fits, plays and prints the table."""
    schema = make_schema(OBJECTS, options.task)
    by_reward, by_return = fit(schema, options)
    agents: dict[str, Agent] = {
        "any legal placement": LegalAgent(),
        "linear fit of the reward": Linear(schema, by_reward),
        "linear fit of the return": Linear(schema, by_return),
        "rule: highest reward to a tenth": Linear(schema, by_reward, tenths=True),
    }
    if options.task in shipped("objects"):
        agents["objects"] = load("objects")
    else:
        print(f"there are no weights of objects for {options.task}: only the others are measured")
    starts = [start_in_set(options.task, "hardest", "test", k) for k in range(options.scenes)]
    earned = {}
    for name, agent in agents.items():
        rngs = [generator("raw input", options.task, k) for k in range(options.scenes)]
        earned[name] = np.array([end.total for _, end in play(agent, starts, rngs)])
    table = table_of(f"{options.task}, hardest, {options.scenes} test scenes", "mean reward", "of objects")
    for name, totals in earned.items():
        interval = 1.96 * totals.std(ddof=1) / len(totals) ** 0.5
        ratio = f"{totals.mean() / earned['objects'].mean():.0%}" if "objects" in earned else ""
        table.add_row(name, f"{totals.mean():.2f} ± {interval:.2f}", ratio)
    show(table)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
