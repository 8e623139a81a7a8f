"""What seeing segmented images costs: learner steps/s of the graph network on objects, on windows and on whole images, and acting.

    python benchmarks/pixels.py [--tasks silhouette covering_hard] [--batch 16] [--rounds 6]

A learner step is a forward and a backward pass over the states of a batch and a target pass over those that follow, real ones at
the hardest level, pictures drawn anew each time. Times are of the processor, the shortest of several rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from nets.plain_cnn import plain_features  # type: ignore[import-not-found]  # with the tests, whose oracle it is
from nets.scenes import states  # type: ignore[import-not-found]

from trilith.agents.dqn.policy import observe
from trilith.nets.batch import Batch, Layout
from trilith.nets.graph import GraphNet, Packed
from trilith.nets.object_cnn import segments_of
from trilith.nets.pixel_graph import PixelGraphNet
from trilith.world.actions import DiscreteRelative
from trilith.world.observe.image import COORDINATES, PIXELS
from trilith.world.tasks import get_task


class PlainPixelNet(PixelGraphNet):
    """The same by whole images, which are made from the windows."""

    def packed(self, batch: Batch) -> Packed:
        return replace(GraphNet.packed(self, batch), nodes=plain_features(self.cnn, whole_images(batch)))


def whole_images(batch: Batch) -> np.ndarray:
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
    """Whose hardest scenes to see."""
    batch: int = 16
    """Transitions of a learner step."""
    rounds: int = 6
    """Times that each is measured."""


def best(job: Callable[[], object], rounds: int) -> float:
    """Milliseconds of the fastest call."""
    job()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        job()
        found.append((time.process_time() - start) * 1e3)
    return min(found)


def main(options: Options) -> None:
    """Prints a table for each task."""
    torch.set_num_threads(1)
    for task in options.tasks:
        scenes = [state.scene for state in states(task, 2 * max(options.batch, 16), level="hardest")]
        print(f"{task}, hardest, {np.mean([len(scene) for scene in scenes]):.1f} objects a state")
        for name, kind in (("objects", GraphNet), ("windows", PixelGraphNet), ("whole images", PlainPixelNet)):
            layout = Layout.of(get_task(task), DiscreteRelative(), True, beyond=False, pictures=kind is not GraphNet)
            net, records = kind(layout, "legal"), observe(layout, scenes)
            here, there = records[: options.batch], records[options.batch : 2 * options.batch]
            actions: Tensor = net.best(layout.unpack(here))[0].clamp(min=0)

            def step(net: GraphNet = net, here: np.ndarray = here, there: np.ndarray = there, actions: Tensor = actions) -> None:
                with torch.no_grad():
                    wanted = net.best(net.layout.unpack(there))[1].nan_to_num(neginf=0.0)
                net.zero_grad()
                F.huber_loss(net.q_at(net.layout.unpack(here), actions), wanted).backward()

            def act(size: int, net: GraphNet = net, records: np.ndarray = records) -> None:
                with torch.no_grad():
                    net.best(net.layout.unpack(records[:size]))

            took = best(step, options.rounds)
            acting = "  ".join(f"{size}: {best(lambda size=size: act(size), options.rounds):.1f}" for size in (1, 8, 32))  # type: ignore[misc]
            print(
                f"  {name:14}{1e3 / took:8.1f} learner steps/s   acting, milliseconds at  {acting}   {layout.dtype.itemsize} bytes a state"
            )


if __name__ == "__main__":
    main(tyro.cli(Options))
