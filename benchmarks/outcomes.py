"""How well the network of `objects` learns the outcomes of placements alone: the reward, and whether the episode ends.

    python benchmarks/outcomes.py [--task covering_hard] [--states 2000] [--seconds 60] [--message 16 32 64] [--layers 1 3]
    python benchmarks/outcomes.py --scales 3 15 75 --tensors --updates 1500      # and the same with other scales

States are those of random legal play and of the agent `objects` in turns, on the hardest level. Ten placements in each state are simulated:
the agent's best, its neighbours in offset, and random legal ones. The network is trained on them by the losses of its outcome heads alone,
on batches of 64 states, mirrored half of the time, for `--seconds`. It is tested on the last 15 % of the states, one line per variant:

- *ends told right*: share of placements for which the network predicts correctly whether they end the episode;
- *area*: area under the ROC curve of the predicted end, 0.5 by chance and 1 at best;
- *reward error*: root mean squared error of the reward, divided by the standard deviation of rewards; 1 if the mean is predicted.

The package's compiled loops have fixed scales (`SCALES`). Other scales, and all with `--tensors`, are computed by tensor operations, which
are slower. So compare scales after equal numbers of updates (`--updates`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from math import cos, pi
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.agents.base import Agent
from trilith.agents.dqn.policy import make_net, make_schema, observe
from trilith.agents.dqn.recipes import OBJECTS
from trilith.agents.registry import load, trained_for
from trilith.networks.inputs import placements
from trilith.networks.inputs.placements import CLIPS, LENGTHS, SCALES
from trilith.networks.inputs.scene_batch import Records, ReplaySchema
from trilith.networks.q import objects
from trilith.networks.q.objects import ObjectsNet
from trilith.utils.console import Progress
from trilith.world.actions import reference_rows
from trilith.world.episode import State, start, step
from trilith.world.scene import SLOTS, Bools, Floats, Ints

TRIED = 10
"""Number of placements of a state that are simulated."""
NEIGHBOURS = (0, -1, 1, -2, 2)
"""Differences of offset between the agent's best placement and those tried beside it."""
HELD_OUT = 0.15
BATCH, RATE, WARMUP = 64, 1e-3, 200
"""States per update; learning rate of Adam, which falls to 0 along a cosine; updates of its linear warm-up."""


@dataclass
class Options:
    """Train outcome heads."""

    task: str = "covering_hard"
    """silhouette, connecting, covering or covering_hard."""
    states: int = 2000
    """Number of states, with ten placements each."""
    agent: str = "objects"
    """Agent that plays in turns with random play: a name, or the folder of a run."""
    seconds: float = 60.0
    """Processor seconds of the training of each variant."""
    updates: int | None = None
    """Number of updates per variant, instead of `seconds`."""
    scales: tuple[float, ...] = SCALES
    """Factors of the lengths, in 1/m."""
    message: list[int] = field(default_factory=lambda: [OBJECTS.net.message])
    """Sizes of a message, a variant each."""
    layers: list[int] = field(default_factory=lambda: [OBJECTS.net.layers])
    """Numbers of layers, a variant each."""
    tensors: bool = False
    """Use tensor operations also for the package's scales."""
    seed: int = 0


class Data(NamedTuple):
    """N states, and the outcomes of 10 placements in each."""

    records: Records
    """(N,)"""
    actions: Ints
    """(N, 10, 4): sender, receiver, offset and sticky."""
    rewards: NDArray[np.float32]
    """(N, 10)"""
    ended: Bools
    """(N, 10)"""


def player(options: Options) -> Agent | None:
    """The agent of the options. If it has no weights for the task, prints so and returns None."""
    try:
        if trained_for(options.agent, options.task):
            return load(options.agent)
    except ValueError:
        pass
    print(f"there are no weights of {options.agent} for {options.task}: all states and placements are by chance")
    return None


def collect(options: Options, schema: ReplaySchema) -> Data:
    """Plays until there are enough states. Random play ends an episode only if all placements that were tried end it."""
    rng, agent, kept = np.random.default_rng(options.seed), player(options), list[tuple[State, Ints, list[float], list[bool]]]()
    number = 0
    with Progress(f"{options.task}: simulating", options.states) as progress:
        while len(kept) < options.states:
            state, number = start(options.task, "hardest", rng), number + 1
            while not state.ended and len(kept) < options.states:
                best = None if agent is None else agent.act([state], [rng])[0]
                actions = to_try(schema, state, None if best is None else schema.encode(state.scene, best), rng)
                if not len(actions):
                    break
                after = [step(state, schema.decode(state.scene, action)) for action in actions.tolist()]
                kept.append((state, actions, [each.reward for each in after], [each.state.ended is not None for each in after]))
                progress.add(1, "")
                goes_on = [each.state for each in after if not each.state.ended]
                if number % 2 and best is not None:
                    state = step(state, best).state
                elif goes_on:
                    state = goes_on[rng.integers(len(goes_on))]
                else:
                    break
    states, actions_, rewards, ended = zip(*kept, strict=True)
    return Data(observe(schema, states), np.array(actions_), np.array(rewards, np.float32), np.array(ended))


def to_try(schema: ReplaySchema, state: State, best: tuple[int, ...] | None, rng: np.random.Generator) -> Ints:
    """(10, 4): legal actions to simulate; `best`, unless None, and its neighbours come first. (0, 4) if nothing is legal."""
    mask = schema.codec.mask(state.scene)
    assert mask is not None
    free = mask[:, reference_rows(state.scene)]  # (7, R, offsets)
    slot, reference, offset = free.nonzero()
    if not len(slot):
        return np.empty((0, 4), np.int64)
    near = []
    if best is not None:
        sender, receiver, at, sticky = best
        near = [[sender, receiver, at + by, sticky] for by in NEIGHBOURS if 0 <= at + by < schema.offsets]
        near = [each for each in near if free[each[0], each[1] - SLOTS, each[2]]]
    some = rng.integers(len(slot), size=TRIED - len(near))
    by_chance = np.stack([slot[some], SLOTS + reference[some], offset[some], rng.integers(2, size=len(some))], axis=1)
    return np.concatenate([np.array(near, np.int64).reshape(-1, 4), by_chance])


@contextmanager
def by_tensors(scales: tuple[float, ...]) -> Iterator[None]:
    """Context manager: the network computes messages by tensor operations, with these scales. Lengths at scales that the package does not
    have are clipped to ±1."""
    clips = tuple(dict(zip(SCALES, CLIPS, strict=True)).get(scale, 1.0) for scale in scales)
    with ExitStack() as patches:
        for module, name, value in (
            (placements, "SCALES", scales),
            (placements, "CLIPS", clips),
            (objects, "look", objects.look_by_tensors),
        ):
            patches.enter_context(patch.object(module, name, value))
        yield


class Bench:
    """One variant of the network, its data and its training."""

    def __init__(self, schema: ReplaySchema, data: Data, message: int, layers: int, options: Options) -> None:
        torch.manual_seed(options.seed)
        net = make_net(replace(OBJECTS, net=replace(OBJECTS.net, message=message, layers=layers)), schema)
        assert isinstance(net, ObjectsNet)
        net.seen = nn.Linear(len(LENGTHS) * len(options.scales), message)
        self.net, self.schema, self.data, self.options = net, schema, data, options
        self.train_states = round(len(data.records) * (1 - HELD_OUT))

    def outcomes(self, which: Ints, mirror: Bools) -> tuple[Tensor, Tensor]:
        """Predicted rewards (m,), and log-odds (m,) of an end, of the placements in the states `which` (b,). `mirror` (b,): which states to
        mirror."""
        batch = self.schema.unpack(self.data.records[which], mirror)
        actions = self.schema.mirror_actions(self.data.actions[which].reshape(-1, 4), mirror.repeat(TRIED))
        scenes = torch.arange(len(which)).repeat_interleave(TRIED)
        told = self.net.outcomes(batch, torch.from_numpy(self.schema.index(actions)), scenes)
        assert told.reward is not None
        assert told.end is not None
        return told.reward, told.end

    def train(self) -> tuple[int, float]:
        """Trains. Returns the number of updates and their processor seconds."""
        options, data, rng = self.options, self.data, np.random.default_rng(self.options.seed)
        optimiser = torch.optim.Adam(self.net.parameters(), lr=RATE, fused=True)
        begin, updates, done = time.process_time(), 0, 0.0
        while done < 1:
            which, mirror = rng.integers(self.train_states, size=BATCH), rng.random(BATCH) < 0.5
            reward, end = self.outcomes(which, mirror)
            missed = F.binary_cross_entropy_with_logits(end, torch.from_numpy(data.ended[which].ravel()).float())
            loss = F.mse_loss(reward, torch.from_numpy(data.rewards[which].ravel())) + missed
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), OBJECTS.max_grad_norm)
            optimiser.param_groups[0]["lr"] = RATE * min((updates + 1) / WARMUP, 1) * (1 + cos(pi * done)) / 2
            optimiser.step()
            updates += 1
            spent = time.process_time() - begin
            done = spent / options.seconds if options.updates is None else updates / options.updates
        return updates, time.process_time() - begin

    @torch.no_grad()
    def test(self) -> tuple[float, float, float]:
        """On the held-out states: share of correctly predicted ends, area under the ROC curve, relative error of rewards."""
        every = np.arange(self.train_states, len(self.data.records))
        parts = [self.outcomes(some, np.zeros(len(some), dtype=bool)) for some in np.array_split(every, -(-len(every) // BATCH))]
        reward, end = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
        happened, ended = self.data.rewards[every].ravel(), self.data.ended[every].ravel()
        error = float(np.sqrt(np.mean((reward - happened) ** 2)) / happened.std())
        return float(np.mean((end > 0) == ended)), area(ended, end), error


def area(happened: Bools, score: Floats | NDArray[np.float32]) -> float:
    """Area under the ROC curve of `score` (n,) as a predictor of `happened` (n,); nan if all of `happened` are equal."""
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(len(score))
    yes = int(happened.sum())
    no = len(happened) - yes
    return float((rank[happened].sum() - yes * (yes - 1) / 2) / (yes * no)) if yes and no else float("nan")


def main(options: Options) -> None:
    """Prints a line for each variant."""
    torch.set_num_threads(1)
    schema = make_schema(OBJECTS, options.task, beyond=False)
    data = collect(options, schema)
    held_out = data.ended[round(len(data.records) * (1 - HELD_OUT)) :]
    print(f"{options.task}: {len(data.records)} states, {data.ended.size} placements; rewards' standard deviation {data.rewards.std():.2f}")
    print(f"held out: {held_out.size} placements, {held_out.mean():.1%} of which end the episode")
    slowly = options.tensors or options.scales != SCALES
    for message, layers in product(options.message, options.layers):
        bench = Bench(schema, data, message, layers, options)
        with by_tensors(options.scales) if slowly else nullcontext():
            updates, seconds = bench.train()
            right, curve, error = bench.test()
        scales = " ".join(f"{scale:g}" for scale in options.scales)
        print(
            f"scales {scales}{', tensors' if slowly else ''}, message {message}, layers {layers}: {updates} updates in {seconds:.1f} s; "
            f"ends told right {right:.1%}, area {curve:.4f}, reward error {error:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
