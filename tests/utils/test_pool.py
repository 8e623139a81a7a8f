"""The rules of a pool, with workers that are no processes: deaths, restarts, time limits and late results."""

import os
import threading
import time
from typing import Any

import pytest

from trilith.utils.distributed.pool import MAX_DEATHS, Alive, Died, Done, Event, Failure, Job, Pool, Ready, Worker
from trilith.utils.distributed.process_pool import ProcessPool


class ToyWorker(Worker):
    """Notes the jobs that it is given, and whether it was killed."""

    def __init__(self, number: int) -> None:
        super().__init__(number, f"toy {number}")
        self.given: list[Any] = []
        self.killed = False

    def send(self, job: Job) -> None:
        self.given.append(job.content)

    def kill(self) -> None:
        self.killed = True

    def exit_status(self) -> str:
        return "exit code 1"


class ToyPool(Pool):
    """Its events are made by the tests."""

    def __init__(self, count: int = 1, **options: Any) -> None:
        super().__init__("toy", **options)
        self.made: list[Any] = []
        self.start(count)

    def _new_worker(self, number: int) -> Worker:
        self.made.append(ToyWorker(number))
        return self.made[-1]

    def poll(self, timeout: float) -> list[Event]:
        return []

    def begun(self) -> Any:
        """The newest worker, which is now ready."""
        self.handle([Ready(self.made[-1], None)])
        return self.made[-1]


def test_a_job_waits_until_a_worker_is_ready_and_is_given_to_the_one_that_has_the_fewest():
    pool = ToyPool(2)
    assert pool.idle() == 0
    for name in "abc":
        pool.send(name)
    pool.handle([Ready(worker, None) for worker in pool.made])
    assert [worker.given for worker in pool.made] == [["a", "c"], ["b"]]
    assert pool.idle() == 1


def test_a_job_whose_workers_die_is_given_to_others_but_not_for_ever():
    pool = ToyPool(max_deaths=2)
    job = pool.send("deadly")
    for deaths in range(2):
        assert pool.handle([Died(pool.begun())]) == []
        assert job.deaths == deaths + 1
    [finished] = pool.handle([Died(pool.begun())])
    assert finished is job
    assert job.failure == Failure("died", "3 toys died of the same job: is there enough memory?")
    assert pool.notes == ["toy 0 died (exit code 1); another one starts"] * 3
    assert pool.begun().given == [], "nobody gets it any more"


def test_the_first_result_of_a_job_counts_even_from_a_worker_that_was_given_up():
    pool = ToyPool(stall_seconds=0.0)
    job = pool.send("slow")
    first = pool.begun()
    pool.stall_seconds = 1e-9
    pool.handle([])
    assert pool.notes == ["toy 0 did not answer for 1e-09 s; another one starts"]
    pool.stall_seconds = 60.0
    second = pool.begun()
    assert second.given == ["slow"]
    assert pool.handle([Done(first, job.number, 1, None)]) == [job]
    assert pool.handle([Done(second, job.number, 2, None)]) == []
    assert job.result == 1
    assert pool.idle() == pool.queue


def test_a_heartbeat_keeps_a_worker_alive():
    pool = ToyPool(stall_seconds=60.0)
    pool.send("long")
    worker = pool.begun()
    worker.heard -= 100.0
    pool.handle([Alive(worker)])
    assert not worker.killed


def test_a_job_is_stopped_at_its_time_limit_and_one_that_was_cancelled_after_its_grace():
    pool = ToyPool(job_seconds=0.0)
    job = pool.send("late")
    pool.begun()
    assert pool.handle([]) == [job]
    assert job.failure == Failure("late", "took longer than 0 s")
    assert pool.notes == [], "that is no death"
    pool.job_seconds = 60.0
    worker, job, waiting = pool.begun(), pool.send("unwanted"), [pool.send("next"), pool.send("dropped")]
    pool.cancel(waiting[1], 60.0)
    pool.cancel(job, 60.0)
    pool.handle([])
    assert not worker.killed
    pool.cancel(job, 0.0)
    assert pool.handle([]) == []
    assert worker.killed
    assert pool.begun().given == ["next"]


@pytest.mark.parametrize("restart", ["limited", "always", "never"])
def test_starts_that_fail_are_tried_again_after_a_pause(restart, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pool = ToyPool(restart=restart, start_seconds=9.0)
    if restart == "never":
        with pytest.raises(ChildProcessError, match=r"^a toy died \(exit code 1\): finished work is kept"):
            pool.handle([Died(pool.made[-1])])
        return
    for _ in range(MAX_DEATHS):
        count = len(pool.made)
        pool.handle([Died(pool.made[-1])])
        assert len(pool.made) == count, "not at once"
        now[0] += 5.0
        pool.handle([])
        assert len(pool.made) == count + 1
    now[0] += 10.0
    if restart == "limited":
        with pytest.raises(ValueError, match="toy 0 could not be started 5 times: the last one did not start within 9 s"):
            pool.handle([])
    else:
        pool.handle([])
        assert pool.failed_starts[0] == MAX_DEATHS + 1
        now[0] += 5.0
        pool.handle([])
        pool.begun()
        assert pool.failed_starts[0] == 0


def make_pid():
    return lambda job, shared: os.getpid()


def receive(pool):
    """The next results."""
    while not (results := pool.receive(1.0)):
        pass
    return results


def test_a_job_that_cannot_be_pickled_fails_and_its_worker_lives_on():
    pool = ProcessPool(make_pid, 1)
    try:
        pool.send(threading.Lock())
        with pytest.raises(ValueError, match=r"^worker 0 \(process \d+\) failed: TypeError: cannot pickle"):
            receive(pool)
        pool.send("fine")
        assert receive(pool) == [pool.workers[0].process.pid]
    finally:
        pool.close()
