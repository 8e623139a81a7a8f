"""Workers on a Ray cluster: a pool that does every job once, whatever dies meanwhile. Knows nothing of blocks.

A `Cluster` is the connection, a `Pool` so many workers on it. A job has a number. What it needs beside its own few bytes (weights,
say) is put into the object store once and passed by reference. If the worker that has a job dies, or its node does, another gets it;
whichever attempt delivers a result first, that one is taken, and the others are dropped. Each worker is given a few jobs at a
time, no more, and results are fetched by `ray.wait`, so nothing piles up anywhere.

Ray is an extra, and loaded only here.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from trilith import __version__
from trilith.support.workers import Work

CONNECT_SECONDS = 5.0
"""A cluster that does not answer within this is not there."""
PROBE_SECONDS = 60.0
"""A node that has not started a first process within this is not used."""
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
STORE_BYTES = 200 * 2**20
"""Object store of a local cluster: a few versions of weights, and results on their way."""
SAID_LINES = 5
"""Lines of what was printed during a job that are told, the last ones."""


class Answer(NamedTuple):
    """What came of a job."""

    job: Any
    result: Any


@cache
def package_version() -> str:
    """The version of the package and a checksum of its source: what has to be the same on all nodes for results to be the same."""
    folder = Path(__file__).parents[1]
    code = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        code.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{__version__} (source {code.hexdigest()[:8]})"


def missing() -> str | None:
    """What to say where Ray is not installed."""
    return None if find_spec("ray") else '--cluster needs Ray: pip install "trilith[ray]", or -e ".[ray]" in a clone'


class Cluster:
    """A connection to a Ray cluster: one that is made for it on this machine, one that runs here, or one at an address.

    Raises ValueError in one line if there is none, or one that cannot be used. Where the caller has a connection already, that is
    used, and left open.
    """

    def __init__(self, address: str) -> None:
        """`address` is local, auto or host:port."""
        if problem := missing():
            raise ValueError(problem)
        _check_address(address)
        self.address = address
        self._folder: str | None = None
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", str(int(CONNECT_SECONDS)))  # a second each
        if address == "local":
            _keep_to_loopback()
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        self.ray = ray
        self.ours = not ray.is_initialized()
        """Whether the connection is to be closed by this."""
        try:
            if self.ours:
                self._connect()
            self.nodes = self._probe()
            """Names of the nodes that there were at first, by their ids."""
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        options: dict[str, Any] = {"address": self.address, "log_to_driver": False, "configure_logging": False}
        if self.address == "local":
            self._folder = tempfile.mkdtemp(prefix="trilith-ray-", dir="/tmp" if os.path.isdir("/tmp") else None)  # socket names are short
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "_temp_dir": self._folder}
            options |= {"num_cpus": os.cpu_count(), "object_store_memory": STORE_BYTES}
        # It prints long accounts of every death between our lines, even with log_to_driver=False; ours are in `Pool.notes`.
        self.ray._private.worker.print_to_stdstream = lambda *_, **__: None
        try:
            with _own_signals(), _quiet():
                self.ray.init(**options)
        except (self.ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            raise ValueError(f"cannot use the cluster {self.address}: {_first_sentence(error)}") from None

    def _probe(self) -> dict[str, str]:
        """Asks every node for its version of the package. Raises ValueError for the first that has another."""
        ray = self.ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = ray.remote(num_cpus=0, max_retries=0)(_version_task())
        nodes = {node["NodeID"]: node_name(node) for node in ray.nodes() if node["Alive"]}
        asked = {}
        for node in nodes:
            asked[probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()] = node
        until = time.monotonic() + PROBE_SECONDS
        for ref, node in asked.items():
            try:
                found = ray.get(ref, timeout=max(until - time.monotonic(), 0.1))
            except ray.exceptions.GetTimeoutError:
                raise ValueError(f"node {nodes[node]} of the cluster starts no process within {PROBE_SECONDS:.0f} s") from None
            except ray.exceptions.RayError:  # it has vanished meanwhile, or did before, and that is not known yet
                del nodes[node]
                continue
            if found != package_version():
                raise ValueError(_other_version(nodes[node], found))
        if not nodes:
            raise ValueError(f"no node of the cluster {self.address} can be used")
        return nodes

    def check_room(self, count: int, cpus: float) -> None:
        """Raises ValueError if so many workers of so many CPUs do not fit on the nodes, however little else they do."""
        sizes = [node["Resources"].get("CPU", 0.0) for node in self.ray.nodes() if node["NodeID"] in self.nodes]
        room = sum(int(size / cpus + 1e-9) for size in sizes)
        if room < count:
            there = f"{sum(sizes):g} CPUs on {len(sizes)} node{'s' if len(sizes) > 1 else ''}"
            raise ValueError(
                f"the cluster has room for {room} workers of {cpus:g} CPUs ({there}), not for {count}: choose fewer, or smaller ones"
            )

    def reserve_gpus(self, count: float) -> str:
        """Keeps GPUs of this machine's node from others on the cluster, and this process to them. Returns their ids."""
        ray = self.ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        there = next(node["Resources"].get("GPU", 0.0) for node in ray.nodes() if node["NodeID"] == here)
        strategy = NodeAffinitySchedulingStrategy(here, soft=False)
        holder = ray.remote(_holder_class()).options(num_cpus=0, num_gpus=count, scheduling_strategy=strategy)
        if there < count:
            raise ValueError(f"this machine has {there:g} GPUs in the cluster, not {count:g}")
        self._holder = holder.remote()
        try:
            ids = ray.get(self._holder.ids.remote(), timeout=PROBE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            raise ValueError(f"others on the cluster use this machine's GPUs: {count:g} of {there:g} are not free") from None
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return str(os.environ["CUDA_VISIBLE_DEVICES"])

    def close(self) -> None:
        """Ends the connection, and a local cluster with it."""
        if self.ours and self.ray.is_initialized():
            with _own_signals():
                self.ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


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
            self._lose(worker, f"cannot be used: {_other_version(worker.node, version)}", RETRY_SECONDS)
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


def node_name(node: dict[str, Any]) -> str:
    """What a node is called: by the name it was started with, or that of its machine."""
    return str(node["NodeName"] if node["NodeName"] != node["NodeManagerAddress"] else node["NodeManagerHostname"])


# ---- what runs on the nodes. Sent there as code, not by name: they may have another version of the package, or none, and are to say so.


def _version_task() -> Callable[[], str]:
    def version() -> str:
        try:
            from trilith.support.cluster import package_version
        except ImportError:
            return "none"
        return package_version()

    return version


def _holder_class() -> type:
    class Holder:
        """Holds GPUs while it lives."""

        def ids(self) -> list[str]:
            import ray

            return [str(each) for each in ray.get_gpu_ids()]

    return Holder


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
                from trilith.support.cluster import package_version
                from trilith.support.processes import limit_threads

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

            from trilith.support.cluster import overheard

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


# ---- the rough edges of the engine


def _check_address(address: str) -> None:
    """Raises ValueError if nothing answers at an address, within seconds."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal():
        raise ValueError(
            f"cluster {address!r}: must be local, auto, or the address of a cluster that this machine belongs to, as 10.0.0.1:6379"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = "nothing answers" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        raise ValueError(f"cannot reach the cluster {address}: {why}") from None


def _keep_to_loopback() -> None:
    """Ray listens on all interfaces of a Linux machine unless it is told, as elsewhere by default, that it has no others to serve."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if "RAY_AUTH_MODE" not in os.environ:  # other users of this machine stay out; by default Ray writes a token to the home folder
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    if "ray" in sys.modules:  # too late for the variable
        sys.modules["ray"]._private.ray_constants.ENABLE_RAY_CLUSTER = False


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets a handler of its own for SIGTERM: what to do then is the caller's business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Drops what Ray prints while it connects, from Python or below: what is wrong is in its errors too."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _other_version(node: str, found: str) -> str:
    there = "does not have trilith installed" if found == "none" else f"runs trilith {found}"
    return f"node {node} of the cluster {there}, this is {package_version()}: install the same on all nodes"


def _first_sentence(error: BaseException) -> str:
    """What an error of Ray says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:300] or type(error).__name__


def _death(error: BaseException) -> str:
    """How a worker died, from Ray's error."""
    text = " ".join(str(error).split())
    if "node has died" in text or "node is dead" in text:
        return "died with its node"
    detail = text.partition("Worker exit detail:")[2].strip().partition(". ")[0]
    return f"was lost ({detail or type(error).__name__})"
