"""Actors on many machines: the same requests and results as on this one, through a pool of workers on a Ray cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from trilith.agents.base import Weights
from trilith.training.actor import Request, Result, collect_timed
from trilith.training.local_actors import PolicySpec
from trilith.utils.distributed.pool import Work
from trilith.utils.distributed.ray_cluster import Cluster
from trilith.utils.distributed.ray_pool import Pool


class RayActors:
    """`Actors` on a cluster."""

    def __init__(self, cluster: Cluster, spec: PolicySpec, count: int, cpus: float) -> None:
        self._pool = Pool(cluster, partial(_make_work, spec), count, cpus, what="actor")
        self.deaths = self._pool.notes
        self._count, self._told = count, (0, 0)

    def idle(self) -> int:
        return self._pool.idle()

    def send(self, request: Request, weights: Weights) -> None:
        self._pool.send(request, weights)

    def receive(self, timeout: float) -> list[Result]:
        answers = self._pool.receive(timeout)
        ready, nodes = now = self._pool.ready()
        if now != self._told:
            self._told = now
            rest = "" if ready == self._count else f" of {self._count}; the others start, or wait for room on the cluster"
            self.deaths.append(f"{ready} actors on {nodes} node{'' if nodes == 1 else 's'}{rest}")
        return [answer.result for answer in answers]

    def close(self) -> None:
        self._pool.close()


def _make_work(spec: PolicySpec) -> Work:
    """What an actor does, anywhere."""
    policy = spec.make()

    def work(request: Any, weights: Any) -> Result:
        policy.load(weights)
        return collect_timed(policy, spec.task, request)

    return work
