"""The log of a run: a line on the screen, JSON lines in a file, and metrics for trackers."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trilith.utils.files import MAX_LINES, atomic_write, check_regular, parse_json, read_file

if TYPE_CHECKING:  # reading a log must not need TensorBoard
    from trilith.training.trackers import Tracker

JSONL = "log.jsonl"


class Log(ExitStack):
    """Writes to `log.jsonl` in the folder of a run, to the screen, and to trackers."""

    def __init__(self, out: Path, screen: bool = True, *trackers: Tracker) -> None:
        super().__init__()
        self.out, self._screen, self._trackers = out, screen, trackers
        if (out / JSONL).exists():
            check_regular(out / JSONL, MAX_LINES)
        for tracker in trackers:
            self.callback(tracker.close)
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        live = Live(console=self._console, refresh_per_second=2, transient=True) if screen and self._console.is_terminal else None
        self._live = self.enter_context(live) if live else None

    def write(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Writes one line of the log, and sends its numbers to the trackers. `kind` is "train" or "valid", `step` is the learner step, and
        `figures` maps names to values. `read_log` leaves out lines without the figure "minutes"."""
        # The file is opened each time. So a deleted folder is an error at once; a file that stays open could be written even then.
        with (self.out / JSONL).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **figures}) + "\n")
        scalars = {f"{kind}/{name}": value for name, value in figures.items() if isinstance(value, int | float)}
        for tracker in self._trackers:
            tracker.write(step, scalars)

    def show(self, line: str) -> None:
        """Shows a line on the screen in place of the line shown before. If the output is not a terminal, prints a new line."""
        if self._live:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif self._screen:
            self._console.print(line)

    def say(self, line: str) -> None:
        """Prints a line that stays on the screen."""
        if self._screen:
            self._console.print(line)


def read_log(out: Path) -> list[dict[str, Any]]:
    """Reads the lines in the log of a run. Leaves out incomplete lines, lines without `kind`, `step` or `minutes`, and lines in which a
    field other than `kind` is not a number. Returns an empty list if there is no log."""
    path, found = out / JSONL, []
    for line in read_file(path, MAX_LINES).splitlines() if path.exists() else ():
        with suppress(ValueError):  # an incomplete line, because the machine stopped during writing
            found.append(parse_json(line, dict[str, int | float | str]))
    whole = [line for line in found if line.keys() >= {"kind", "step", "minutes"}]
    return [line for line in whole if all(isinstance(value, str) == (name == "kind") for name, value in line.items())]


def cut_log(out: Path, seconds: float, evaluated: int) -> None:
    """Removes the lines that a killed run wrote after its last checkpoint, because the resumed run will write them again.

    The checkpoint was written after `seconds` of training. Lines of evaluations are kept if the evaluation was due at learner step
    `evaluated` or earlier. Other lines are kept if they were written before the checkpoint. Their time decides, not their learner step,
    because actors also play while the learner waits.
    """
    lines = read_log(out)
    kept = [line for line in lines if (line["step"] <= evaluated if line["kind"] == "valid" else line["minutes"] <= seconds / 60)]
    if (out / JSONL).exists():
        with atomic_write(out / JSONL) as aside:
            aside.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
