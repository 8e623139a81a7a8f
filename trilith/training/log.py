"""What a run says about itself: a line on the screen, lines of JSON in a file, curves on trackers."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypedDict

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trilith.training.trackers import TensorBoard, Tracker
from trilith.utils.files import atomic_write, parse_json

JSONL = "log.jsonl"


class Line(TypedDict):
    """What every line of the log has, whatever its figures."""

    kind: str
    step: int
    minutes: float
    """Of training, when it was written."""


class Log(ExitStack):
    """Writes to `log.jsonl` and `tensorboard/` in the folder of a run, to the screen, and to the other trackers."""

    def __init__(self, out: Path, screen: bool = True, *others: Tracker) -> None:
        super().__init__()
        self.out, self._screen = out, screen
        self._trackers: list[Tracker] = [TensorBoard(out), *others]
        for tracker in self._trackers:
            self.callback(tracker.close)
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        live = Live(console=self._console, refresh_per_second=2, transient=True) if screen and self._console.is_terminal else None
        self._live = self.enter_context(live) if live else None

    def write(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """One line of the log: of a `kind` ("train" or "valid"), at a learner step."""
        # Opened each time, so that a folder that has vanished is an error now and not a file nobody can see.
        with (self.out / JSONL).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **figures}) + "\n")
        scalars = {f"{kind}/{name}": value for name, value in figures.items() if isinstance(value, int | float)}
        for tracker in self._trackers:
            tracker.write(step, scalars)

    def show(self, line: str) -> None:
        """The live line; on a screen that is not a terminal, one line more."""
        if self._live:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif self._screen:
            self._console.print(line)

    def say(self, line: str) -> None:
        """A line that stays."""
        if self._screen:
            self._console.print(line)


def cut_log(out: Path, seconds: float, evaluated: int) -> None:
    """Drops the lines that a killed run wrote after its last checkpoint, made when it had trained for so many seconds, and that will be
    written again.

    Of evaluations those that were due at the learner step `evaluated` or before are kept. Of all other lines the time decides: also while
    no learner step is made, actors make theirs.
    """
    path = out / JSONL
    if not path.exists():
        return
    kept = []
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):  # half a line: the machine stopped while it was written
            entry: Line = parse_json(line, Line)
            if entry["step"] <= evaluated if entry["kind"] == "valid" else entry["minutes"] <= seconds / 60:
                kept.append(line + b"\n")
    with atomic_write(path) as aside:
        aside.write_bytes(b"".join(kept))
