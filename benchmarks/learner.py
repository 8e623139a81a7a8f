"""Speed of the learner: steps/s of each network on the same batches, latency of acting, bytes of replay, the whole loop.

    python benchmarks/learner.py [--task silhouette] [--batch 16] [--seconds 3] [--loop-seconds 30]

A learner step is a forward and a backward pass over the states of a batch, and a target pass over their next states. Figures are the best
of several rounds in turns, so that other load hits all alike. The layer of `objects` over placements × objects is also timed alone, in ns
per pair, and compared with the peak of the core.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from networks.plain_graph import PlainGraphNet, dense  # type: ignore[import-not-found]  # with the tests, whose oracle it is
from networks.scenes import choices, states  # type: ignore[import-not-found]

from trilith.agents.base import Episode
from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.learner import DQNLearner
from trilith.agents.dqn.policy import DQNPolicy, Exploration, make_net, make_schema, observe
from trilith.agents.dqn.recipes import GN_DQN, OBJECTS
from trilith.agents.replay import Replay
from trilith.agents.rs0.config import RS0Config
from trilith.agents.rs0.learner import RS0Learner
from trilith.networks.inputs.placements import boxes, locate, look_forward
from trilith.networks.inputs.scene_batch import Records
from trilith.networks.kernels.graph_edges import edges_plain
from trilith.networks.kernels.gru import gru_plain
from trilith.networks.layers import attention
from trilith.networks.layers.attention import relational_attention, relational_attention_plain
from trilith.networks.q import graph, objects
from trilith.networks.q.base import QNet
from trilith.networks.q.objects import look, look_by_tensors
from trilith.training.actor import CorrectRequest, PlayRequest, collect
from trilith.training.config import recipe_config
from trilith.training.run import train
from trilith.world.actions import reference_rows
from trilith.world.episode import State
from trilith.world.scene import SLOTS
from trilith.world.tasks import get_task

ROUNDS = 5
SCENES = 64
"""Number of scenes whose placements × objects are timed: as many as in a batch of `objects`."""
MATRIX = 1024
"""Side of the square matrices whose product measures the peak of a core."""
Form = Callable[..., Tensor]
"""The compiled or the tensor form of a function."""


@dataclass
class Options:
    """Benchmark the learner."""

    task: str = "silhouette"
    """Task whose hardest scenes are used."""
    batch: int = 16
    """Transitions of a learner step; the paper's is 16."""
    seconds: float = 3.0
    """Seconds for each figure."""
    loop_seconds: float = 30.0
    """Seconds for the whole loop of each recipe, with actors in processes of their own; 0 leaves it out."""
    batches: tuple[int, ...] = ()
    """Only time whole learner steps with these numbers of transitions, in the compiled form and in the tensor form that a GPU uses."""


def best_of(jobs: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Shortest time of a call of each job in milliseconds, over `ROUNDS` in which the jobs take turns."""
    best = dict.fromkeys(jobs, np.inf)
    for job in jobs.values():
        job()
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            until = time.process_time() + seconds / ROUNDS
            while True:
                start = time.process_time()  # with one thread the same as time, without other load
                job()
                end = time.process_time()
                best[name] = min(best[name], (end - start) * 1e3)
                if end > until:
                    break
    return best


def learner_step(net: QNet, before: list[State], after: list[State]) -> Callable[[], None]:
    """Returns a learner step without the optimiser, whose cost is the same for all."""
    schema = net.schema
    records, following = observe(schema, before), observe(schema, after)
    rng = np.random.default_rng(0)
    made = choices(net, records, np.ones(len(before), dtype=bool), [rng] * len(before))
    actions = torch.from_numpy(np.array([[0, SLOTS, 0, 0] if c is None else c for c in made]))
    actions[:, 1].clamp_(min=SLOTS)

    def run() -> None:
        with torch.no_grad():
            wanted = net.best(schema.unpack(following))[1].nan_to_num(neginf=0.0)
        net.zero_grad()
        F.huber_loss(net.q_at(schema.unpack(records), schema.index(actions)), wanted).backward()

    return run


def plain_step(net: PlainGraphNet, before: list[State], after: list[State], mask: str) -> Callable[[], None]:
    """Returns the learner step of the plain form. Its input is prepared beforehand."""
    here, there = (dense([state.scene for state in each]) for each in (before, after))
    rows = [int(reference_rows(state.scene)[0]) for state in before]
    each = torch.arange(len(before))

    def allowed(linked: Tensor, states: list[State]) -> Tensor:
        if mask == "none":
            return linked
        only = torch.zeros_like(linked)
        for i, state in enumerate(states):
            only[i, :SLOTS, reference_rows(state.scene)] = True
        return only & linked

    allow = allowed(there[3], after)

    def run() -> None:
        with torch.no_grad():
            wanted = net(*there).masked_fill(~allow[..., None], -torch.inf).flatten(1).amax(dim=1)
        net.zero_grad()
        F.huber_loss(net(*here)[each, 0, rows, 0], wanted).backward()

    return run


def act(net: QNet, records: Records) -> None:
    """Chooses an action in each state, without exploration."""
    choices(net, records, np.zeros(len(records), dtype=bool), [np.random.default_rng(0)] * len(records))


def main(options: Options) -> None:
    """Prints all figures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.batches:
        batch_sizes(options)
        return
    found = states(options.task, 2 * max(options.batch, 32), level="hardest")
    before, after = found[: options.batch], found[options.batch : 2 * options.batch]
    print(f"{options.task}, {options.batch} transitions, {np.mean([len(s.scene) for s in before]):.1f} objects a scene, one thread")

    steps: dict[str, Callable[[], None]] = {}
    nets: dict[str, QNet] = {}
    for mask in ("none", "edges"):
        config = replace(GN_DQN, mask=mask)
        fast = nets[f"graph, mask {mask}"] = make_net(config, make_schema(config, options.task))
        plain = PlainGraphNet(fast.outputs)
        plain.load_state_dict(fast.state_dict())
        steps[f"graph, plain form, mask {mask}"] = plain_step(plain, before, after, mask)
        steps[f"graph, mask {mask}"] = learner_step(fast, before, after)
    nets["objects"] = make_net(OBJECTS, make_schema(OBJECTS, options.task))
    steps["objects"] = learner_step(nets["objects"], before, after)
    took = best_of(steps, options.seconds)
    slowest = took["graph, plain form, mask none"]
    for name, ms in took.items():
        print(f"  {name:36} {1e3 / ms:8.1f} learner steps/s   {slowest / ms:6.1f} × plain")

    for name, net in nets.items():
        records = observe(net.schema, found[:32])
        took = best_of({str(size): partial(act, net, records[:size]) for size in (1, 8, 32)}, options.seconds)
        print(f"  acting by {name:26} " + "   ".join(f"batch {size}: {ms:.2f} ms" for size, ms in took.items()))

    for name, each in (("objects", OBJECTS), ("paper", GN_DQN)):
        replay = Replay(DQNPolicy(each, options.task, beyond=False).dtype, 1)
        print(f"  replay of recipe {name:19} {replay.dtype.itemsize} bytes a transition")
    q_learner(options)
    placements_by_objects(options)
    actor_critics(options)
    if options.loop_seconds:
        for name in ("objects", "paper"):
            whole_loop(name, options)


def q_learner(options: Options) -> None:
    """Times whole learner steps of `objects`, with the optimiser: in torch alone, then with one compiled part, then with both."""
    config: DQNConfig = recipe_config("objects", options.task).agent
    episodes, jobs = hardest_episodes(config, options.task), {}
    for name, attends, looks in (
        ("padded attention, placements in torch", relational_attention_plain, look_by_tensors),
        ("compiled attention", relational_attention, look_by_tensors),
        ("compiled placements × objects too (now)", relational_attention, look),
    ):
        learner = DQNLearner(config, options.task, seed=0)
        for episode in episodes:
            learner.add(episode if episode.correction else episode._replace(exploration=learner.exploration()))

        def run(learner: DQNLearner = learner, attends: Form = attends, looks: Form = looks) -> None:
            with patch.object(attention, "relational_attention", attends), patch.object(objects, "look", looks):
                learner.step(np.random.default_rng(0))

        jobs[name] = run
    took = best_of(jobs, options.seconds)
    beside = config.counterfactual_actions
    print(
        f"learner step of objects, {config.batch} states: {config.correction_share:.0%} corrections, {beside} simulated actions in others"
    )
    for name, ms in took.items():
        print(f"  {name:40} {1e3 / ms:8.1f} learner steps/s   {next(iter(took.values())) / ms:6.1f} × the first")


def batch_sizes(options: Options) -> None:
    """Times whole learner steps by the number of transitions: ms per step, and µs per transition."""
    plain = (
        (attention, "relational_attention", relational_attention_plain), (objects, "look", look_by_tensors),
        (graph, "edge_function", edges_plain), (graph, "gru", gru_plain),
    )  # fmt: skip
    for recipe in ("objects", "gn-dqn-tuned"):
        config: DQNConfig = recipe_config(recipe, options.task).agent
        episodes = hardest_episodes(config, options.task)
        for form, patches in (("compiled", ()), ("tensors", plain)):
            for batch in options.batches:
                learner = DQNLearner(replace(config, batch=batch), options.task, seed=0)
                for episode in episodes:
                    learner.add(episode._replace(exploration=learner.exploration(), correction=False))
                with ExitStack() as stack:
                    for module, name, function in patches:
                        stack.enter_context(patch.object(module, name, function))
                    ms = best_of({form: partial(learner.step, np.random.default_rng(0))}, options.seconds)[form]
                print(f"  {recipe:13} {form:9} {batch:5} transitions: {ms:8.1f} ms a step, {1e3 * ms / batch:6.0f} µs a transition")


def hardest_episodes(config: DQNConfig, task: str) -> list[Episode]:
    """Episodes of the hardest level: random ones, and corrections, whose scenes are as full as those of trained agents.

    Random episodes are played in warm-up: they avoid obstacles if a simulated action does. Otherwise they would end with the first blocks.
    """
    policy, levels = DQNPolicy(config, task, beyond=False), hardest_level(task)
    lengths = (float(SLOTS),) * len(levels)
    played = collect(policy, task, PlayRequest((0, 1), 24, levels, False, Exploration(1.0, lengths, warm_up=True))).episodes
    return played + collect(policy, task, CorrectRequest((0, 2), 24, levels, False)).episodes


def hardest_level(task: str) -> tuple[float, ...]:
    """Probabilities of levels: 1 for the last, 0 for the others."""
    return (0.0,) * (len(get_task(task).levels) - 1) + (1.0,)


def placements_by_objects(options: Options) -> None:
    """Times the first layer over placements × objects alone: all legal placements of 64 scenes, compiled and in torch.

    GFLOP/s count the multiplications and additions of the layer: 2 · 40 · P per pair of a placement and an object, and as many for the
    gradient of its weights; not those of columns, nor those that the compiled form repeats in the backward pass.
    """
    net = make_net(OBJECTS, make_schema(OBJECTS, options.task, beyond=False))
    assert isinstance(net, objects.ObjectsNet)
    batch = net.schema.unpack(observe(net.schema, states(options.task, SCENES, level="hardest")))
    scene, kind, reference, offset = net.mask(batch)[..., ::2].nonzero().unbind(1)
    placed = locate(batch.tensors, net.schema.offsets, net.kind_widths, scene, kind, reference, offset.float())
    own = net.object(net.encode(batch)).detach().requires_grad_()
    weight = net.seen.weight.detach().clone().requires_grad_()
    out = torch.empty(len(scene), 2 * len(weight))
    pull = torch.randn_like(out)
    first, box = np.searchsorted(scene.numpy(), np.arange(len(batch) + 1)), boxes(batch)
    arrays = *(each.numpy() for each in placed), batch.first, box, own.detach().numpy(), weight.detach().numpy(), out.numpy()

    def forward_in_torch() -> None:
        with torch.no_grad():
            look_by_tensors(placed, scene, batch, own, weight)

    def both_ways(look: Form) -> None:
        torch.autograd.grad(look(placed, scene, batch, own, weight), (own, weight), pull)

    pairs = int((torch.bincount(scene, minlength=len(batch)) * batch.tensors.count).sum())
    square = torch.rand(MATRIX, MATRIX)
    took = best_of(
        {
            "forward, compiled": partial(look_forward, first, *arrays),
            "forward, torch": forward_in_torch,
            "forward and backward, compiled": partial(both_ways, look),
            "forward and backward, torch": partial(both_ways, look_by_tensors),
            "peak": partial(torch.mm, square, square),
        },
        options.seconds,
    )
    peak = 2 * MATRIX**3 / (took.pop("peak") * 1e6)
    print(f"placements × objects, {len(batch)} scenes: {len(scene)} placements, {pairs} pairs, P = {len(weight)}")
    print(f"  peak of this core, a product of matrices of {MATRIX} × {MATRIX} in torch: {peak:.1f} GFLOP/s")
    for name, ms in took.items():
        way, _, form = name.rpartition(", ")
        rate = 2 * weight.numel() * pairs * (1 if way == "forward" else 2) / (ms * 1e6)
        ratio = f"   {took[f'{way}, torch'] / ms:5.1f} × torch" if form == "compiled" else ""
        print(f"  {name:32} {ms * 1e6 / pairs:7.1f} ns a pair   {rate:6.1f} GFLOP/s, {rate / peak:4.0%} of the peak{ratio}")


def actor_critics(options: Options) -> None:
    """Prints learner steps/s of the actor-critics, on full sequences and on those of untrained policies, actor steps/s and bytes."""
    print(f"actor-critics: {options.batch} sequences of 5, full ones (as the planner goes on) and those that were played")
    for encoder in ("mlp", "rnn", "gn", "cnn", "cnn-rn"):
        config: RS0Config = replace(recipe_config(f"{encoder}-rs0").agent, batch=options.batch)
        full, played = (RS0Learner(config, options.task, seed=0) for _ in range(2))
        levels = hardest_level(options.task)
        start = time.process_time()
        episodes = collect(played.policy, options.task, PlayRequest((0, 1), 64, levels, False, played.exploration())).episodes
        rate = sum(len(episode.steps) for episode in episodes) / (time.process_time() - start)
        for episode in episodes:
            played.add(episode)
        for episode in collect(full.policy, options.task, CorrectRequest((0, 2), 16, levels, False)).episodes:
            full.replay.add(episode)
        left = full.replay.ring["left"][: len(full.replay) - config.length]
        left[:] = np.maximum(left, config.length + 1)  # as if no episode ended before the last
        rng = np.random.default_rng(0)
        took = best_of({"full": partial(full.step, rng), "played": partial(played.step, rng)}, options.seconds)
        speeds = "   ".join(f"{name} {1e3 / ms:.1f}" for name, ms in took.items())
        print(f"  {encoder:8} learner steps/s: {speeds}   {rate:.0f} actor steps/s   {full.replay.dtype.itemsize} bytes a step")


def whole_loop(recipe: str, options: Options) -> None:
    """Prints learner and actor steps/s of a recipe with its default number of actors, and the number of busy cores."""
    config = recipe_config(recipe, options.task)
    agent: DQNConfig = replace(config.agent, learning_starts=200)
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config, out=Path(folder) / "run", minutes=options.loop_seconds / 60, evaluate_scenes=0, agent=agent)
        meter = Meter(config.out / "log.jsonl")
        meter.start()
        train(replace(config, log_seconds=options.loop_seconds / 6), screen=False)
        log = config.out / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
    if not lines:
        print(f"  whole loop of recipe {recipe}: {options.loop_seconds} s were not enough to get going")
        return
    figures = json.loads(lines[-1])
    print(
        f"  whole loop of recipe {recipe:15} {figures['learner_steps_per_second']:8.1f} learner and "
        f"{figures['actor_steps_per_second']:.0f} actor steps/s, {meter.busy():.2f} cores busy"
    )


class Meter(threading.Thread):
    """Measures how many cores a run and its processes keep busy, from the first line of its log on. Needs /proc."""

    def __init__(self, log: Path) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.read: list[tuple[float, float]] = []

    def run(self) -> None:
        """Reads clock and processor time twice a second while there is a log."""
        while not self.log.exists():
            time.sleep(0.5)
        while self.log.exists():
            try:
                self.read.append((time.perf_counter(), cpu_seconds()))
            except FileNotFoundError:  # a process ended meanwhile: so does the run
                return
            time.sleep(0.5)

    def busy(self) -> float:
        """Mean number of busy cores, without the last seconds, in which actors end; nan if there are fewer than six readings."""
        if len(self.read) < 6:
            return float("nan")
        (start, before), (end, after) = self.read[0], self.read[-4]
        return (after - before) / (end - start)


def cpu_seconds() -> float:
    """Processor time of this process and of its children."""
    used = 0
    for pid in ("self", *(str(child.pid) for child in multiprocessing.active_children())):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(tyro.cli(Options))
