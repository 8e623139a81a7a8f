"""Presses Ctrl-C at random moments of a training and of an evaluation, and checks that each saves its work and leaves nothing behind.

python robustness/interrupt.py [--moments 20] [--seed 0]

The command is repeated after each Ctrl-C, so that Ctrl-C hits starts, resumes and running work. Checks that the command ends within 10 s
with exit code 130, no traceback, no process or temporary file left, and readable saved work that never shrinks. Linux only. Prints a table;
ends with an error if a check fails.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from trilith.training import checkpoint
from trilith.utils.console import show, table_of

ROOT = Path(__file__).resolve().parent.parent
WITHIN = 10.0
TOO_EARLY = "Python was still on its way to the command"
"""The result of `press` if Python died before it ran code of trilith. Such a moment does not count."""
TRAIN = (
    "train --task silhouette --actors 2 --episodes 4 --checkpoint-seconds 3600 --log-seconds 0.5 --evaluate-scenes 2 --evaluate-every 50 "
    "--agent.net.width 16 --agent.net.layers 1 --agent.net.heads 2 --agent.net.decoder 16 --agent.batch 8 --updates-per-step 0.2 "
    "--agent.learning-starts 40 --agent.replay-mb 1 --agent.corrections-per-update 0 --out run"
)
EVALUATE = "evaluate planner --task covering_hard --level all --scenes 10000 --workers 2 --out results/out.json"


@dataclass
class Options:
    """Options of the test."""

    moments: int = 20
    """Number of interrupts of each command."""
    seconds: float = 15.0
    """Latest moment of an interrupt, in seconds after the start of the command."""
    seed: int = 0


def saved_training(folder: Path) -> int:
    """Learner steps of the checkpoint; -1 if there is none. Raises ValueError if the log has more."""
    path = folder / "run" / checkpoint.NAME
    steps = int(checkpoint.load(path)[1].learner["steps"]) if path.exists() else -1
    log = folder / "run" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    logged = max((line["step"] for line in lines if line["kind"] == "train"), default=-1)
    if logged > max(steps, 0):
        raise ValueError(f"the checkpoint has {steps} learner steps, the log {logged}")
    return steps


def saved_evaluation(folder: Path) -> int:
    """Number of groups of episodes in the journal; -1 if there is no journal."""
    path = folder / "results" / ".out.journal"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else -1


def in_group(group: int) -> bool:
    """Whether any process of the process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def press(line: str, folder: Path, after: float) -> tuple[float, list[str]]:
    """Starts a command, and presses Ctrl-C `after` seconds later. Returns the seconds until it ended, and the errors found."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "trilith.cli", *line.split()]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(after)
    if process.poll() is not None:
        return 0.0, [f"it ended by itself, with {process.returncode}"]
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    wrong = []
    try:
        _, said = process.communicate(timeout=6 * WITHIN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 6 * WITHIN, ["it did not end"]
    seconds = time.monotonic() - begin
    if seconds > WITHIN:
        wrong.append(f"it took {seconds:.1f} s")
    if process.returncode == -signal.SIGINT and f"{ROOT}{os.sep}trilith" not in said:
        return seconds, [TOO_EARLY]
    if process.returncode != 130:
        wrong.append(f"exit code {process.returncode}")
    if "Traceback" in said:
        wrong.append(f"a traceback: {said.strip().splitlines()[-1]}")
    while in_group(process.pid) and time.monotonic() - begin < WITHIN:
        time.sleep(0.1)  # Python's own helper of worker processes ends after the others
    if in_group(process.pid):
        wrong.append("processes are left")
        os.killpg(process.pid, signal.SIGKILL)
    wrong += [
        f"{path} is left"
        for path in folder.rglob("*")
        if ".part" in path.name or (path.name.startswith(("tmp", ".tmp")) and path.name != "tmp")
    ]
    return seconds, wrong


def main() -> None:
    """Interrupts both commands, and prints the table."""
    options = tyro.cli(Options, description=__doc__)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in the background
    rng, failed = np.random.default_rng(options.seed), 0
    table = table_of("command", "Ctrl-C", "well", "median s", "longest s", "saved at the end")
    commands: list[tuple[str, str, Callable[[Path], int]]] = [
        ("train", TRAIN, saved_training),
        ("evaluate", EVALUATE, saved_evaluation),
    ]
    for name, line, saved in commands:
        folder = Path(tempfile.mkdtemp(prefix="trilith_interrupt"))
        (folder / "tmp").mkdir()
        times, well, before = [], 0, -1
        for number in range(options.moments):
            wrong = [TOO_EARLY]
            while wrong == [TOO_EARLY]:
                after = float(rng.uniform(0.3, options.seconds))
                seconds, wrong = press(line, folder, after)
            times.append(seconds)
            try:
                now = saved(folder)
                if now < before:
                    wrong.append(f"what was saved went back from {before} to {now}")
                before = max(now, before)
            except ValueError as error:
                wrong.append(str(error))
            well += not wrong
            told = "; ".join(wrong) or f"well, {before} saved"
            print(f"{name} {number + 1}: Ctrl-C after {after:.1f} s, ended after {seconds:.1f} s: {told}", file=sys.stderr, flush=True)
        failed += options.moments - well
        table.add_row(name, str(options.moments), str(well), f"{np.median(times):.1f}", f"{max(times):.1f}", str(before))
        shutil.rmtree(folder, ignore_errors=True)
    show(table)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
