"""Runs a training with two actors, an evaluation and the page with 20 visitors, while a thread for each injects faults.

python robustness/soak [--minutes 10] [--seed 0] [--out FOLDER]

Faults kill, stop and continue processes, press Ctrl-C, fill and free a small disk (a tmpfs, if one may be mounted), flip bits in files from
which a service resumes, and cut connections. A fault is survived if the service works again within four minutes. Checks: counters never
fall below those of the checkpoint, no episode is in the replay twice, results equal undisturbed ones byte for byte, no orphan, zombie or
temporary file is left, memory and descriptors do not grow, each refusal is one line. Ends with an error if one fails.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tyro
from services import CHECKPOINT_SECONDS, PATIENCE, SLACK, Evaluation, Page, Service, Training
from system import fill, marked, mount, processes, unmount, usage

from trilith.training import checkpoint
from trilith.utils.console import show, table_of

DISK_MB = 48
Fault = Callable[[np.random.Generator], str | None]
"""Injects a fault and returns a text about it; None if this fault is not possible now."""


@dataclass
class Options:
    """Options of the soak test."""

    minutes: float = 10.0
    """Duration of the faults in minutes."""
    seed: int = 0
    """Seed of the faults."""
    out: Path | None = None
    """Folder for all files; by default a temporary one."""
    scenes: int = 600
    """Number of scenes of the evaluation."""


class Gremlin:
    """Injects faults, in one thread per service, and logs them at `path`."""

    def __init__(self, seed: int, path: Path, has_disk: bool) -> None:
        self.seed, self.path, self.has_disk = seed, path, has_disk
        self.over = threading.Event()
        self.injected: Counter[str] = Counter()
        self.survived: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.disk_is_full = threading.Lock()
        """Held while the disk is full."""

    def log(self, **entry: Any) -> None:
        """Appends a line to the log."""
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": round(time.time(), 2), **entry}) + "\n")

    def haunt(self, service: Service, faults: dict[str, Fault], number: int) -> None:
        """Injects faults into `service` until `over` is set. `number` is part of the seed."""
        rng = np.random.default_rng([self.seed, number])
        names = sorted(faults)
        while not self.over.wait(float(rng.uniform(0.5, 4))):
            name = names[int(rng.integers(len(names)))]
            kind = f"{service.name}: {name}"
            try:
                about = faults[name](rng)
            except Exception as error:
                service.problems.append(f"{kind}: {type(error).__name__}: {error}")
                continue
            if about is None:
                continue
            self.injected[kind] += 1
            begin = time.monotonic()
            self.log(fault=kind, about=about)
            try:
                well = await_(service)
            except Exception as error:
                well = False
                service.problems.append(f"{kind}: {type(error).__name__}: {error}")
            self.log(fault=kind, recovered=well, seconds=round(time.monotonic() - begin, 1))
            if well:
                self.survived[kind] += 1


def await_(service: Service) -> bool:
    """Whether the service works again within `PATIENCE` seconds."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if service.recovered():
            return True
        time.sleep(0.2)
    return False


def stopped(pids: list[int], rng: np.random.Generator) -> str | None:
    """Fault: stops one of these processes for 0.5 to 8 s, then continues it."""
    if not pids:
        return None
    pid, seconds = pids[int(rng.integers(len(pids)))], float(rng.uniform(0.5, 8))
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return None
    return f"{pid} for {seconds:.1f} s"


def killed(pids: list[int], rng: np.random.Generator) -> str | None:
    """Fault: kills one of these processes."""
    if not pids:
        return None
    pid = pids[int(rng.integers(len(pids)))]
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return str(pid)


def flip(path: Path, rng: np.random.Generator) -> str | None:
    """Fault: flips one bit of a file. None if the file is missing or empty."""
    if not path.exists() or not path.stat().st_size:
        return None
    data = bytearray(path.read_bytes())
    at, bit = int(rng.integers(len(data))), int(rng.integers(8))
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"{path.name}, byte {at}, bit {bit}"


def training_faults(training: Training, gremlin: Gremlin, disk: Path) -> dict[str, Fault]:
    """The faults of a training, by name."""

    def pids() -> list[int]:
        return [each.pid for each in training.workers()]

    def kill(rng: np.random.Generator) -> str | None:
        training.kill()
        training.look()
        return "main process"

    def ctrl_c(rng: np.random.Generator) -> str | None:
        seconds = training.interrupt()
        training.look()
        return f"ended after {seconds:.1f} s"

    def flipped(rng: np.random.Generator) -> str | None:
        if not training.has_both():
            return None
        training.kill()
        training.look()
        before = checkpoint.load(training.out / checkpoint.PREVIOUS)[1]
        training.least = (before.learner["steps"], before.actor_steps)
        return flip(training.out / checkpoint.NAME, rng)

    def full(rng: np.random.Generator) -> str | None:
        seconds = float(rng.uniform(2, 8))
        with gremlin.disk_is_full:
            size = fill(disk / "ballast")
            time.sleep(seconds)
            (disk / "ballast").unlink(missing_ok=True)
        freed = time.time()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:  # until there is a new checkpoint or no training
            if not training.running():
                break
            path = training.out / checkpoint.NAME
            if path.exists() and path.stat().st_mtime > freed:
                break
            time.sleep(0.2)
        return f"{size} bytes for {seconds:.1f} s"

    def stop(rng: np.random.Generator) -> str | None:
        return stopped([training.pid], rng) if training.running() else None

    faults: dict[str, Fault] = {
        "kill": kill,
        "Ctrl-C": ctrl_c,
        "kill an actor": lambda rng: killed(pids(), rng),
        "stop an actor": lambda rng: stopped(pids(), rng),
        "stop": stop,
        "flip a bit of the checkpoint": flipped,
    }
    return faults | ({"full disk": full} if gremlin.has_disk else {})


def evaluation_faults(evaluation: Evaluation) -> dict[str, Fault]:
    """The faults of an evaluation, by name."""

    def pids() -> list[int]:
        return [each.pid for each in evaluation.workers()]

    def kill(rng: np.random.Generator) -> str | None:
        evaluation.kill()
        return "main process"

    def flipped(rng: np.random.Generator) -> str | None:
        evaluation.kill()
        return flip(evaluation.journal, rng)

    return {
        "kill": kill,
        "Ctrl-C": lambda rng: f"ended after {evaluation.interrupt():.1f} s",
        "kill a worker": lambda rng: killed(pids(), rng),
        "stop a worker": lambda rng: stopped(pids(), rng),
        "flip a bit of the journal": flipped,
    }


def page_faults(page: Page) -> dict[str, Fault]:
    """The faults of the page, by name."""

    def pids() -> list[int]:
        return [each.pid for each in page.workers()]

    def kill(rng: np.random.Generator) -> str | None:
        if rng.integers(4):  # not so often: its memory is watched
            return None
        page.kill()
        return "main process"

    def cut(rng: np.random.Generator) -> str | None:
        count = int(rng.integers(1, 20))
        for _ in range(count):
            page.cut(rng)
        return f"{count} connections"

    return {
        "kill": kill,
        "kill a worker": lambda rng: killed(pids(), rng),
        "stop a worker": lambda rng: stopped(pids(), rng),
        "cut connections": cut,
    }


class Watch:
    """Samples memory and descriptors of main processes, and zombies, every 3 s."""

    def __init__(self, services: list[Service]) -> None:
        self.services = services
        self.seen: dict[tuple[str, int], list[tuple[float, int]]] = {}
        self.zombies: Counter[int] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        """Samples until `over` is set."""
        while not self.over.wait(3):
            for service in self.services:
                process = service.process
                if process is not None and (now := usage(process.pid)):
                    self.seen.setdefault((service.name, process.pid), []).append(now)
            mains = {service.process.pid for service in self.services if service.process is not None}
            for each in processes():
                if each.state == "Z" and each.parent in mains:
                    self.zombies[each.pid] += 1

    def growth(self) -> list[str]:
        """In words, what grew from the middle third of the samples to the last, in processes that lived for two minutes or more."""
        told = []
        for (name, pid), samples in self.seen.items():
            third = len(samples) // 3
            if len(samples) < 40:
                continue
            for what, k, allowed in (("MB", 0, 30.0), ("descriptors", 1, 12)):
                middle, late = (median(sample[k] for sample in part) for part in (samples[third : 2 * third], samples[2 * third :]))
                if late > 1.1 * middle + allowed:
                    told.append(f"{name} {pid}: from {middle:.0f} to {late:.0f} {what}")
        return told


def leftovers(*folders: Path) -> list[str]:
    """The temporary files in these folders."""
    return [str(path) for folder in folders for path in folder.rglob("*") if ".part" in path.name or path.name.startswith((".tmp", "tmp"))]


def main() -> None:
    """Starts the services, injects faults, checks and prints."""
    options = tyro.cli(Options, description=__doc__)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in the background
    work = options.out or Path(tempfile.mkdtemp(prefix="trilith_soak"))
    work.mkdir(parents=True, exist_ok=True)
    (work / "tmp").mkdir(exist_ok=True)
    mark, disk = f"{os.getpid()}-{time.time_ns()}", work / "disk"
    has_disk = mount(disk, DISK_MB)
    disk.mkdir(exist_ok=True)
    if not has_disk:
        print("no small disk could be mounted (that needs root): disks are not filled", file=sys.stderr)
    training, page = Training(work, disk, mark), Page(work, disk, mark)
    evaluation = Evaluation(work, disk, mark, options.scenes)
    services: list[Service] = [training, evaluation, page]
    gremlin, watch = Gremlin(options.seed, work / "gremlin.jsonl", has_disk), Watch(services)
    try:
        passed = soak(options, gremlin, watch, training, evaluation, page, work, disk, mark)
    finally:
        gremlin.over.set()
        watch.over.set()
        page.over.set()
        for service in services:
            if service.process is not None:
                service.kill()
        for each in marked(mark):
            os.kill(each.pid, signal.SIGKILL)
        if has_disk:
            unmount(disk)
    print(f"the gremlin's log: {gremlin.path}")
    if options.out is None and passed:
        shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(0 if passed else 1)


def soak(
    options: Options, gremlin: Gremlin, watch: Watch, training: Training, evaluation: Evaluation, page: Page,
    work: Path, disk: Path, mark: str,
) -> bool:  # fmt: skip
    """Runs the services with faults, then to their ends without. Returns whether all went well."""
    evaluation.undisturbed()
    services: list[Service] = [training, evaluation, page]
    for service in services:
        service.start()
    for service in services:
        if not await_(service):
            raise SystemExit(f"{service.name} did not start: see {work}")
    visitors = page.open_doors()
    threads = [
        threading.Thread(target=gremlin.haunt, args=(training, training_faults(training, gremlin, disk), 0)),
        threading.Thread(target=gremlin.haunt, args=(evaluation, evaluation_faults(evaluation), 1)),
        threading.Thread(target=gremlin.haunt, args=(page, page_faults(page), 2)),
        threading.Thread(target=watch.run),
    ]
    begin = time.monotonic()
    for each in threads:
        each.start()
    while (passed := time.monotonic() - begin) < options.minutes * 60:
        time.sleep(min(30.0, options.minutes * 60 - passed))
        faults, well = gremlin.injected.total(), gremlin.survived.total()
        print(f"{(time.monotonic() - begin) / 60:.1f} of {options.minutes:g} min: {faults} faults, {well} survived", file=sys.stderr)
    gremlin.over.set()
    for each in threads[:-1]:
        each.join()
    watch.over.set()
    page.over.set()
    for visitor in visitors:
        visitor.join(70)

    # The end: Ctrl-C to all, then training and evaluation once more to their ends, undisturbed.
    ends = {service.name: service.interrupt() for service in services}
    training.look()
    training.steps = training.least[0] + 20
    training.start()
    finished, end = evaluation.finished, time.monotonic() + PATIENCE
    while (evaluation.finished == finished or training.running()) and time.monotonic() < end:
        if evaluation.finished == finished:
            evaluation.recovered()
        time.sleep(0.2)
    if evaluation.finished == finished or training.running():
        training.problems.append(f"training or evaluation did not come to its end within {PATIENCE:.0f} s")
    evaluation.kill()
    training.kill()
    training.look()
    time.sleep(3)
    orphans = marked(mark)
    return tell(gremlin, watch, training, evaluation, page, ends, orphans, leftovers(work / "tmp", disk))


def tell(
    gremlin: Gremlin, watch: Watch, training: Training, evaluation: Evaluation, page: Page,
    ends: dict[str, float], orphans: list[Any], left: list[str],
) -> bool:  # fmt: skip
    """Prints the tables. Returns whether all faults were survived and all checks passed."""
    table = table_of("fault", "injected", "survived", "lost")
    for kind, count in sorted(gremlin.injected.items()):
        table.add_row(kind, str(count), str(gremlin.survived[kind]), str(count - gremlin.survived[kind]))
    lost = gremlin.injected.total() - gremlin.survived.total()
    table.add_row("all", str(gremlin.injected.total()), str(gremlin.survived.total()), str(lost))
    show(table)
    problems = [*training.problems, *evaluation.problems, *page.problems]
    bad = [status for status in page.answers if status in ("500", "502")]  # 503 and 504 say that there was nobody to answer in time
    zombies = [pid for pid, count in watch.zombies.items() if count > 3]
    checks: list[tuple[str, str, bool]] = [
        ("training lost at a kill at most", f"{training.most_lost:.1f} s", training.most_lost <= CHECKPOINT_SECONDS + SLACK),
        ("learner steps, starts of the training", f"{training.least[0]}, {training.starts}", True),
        ("episodes that are twice in a replay", str(training.twice), not training.twice),
        ("evaluations finished, all byte-equal", str(evaluation.finished), evaluation.finished > 0),
        ("refusals, each one line", str(sum(each.refusals for each in (training, evaluation, page))), True),
        ("answers of the page", ", ".join(f"{count} × {status}" for status, count in sorted(page.answers.items())), not bad),
        ("  refused with", "; ".join(sorted(set(page.refused))[:5]) or "nothing", True),
        ("Ctrl-C at the end, seconds", ", ".join(f"{name} {seconds:.1f}" for name, seconds in ends.items()), max(ends.values()) < 10),
        ("orphans", ", ".join(map(str, orphans)) or "none", not orphans),
        ("zombies", ", ".join(map(str, zombies)) or "none", not zombies),
        ("temporary files", ", ".join(left) or "none", not left),
        ("memory and descriptors", ", ".join(watch.growth()) or "flat", not watch.growth()),
        ("anything else", "; ".join(problems) or "nothing", not problems),
    ]
    table = table_of("check", "found", "")
    for name, found, well in checks:
        table.add_row(name, found, "ok" if well else "NOT OK")
    show(table)
    return not lost and all(well for *_, well in checks)


if __name__ == "__main__":
    main()
