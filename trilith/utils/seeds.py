"""Folders of runs that differ only in their seeds: `trilith train --seeds 2 --out runs/x` makes runs/x/seed0 and runs/x/seed1."""

from __future__ import annotations

import re
from pathlib import Path


def seed_folder(out: Path, seed: int) -> Path:
    """The folder of one seed."""
    return out / f"seed{seed}"


def run_and_seed(agent: str) -> tuple[Path, int]:
    """The folder with all seeds of an agent, and its seed. An agent that is not one of several seeds is its own folder, with seed 0."""
    path = Path(agent)
    of_seed = re.fullmatch(r"seed(\d+)", path.name)
    return (path.parent, int(of_seed[1])) if of_seed and path.parent.name else (path, 0)


def seed_runs(agent: str) -> list[str]:
    """The folders of all seeds of an agent, in the order of seeds. An agent that is not a folder of several seeds is returned alone."""
    found = [(int(path.name[4:]), str(path)) for path in Path(agent).glob("seed*") if path.name[4:].isdecimal() and path.is_dir()]
    return [run for _, run in sorted(found)] or [agent]
