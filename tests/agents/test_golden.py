"""Shipped agents make the placements that they made when they were measured.

A changed input, kernel or rule of the world changes them, and so does a constant that travels from a planner into a network. Run as a
program this module records the placements anew: do that only together with new figures on the cards.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trilith.agents.registry import ZOO, shipped
from trilith.agents.weights import load_policy
from trilith.evaluation.scene_sets import start_in_set
from trilith.world.episode import State, step
from trilith.world.scene import Placement

GOLDEN = Path(__file__).parent / "golden_placements.json"
"""By agent and task: of each of the first hardest test scenes [slot, x, y, sticky] of each placement, null where the agent stops."""
COUNT = 200
"""Placements of an agent in a task, at least."""
TIE = 1e-4
"""Values that differ by less may change places on another processor."""
AGENTS = [(name, task) for name in sorted(each.name for each in ZOO.iterdir() if each.is_dir()) for task in sorted(shipped(name))]


def row(placement: Placement | None) -> list[object] | None:
    return None if placement is None else [int(placement.slot), float(placement.x), float(placement.y), bool(placement.sticky)]


def same(one: list[object] | None, other: list[object] | None) -> bool:
    return one == other if one is None or other is None else one == pytest.approx(other, abs=1e-6)


def record(name: str, task: str) -> list[list[list[object] | None]]:
    agent = load_policy(shipped(name)[task])[0].agent
    found: list[list[list[object] | None]] = []
    while sum(map(len, found)) < COUNT:
        state, made = start_in_set(task, "hardest", "test", len(found)), list[list[object] | None]()
        while not state.ended:
            [placement] = agent.act([state], [np.random.default_rng(0)])
            made.append(row(placement))
            state = step(state, placement).state
        found.append(made)
    return found


@pytest.mark.parametrize(("name", "task"), AGENTS)
def test_a_shipped_agent_makes_the_placements_that_it_made_when_it_was_measured(name: str, task: str) -> None:
    agent = load_policy(shipped(name)[task])[0].agent
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))[name][task]
    states = [start_in_set(task, "hardest", "test", k) for k in range(len(golden))]
    assert sum(map(len, golden)) >= COUNT
    for n in range(max(map(len, golden))):
        going = [k for k in range(len(golden)) if n < len(golden[k])]
        chosen = agent.act([states[k] for k in going], [np.random.default_rng(0) for _ in going])
        for k, placement in zip(going, chosen, strict=True):
            wanted = golden[k][n]
            if not same(row(placement), wanted):
                assert value(agent, states[k], row(placement)) - value(agent, states[k], wanted) < TIE, f"scene {k}, step {n}"
            states[k] = step(states[k], None if wanted is None else Placement(*wanted)).state
    assert all(state.ended for state in states)


def value(agent: object, state: State, wanted: list[object] | None) -> float:
    """The value of a placement by the agent's own network."""
    [prior] = agent.priors([state])  # type: ignore[attr-defined]
    rows = [row(agent.decode(state, int(index))) for index in prior.ids]  # type: ignore[attr-defined]
    return next(float(value) for value, each in zip(prior.values, rows, strict=True) if same(each, wanted))


def test_no_planner_is_there_when_a_shipped_network_acts() -> None:
    """So no constant of a planner can change its placements."""
    code = """
import sys
import numpy as np
from trilith.agents.registry import load
from trilith.evaluation.scene_sets import start_in_set
from trilith.search.config import SearchConfig
for name, budget in (("objects", 0), ("objects", 2), ("pixels", 0)):
    assert load(name, SearchConfig(budget)).act([start_in_set("silhouette", "hardest", "test", 0)], [np.random.default_rng(0)])[0]
found = [name for name in sys.modules if name.startswith("trilith.planners")]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


if __name__ == "__main__":
    recorded: dict[str, dict[str, object]] = {}
    for name_, task_ in AGENTS:
        recorded.setdefault(name_, {})[task_] = record(name_, task_)
    GOLDEN.write_text(json.dumps(recorded, separators=(",", ":")).replace("]],", "]],\n") + "\n", encoding="utf-8")
