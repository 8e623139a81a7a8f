"""Tables and progress in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table_of(*columns: str) -> Table:
    """Makes an empty table with these column titles. The first column is left-aligned, the others are right-aligned."""
    from rich.table import Table

    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def show(table: Table) -> None:
    """Prints a table."""
    from rich.console import Console

    console = Console()
    # Piped output has no width of its own, so a table must not be squeezed into 80 columns.
    (console if console.is_terminal else Console(width=160)).print(table)


def tracked(name: str, total: int, rewards: list[float], parts: Iterable[list[float]], without: str = "") -> None:
    """Appends the rewards of episodes to `rewards` as the episodes finish, and shows progress. `parts` must save episodes before it
    yields their rewards.

    Ctrl-C ends the program with exit code 130. A printed line then says that the same command resumes.

    Args:
        name: title of the progress bar.
        total: number of episodes, finished ones included.
        rewards: the rewards of the episodes that were finished before.
        parts: yields the rewards of episodes that have just finished, in lists.
        without: an option to drop from the command when resuming, as --fresh. Empty if there is none.
    """
    with Progress(name, total, len(rewards)) as progress:
        try:
            for part in parts:
                rewards += part
                progress.add(len(part), f"reward {sum(rewards) / len(rewards):.3f}")
        except KeyboardInterrupt:
            progress.stop()
            command = f"the same command{f' without {without}' if without else ''}"
            print(f"stopped: {len(rewards)} of {total} episodes are kept, {command} resumes from there", file=sys.stderr)
            raise SystemExit(130) from None


class Progress:
    """Shows progress on standard error: a moving bar in a terminal, otherwise a line every `pause` seconds.

    `name` is the title, `total` the amount of work, and `done` the part of it that was done before. By default the work done is shown as a
    count, such as "3 of 10". With `share`, it is shown as a percentage.
    """

    pause = 10.0
    """Least number of seconds between two lines of progress, where standard error is not a terminal."""

    def __init__(self, name: str, total: float, done: float = 0, *, share: bool = False) -> None:
        from rich import progress
        from rich.console import Console

        self.name, self.total, self.done, self.share = name, total, done, share
        self._before, self._begin, self._told = done, time.monotonic(), time.monotonic()
        console = Console(stderr=True)
        columns = progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TextColumn("{task.fields[status]}")
        self._bar = progress.Progress(*columns, console=console, disable=not console.is_terminal)
        self._row = self._bar.add_task(name, total=total, completed=int(done), status="")

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the bar, so that other output can be written to the terminal."""
        if not self._bar.disable:  # a disabled bar would print an empty line
            self._bar.stop()

    def add(self, count: float, status: str) -> None:
        """Adds `count` to the work done, and shows the text `status` beside it."""
        self.done += count
        now = time.monotonic()
        self._bar.update(self._row, completed=self.done, status=f"{self._how_far(now)}, {status}")
        if self._bar.disable and now - self._told >= self.pause:
            self._told = now
            print(f"{self.name}: {self._how_far(now)}, {status}", file=sys.stderr, flush=True)

    def _how_far(self, now: float) -> str:
        """Returns the work done and an estimate of the time left, as text. The estimate assumes the mean speed so far. `now` is the time on
        the clock `time.monotonic`."""
        speed = max(self.done - self._before, 1e-9) / max(now - self._begin, 1e-9)
        left = f"{max(self.total - self.done, 0.0) / speed:.0f} s left"  # rounding can bring `done` slightly above the total
        if self.share:
            return f"{self.done / self.total:.0%}, {left}"
        return f"{self.done:.0f} of {self.total:.0f}, {speed:.1f}/s, {left}"
