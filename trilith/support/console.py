"""Tables and progress in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def table_of(*columns: str) -> Table:
    """An empty table, the first column aligned to the left and the others to the right."""
    from rich.table import Table

    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def show(table: Table) -> None:
    """Prints a table."""
    from rich.console import Console

    console = Console()
    # Piped output has no width of its own: a table must not be squeezed into 80 columns there.
    (console if console.is_terminal else Console(width=160)).print(table)


class Progress:
    """How far the work is, on standard error: a moving bar in a terminal, elsewhere a line now and then."""

    pause = 10.0
    """Seconds between lines."""

    def __init__(self, name: str, total: int, done: int = 0) -> None:
        from rich.console import Console

        self.name, self.total, self.done = name, total, done
        self._before, self._begin, self._told = done, time.monotonic(), time.monotonic()
        console = Console(stderr=True)
        self._bar = _bar(console) if console.is_terminal else None
        self._row = self._bar.add_task(name, total=total, completed=done, status="") if self._bar else None

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leaves the terminal to others."""
        if self._bar:
            self._bar.stop()

    def add(self, count: int, status: str) -> None:
        """So many more are done."""
        self.done += count
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._row, completed=self.done, status=status)
        elif now - self._told >= self.pause:
            self._told = now
            speed = (self.done - self._before) / max(now - self._begin, 1e-9)
            left = (self.total - self.done) / speed
            print(f"{self.name}: {self.done} of {self.total}, {speed:.1f}/s, {left:.0f} s left, {status}", file=sys.stderr, flush=True)


def _bar(console: Any) -> Any:
    """A bar with counts, speed, time left and a status."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Speed(ProgressColumn):
        """Steps a second."""

        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
    )
