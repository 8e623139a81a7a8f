"""Speed of the networks of actor-critics: one learner step over the states of 16 windows of 5 steps, part by part.

    python benchmarks/encoders.py [--task silhouette] [--sequences 16] [--rounds 12]

`full` windows have all six states; `played` windows end with their episode of random legal play, as those of a replay do. Times are
processor times, the shortest of several rounds. `see` is the encoder.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro

from trilith.agents.random_agents import LegalAgent
from trilith.networks.actor_critic.cnn import pixels
from trilith.networks.actor_critic.network import ENCODERS, IMAGES, ActorCritic, make_actor_critic
from trilith.networks.config import EncoderConfig
from trilith.world.episode import start, step
from trilith.world.scene import Scene
from trilith.world.tasks import get_task

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from networks.scenes import states  # type: ignore[import-not-found]

STEPS, ACTIONS = 5, 5
"""Steps of a window; numbers that an action consists of."""
PARTS = ("batch", "pixels", "see", "policy", "value", "backward")


@dataclass
class Options:
    """Benchmark the networks of actor-critics."""

    task: str = "silhouette"
    """Task whose hardest scenes are used."""
    sequences: int = 16
    """Number of windows per step."""
    rounds: int = 12
    """Number of times that each network is measured."""


def played(task: str, count: int) -> list[Scene]:
    """The states of `count` windows of random legal episodes: up to `STEPS` + 1 states each, without states that have ended."""
    rng, agent, found = np.random.default_rng(0), LegalAgent(), []
    for _ in range(count):
        episode = [start(task, "hardest", rng)]
        while not episode[-1].ended:
            episode.append(step(episode[-1], agent.act([episode[-1]], [rng])[0]).state)
        first = int(rng.integers(max(len(episode) - STEPS, 1)))
        found += [state.scene for state in episode[first : first + STEPS + 1] if not state.ended]
    return found


def times(net: ActorCritic, scenes: list[Scene]) -> list[float]:
    """Milliseconds of each of the `PARTS` of one step."""
    records, actions = net.schema.pack(scenes), torch.zeros(len(scenes), 1, ACTIONS)
    clock = [time.process_time()]
    batch = net.schema.unpack(records)
    clock.append(time.process_time())
    if net.schema.points:
        pixels(batch)
    clock.append(time.process_time())
    seen = net.encoder(batch)
    clock.append(time.process_time())
    policy = net.actor(seen)
    clock.append(time.process_time())
    values = net.value(seen, actions)
    clock.append(time.process_time())
    net.zero_grad()
    (policy.square().mean() + values.square().mean()).backward()
    clock.append(time.process_time())
    return (np.diff(clock) * 1e3).tolist()


def main(options: Options) -> None:
    """Prints a table for each kind of window."""
    torch.set_num_threads(1)
    full = [state.scene for state in states(options.task, options.sequences * (STEPS + 1), level="hardest")]
    for name, scenes in (("full", full), ("played", played(options.task, options.sequences))):
        objects = np.mean([len(scene) for scene in scenes])
        print(f"{options.task}, {options.sequences} {name} windows: {len(scenes)} states of {objects:.1f} objects; milliseconds")
        print("  encoder  " + "".join(f"{part:>9}" for part in PARTS) + "   steps/s   bytes a state")
        for encoder in ENCODERS:
            net = make_actor_critic(EncoderConfig(encoder), get_task(options.task), ACTIONS, 2 * ACTIONS, beyond=False)  # type: ignore[arg-type]
            times(net, scenes)
            took = np.min([times(net, scenes) for _ in range(options.rounds)], axis=0)
            shown = "".join(
                f"{each:9.1f}" if part != "pixels" or encoder in IMAGES else f"{'-':>9}" for part, each in zip(PARTS, took, strict=True)
            )
            print(f"  {encoder:9}{shown}{1e3 / took.sum():10.1f}{net.schema.dtype.itemsize:12}")


if __name__ == "__main__":
    main(tyro.cli(Options))
