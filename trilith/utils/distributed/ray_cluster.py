"""The connection to a Ray cluster. All nodes of the cluster must have this version of the package. `ray_pool` runs workers on the cluster.

Ray is an optional dependency, and is imported only here.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trilith import __version__
from trilith.utils.checks import require

CONNECT_SECONDS = 5.0
"""A cluster that does not answer within this number of seconds counts as missing."""
PROBE_SECONDS = 60.0
"""A node counts as unusable if it needs more than this number of seconds to start a first process."""
STORE_BYTES = 200 * 2**20
"""Size in bytes of the object store of a local cluster, the memory through which its processes exchange data. It holds a few versions of
weights, and results that the pool has not fetched yet."""


@cache
def package_version() -> str:
    """The version of the package and a checksum of its source, as one text. It must be the same on all nodes, because another version could
    give other results."""
    folder = Path(__file__).parents[2]
    code = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        code.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{__version__} (source {code.hexdigest()[:8]})"


class Cluster:
    """A connection to a Ray cluster: a new cluster on this machine, one that already runs here, or one at an address.

    The constructor raises ValueError if there is no cluster, or if the cluster cannot be used. If the process already has a connection,
    this object uses that connection and leaves it open.
    """

    def __init__(self, address: str) -> None:
        """`address` is local (a new cluster on this machine), auto (one that already runs here) or host:port."""
        require(find_spec("ray"), '--cluster needs Ray: pip install "trilith[ray]", or -e ".[ray]" in a clone')
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
        """Whether this object opened the connection and must close it."""
        try:
            if self.ours:
                self._connect()
            self.nodes = self._probe()
            """Maps node id to node name, for the nodes that the cluster had when the connection was made."""
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        options: dict[str, Any] = {"address": self.address, "log_to_driver": False, "configure_logging": False}
        if self.address == "local":
            self._folder = tempfile.mkdtemp(prefix="trilith-ray-", dir="/tmp" if os.path.isdir("/tmp") else None)  # socket names are short
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "_temp_dir": self._folder}
            options |= {"num_cpus": os.cpu_count(), "object_store_memory": STORE_BYTES}
        # Ray prints long reports of every death, even with log_to_driver=False; a pool has its own notes.
        self.ray._private.worker.print_to_stdstream = lambda *_, **__: None
        try:
            with _own_signals(), _quiet():
                self.ray.init(**options)
        except (self.ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise ValueError(f"cannot use the cluster {self.address}: {why}") from None

    def _probe(self) -> dict[str, str]:
        """Asks every node for its version of the package. Returns a dictionary from node ids to node names. Raises ValueError if the
        version of a node differs from ours, or if a node starts no process within `PROBE_SECONDS`. Nodes that die meanwhile are left
        out."""
        ray, until = self.ray, time.monotonic() + PROBE_SECONDS
        probe = ray.remote(num_cpus=0, max_retries=0)(_version_task())
        nodes = {node["NodeID"]: node_name(node) for node in ray.nodes() if node["Alive"]}
        asked = {node: probe.options(scheduling_strategy=_on_node(node)).remote() for node in nodes}
        for node, ref in asked.items():
            try:
                found = ray.get(ref, timeout=max(until - time.monotonic(), 0.1))
            except ray.exceptions.GetTimeoutError:
                raise ValueError(f"node {nodes[node]} of the cluster starts no process within {PROBE_SECONDS:.0f} s") from None
            except ray.exceptions.RayError:  # the node is gone
                del nodes[node]
                continue
            require(found == package_version(), other_version(nodes[node], found))
        require(nodes, f"no node of the cluster {self.address} can be used")
        return nodes

    def check_room(self, count: int, cpus: float) -> None:
        """Raises ValueError if the nodes are too small for `count` workers of `cpus` CPUs each, even when nothing else runs there."""
        sizes = [node["Resources"].get("CPU", 0.0) for node in self.ray.nodes() if node["NodeID"] in self.nodes]
        room = sum(int(size / cpus + 1e-9) for size in sizes)
        there = f"{sum(sizes):g} CPUs on {len(sizes)} node{'s' if len(sizes) > 1 else ''}"
        advice = "choose fewer, or smaller ones"
        require(room >= count, f"the cluster has room for {room} workers of {cpus:g} CPUs ({there}), not for {count}: {advice}")

    def reserve_gpus(self, count: float) -> str:
        """Reserves `count` GPUs of this machine for this process, so that the cluster gives them to no other. This process then uses no
        other GPUs, so call it before torch uses one. Returns the ids of the GPUs, separated by commas. Raises ValueError if not enough GPUs
        are free."""
        ray = self.ray
        here = ray.get_runtime_context().get_node_id()
        there = next(node["Resources"].get("GPU", 0.0) for node in ray.nodes() if node["NodeID"] == here)
        require(there >= count, f"this machine has {there:g} GPUs in the cluster, not {count:g}")
        self._holder = ray.remote(num_cpus=0, num_gpus=count)(_holder_class()).options(scheduling_strategy=_on_node(here)).remote()
        try:
            ids = ray.get(self._holder.ids.remote(), timeout=PROBE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            raise ValueError(f"others on the cluster use this machine's GPUs: {count:g} of {there:g} are not free") from None
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    def close(self) -> None:
        """Closes the connection, unless it was open before this object was made. Also ends the cluster if the address was local."""
        if self.ours and self.ray.is_initialized():
            with _own_signals():
                self.ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def node_name(node: dict[str, Any]) -> str:
    """The name of a node: the name given at its start, else the name of its machine. `node` is an element of `ray.nodes()`."""
    return str(node["NodeName"] if node["NodeName"] != node["NodeManagerAddress"] else node["NodeManagerHostname"])


def _on_node(node: str) -> Any:
    """The Ray scheduling strategy that starts a process only on the node with the id `node`."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


# ---- functions that run on the nodes: sent as code, not imported there, because a node may have another version of the package, or none


def _version_task() -> Callable[[], str]:
    def version() -> str:
        try:
            from trilith.utils.distributed.ray_cluster import package_version
        except ImportError:
            return "none"
        return package_version()

    return version


def _holder_class() -> type:
    class Holder:
        """A Ray actor that keeps GPUs reserved while it lives."""

        def ids(self) -> list[str]:
            import ray

            return [str(each) for each in ray.get_gpu_ids()]

    return Holder


# ---- workarounds for Ray


def _check_address(address: str) -> None:
    """Raises ValueError if an address has a wrong form, or if nothing answers there within `CONNECT_SECONDS`. The addresses local and auto
    always pass."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    require(
        "/" not in address and host and port.isdecimal(),
        f"cluster {address!r}: must be local, auto, or the address of a cluster that this machine belongs to, as 10.0.0.1:6379",
    )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = "nothing answers" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        raise ValueError(f"cannot reach the cluster {address}: {why}") from None


def _keep_to_loopback() -> None:
    """Makes Ray accept connections only from this machine, as it does by default on Windows and macOS but not on Linux. Also sets an access
    token, unless RAY_AUTH_MODE is set."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if "RAY_AUTH_MODE" not in os.environ:  # our own token keeps other users of this machine out; Ray would write one to the home folder
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    if "ray" in sys.modules:  # too late for the environment variable
        sys.modules["ray"]._private.ray_constants.ENABLE_RAY_CLUSTER = False


@contextmanager
def _own_signals() -> Iterator[None]:
    """Context manager: restores the caller's SIGTERM handler after the `with` block, in which Ray may replace it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Context manager: discards what this process writes to standard error, from Python or C++. Used while Ray connects, because Ray's
    exceptions contain the same information."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def other_version(node: str, found: str) -> str:
    """The error message about a node that cannot be used. `node` is its name. `found` is its `package_version`, or "none" if the package is
    missing there."""
    there = "does not have trilith installed" if found == "none" else f"runs trilith {found}"
    return f"node {node} of the cluster {there}, this is {package_version()}: install the same on all nodes"
