"""Actors on this machine: in this process, or in processes of their own."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dqn.policy import make_layout, make_net
from trilith.nets.qnet import QNet
from trilith.support.processes import start_deaf
from trilith.training.actor import Order, Played, collect

Weights = NDArray[np.float32]
"""All parameters of a network, one after another."""


def flat_weights(net: QNet) -> Weights:
    """A copy of the parameters of a network."""
    with torch.no_grad():
        return torch.nn.utils.parameters_to_vector(net.parameters()).numpy().copy()


def set_weights(net: QNet, weights: Weights) -> None:
    """Gives a network the parameters that `flat_weights` took."""
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(torch.from_numpy(weights), net.parameters())


QUEUE = 2
"""Orders that an actor has at a time: it goes on with the next while the learner is in the middle of a step."""
MAX_DEATHS = 4
"""Actors that may die of one order; more are no accident."""


class Actors(Protocol):
    """Where orders go and episodes come from."""

    def idle(self) -> int:
        """How many orders could be sent now."""
        ...

    def send(self, order: Order, weights: Weights) -> None:
        """Gives an order to the actor that has the fewest."""
        ...

    def receive(self, timeout: float) -> list[Played]:
        """What has been played since; waits for at most `timeout` seconds if there is nothing yet."""
        ...

    def close(self) -> None:
        """Sends the actors home."""
        ...


class Inline:
    """No actor processes: an order is played at once, in this process, so that a run is deterministic."""

    def __init__(self, config: DQNConfig, task: str) -> None:
        self._net, self._task = make_net(config, make_layout(config, task, beyond=False)), task
        self._played: list[Played] = []

    def idle(self) -> int:
        return 0 if self._played else 1

    def send(self, order: Order, weights: Weights) -> None:
        set_weights(self._net, weights)
        self._played.append(collect(self._net, self._task, order))

    def receive(self, timeout: float) -> list[Played]:
        played, self._played = self._played, []
        return played

    def close(self) -> None:
        pass


class Processes:
    """Actor processes, each with a pipe. One that dies is replaced, and its orders given to another."""

    def __init__(self, config: DQNConfig, task: str, count: int) -> None:
        self._config, self._task = config, task
        self._context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
        self._actors: dict[Connection, tuple[BaseProcess, list[tuple[Order, Weights]]]] = {}
        self._again: list[tuple[Order, Weights]] = []
        self.deaths: list[str] = []
        """What to tell about actors that died, since last read."""
        self._died_of: Counter[Order] = Counter()
        """Actors that died while they had an order to play."""
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_actor_main, args=(there, self._config, self._task), daemon=True)
        start_deaf(process)
        there.close()
        self._actors[here] = (process, [])

    def idle(self) -> int:
        return sum(QUEUE - len(orders) for _, orders in self._actors.values())

    def send(self, order: Order, weights: Weights) -> None:
        pipe, (_, orders) = min(self._actors.items(), key=lambda actor: len(actor[1][1]))
        orders.append((order, weights))
        try:
            pipe.send((order, weights))
        except OSError:
            self._bury(pipe)

    def receive(self, timeout: float) -> list[Played]:
        played = []
        for pipe in wait(list(self._actors), timeout):
            assert isinstance(pipe, Connection)
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                self._bury(pipe)
                continue
            if isinstance(answer, str):
                raise ValueError(f"an actor failed: {answer}")  # the same order would fail again
            played.append(answer)
            self._actors[pipe][1].pop(0)
        while self._again and self.idle():
            self.send(*self._again.pop(0))
        return played

    def _bury(self, pipe: Connection) -> None:
        process, orders = self._actors.pop(pipe)
        pipe.close()
        process.join(timeout=5)
        self.deaths.append(f"actor process {process.pid} died (exit code {process.exitcode}); started another one")
        self._again[:0] = orders  # first of all: if it was the first that killed it, that is soon seen
        if orders:
            self._died_of[orders[0][0]] += 1
            if self._died_of[orders[0][0]] > MAX_DEATHS:
                died = f"{MAX_DEATHS + 1} actor processes died of the same episodes (exit code {process.exitcode})"
                raise ValueError(f"{died}: is there enough memory?")
        self._start()

    def close(self) -> None:
        for pipe in self._actors:
            pipe.close()
        for process, _ in self._actors.values():
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
        self._actors.clear()


def _actor_main(pipe: Connection, config: DQNConfig, task: str) -> None:
    """An actor process: plays orders until the learner hangs up."""
    torch.set_num_threads(1)
    try:
        net = make_net(config, make_layout(config, task, beyond=False))
    except ValueError as error:  # such as a task that only the learner's process knows
        pipe.send(str(error))
        return
    orders: SimpleQueue[tuple[Order, Weights] | None] = SimpleQueue()
    threading.Thread(target=_read, args=(pipe, orders), daemon=True).start()
    while given := orders.get():
        order, weights = given
        set_weights(net, weights)
        try:
            answer: Played | str = collect(net, task, order)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        try:
            pipe.send(answer)
        except OSError:
            return


def _read(pipe: Connection, orders: SimpleQueue[tuple[Order, Weights] | None]) -> None:
    """Takes orders from the pipe while others are played: if nobody read it, learner and actor could each wait for the other to."""
    try:
        while True:
            orders.put(pipe.recv())
    except (EOFError, OSError):
        orders.put(None)
