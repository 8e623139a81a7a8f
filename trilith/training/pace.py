"""How far actors run ahead of the learner."""

from __future__ import annotations

AHEAD = 200
"""Learner steps for which actors may deliver episodes in advance, so that neither side waits for single messages."""
RATE = 0.1
"""Share of a new value in the running means."""


class Pace:
    """Decides whether to request more episodes, so that both sides work and the ratio of their steps holds (paper §D.1).

    Requests under way count too, because their episodes will allow more learner steps. With a hundred actors these episodes are many
    times those that the learner has now. But the learner continues meanwhile, so requests may also cover the learner steps made until
    a request is answered. All estimates come from past requests: the learner steps that a result allows, the duration of a request,
    and the duration of a learner step.

    If episodes allow no additional learner steps, as with a learner that runs freely (§F.4), actors get as many requests as they can
    take. The same holds before the first learner step.
    """

    def __init__(self) -> None:
        self._worth = self._latency = self._step = 0.0
        """Running means: learner steps that a result allows, seconds that a request takes, seconds of a learner step."""
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
