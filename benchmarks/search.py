"""Simulations per second of a tree search, and the shares of world, network and tree in its time.

    python benchmarks/search.py [--task covering_hard] [--seconds 8] [--processes 2]

Agents with untrained weights play whole episodes on hardest validation scenes: with the paper's graph network, that of `objects`, and
without network. Figures are for one core, by processor time. The last column is the speed of several processes, divided by that of one.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
import tyro

from trilith.agents.dqn.policy import DQNAgent, make_net, make_schema
from trilith.agents.dqn.recipes import GN_DQN, OBJECTS
from trilith.agents.dynamics.registry import make_world
from trilith.agents.random_agents import LegalAgent
from trilith.evaluation.scene_sets import start_in_set
from trilith.search.agent import SearchAgent, Valuer
from trilith.search.config import SearchConfig
from trilith.search.tree import Prior
from trilith.utils.console import show, table_of
from trilith.world.episode import State, step
from trilith.world.scene import Placement

SIDE_BY_SIDE = (1, 16, 64)
ROUNDS = 5
"""Number of rounds in which one process alone and all processes take turns."""
NETWORKS = ("graph", "objects", "none")


@dataclass
class Options:
    """What to measure."""

    task: str = "covering_hard"
    """Task whose hardest scenes are played."""
    seconds: float = 8.0
    """Seconds for each figure."""
    processes: int = 2
    """Number of processes of the last column."""
    budget: int = 10
    """Simulations per decision."""
    world: str = "simulator"
    """The transition model that is searched: simulator, or the folder of a learned model."""


class Timed:
    """An agent and the transition model that it searches. Measures the processor time of both."""

    def __init__(self, agent: Valuer, world: str) -> None:
        self.agent, self.world, self.discount = agent, make_world(world, False), agent.discount
        self.physics = self.network = 0.0

    def act(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[Placement | None]:
        return self.agent.act(states, rngs)

    def decode(self, state: State, action_id: int) -> Placement | None:
        return self.agent.decode(state, action_id)

    def priors(self, states: Sequence[State]) -> list[Prior]:
        begin = time.process_time()
        priors = self.agent.priors(states)
        self.network += time.process_time() - begin
        return priors

    def steps(self, states: Sequence[State], placements: Sequence[Placement | None]) -> Sequence[tuple[State, float, float]]:
        begin = time.process_time()
        after = self.world.steps(states, placements)
        self.physics += time.process_time() - begin
        return after


def agent_with(network: str, task: str) -> Valuer:
    """An agent with untrained weights; for `none`, the agent `legal`, which values every legal action at 0."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if network == "none":
        return LegalAgent()
    config = OBJECTS if network == "objects" else replace(OBJECTS, net=GN_DQN.net)
    return DQNAgent(make_net(config, make_schema(config, task)).eval())


def run(network: str, count: int, options: Options) -> tuple[int, float, Timed]:
    """Searches in `count` episodes at once. Returns the number of simulations, processor seconds, and the agent with its times."""
    timed = Timed(agent_with(network, options.task), options.world)
    agent = SearchAgent(timed, SearchConfig(options.budget), timed)
    index = 0
    total, spent = 0, 0.0
    states: list[State] = []
    rngs: list[np.random.Generator] = []
    warm = False
    while True:
        for k in range(count):
            if k >= len(states) or states[k].ended:
                states[k : k + 1] = [start_in_set(options.task, "hardest", "valid", index % 1000)]
                rngs[k : k + 1] = [np.random.default_rng(index)]
                index += 1
        begin = time.process_time()
        placements = agent.act(states, rngs)
        spent += time.process_time() - begin
        states = [step(state, placement).state for state, placement in zip(states, placements, strict=True)]
        total += options.budget * count
        if not warm:  # first calls prepare much
            warm, total, spent = True, 0, 0.0
            timed.physics = timed.network = 0.0
        elif spent > options.seconds:
            return total, spent, timed


def worker(network: str, options: Options, number: int, barrier: Any, rates: Any) -> None:
    """Main function of process `number`. Puts (turn, simulations per second by the clock) into `rates`, with 16 episodes at once. In even
    turns only process 0 searches, in odd turns all."""
    agent = SearchAgent(agent_with(network, options.task), SearchConfig(options.budget), make_world(options.world, False))
    states = [start_in_set(options.task, "hardest", "valid", i) for i in range(16)]
    rngs = [np.random.default_rng(i) for i in range(16)]
    agent.act(states, rngs)
    now = list(states)
    for turn in range(2 * ROUNDS):
        barrier.wait()
        if number and not turn % 2:
            continue
        total, begin = 0, time.perf_counter()
        while (seconds := time.perf_counter() - begin) < options.seconds / ROUNDS:
            now = [first if state.ended else state for first, state in zip(states, now, strict=True)]
            now = [step(state, placement).state for state, placement in zip(now, agent.act(now, rngs), strict=True)]
            total += options.budget * 16
        rates.put((turn, total / seconds))


def gain(network: str, options: Options) -> float:
    """Simulations per second of all processes at once, divided by those of one: the median over rounds."""
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(options.processes), context.Queue()
    crew = [context.Process(target=worker, args=(network, options, i, barrier, rates)) for i in range(options.processes)]
    for process in crew:
        process.start()
    turns: dict[int, float] = {}
    for _ in range(ROUNDS * (1 + options.processes)):
        turn, each = rates.get()
        turns[turn] = turns.get(turn, 0.0) + each
    for process in crew:
        process.join()
    return statistics.median(turns[turn + 1] / turns[turn] for turn in range(0, 2 * ROUNDS, 2))


def main() -> None:
    """Prints the table."""
    options = tyro.cli(Options, description=__doc__)
    cores = f"{options.processes} processes ÷ 1"
    table = table_of("network", "side by side", "simulations/s", "world", "network", "tree", cores)
    for network in NETWORKS:
        for count in SIDE_BY_SIDE:
            total, seconds, timed = run(network, count, options)
            rest = seconds - timed.physics - timed.network
            shares = [f"{part / seconds:.0%}" for part in (timed.physics, timed.network, rest)]
            ratio = ""
            if count == 16:
                ratio = f"{gain(network, options):.2f}"
            table.add_row(network, str(count), f"{total / seconds:.0f}", *shares, ratio)
    show(table)
    print(f"{options.task}, hardest level, {options.budget} simulations per decision in {options.world}")


if __name__ == "__main__":
    main()
