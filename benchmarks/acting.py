"""Time that a trained agent takes to act, in compiled loops and in torch, and whether both make the same placements.

    python benchmarks/acting.py [--task covering_hard] [--scenes 1000] [--budget 10]

Times are of one call for 1, 8 or 32 scenes: the shortest of 40 by processor time, one thread; of `act`, and of the network alone. Then both
forms play test scenes, with and without search. Printed are the number of episodes in which their placements differ, and the largest
difference of a value.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
import tyro

from trilith.agents.dqn.policy import DQNAgent, DQNPolicy, make_net, make_schema, observe
from trilith.agents.registry import shipped
from trilith.agents.weights import load_policy
from trilith.evaluation.play import play
from trilith.evaluation.scene_sets import generator, start_in_set
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.utils.console import Progress, show, table_of

SIDE_BY_SIDE = (1, 8, 32)
PLAYED = 50
"""Number of scenes that are played at once."""


@dataclass
class Options:
    """Acting with and without torch."""

    task: str = "covering_hard"
    """Task whose shipped agent acts."""
    level: str = "hardest"
    """Level of the scenes."""
    scenes: int = 100
    """Number of test scenes to play."""
    budget: int = 10
    """Simulations per decision of the search; 0: without search only."""


def fastest(call: Callable[[], object]) -> float:
    """Milliseconds of the fastest of 40 calls, by processor time."""
    call()
    spent = []
    for _ in range(40):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return min(spent) * 1e3


def both_forms(task: str) -> tuple[DQNAgent, DQNAgent]:
    """The shipped agent in compiled loops, and an agent with the same weights in torch."""
    weights = shipped("objects")
    if task not in weights:
        raise SystemExit(f"there are no weights of objects for {task} in trilith/zoo")
    policy, _ = load_policy(weights[task])
    assert isinstance(policy, DQNPolicy)
    net = make_net(policy.config, make_schema(policy.config, task)).eval()
    net.load(policy.weights())
    return policy.agent, DQNAgent(net, policy.config.discount)


def main(options: Options) -> None:
    """Prints both tables."""
    torch.set_num_threads(1)
    forms = dict(zip(("compiled loops", "torch"), both_forms(options.task), strict=True))
    starts = [start_in_set(options.task, options.level, "test", i) for i in range(max(*SIDE_BY_SIDE, options.scenes))]
    table = table_of("ms", *(f"{n} scenes" if n > 1 else "1 scene" for n in SIDE_BY_SIDE))
    rngs = [np.random.default_rng(0)] * len(starts)
    for name, agent in forms.items():
        table.add_row(f"act, {name}", *(f"{fastest(partial(agent.act, starts[:n], rngs[:n])):.2f}" for n in SIDE_BY_SIDE))
    for name, agent in forms.items():
        records = observe(agent.schema, starts)
        table.add_row(f"values alone, {name}", *(f"{fastest(partial(agent.net.values, records[:n])):.2f}" for n in SIDE_BY_SIDE))
    show(table)

    for budget in dict.fromkeys((0, options.budget)):
        differ, largest, earned = 0, 0.0, dict.fromkeys(forms, 0.0)
        with Progress(f"playing with {budget} simulations", options.scenes) as progress:
            for first in range(0, options.scenes, PLAYED):
                some = range(first, min(first + PLAYED, options.scenes))
                played = {}
                for name, agent in forms.items():
                    rngs = [generator("trilith agent", 0, f"{options.task}/{options.level}", i) for i in some]
                    played[name] = play(SearchAgent(agent, SearchConfig(budget)), [starts[i] for i in some], rngs)
                    earned[name] += sum(end.total for _, end in played[name])
                pairs = zip(*played.values(), strict=True)
                differ += sum(one.placements != other.placements for (one, _), (other, _) in pairs)
                ends = [state for recording, _ in played["torch"] for state in (recording.start, *(s.state for s in recording.replay()))]
                records = observe(forms["torch"].schema, [state for state in ends if not state.ended])
                (mine, mask), (theirs, _) = (agent.net.values(records) for agent in forms.values())
                largest = max(largest, float(np.abs(mine - theirs)[mask].max()))
                progress.add(len(some), f"{differ} differ")
        means = ", ".join(f"{name} {total / options.scenes:.4f}" for name, total in earned.items())
        print(f"{options.task} {options.level}, {budget} simulations: {differ} of {options.scenes} episodes differ; mean reward: {means};")
        print(f"  largest difference of two values: {largest:.1e}")


if __name__ == "__main__":
    main(tyro.cli(Options))
