"""Workers on a Ray cluster: a pool that does every job once, whatever dies meanwhile. Knows nothing of blocks.

A job has a number. What it needs beside its own few bytes (weights, say) is put into the object store once and passed by reference.
If the worker that has a job dies, or its node does, another gets it; whichever attempt delivers a result first, that one is taken,
and the others are dropped. Each worker is given a few jobs at a time, no more, and results are fetched by `ray.wait`, so nothing
piles up anywhere.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trilith.utils.distributed.pool import Work
from trilith.utils.distributed.ray_cluster import Cluster, node_name, other_version, package_version

RETRY_SECONDS = 30.0
"""When to try again to start a worker that could not be started where the cluster put it."""
QUEUE = 2
"""Jobs that a worker has at a time: it goes on with the next while the result of the last is on its way."""
MAX_DEATHS = 4
"""Workers that may die of one job; more are no accident."""
BEAT_SECONDS = 30.0
"""A worker with a job that has said nothing for so long is asked whether it lives."""
STALL_SECONDS = 300.0
"""One that has not said so after this is replaced."""
SAID_LINES = 5
"""Lines of what was printed during a job that are told, the last ones."""


class Answer(NamedTuple):
    """What came of a job."""

    job: Any
    result: Any


@dataclass(eq=False)
class _Worker:
    """A Ray actor, as the pool knows it."""

    number: int
    handle: Any
    hello: Any
    """Reference to its first word; None once that is heard."""
    node: str = "?"
    pid: int = 0
    jobs: dict[Any, int] = field(default_factory=dict)
    """Numbers of the jobs that it has, by the references to their results, oldest first."""
    heard: float = 0.0
    """When it was last known to live."""
    beat: Any = None
    """Reference to the answer to whether it lives."""
    gone: bool = False


@dataclass
class _Job:
    """A job that has no result yet."""

    job: Any
    shared: Any
    """Reference to what it needs beside."""
    deaths: int = 0


class Pool:
    """So many workers on a cluster. One that dies is replaced where there is room, now or later, and its jobs are given to others."""

    def __init__(
        self, cluster: Cluster, make: Callable[[], Work], count: int, cpus: float, concurrency: int = 1, what: str = "worker"
    ) -> None:
        """Each of the workers calls `make`, which has to be known to pickle, and does jobs by what that gives.

        With a `concurrency` a worker does several jobs at a time, in threads.
        """
        cluster.check_room(count, cpus)
        self.notes: list[str] = []
        """What to tell about workers, since last read."""
        self._ray, self._cluster, self._make, self._what = cluster.ray, cluster, pickle.dumps(make), what
        options = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": concurrency}
        self._class = self._ray.remote(**options, concurrency_groups={"beat": 1})(_worker_class(self._ray))
        self._queue = QUEUE * concurrency
        self._jobs: dict[int, _Job] = {}
        self._again: list[int] = []
        """Jobs whose worker died."""
        self._sent = 0
        self._shared: tuple[Any, Any] = (None, None)
        """What the last job needed beside, and the reference to it."""
        self._attempts: dict[Any, tuple[int, _Worker]] = {}
        """Jobs and their workers, by the reference to the result."""
        self._later: list[tuple[float, int]] = []
        """When to start which worker again."""
        self._failed_starts: Counter[int] = Counter()
        self._workers = [self._start(number) for number in range(count)]

    def _start(self, number: int) -> _Worker:
        handle = self._class.remote(self._make)
        return _Worker(number, handle, handle.hello.remote(package_version()))

    # ---- what its user calls

    def ready(self) -> tuple[int, int]:
        """Workers that have begun, and their nodes."""
        ready = [worker.node for worker in self._workers if worker.hello is None]
        return len(ready), len(set(ready))

    def idle(self) -> int:
        """How many jobs could be sent now."""
        free = sum(self._queue - len(worker.jobs) for worker in self._workers if worker.hello is None)
        return max(free - len(self._again), 0)

    def send(self, job: Any, shared: Any = None) -> None:
        """Gives a job to the worker that has the fewest. Never waits. `shared` is sent to the cluster once for all jobs in a row that
        have the same one."""
        if shared is not self._shared[0]:
            self._shared = (shared, self._ray.put(shared))
        self._sent += 1
        self._jobs[self._sent] = _Job(job, self._shared[1])
        self._again.append(self._sent)
        self._assign()

    def receive(self, timeout: float) -> list[Answer]:
        """What has come in since; waits for at most `timeout` seconds if there is nothing yet.

        Raises ValueError in one line if a job failed, or kills whatever does it.
        """
        self._look_after()
        words = {ref: worker for worker in self._workers for ref in (worker.hello, worker.beat) if ref is not None}
        waiting = [*self._attempts, *words]
        if not waiting:
            time.sleep(timeout)
            return []
        ready, others = self._ray.wait(waiting, num_returns=1 if timeout else len(waiting), timeout=timeout)
        if timeout and ready and others:
            ready += self._ray.wait(others, num_returns=len(others), timeout=0)[0]
        answers = []
        for ref in ready:
            if ref in self._attempts:
                answers += self._result(ref)
            elif not words[ref].gone:
                self._word(ref, words[ref])
        self._assign()
        return answers

    def close(self) -> None:
        """Ends the workers; they hold nothing that could be lost."""
        for worker in self._workers:
            with suppress(Exception):  # the cluster may be gone before us
                self._ray.kill(worker.handle)
        self._workers.clear()
        self._attempts.clear()
        self._jobs.clear()

    # ---- inside

    def _assign(self) -> None:
        """Gives jobs that nobody has to workers that have room."""
        while self._again:
            free = [worker for worker in self._workers if worker.hello is None and len(worker.jobs) < self._queue]
            if not free:
                return
            worker, number = min(free, key=lambda each: len(each.jobs)), self._again.pop(0)
            if not worker.jobs:
                worker.heard = time.monotonic()
            job = self._jobs[number]
            ref = worker.handle.do.remote(job.job, job.shared)
            worker.jobs[ref] = number
            self._attempts[ref] = (number, worker)

    def _result(self, ref: Any) -> list[Answer]:
        """The answer of an attempt; none if it failed, or if another has delivered before."""
        number, worker = self._attempts.pop(ref)
        try:
            result, error, said = pickle.loads(self._ray.get(ref))
        except self._ray.exceptions.RayError as lost:
            self._lose(worker, _death(lost))
            return []
        worker.jobs.pop(ref, None)
        worker.heard = time.monotonic()
        self.notes += [f"{self._name(worker)}: {line}" for line in said]
        if error:
            raise ValueError(f"{self._name(worker)} failed: {error}")  # the same job would fail again
        job = self._jobs.pop(number, None)
        if number in self._again:  # the attempt that was given up has delivered after all
            self._again.remove(number)
        return [Answer(job.job, result)] if job else []

    def _word(self, ref: Any, worker: _Worker) -> None:
        """Hears a worker's first word, or that it lives."""
        try:
            said = self._ray.get(ref)
        except self._ray.exceptions.RayError as lost:
            self._lose(worker, _death(lost))
            return
        worker.heard = time.monotonic()
        if ref is worker.beat:
            worker.beat = None
            return
        node, worker.pid, version, problem = said
        names = {each["NodeID"]: node_name(each) for each in self._ray.nodes()}
        worker.node = names.get(node, node)
        if version != package_version():  # a node that has come since
            self._lose(worker, f"cannot be used: {other_version(worker.node, version)}", RETRY_SECONDS)
            return
        if problem:
            raise ValueError(f"{self._name(worker)} cannot start: {problem}")
        worker.hello = None
        self._failed_starts[worker.number] = 0

    def _look_after(self) -> None:
        """Asks workers that have been silent whether they live, replaces those that do not say so, and starts what is due."""
        now = time.monotonic()
        for worker in [each for each in self._workers if each.jobs]:
            silent = now - worker.heard
            if silent > STALL_SECONDS:
                self._lose(worker, f"did not answer for {STALL_SECONDS:.0f} s")
            elif silent > BEAT_SECONDS and worker.beat is None:
                worker.beat = worker.handle.beat.remote()
        for due, number in [each for each in self._later if each[0] <= now]:
            self._later.remove((due, number))
            self._workers.append(self._start(number))

    def _lose(self, worker: _Worker, why: str, pause: float = 0.0) -> None:
        """Replaces a worker; its jobs are given to others, first of all. What it may deliver yet is still taken."""
        if worker.gone:
            return
        worker.gone = True
        self._workers.remove(worker)
        with suppress(Exception):
            self._ray.kill(worker.handle)
        orphans = [number for number in worker.jobs.values() if number in self._jobs]
        self._again[:0] = orphans
        begun = worker.hello is None
        self.notes.append(f"{self._name(worker)} {why}" + ("; another one starts" if begun else ""))
        if orphans:
            job = self._jobs[orphans[0]]
            job.deaths += 1
            if job.deaths > MAX_DEATHS:
                raise ValueError(f"{job.deaths} {self._what}s died of the same job: is there enough memory?")
        if not begun and not pause:
            self._failed_starts[worker.number] += 1
            if self._failed_starts[worker.number] > MAX_DEATHS:
                raise ValueError(f"{self._what} {worker.number} could not be started {MAX_DEATHS + 1} times: {why}")
        if pause:
            self._later.append((time.monotonic() + pause, worker.number))
        else:
            self._workers.append(self._start(worker.number))

    def _name(self, worker: _Worker) -> str:
        return f"{self._what} {worker.number} on {worker.node}" + (f" (process {worker.pid})" if worker.pid else "")


def _death(error: BaseException) -> str:
    """How a worker died, from Ray's error."""
    text = " ".join(str(error).split())
    if "node has died" in text or "node is dead" in text:
        return "died with its node"
    detail = text.partition("Worker exit detail:")[2].strip().partition(". ")[0]
    return f"was lost ({detail or type(error).__name__})"


# ---- what runs on the nodes: sent there as code, not by name, as in `cluster`


def _worker_class(ray: Any) -> type:
    class Worker:
        """Does jobs."""

        def __init__(self, make: bytes) -> None:
            self.make, self.work = make, None

        def hello(self, wanted: str) -> tuple[str, int, str, str]:
            """Node, process, version and what is wrong, if anything."""
            import os
            import pickle

            import ray

            node, version, problem = ray.get_runtime_context().get_node_id(), "none", ""
            try:
                from trilith.utils.distributed.processes import limit_threads
                from trilith.utils.distributed.ray_cluster import package_version

                version = package_version()
                if version == wanted:
                    limit_threads(1)
                    self.work = pickle.loads(self.make)()
            except ImportError as error:
                problem = str(error)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            return node, os.getpid(), version, problem

        def do(self, job: Any, shared: Any) -> bytes:
            """Does a job: what came of it, or what went wrong, and what was printed meanwhile.

            As bytes, which the receiver copies: arrays would be views that hold their piece of the object store.
            """
            import pickle

            from trilith.utils.distributed.ray_pool import overheard

            with overheard() as said:
                result, error = None, ""
                try:
                    result = self.work(job, shared)  # type: ignore[misc]
                except Exception as problem:
                    error = f"{type(problem).__name__}: {problem}"
            return pickle.dumps((result, error, said()))

        @ray.method(concurrency_group="beat")  # type: ignore[untyped-decorator]
        def beat(self) -> None:
            """It lives."""

    return Worker


@contextmanager
def overheard() -> Iterator[Callable[[], list[str]]]:
    """Keeps what this process prints meanwhile; yields what gives its last lines."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        yield lambda: [line[:300] for line in text.getvalue().splitlines() if line.strip()][-SAID_LINES:]
