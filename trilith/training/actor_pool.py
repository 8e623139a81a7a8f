"""Starts actors in this process, in separate processes, or on a Ray cluster. The module `actor` defines their work;
`utils.distributed.pool` replaces an actor process that dies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, NamedTuple

from trilith.agents.algorithms import get_algorithm
from trilith.agents.base import Policy, Weights
from trilith.training.actor import Request, Result, collect
from trilith.utils.distributed.pool import STALL_SECONDS
from trilith.utils.distributed.process_pool import ProcessPool
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.distributed.ray_pool import RayPool


class PolicySpec(NamedTuple):
    """The arguments from which any process can make an actor's policy."""

    algorithm: str
    config: Any
    task: str
    zero_on_hit: bool = False

    def make(self) -> Policy:
        """Returns the policy, with placeholder weights."""
        return get_algorithm(self.algorithm).make_policy(self.config, self.task, beyond=False, zero_on_hit=self.zero_on_hit)


class Inline:
    """Actors without processes of their own. Each request is played immediately in the process of the run, so the run is deterministic."""

    def __init__(self, spec: PolicySpec) -> None:
        self._spec, self._policy = spec, spec.make()
        self._results: list[Result] = []
        self.notes: list[str] = []

    def idle(self) -> int:
        return 0 if self._results else 1

    def send(self, request: Request, weights: Weights) -> None:
        self._policy.load(weights)
        self._results.append(collect(self._policy, self._spec.task, request))

    def receive(self, timeout: float) -> list[Result]:
        results, self._results = self._results, []
        return results


Actors = Inline | ProcessPool | RayPool
"""The three ways to run actors. All have the same methods to send requests and to receive results, see `Pool`."""


def actor_processes(spec: PolicySpec, count: int) -> ProcessPool:
    """Starts `count` actors as processes of this machine."""
    return ProcessPool(partial(_make_work, spec), count, "actor", start_seconds=STALL_SECONDS)


def cluster_actors(cluster: Cluster, spec: PolicySpec, count: int, cpus: float) -> RayPool:
    """Starts `count` actors on a Ray cluster, each with `cpus` CPUs."""
    return RayPool(cluster, partial(_make_work, spec), count, cpus, what="actor")


def _make_work(spec: PolicySpec) -> Callable[[Request, Weights], Result]:
    policy = spec.make()

    def work(request: Request, weights: Weights) -> Result:
        before = process_time()
        policy.load(weights)
        return collect(policy, spec.task, request)._replace(cpu_seconds=process_time() - before)

    return work
