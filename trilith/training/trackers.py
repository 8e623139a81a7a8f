"""Trackers that show the metrics of a run as curves: TensorBoard and, on request, Weights & Biases."""

from __future__ import annotations

import os
import secrets
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from trilith.utils.checks import require
from trilith.utils.files import read_json, write_json

WANDB = "wandb.json"
"""Name of the file in a run's folder that holds the id of its wandb run."""


class Tracker(Protocol):
    """Receives the metrics of a run during training."""

    def write(self, step: int, scalars: dict[str, float]) -> None:
        """Receives metrics by name, such as "train/loss", at a learner step."""

    def close(self) -> None:
        """Closes the tracker. `write` is not called again."""


class TensorBoard:
    """Writes event files to `tensorboard/`. It writes in the calling thread, because errors in TensorBoard's own thread could only be
    printed, not handled."""

    def __init__(self, out: Path) -> None:
        folder = out / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = RecordWriter((folder / f"events.out.tfevents.{int(time.time())}.{os.getpid()}").open("ab"))
        self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def write(self, step: int, scalars: dict[str, float]) -> None:
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()])
        self._writer.write(Event(wall_time=time.time(), step=step, summary=summary).SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def check_wandb() -> None:
    """Raises ValueError if wandb is not installed."""
    require(find_spec("wandb"), '--track wandb needs wandb: pip install "trilith[wandb]", or -e ".[wandb]" in a clone')


class Wandb:
    """Logs to a run of Weights & Biases, with its files in `wandb/`. If a training run is resumed, it continues the same wandb run. The
    environment variables of wandb (WANDB_MODE=offline, WANDB_PROJECT, …) apply. Raises ValueError if wandb cannot start.

    The learner step is logged as a metric of its own and used as the x axis. wandb's own step never decreases, so it cannot be used: the
    learner step decreases if a run is killed and resumed from its last checkpoint.
    """

    def __init__(self, out: Path, config: dict[str, Any], screen: bool) -> None:
        import wandb

        path = out / WANDB
        if not path.exists():
            write_json(path, {"id": secrets.token_hex(4)})
        try:
            self._run = wandb.init(
                id=read_json(path, dict[str, str])["id"],
                resume="allow",
                project=os.environ.get("WANDB_PROJECT", "trilith"),
                name=os.environ.get("WANDB_NAME", out.resolve().name),
                dir=out,
                config=config,
                settings=wandb.Settings(console="off", silent=not screen),
            )
        except wandb.Error as error:
            raise ValueError(f"--track wandb: {' '.join(str(error).split())}") from None
        self._run.define_metric("*", step_metric="learner_step")

    def write(self, step: int, scalars: dict[str, float]) -> None:
        self._run.log({"learner_step": step, **scalars})

    def close(self) -> None:
        self._run.finish()
