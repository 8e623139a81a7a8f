"""Actors on this machine: in this process, or in processes of their own."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from trilith.agents.base import Policy, Weights
from trilith.agents.recipes import get_algorithm
from trilith.training.actor import Request, Result, collect, collect_timed
from trilith.utils.distributed.processes import limit_threads, start_deaf

QUEUE = 2
"""Requests that an actor has at a time: it goes on with the next while the learner is in the middle of a step."""
MAX_DEATHS = 4
"""Actors that may die of one request; more are no accident."""
BEAT_SECONDS = 30.0
"""How often an actor says that it is alive, however long its request takes."""
STALL_SECONDS = 300.0
"""An actor with a request that has said nothing for so long has been stopped: it is replaced."""
LEAVE_SECONDS = 2.0
"""At the end, an actor that has not left by itself after this is killed."""


class PolicySpec(NamedTuple):
    """What an actor makes its policy from, in any process."""

    algorithm: str
    config: Any
    task: str
    zero_on_hit: bool = False

    def make(self) -> Policy:
        """The policy, with weights that mean nothing yet."""
        return get_algorithm(self.algorithm).make_policy(self.config, self.task, beyond=False, zero_on_hit=self.zero_on_hit)


class Actors(Protocol):
    """Where requests go and results come from."""

    deaths: list[str]
    """What to tell about actors that died, since last read."""

    def idle(self) -> int:
        """How many requests could be sent now."""
        ...

    def send(self, request: Request, weights: Weights) -> None:
        """Gives a request to the actor that has the fewest. Never waits."""
        ...

    def receive(self, timeout: float) -> list[Result]:
        """What has come in since; waits for at most `timeout` seconds if there is nothing yet."""
        ...

    def close(self) -> None:
        """Ends the actors."""
        ...


class Inline:
    """No actor processes: a request is played at once, in this process, so that a run is deterministic."""

    def __init__(self, spec: PolicySpec) -> None:
        self._spec, self._policy = spec, spec.make()
        self._results: list[Result] = []
        self.deaths: list[str] = []

    def idle(self) -> int:
        return 0 if self._results else 1

    def send(self, request: Request, weights: Weights) -> None:
        self._policy.load(weights)
        self._results.append(collect(self._policy, self._spec.task, request))

    def receive(self, timeout: float) -> list[Result]:
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        pass


class _Actor:
    """An actor process, its pipe, and a thread that writes to it: the pipe of one that is starting, stopped or slow is soon full."""

    def __init__(self, spec: PolicySpec) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
        self.pipe, there = context.Pipe()
        self.process: BaseProcess = context.Process(target=_actor_main, args=(there, spec), daemon=True)
        start_deaf(self.process)
        there.close()
        self.requests: list[tuple[Request, Weights]] = []
        """Sent and not answered yet."""
        self.since = time.monotonic()
        """When the first of them became its next."""
        self._outbox: SimpleQueue[tuple[Request, Weights] | None] = SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def send(self, request: Request, weights: Weights) -> None:
        if not self.requests:
            self.since = time.monotonic()
        self.requests.append((request, weights))
        self._outbox.put((request, weights))

    def answered(self) -> None:
        """The first of its requests is done."""
        self.requests.pop(0)
        self.since = time.monotonic()

    def stalled(self) -> bool:
        return bool(self.requests) and time.monotonic() - self.since > STALL_SECONDS

    def hang_up(self) -> None:
        self._outbox.put(None)
        with suppress(OSError):
            self.pipe.close()

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self.pipe.send(message)
            except (OSError, ValueError, TypeError):  # it died, or we hung up: who reads the pipe is told too
                return


class Processes:
    """Actor processes, each with a pipe. One that dies is replaced, and its requests are given to another."""

    def __init__(self, spec: PolicySpec, count: int) -> None:
        self._spec = spec
        self._actors: list[_Actor] = []
        self._again: list[tuple[Request, Weights]] = []
        self.deaths: list[str] = []
        self._died_of: Counter[bytes] = Counter()
        """Actors that died while a request was their next, by its bytes."""
        try:
            for _ in range(count):
                self._actors.append(_Actor(spec))
        except BaseException:  # those that did start must not stay without us
            self.close()
            raise

    def idle(self) -> int:
        return sum(QUEUE - len(actor.requests) for actor in self._actors)

    def send(self, request: Request, weights: Weights) -> None:
        min(self._actors, key=lambda actor: len(actor.requests)).send(request, weights)

    def receive(self, timeout: float) -> list[Result]:
        results: list[Result] = []
        by_pipe = {actor.pipe: actor for actor in self._actors}
        for pipe in wait(list(by_pipe), timeout):
            assert isinstance(pipe, Connection)
            actor = by_pipe[pipe]
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                self._replace(actor, "died")
                continue
            if isinstance(answer, str):
                raise ValueError(f"an actor failed: {answer}")  # the same request would fail again
            if answer is None:  # it lives
                actor.since = time.monotonic()
                continue
            results.append(answer)
            actor.answered()
        for actor in [each for each in self._actors if each.stalled()]:
            self._replace(actor, f"did not answer for {STALL_SECONDS:.0f} s")
        while self._again and self.idle():
            self.send(*self._again.pop(0))
        return results

    def _replace(self, actor: _Actor, why: str) -> None:
        self._actors.remove(actor)
        actor.hang_up()
        actor.process.join(timeout=1)
        if actor.process.is_alive():
            actor.process.kill()
            actor.process.join(timeout=5)
        self.deaths.append(f"actor process {actor.process.pid} {why} (exit code {actor.process.exitcode}); started another one")
        self._again[:0] = actor.requests  # first of all: if it was the first that killed it, that is soon seen
        if actor.requests:
            name = pickle.dumps(actor.requests[0][0])
            self._died_of[name] += 1
            if self._died_of[name] > MAX_DEATHS:
                died = f"{MAX_DEATHS + 1} actor processes died of the same episodes (exit code {actor.process.exitcode})"
                raise ValueError(f"{died}: is there enough memory?")
        self._actors.append(_Actor(self._spec))

    def close(self) -> None:
        for actor in self._actors:
            actor.hang_up()
        until = time.monotonic() + LEAVE_SECONDS
        for actor in self._actors:
            actor.process.join(timeout=max(until - time.monotonic(), 0.0))
        for actor in self._actors:
            if actor.process.is_alive():
                actor.process.kill()  # it holds nothing that could be lost
                actor.process.join(timeout=5)
        self._actors.clear()


def _actor_main(pipe: Connection, spec: PolicySpec) -> None:
    """An actor process: answers requests until the learner hangs up."""
    limit_threads(1)
    try:
        policy = spec.make()
    except ValueError as error:  # such as a task that only the learner's process knows
        pipe.send(str(error))
        return
    requests: SimpleQueue[tuple[Request, Weights] | None] = SimpleQueue()
    threading.Thread(target=_read, args=(pipe, requests), daemon=True).start()
    lock = threading.Lock()

    def send(answer: Result | str | None) -> None:
        with lock:
            pipe.send(answer)

    threading.Thread(target=_beat, args=(send,), daemon=True).start()
    while given := requests.get():
        request, weights = given
        try:
            policy.load(weights)
            answer: Result | str = collect_timed(policy, spec.task, request)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        try:
            send(answer)
        except OSError:
            return


def _beat(send: Callable[[None], None]) -> None:
    """Says now and then that the actor lives."""
    with suppress(OSError):
        while True:
            time.sleep(BEAT_SECONDS)
            send(None)


def _read(pipe: Connection, requests: SimpleQueue[tuple[Request, Weights] | None]) -> None:
    """Takes requests from the pipe while others are played: if nobody read it, learner and actor could each wait for the other to."""
    try:
        while True:
            requests.put(pipe.recv())
    except (EOFError, OSError):
        requests.put(None)
