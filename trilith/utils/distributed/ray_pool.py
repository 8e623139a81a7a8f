"""Workers on a Ray cluster.

Data that several jobs share is put into Ray's object store once and passed by reference. Each worker has only a few jobs at a time, and
results are fetched by `ray.wait`, so no queue grows without limit.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any, Literal

from trilith.utils.distributed.pool import BEAT_SECONDS, QUEUE, Alive, Died, Done, Event, Failure, Job, Pool, Ready, Work, Worker, attempt
from trilith.utils.distributed.processes import limit_threads
from trilith.utils.distributed.ray_cluster import Cluster, node_name, other_version, package_version

RETRY_SECONDS = 30.0
"""Seconds before a worker is started again if its node had a different version of the package."""
PRINTED_LINES = 5
"""Maximum number of lines that are reported of what a job prints: its last lines."""


Answers = Literal["hello", "beat"] | int
"""The kind of request that an answer belongs to: the first contact (`hello`), a heartbeat (`beat`), or a job, given by its number."""


class RayWorker(Worker):
    """A pool's record of one Ray actor.

    `handle` is the actor. `refs` is a dictionary that all workers of a pool share. It maps the Ray reference of each answer that has not
    arrived yet to the worker that will answer and the kind of the request.
    """

    def __init__(self, number: int, what: str, handle: Any, ray: Any, refs: dict[Any, tuple[RayWorker, Answers]]) -> None:
        super().__init__(number, f"{what} {number}")
        self.handle, self._ray, self._refs = handle, ray, refs
        self.node, self.pid = "", 0
        refs[handle.hello.remote(package_version())] = self, "hello"

    def send(self, job: Job) -> None:
        self._refs[self.handle.do.remote(job.content, job.shared)] = self, job.number

    def beat(self) -> None:
        """Requests a heartbeat. The worker answers after `BEAT_SECONDS`."""
        self._refs[self.handle.beat.remote(BEAT_SECONDS)] = self, "beat"

    def kill(self) -> None:
        with suppress(Exception):  # the cluster may already be gone
            self._ray.kill(self.handle)


class RayPool(Pool):
    """A pool of workers on a Ray cluster. If a node dies, its workers are restarted on other nodes as soon as there is room."""

    def __init__(
        self, cluster: Cluster, make: Callable[[], Work], count: int, cpus: float, concurrency: int = 1, what: str = "worker"
    ) -> None:
        """Starts `count` workers, and reserves `cpus` CPUs for each of them. Raises ValueError if the cluster is too small for them.

        Each worker calls `make` once, and does its jobs with the function that `make` returns: up to `concurrency` at the same time, in
        threads. `make` must be picklable. `what` is the word for a worker in notes and errors.
        """
        super().__init__(what, queue=QUEUE * concurrency)
        cluster.check_room(count, cpus)
        self._ray, self._make, self._count = cluster.ray, pickle.dumps(make), count
        options = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": concurrency}
        self._class = self._ray.remote(**options, concurrency_groups={"beat": 1})(_worker_class(self._ray))
        self._shared: tuple[Any, Any] = (None, None)
        """The last value of the argument `shared` of `send`, and the Ray reference to it."""
        self._refs: dict[Any, tuple[RayWorker, Answers]] = {}
        self._reported = (0, 0)
        self.start(count)

    def ready(self) -> tuple[int, int]:
        """Returns two numbers: the number of workers that are ready, and the number of nodes on which these workers run."""
        nodes = [worker.node for worker in self.workers if isinstance(worker, RayWorker) and worker.ready]
        return len(nodes), len(set(nodes))

    def send(self, job: Any, shared: Any = None) -> Job:
        if shared is not self._shared[0]:
            self._shared = (shared, self._ray.put(shared))
        return super().send(job, self._shared[1])

    def poll(self, timeout: float) -> list[Event]:
        if not self._refs:
            time.sleep(timeout)
            return []
        ready, others = self._ray.wait(list(self._refs), num_returns=1, timeout=timeout)
        if ready and others:
            ready += self._ray.wait(others, num_returns=len(others), timeout=0)[0]
        return [self._event(ref, *self._refs.pop(ref)) for ref in ready]

    def handle(self, events: Any) -> list[Job]:
        finished = super().handle(events)
        ready, nodes = now = self.ready()
        if now != self._reported:
            self._reported = now
            rest = "" if ready == self._count else f" of {self._count}; the others start, or wait for room on the cluster"
            self.notes.append(f"{ready} {self.what}s on {nodes} node{'' if nodes == 1 else 's'}{rest}")
        return finished

    def _new_worker(self, number: int) -> Worker:
        return RayWorker(number, self.what, self._class.remote(self._make), self._ray, self._refs)

    def _event(self, ref: Any, worker: RayWorker, about: Answers) -> Event:
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as lost:
            return Died(worker, _death(lost))
        if about == "hello":
            return self._hello(worker, *answer)
        if about == "beat":
            worker.beat()
            return Alive(worker)
        result, failure, printed = pickle.loads(answer)
        self.notes += [f"{worker.name}: {line[:300]}" for line in printed]
        return Done(worker, about, result, failure)

    def _hello(self, worker: RayWorker, node: str, pid: int, version: str, failure: Failure | None) -> Event:
        worker.node, worker.pid = {each["NodeID"]: node_name(each) for each in self._ray.nodes()}.get(node, node), pid
        worker.name = f"{self.what} {worker.number} on {worker.node} (process {pid})"
        if version != package_version():  # the node joined the cluster after the check of versions
            return Died(worker, f"cannot be used: {other_version(worker.node, version)}", RETRY_SECONDS)
        worker.beat()
        return Ready(worker, failure)


def _death(error: BaseException) -> str:
    """Says how a worker died, from the error that Ray raised. The text is a phrase after the worker's name."""
    text = " ".join(str(error).split())
    if "node has died" in text or "node is dead" in text:
        return "died with its node"
    detail = text.partition("Worker exit detail:")[2].strip().partition(". ")[0]
    return f"was lost ({detail or type(error).__name__})"


def prepare(make: bytes) -> tuple[Any, Failure | None]:
    """Called on a worker's node: unpickles `make` and calls it, to make the function with which the worker does jobs. Returns the pair
    (function, None), or (None, failure) if this raises an exception. The function is `_do_printing` with its first argument bound.
    """
    limit_threads(1)
    return attempt(lambda: partial(_do_printing, pickle.loads(make)()))


def _do_printing(work: Work, job: Any, shared: Any) -> bytes:
    """Does a job. Returns its result, its failure and the last lines that it printed, pickled as one tuple. The failure is None if the
    job succeeded.

    Pickled bytes are copied out of Ray's object store when they are received. Plain arrays would keep the store's memory in use.
    """
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        result, failure = attempt(work, job, shared)
    return pickle.dumps((result, failure, [line for line in text.getvalue().splitlines() if line.strip()][-PRINTED_LINES:]))


def _worker_class(ray: Any) -> type:
    """Makes the class of the Ray actors. Ray sends the code of this class to the nodes. So a node can report its version of the package
    even if it has another version than this process, or does not have the package."""

    class RemoteWorker:
        """A worker on a node. `make` is a pickled function, which returns the function that does jobs."""

        def __init__(self, make: bytes) -> None:
            self.make, self.work = make, None

        def hello(self, wanted: str) -> tuple[str, int, str, Any]:
            """Prepares the worker if its package has the version `wanted`. Returns node id, process id, package version ("none" if the
            package is missing), and a failure if the function for jobs cannot be made."""
            import os

            import ray

            version, failure = "none", None
            with suppress(ImportError):
                from trilith.utils.distributed.ray_cluster import package_version

                version = package_version()
            if version == wanted:
                from trilith.utils.distributed.ray_pool import prepare

                self.work, failure = prepare(self.make)
            return ray.get_runtime_context().get_node_id(), os.getpid(), version, failure

        def do(self, job: Any, shared: Any) -> bytes:
            """Does a job, see `_do_printing`."""
            return self.work(job, shared)  # type: ignore[misc]

        @ray.method(concurrency_group="beat")  # type: ignore[untyped-decorator]
        def beat(self, seconds: float) -> None:
            """Returns after `seconds`. The answer tells the pool that the worker is alive."""
            import time

            time.sleep(seconds)

    return RemoteWorker
