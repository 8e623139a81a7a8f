"""Folders of training runs that differ only in their seeds. For example, `trilith train --seeds 2 --out runs/x` makes two folders,
runs/x/seed0 and runs/x/seed1."""

from __future__ import annotations

import re
from pathlib import Path


def seed_folder(out: Path, seed: int) -> Path:
    """The folder of the run with one seed, inside `out`."""
    return out / f"seed{seed}"


def run_and_seed(agent: str) -> tuple[Path, int]:
    """Splits the folder of an agent into run and seed: runs/x/seed1 gives (runs/x, 1). Any other path gives (path, 0), and so does a folder
    such as seed1 without a folder above it."""
    path = Path(agent)
    of_seed = re.fullmatch(r"seed(\d+)", path.name)
    return (path.parent, int(of_seed[1])) if of_seed and path.parent.name else (path, 0)


def seed_runs(agent: str) -> list[str]:
    """The folders seed0, seed1, … inside the folder `agent`, in order of their seeds. If there are none, the list contains only `agent`."""
    found = [(int(path.name[4:]), str(path)) for path in Path(agent).glob("seed*") if path.name[4:].isdecimal() and path.is_dir()]
    return [run for _, run in sorted(found)] or [agent]
