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

    Every episode allows some learner steps. `wants` asks for more episodes while

        due + worth · unanswered < AHEAD + latency / step

    `due` is the number of learner steps that the episodes received so far still allow, and `unanswered` is the number of requests without a
    result. The other values are measured, as running means: `worth` is the number of learner steps that the result of a request allows,
    `latency` and `step` are the durations of a request and of a learner step.

    Before the first learner step, `wants` always asks for more. It also does if no ratio is set (§F.4), because `due` is then at most 1.
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
