"""Limits how far actors run ahead of the learner, so that learner steps per actor step keep their ratio."""

from __future__ import annotations

AHEAD = 200
"""Number of learner steps for which episodes may be delivered in advance, so that learner and actors rarely wait for each other."""
RATE = 0.1
"""Weight of a new value in the running means."""


class Pace:
    """Decides whether to request more episodes, so that learner and actors are both busy and the ratio of their steps holds (paper §D.1).

    Requests under way count too, because their episodes will allow more learner steps; with a hundred actors these are most of the
    episodes. On the other hand, the learner continues until a request is answered, so requests may also cover the learner steps made
    until then. Three estimates from the past are needed: the number of learner steps that a result allows, the duration of a request,
    and the duration of a learner step.

    Actors get as many requests as they can take before the first learner step, and if episodes do not limit the learner, which then
    runs freely (§F.4).
    """

    def __init__(self) -> None:
        self._worth = self._latency = self._step = 0.0
        """Running means: number of learner steps that a result allows, duration of a request and duration of a learner step in seconds."""
        self._under_way: dict[int, float] = {}
        """The time at which each request under way was sent, by the request's number."""

    def wants(self, due: float) -> bool:
        """Whether to request more episodes, if the episodes so far allow `due` more learner steps."""
        return not self._step or due + self._worth * len(self._under_way) < AHEAD + self._latency / self._step

    def sent(self, number: int, now: float) -> None:
        """Notes that request `number` was sent."""
        self._under_way[number] = now

    def taken(self, number: int, now: float, gain: float) -> None:
        """Notes that request `number` was answered, and that its result allows `gain` more learner steps."""
        latency = now - self._under_way.pop(number, now)
        self._latency += (RATE if self._latency else 1.0) * (latency - self._latency)
        self._worth += RATE * (max(gain, 0.0) - self._worth)

    def stepped(self, seconds: float) -> None:
        """Notes that a learner step took `seconds`."""
        self._step += (RATE if self._step else 1.0) * (seconds - self._step)
