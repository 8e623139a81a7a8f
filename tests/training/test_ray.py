"""Actors and evaluations on a Ray cluster of several nodes: the same results as here, each taken once, whatever dies meanwhile."""

import json
import operator
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_work import make_sleeper
from toy_algorithm import TINY
from training.tiny import AGENT

from trilith.evaluation.runner import evaluate
from trilith.training import checkpoint
from trilith.training.actor import PlayRequest, collect
from trilith.training.actor_pool import PolicySpec, cluster_actors
from trilith.training.config import TrainConfig, run_config
from trilith.training.curriculum import CurriculumConfig
from trilith.training.run import Run, resume, train
from trilith.utils.distributed import ray_cluster as support
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.distributed.ray_pool import RayPool

pytestmark = pytest.mark.slow

REQUIRED = os.environ.get("TRILITH_REQUIRE_RAY") == "1"
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


class Nodes:
    """A cluster of processes on loopback: a node `a`, which this process is connected to, and others."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self.cluster = RayCluster(initialize_head=True, head_node_args={**NODE, "num_gpus": 1, "node_name": "a"})
        self.others: dict[str, Any] = {}

    def add(self, name: str) -> None:
        self.others[name] = self.cluster.add_node(**NODE, node_name=name)

    def remove(self, name: str) -> None:
        self.cluster.remove_node(self.others.pop(name), allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    if not find_spec("ray"):
        if REQUIRED:
            pytest.fail("the tests on a cluster are required, but Ray is not installed")
        pytest.skip("the tests on a cluster were left out: Ray is not installed")
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all on loopback
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([str(Path(support.__file__).parents[2]), str(Path(__file__).parent)]),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    support._keep_to_loopback()
    import ray

    try:
        made = Nodes()
        try:
            made.add("b")
            ray.init(address=made.cluster.address, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            made.cluster.shutdown()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def cluster(nodes: Nodes) -> Cluster:
    """The connection that the nodes' fixture has made."""
    found = Cluster("auto")
    assert not found.ours
    return found


def answers(pool: Any, count: int, seconds: float = 180) -> list[Any]:
    """The next answers, and a little longer, in case there are more."""
    found: list[Any] = []
    until = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, pool.notes
        found += pool.receive(timeout=0.5)
    return found + pool.receive(timeout=0.3)


def until(pool: Any, met: Callable[[], bool], seconds: float = 180) -> list[Any]:
    """Receives until something is so."""
    end, found = time.monotonic() + seconds, []
    while not met():
        assert time.monotonic() < end, pool.notes
        found += pool.receive(timeout=0.2)
    return found


def test_requests_give_the_same_bytes_as_here_and_weights_are_put_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [PlayRequest((0, k), 3, (0.5, 0.5), False, 0.5) for k in range(4)]
    spec = PolicySpec("toy_algorithm", TINY, "covering_hard")  # which starts quickly everywhere
    mine, weights = spec.make(), {"linear": np.linspace(-1, 1, 6, dtype=np.float32)}
    mine.load(weights)
    puts: list[Any] = []
    put = cluster.ray.put
    monkeypatch.setattr(cluster.ray, "put", lambda value: puts.append(value) or put(value))
    actors = cluster_actors(cluster, spec, 2, 1.0)
    try:
        until(actors, lambda: actors.idle() == 4)
        for each in asked:
            actors.send(each, weights)
        assert actors.idle() == 0
        there = {result.request.seed: result for result in answers(actors, 4)}
    finally:
        actors.close()
    assert len(there) == 4
    assert len(puts) == 1
    for each in asked:
        here = collect(mine, "covering_hard", each)
        assert there[each.seed].request == each
        assert [episode.steps.tobytes() for episode in there[each.seed].episodes] == [episode.steps.tobytes() for episode in here.episodes]


def test_jobs_of_a_worker_or_a_node_that_dies_are_done_once_by_others(nodes: Nodes, cluster: Cluster) -> None:
    pool = RayPool(cluster, make_sleeper, 2, 1.0)
    try:
        until(pool, lambda: pool.ready() == (2, 2))
        for number in range(4):
            pool.send(number, 0.5)
        victim = next(worker for worker in pool.workers if worker.node == "b")
        os.kill(victim.pid, signal.SIGKILL)
        assert sorted(answers(pool, 4)) == [0, 1, 2, 3]
        assert any(note.startswith(f"worker {victim.number} on b (process {victim.pid}) was lost") for note in pool.notes), pool.notes
        pool.notes.clear()

        until(pool, lambda: pool.ready() == (2, 2))
        for number in range(4, 8):
            pool.send(number, 0.5)
        nodes.remove("b")
        assert sorted(answers(pool, 4)) == [4, 5, 6, 7]
        assert any(" on b " in note for note in pool.notes), pool.notes
        assert pool.ready() == (1, 1)
        nodes.add("b")  # the worker that had no room starts
        until(pool, lambda: pool.ready() == (2, 2))
    finally:
        pool.close()


def test_a_result_that_comes_late_is_taken_and_the_second_attempt_dropped(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = RayPool(cluster, make_sleeper, 2, 1.0)
    try:
        until(pool, lambda: pool.ready() == (2, 2))
        pool.notes.clear()
        stopped = pool.workers[0]
        os.kill(stopped.pid, signal.SIGSTOP)
        for number in range(2):
            pool.send(number, 0.1)
        found = until(pool, lambda: not pool.workers[1].jobs)
        monkeypatch.setattr(pool, "stall_seconds", 0.0)
        monkeypatch.setattr(cluster.ray, "kill", lambda handle: None)  # as if its node could not be reached
        found += pool.receive(timeout=0.01)
        assert "did not answer" in pool.notes[0]
        monkeypatch.undo()
        os.kill(stopped.pid, signal.SIGCONT)
        found += answers(pool, 2 - len(found))
        until(pool, lambda: not any(isinstance(about, int) for _, about in pool._refs.values()))
        assert sorted(found) == [0, 1]
        cluster.ray.kill(stopped.handle)
    finally:
        pool.close()


def test_what_workers_print_and_what_fails_is_told_with_the_name_of_the_node(cluster: Cluster) -> None:
    pool = RayPool(cluster, partial(partial, print), 1, 1.0)
    try:
        until(pool, lambda: pool.ready()[0] == 1)
        pool.notes.clear()
        pool.send("what I see", "is odd")
        answers(pool, 1)
        [note] = pool.notes
        assert note.startswith("worker 0 on ")
        assert note.endswith(": what I see is odd")
    finally:
        pool.close()
    pool = RayPool(cluster, partial(partial, operator.truediv), 1, 1.0)
    try:
        until(pool, lambda: pool.ready()[0] == 1)
        pool.send(1, 0)
        with pytest.raises(ValueError, match=r"worker 0 on [ab] \(process \d+\) failed: ZeroDivisionError"):
            answers(pool, 1)
    finally:
        pool.close()
    actors = cluster_actors(cluster, PolicySpec("dqn", AGENT, "no_such_module:Task"), 1, 1.0)
    try:
        with pytest.raises(ValueError, match=r"actor 0 on [ab] .* cannot start: .*no_such_module"):
            until(actors, lambda: actors.idle() > 0)
    finally:
        actors.close()


def test_a_cluster_that_cannot_be_used_is_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"room for 2 workers of 1 CPUs \(2 CPUs on 2 nodes\), not for 3"):
        RayPool(cluster, partial(partial, print), 3, 1.0)
    cluster.check_room(4, 0.5)
    with pytest.raises(ValueError, match="this machine has 1 GPUs in the cluster, not 2"):
        cluster.reserve_gpus(2)
    with pytest.raises(ValueError, match=r"cannot reach the cluster 127\.0\.0\.1:1: Connection refused"):
        Cluster("127.0.0.1:1")
    for wrong in ("here", "ray://10.0.0.1:10001", "host:name"):
        with pytest.raises(ValueError, match=f"cluster {wrong!r}: must be local, auto, or the address"):
            Cluster(wrong)
    monkeypatch.setattr(support, "package_version", lambda: "9.9 (source 0)")
    with pytest.raises(ValueError, match=r"node [ab] of the cluster runs trilith .*, this is 9\.9 .*: install the same on all nodes"):
        Cluster("auto")
    monkeypatch.setattr(support, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="--cluster needs Ray: pip install"):
        Cluster("local")


def test_gpus_are_kept_for_the_learner(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert cluster.reserve_gpus(1) == "0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert cluster.ray.available_resources().get("GPU", 0.0) == 0.0
    cluster.ray.kill(cluster._holder)


def test_an_evaluation_on_a_cluster_equals_one_here(cluster: Cluster, tmp_path: Path) -> None:
    config = tiny(tmp_path / "run", steps=3, actors=0, cluster=None)
    train(config, screen=False)
    options: dict[str, Any] = {"agent": str(config.out), "task": "covering", "scenes": 40, "split": "valid"}
    evaluate(out=tmp_path / "here.json", **options)
    evaluate(out=tmp_path / "there.json", cluster="auto", workers=2, **options)
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()


def tiny(out: Path, **options: Any) -> TrainConfig:
    """A run of the toy, which starts quickly everywhere."""
    given: dict[str, Any] = {"actors": 2, "cluster": "auto", "curriculum": CurriculumConfig(10), **options}
    given |= {"task": "covering", "recipe": "toy_algorithm:tiny", "agent": TINY}
    return TrainConfig(out=out, episodes=4, evaluate_every=50, evaluate_scenes=2, checkpoint_seconds=1, log_seconds=0.5, **given)


@pytest.mark.longest
def test_a_training_outlives_its_actors_its_nodes_and_itself(nodes: Nodes, cluster: Cluster, tmp_path: Path) -> None:
    """SIGKILL an actor, take a node away, add one, SIGKILL the run; go on from the checkpoint: no transition is twice there, or missing."""
    config = tiny(tmp_path / "run", steps=60)
    done: list[str] = []

    class Rough(Run):
        """A run in which things happen between learner steps."""

        def _take(self, result: Any, log: Any) -> None:
            super()._take(result, log)
            events = [("kill", 10, self._kill), ("remove", 25, lambda: nodes.remove("b")), ("add", 40, lambda: nodes.add("b"))]
            for name, step, event in events:
                if name not in done and self.learner.steps >= step:
                    done.append(name)
                    event()

        def _kill(self) -> None:
            os.kill(next(worker.pid for worker in self._actors.workers if worker.ready), signal.SIGKILL)

        def _start_actors(self, opened: ExitStack) -> Any:
            self._actors: Any = super()._start_actors(opened)
            return self._actors

    from trilith.training.run import _begin

    config.out.mkdir()
    run = Rough(config)
    _begin(run)
    run.go(screen=False)
    assert done == ["kill", "remove", "add"]
    _check(config.out, 60)
    code = "import sys; from dataclasses import replace; from pathlib import Path; from trilith.training.run import resume, run_config\n"
    code += "resume(replace(run_config(Path(sys.argv[1])), steps=None, cluster=sys.argv[2]), screen=False)"
    with subprocess.Popen([sys.executable, "-c", code, str(config.out), nodes.cluster.address]) as process:
        while _learnt(config.out) < 80 and process.poll() is None:
            time.sleep(0.1)
        process.kill()
    killed, (_, facts) = _learnt(config.out), checkpoint.load(config.out / checkpoint.NAME)
    assert killed >= 80
    before = _logged(config.out)
    assert 60 * before[-1]["minutes"] - facts.seconds < 60  # no more than the last minute is lost
    resume(replace(run_config(config.out), steps=killed + 20, cluster="auto"), screen=False)  # when the dead one's actors have gone
    _check(config.out, killed + 20)
    resume(replace(run_config(config.out), steps=killed + 25, cluster=None, actors=0), screen=False)  # without any cluster, too
    _check(config.out, killed + 25)
    lines = _logged(config.out)
    for name in ("step", "actor_steps", "minutes"):
        assert [line[name] for line in lines] == sorted(line[name] for line in lines)
    # The reward goes on from the episodes that the checkpoint knows: few can have come in half a second.
    assert len(facts.recent) > 50
    first = next(line for line in lines if line["minutes"] * 60 >= facts.seconds)
    assert first["reward"] == pytest.approx(np.mean(facts.recent), abs=0.5)


def _logged(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "train"]


def _learnt(out: Path) -> int:
    return int(checkpoint.load(out / checkpoint.NAME)[1].learner["steps"])


def _check(out: Path, steps: int) -> None:
    arrays, facts = checkpoint.load(out / checkpoint.NAME)
    learner: Any = Run(replace(run_config(out), actors=0, cluster=None)).learner
    learner.load(arrays, facts.learner)
    assert learner.steps == steps
    rows = learner.memory.ring[: len(learner.memory)]
    assert learner.memory.added == facts.actor_steps
    assert len(np.unique(rows.view((np.void, rows.dtype.itemsize)))) == len(rows)  # no transition twice
    assert learner.memory.added >= 10 * steps  # the ratio allowed no more learner steps


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
def test_a_local_cluster_listens_on_loopback_only_and_leaves_nothing_behind(nodes: Nodes, tmp_path: Path) -> None:
    """Also when the process that started it is killed; Ray's own agents see after half a minute that they are alone."""
    code = (
        "import time; from trilith.utils.distributed.ray_cluster import Cluster as C; print(C('local')._folder, flush=True); time.sleep(99)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            folder = process.stdout.readline().strip()
            family = _descendants(process.pid)
            agents = [pid for pid in family if "Agent" in Path(f"/proc/{pid}/cmdline").read_text()]
            found = _listening(family)
            assert len(found) >= 3
            assert all(address in ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000") for address in found)
        finally:
            process.kill()
            shutil.rmtree(folder, ignore_errors=True)
    assert folder
    end = time.monotonic() + 180
    while left := [pid for pid in family if pid not in (process.pid, *agents) and _running(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.2)


def _descendants(pid: int) -> list[int]:
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def _listening(pids: list[int]) -> list[str]:
    """Addresses, as the kernel writes them, that processes listen on."""
    inodes = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(file))
            except OSError:
                continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
