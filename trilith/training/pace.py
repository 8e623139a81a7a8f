"""Limits how far actors run ahead of the learner, to keep the ratio of learner steps to actor steps."""

from __future__ import annotations

AHEAD = 200
"""Size of the reserve of episodes, in learner steps that these episodes allow. With the reserve, learner and actors rarely wait for each
other."""
RATE = 0.1
"""Weight of a new value in the running means."""


class Pace:
    """Decides whether to request more episodes, so that both learner and actors stay busy and the ratio of their steps is kept (paper
    §D.1).

    The learner steps that the episodes so far allow are added to those that unanswered requests will allow; with a hundred actors, most
    episodes are in such requests. More episodes are requested while the sum is below a limit: the reserve `AHEAD`, plus the steps that the
    learner makes until a request is answered. Three running means are used: the number of learner steps that a result allows, the duration
    of a request, and the duration of a learner step.

    There are two exceptions, in which actors get as many requests as they can take: before the first learner step, and if no ratio is set,
    so that learner and actors run freely (§F.4).
    """

    def __init__(self) -> None:
        self._worth = self._latency = self._step = 0.0
        """Running means: number of learner steps that a result allows, duration of a request and duration of a learner step in seconds."""
        self._under_way: dict[int, float] = {}
        """Maps the number of each unanswered request to the time at which the request was sent."""

    def wants(self, due: float) -> bool:
        """Whether to request more episodes, given that the episodes so far allow `due` more learner steps."""
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
