"""Limits how far actors run ahead of the learner, to keep the ratio of learner steps to actor steps."""

from __future__ import annotations

AHEAD = 200
"""Size of the reserve of episodes: the number of learner steps that these episodes allow. With the reserve, learner and actors rarely wait
for each other."""
RATE = 0.1
"""Weight of a new value in the running means."""


class Pace:
    """Decides when to request more episodes from the actors. The aim is to keep both learner and actors busy, and to keep the ratio of
    their steps (paper §D.1).

    Every episode allows some learner steps. `wants` adds two numbers: the learner steps that the episodes received so far still allow, and
    the learner steps that the episodes of unanswered requests are expected to allow. It asks for more episodes while the sum is below a
    limit. The limit is the reserve `AHEAD`, plus the number of learner steps that are made while one request is answered. The estimates are
    running means of three measured values: the learner steps that the result of a request allows, the duration of a request, and the
    duration of a learner step.

    Before the first learner step, `wants` always asks for more. If no ratio is set, episodes do not limit the learner steps, so `wants`
    also asks for more (§F.4).
    """

    def __init__(self) -> None:
        self._worth = self._latency = self._step = 0.0
        """Three running means: the number of learner steps that a result allows, the duration of a request in seconds, and the duration of
        a learner step in seconds."""
        self._under_way: dict[int, float] = {}
        """Maps the number of each unanswered request to the time at which the request was sent."""

    def wants(self, due: float) -> bool:
        """Whether to request more episodes. `due` is the number of learner steps that the episodes received so far still allow."""
        return not self._step or due + self._worth * len(self._under_way) < AHEAD + self._latency / self._step

    def sent(self, number: int, now: float) -> None:
        """Notes that request `number` was sent at the time `now`, in seconds."""
        self._under_way[number] = now

    def taken(self, number: int, now: float, gain: float) -> None:
        """Notes that request `number` was answered at the time `now`, and that its result allows `gain` more learner steps."""
        latency = now - self._under_way.pop(number, now)
        self._latency += (RATE if self._latency else 1.0) * (latency - self._latency)
        self._worth += RATE * (max(gain, 0.0) - self._worth)

    def stepped(self, seconds: float) -> None:
        """Notes that a learner step took `seconds`."""
        self._step += (RATE if self._step else 1.0) * (seconds - self._step)
