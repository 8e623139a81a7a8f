"""The services of the soak test, a command each: a training, an evaluation and the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from system import Process, children

from trilith.agents.dqn.learner import RETURNS
from trilith.agents.replay import Replay
from trilith.training import checkpoint
from trilith.training.actor_pool import PolicySpec
from trilith.training.config import run_config

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
"""Maximum seconds for a service to recover from a fault."""
CHECKPOINT_SECONDS = 5.0
SLACK = 10.0
"""Seconds that a checkpoint may be late on a busy machine."""


class Service(ABC):
    """A command, which `recovered` starts again after its end."""

    name: ClassVar[str]

    def __init__(self, work: Path, disk: Path, mark: str) -> None:
        self.work, self.disk = work, disk
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(work / "tmp"),
            "TRILITH_SOAK": mark,
            "OMP_NUM_THREADS": "1",
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.problems: list[str] = []
        """Errors found so far, in words."""
        self.refusals = 0
        """Number of times that the command ended with exit code 2."""

    @abstractmethod
    def line(self) -> list[str]:
        """The arguments of the command `trilith`."""

    def start(self) -> None:
        """Starts the command in its own process group, as a terminal does."""
        self.starts += 1
        with (self.work / f"{self.name}.{self.starts}.err").open("wb") as errors:
            line = [sys.executable, "-m", "trilith.cli", *self.line()]
            self.process = subprocess.Popen(
                line, cwd=self.work, env=self.environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def running(self) -> bool:
        """Whether the command runs. After its end, the first call calls `ended`."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return True
        self.ended(code, (self.work / f"{self.name}.{self.starts}.err").read_text(errors="replace"))
        self.process = None
        return False

    def ended(self, code: int, said: str) -> None:
        """Checks the standard error `said`: no traceback; after a refusal (exit code 2), one line "trilith: …", the last one."""
        if "Traceback" in said:
            self.problems.append(f"{self.name} {self.starts}: a traceback: {said[said.index('Traceback') :][-300:]!r}")
        if code == 2:
            self.refusals += 1
            told = [line for line in said.splitlines() if line.startswith("trilith: ")]
            if len(told) != 1 or not said.rstrip().endswith(told[0]):
                self.problems.append(f"{self.name} {self.starts}: not one line: {said[-300:]!r}")
        elif code not in (0, 130, -signal.SIGKILL, -signal.SIGTERM):
            self.problems.append(f"{self.name} {self.starts}: exit code {code}: {said[-300:]!r}")

    def workers(self) -> list[Process]:
        """The worker processes."""
        return children(self.pid) if self.running() else []

    def kill(self) -> None:
        """Kills the main process (SIGKILL), so that it cannot clean up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.running()

    def interrupt(self, within: float = 60.0) -> float:
        """Sends SIGINT to the group, as Ctrl-C does. Returns the seconds until the command ended."""
        if self.process is None:
            return 0.0
        begin = time.monotonic()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.problems.append(f"{self.name} {self.starts}: did not end within {within:.0f} s of Ctrl-C")
            self.process.kill()
            self.process.wait()
        self.running()
        return time.monotonic() - begin

    @abstractmethod
    def recovered(self) -> bool:
        """Whether the service works again. Starts it if it has ended. Called repeatedly."""


ENDLESS = 10_000_000
"""A number of learner steps that no soak test reaches."""


class Training(Service):
    """A training with two actors and a checkpoint every few seconds, without end unless `steps` is set."""

    name = "training"

    def __init__(self, work: Path, disk: Path, mark: str) -> None:
        super().__init__(work, disk, mark)
        self.out = disk / "run"
        self.least = (0, 0)
        """Learner and actor steps of the checkpoint from which the run resumes: lower counters are an error."""
        self.kept = 0.0
        """Seconds of training in this checkpoint. Earlier log lines are those of earlier processes."""
        self.reached = -1
        self.most_lost = 0.0
        """Maximum seconds of training that a kill lost."""
        self.twice = 0
        self.steps = 0

    def line(self) -> list[str]:
        options = {
            "task": "silhouette", "actors": 2, "checkpoint-seconds": CHECKPOINT_SECONDS, "log-seconds": 0.5, "episodes": 4,
            "evaluate-every": 2000, "evaluate-scenes": 4, "agent.net.width": 16, "agent.net.layers": 1, "agent.net.heads": 2,
            "agent.net.decoder": 16, "agent.batch": 8, "updates-per-step": 0.2, "agent.learning-starts": 100, "agent.replay-mb": 2,
            "steps": self.steps or ENDLESS, "out": self.out,
        }  # fmt: skip
        return ["train", *(str(part) for name, value in options.items() for part in (f"--{name}", value))]

    def logged(self) -> dict[str, Any] | None:
        """The last complete line of the log with the kind "train"; None if there is none."""
        with suppress(OSError):
            for line in reversed((self.out / "log.jsonl").read_bytes().splitlines()[-20:]):
                with suppress(ValueError):
                    entry = json.loads(line)
                    if entry["kind"] == "train":
                        return dict(entry)
        return None

    def look(self) -> None:
        """Reads the checkpoint of a process that has ended. Updates `least`, `kept`, `most_lost` and `twice`."""
        path = self.out / checkpoint.NAME
        if not path.exists():
            return
        arrays, facts = checkpoint.load(path)
        self.goes_on_from(facts)
        if last := self.logged():
            self.most_lost = max(self.most_lost, last["minutes"] * 60 - facts.seconds)
        added = int(arrays["replay.added"])
        if added != facts.actor_steps:
            self.problems.append(f"{added} steps in the replay, {facts.actor_steps} played")
        self.twice += doubles(arrays, self.out)

    def ended(self, code: int, said: str) -> None:
        super().ended(code, said)
        if offered := re.search(r"`(mv [^`]+)`", said):
            subprocess.run(offered[1], shell=True, check=True)
            facts = checkpoint.load(self.out / checkpoint.NAME)[1]
            self.goes_on_from(facts)

    def goes_on_from(self, facts: checkpoint.Facts) -> None:
        """Stores the counters of the checkpoint from which the run resumes."""
        self.least, self.kept = (facts.learner["steps"], facts.actor_steps), facts.seconds

    def start(self) -> None:
        self.reached = -1
        super().start()

    def recovered(self) -> bool:
        if not self.running():
            self.start()
        last = self.logged()
        if last is None or last["minutes"] * 60 <= self.kept:
            return False
        now = (last["step"], last["actor_steps"])
        if self.reached < 0:
            self.reached = last["step"]
            if now[0] < self.least[0] or now[1] < self.least[1]:
                self.problems.append(f"training {self.starts}: went back from {self.least} to {now}")
        return bool(last["step"] > self.reached)

    def has_both(self) -> bool:
        """Whether there is a previous checkpoint, too."""
        return (self.out / checkpoint.NAME).exists() and (self.out / checkpoint.PREVIOUS).exists()


def doubles(arrays: dict[str, Any], out: Path) -> int:
    """The number of repeated episodes in a replay. All requests differ, so equal episodes are one stored twice."""
    config = run_config(out)
    policy = PolicySpec(config.algorithm, config.agent, config.task).make()
    ring = arrays["replay.ring"].reshape(-1).view(Replay(np.dtype([*policy.dtype.descr, *RETURNS]), 0.1).dtype)
    ends = np.flatnonzero(ring["left"] == 1)
    seen: Counter[bytes] = Counter()
    for first, last in zip(ends[:-1] + 1, ends[1:], strict=True):
        if ring["left"][first] == last - first + 1 > 1:  # complete, and longer than one step, because those of one step can be equal
            seen[ring[first : last + 1].tobytes()] += 1
    return sum(count - 1 for count in seen.values())


class Evaluation(Service):
    """One evaluation, repeated. Each result is compared with that of an undisturbed evaluation."""

    name = "evaluation"

    def __init__(self, work: Path, disk: Path, mark: str, scenes: int) -> None:
        super().__init__(work, disk, mark)
        self.scenes, self.finished = scenes, 0
        self.out, self.journal = disk / "results" / "out.json", disk / "results" / ".out.journal"
        self.seen = -1
        self.reference = b""

    def undisturbed(self) -> None:
        """Runs the undisturbed evaluation, whose result is the reference."""
        quiet = self.work / "quiet.json"
        line = [sys.executable, "-m", "trilith.cli", *self.line(quiet)]
        subprocess.run(line, cwd=self.work, env=self.environment, check=True, capture_output=True)
        self.reference = quiet.read_bytes()

    def line(self, out: Path | None = None) -> list[str]:
        options = f"--task connecting --level all --scenes {self.scenes} --workers 2 --worst 3".split()
        return ["evaluate", "legal", *options, "--out", str(out or self.out)]

    def start(self) -> None:
        self.seen = -1
        super().start()

    def ended(self, code: int, said: str) -> None:
        if code == -signal.SIGINT and not said:
            code = 130  # Python was still on its way to the command
        super().ended(code, said)
        if code == 0:
            self.finished += 1
            if self.out.read_bytes() != self.reference:
                self.problems.append(f"evaluation {self.starts}: its result is not that of an undisturbed one")
            self.out.unlink()

    def recovered(self) -> bool:
        finished = self.finished
        if not self.running():
            self.start()
            return self.finished > finished
        size = self.journal.stat().st_size if self.journal.exists() else -1
        if self.seen < 0:
            self.seen = size
        return size > self.seen >= 0


class Page(Service):
    """The page, and twenty visitors."""

    name = "page"
    visitors = 20

    def __init__(self, work: Path, disk: Path, mark: str) -> None:
        super().__init__(work, disk, mark)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.over = threading.Event()
        self.answers: Counter[str] = Counter()
        """Number of answers by status, and of errors by name."""
        self.refused: list[str] = []
        """Answers with a status other than 200."""
        self.crew = 0
        """Maximum number of workers so far."""

    def line(self) -> list[str]:
        return ["web", "--no-browser", "--port", str(self.port)]

    def open_doors(self) -> list[threading.Thread]:
        """Starts the threads of the visitors."""
        crowd = [threading.Thread(target=self._visit, args=(seed,), daemon=True) for seed in range(self.visitors)]
        for each in crowd:
            each.start()
        return crowd

    def post(self, connection: http.client.HTTPConnection, name: str, data: Any) -> dict[str, Any]:
        """Sends a request and returns its answer. Raises RuntimeError if the status is not 200."""
        connection.request("POST", f"/api/{name}", json.dumps(data), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        self.answers[str(response.status)] += 1
        if response.status != 200:
            self.refused.append(f"{response.status} {body[:200].decode(errors='replace')}")
            raise RuntimeError(f"{response.status}")
        return dict(json.loads(body))

    def _visit(self, seed: int) -> None:
        """One visitor: starts scenes and places blocks at random, about every two seconds, until `over` is set."""
        rng = np.random.default_rng(seed)
        connection, state = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), None
        while not self.over.wait(float(rng.uniform(1, 3))):
            try:
                if state is None or json.loads(state)["ended"]:
                    scene = {"task": "covering", "level": 0, "seed": int(rng.integers(1000))}
                    state = self.post(connection, "start", scene)["moments"][0]["state"]
                placed = [int(rng.integers(7)), float(rng.uniform(-6, 6)), float(rng.uniform(0.4, 8)), bool(rng.integers(2))]
                state = self.post(connection, "step", {"state": state, "placement": placed})["state"]
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                if not isinstance(error, RuntimeError):
                    self.answers[type(error).__name__] += 1
                connection.close()
                state = None

    def recovered(self) -> bool:
        if not self.running():
            self.start()
            return False
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self.post(connection, "start", {"task": "covering", "level": 0, "seed": 1})
            workers = len(self.workers())
            self.crew = max(self.crew, workers)
            return workers == self.crew > 0  # all of those that died are replaced
        except (OSError, RuntimeError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def cut(self, rng: np.random.Generator) -> None:
        """Cuts a connection in a request or before its answer."""
        body = json.dumps({"task": "covering", "level": 0, "seed": 1}).encode()
        host = f"Host: 127.0.0.1:{self.port}"
        head = ["POST /api/start HTTP/1.1", host, "Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        whole = "\r\n".join(head).encode() + body
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
            line.sendall(whole[: int(rng.integers(1, len(whole) + 1))])
            if rng.integers(2):
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset rather than a goodbye
