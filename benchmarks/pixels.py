"""The cost of segmented images: learning, acting and search by networks that read objects, windows around objects, or whole images.

    python benchmarks/pixels.py [--tasks silhouette covering_hard] [--batch 16] [--rounds 6] [--search-seconds 4]

A learner step is a forward and a backward pass over the states of a batch and a target pass over as many others, all at the hardest level;
pictures are drawn each time. Acting is the computation of all values in 1, 8 and 32 states at once, except for whole images without torch.
Features of windows are cached, so acting from windows is timed twice: with an empty cache and, as "again", with all windows cached. In an
episode most are. Searches decide with 10 simulations in 16 episodes at once, physics included. Times are processor times, the shortest of
several rounds; those of searches are means.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from networks.plain_cnn import plain_features  # type: ignore[import-not-found]  # with the tests, whose oracle it is
from networks.scenes import states  # type: ignore[import-not-found]

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import DQNAgent, make_acting_net, make_net, make_schema, observe
from trilith.agents.dqn.recipes import CNN_GN_DQN, FROM_PIXELS, GN_DQN, OBJECTS
from trilith.evaluation.scene_sets import start_in_set
from trilith.networks.inference.pixels import ActingPixels
from trilith.networks.inputs.scene_batch import Records, SceneBatch
from trilith.networks.layers.object_cnn import ObjectCNN, segments_of
from trilith.networks.q.base import QNet
from trilith.networks.q.function import QFunction
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig
from trilith.utils.console import show, table_of
from trilith.world.episode import State, step
from trilith.world.observations.image import COORDINATES, PIXELS

BUDGET, SIDE_BY_SIDE = 10, 16
ACTING = (1, 8, 32)
"""Numbers of states whose values are computed at once."""


class WholeCNN(ObjectCNN):
    """As `ObjectCNN`, but reads whole images, which are made from the windows."""

    def forward(self, batch: SceneBatch) -> Tensor:
        features: Tensor = plain_features(self, whole_images(batch))
        return features


def whole_images(batch: SceneBatch) -> np.ndarray:
    """(V, 64, 64, 6): segmented images of all objects of a batch."""
    segments = segments_of(batch)
    out = np.zeros((sum(len(each.top) for each in segments.sizes), PIXELS, PIXELS, 6), dtype=np.float32)
    out[..., 4:] = COORDINATES
    k = 0
    for colours, top, left in segments.sizes:
        for each, i, j in zip(colours.permute(0, 2, 3, 1).numpy(), top.tolist(), left.tolist(), strict=True):
            out[k, i : i + each.shape[0], j : j + each.shape[1], :4] = each
            k += 1
    return out[segments.which.numpy()]


@dataclass
class Options:
    """Benchmark networks that see pixels."""

    tasks: list[str] = field(default_factory=lambda: ["silhouette", "covering_hard"])
    """Tasks whose hardest scenes are used."""
    batch: int = 16
    """Transitions of a learner step."""
    rounds: int = 6
    """Number of times that each figure is measured."""
    search_seconds: float = 4.0
    """Seconds for each search; 0 leaves them out."""


def legal(config: DQNConfig) -> DQNConfig:
    """The options of `objects` with the network of `config`, so that all have the same mask."""
    return replace(OBJECTS, net=config.net)


FORMS: dict[str, tuple[DQNConfig, bool]] = {
    "objects": (OBJECTS, False),
    "attention, windows": (FROM_PIXELS, False),
    "attention, whole images": (FROM_PIXELS, True),
    "graph, objects": (legal(GN_DQN), False),
    "graph, windows": (legal(CNN_GN_DQN), False),
    "graph, whole images": (legal(CNN_GN_DQN), True),
}
"""Maps each form to its config, and whether it reads whole images."""


def best(job: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> float:
    """Milliseconds of the fastest call of `job`. `before` is called before each, and not timed."""
    job()
    found = []
    for _ in range(rounds):
        before()
        start = time.process_time()
        job()
        found.append((time.process_time() - start) * 1e3)
    return min(found)


def learner_step(net: QNet, here: Records, there: Records) -> Callable[[], None]:
    """Returns a learner step without the optimiser, whose cost is the same for all."""
    actions = net.best(net.schema.unpack(here))[0]

    def run() -> None:
        with torch.no_grad():
            wanted = net.best(net.schema.unpack(there))[1].nan_to_num(neginf=0.0)
        net.zero_grad()
        F.huber_loss(net.q_at(net.schema.unpack(here), actions), wanted).backward()

    return run


def searched(net: QFunction, task: str, seconds: float) -> float:
    """Simulations per second in episodes on validation scenes."""
    agent = SearchAgent(DQNAgent(net), SearchConfig(BUDGET))
    first = [start_in_set(task, "hardest", "valid", i) for i in range(SIDE_BY_SIDE)]
    rngs = [np.random.default_rng(i) for i in range(SIDE_BY_SIDE)]
    agent.act(first, rngs)  # first calls prepare much
    total, spent, now = 0, 0.0, list(first)
    while spent < seconds:
        begin = time.process_time()
        placements = agent.act(now, rngs)
        spent += time.process_time() - begin
        total += BUDGET * SIDE_BY_SIDE
        after = [step(state, placement).state for state, placement in zip(now, placements, strict=True)]
        now = [start if state.ended else state for start, state in zip(first, after, strict=True)]
    return total / spent


def measured(config: DQNConfig, whole: bool, task: str, found: list[State], options: Options) -> list[str]:
    """A row of the table."""
    torch.manual_seed(0)
    schema = make_schema(config, task, beyond=False)
    net = make_net(config, schema)
    if whole:
        net.cnn = WholeCNN()
    acting: QFunction = net
    if not whole:
        acting = make_acting_net(config, schema)
        acting.load(net.weights())
    records = observe(schema, found)
    took = best(learner_step(net, records[: options.batch], records[options.batch : 2 * options.batch]), options.rounds)
    acts = []
    for count in ACTING:
        job = partial(acting.values, records[:count])
        cell = f"{best(job, 3 * options.rounds):.1f}"
        if isinstance(acting, ActingPixels):  # loading weights empties its cache
            cell = f"{best(job, 3 * options.rounds, before=partial(acting.load, net.weights())):.1f}, again {cell}"
        acts.append(cell)
    searches = f"{searched(acting, task, options.search_seconds):.0f}" if options.search_seconds else "-"
    return [f"{1e3 / took:.1f}", *acts, searches]


def main(options: Options) -> None:
    """Prints a table for each task."""
    torch.set_num_threads(1)
    for task in options.tasks:
        found = states(task, max(2 * options.batch, *ACTING), level="hardest")
        print(f"{task}, hardest, {np.mean([len(state.scene) for state in found]):.1f} objects a state, batches of {options.batch}")
        heads = ["network", "learner steps/s", *(f"acting at {count}, ms" for count in ACTING), f"simulations/s at {SIDE_BY_SIDE}"]
        table = table_of(*heads)
        for name, (config, whole) in FORMS.items():
            table.add_row(name, *measured(config, whole, task, found, options))
        show(table)


if __name__ == "__main__":
    main(tyro.cli(Options))
