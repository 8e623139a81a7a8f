"""The command `verify`, which checks a ledger by replay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trilith.utils.checks import require
from trilith.utils.console import Progress


@dataclass
class Verify:
    """Check a ledger by replay: repeat all actions of every entry. The rewards, and the reasons why episodes ended, must be the same.

    Example: trilith verify ledger
    """

    ledger: Positional[Annotated[Path, arg(metavar="FOLDER")]] = Path("ledger")
    """Folder with the entries."""
    runs: Path = Path("runs/paper")
    """Folder with training runs. If it has the weights of an entry's agent, this agent must choose the same actions again in some
    scenes."""
    workers: int = 2
    """Number of processes."""

    def run(self) -> None:
        """Prints a line for each entry that fails the check, then raises ValueError if there is any."""
        from trilith.paper.ledger import entry_files
        from trilith.paper.verify import verify

        files = entry_files(self.ledger)
        require(files, f"{self.ledger} has no entries of a ledger")
        episodes = redecided = 0
        wrong = []
        with Progress("replay", len(files)) as progress:
            for checked in verify(self.ledger, self.runs, self.workers):
                episodes += checked.episodes
                redecided += checked.redecided > 0
                wrong += [checked.problem] if checked.problem else []
                progress.add(1, f"{episodes} episodes, {len(wrong)} entries do not hold")
        for problem in sorted(wrong):
            print(problem)
        require(not wrong, f"{len(wrong)} of {len(files)} entries do not hold")
        print(f"{len(files)} entries, {episodes} episodes: all rewards and reasons are those of the replay.")
        print(f"{redecided} agents decided the same again; for {len(files) - redecided} entries it is not proved who chose the actions.")
