"""How far actors run ahead of the learner."""

from __future__ import annotations

AHEAD = 200
"""Learner steps' worth of episodes that actors may be ahead by, so that neither side waits for single messages."""
RATE = 0.1
"""Share of a new value in the running means."""


class Pace:
    """Says whether to ask for more episodes, so that both sides work and the ratio of their steps holds (paper §D.1).

    Episodes that are under way will be owed as well, so they count: with a hundred actors they are many times what the learner has
    at hand. But it goes on meanwhile, and what it can use up until a request is answered may be asked for on top. All of it is
    known from what came before: what a result is worth in learner steps, how long a request takes, and how long a learner step.

    Where episodes allow no more steps than there are anyway, as with a learner that runs freely (§F.4), actors get as many requests
    as they take; so they do before the first learner step.
    """

    def __init__(self) -> None:
        self._worth = self._latency = self._step = 0.0
        """Running means: learner steps that a result allows, seconds that it takes, seconds of a learner step."""
        self._under_way: dict[int, float] = {}
        """When each request under way was sent, by its number."""

    def wants(self, owed: float) -> bool:
        """Whether to ask for more episodes, with so many learner steps owed now."""
        return not self._step or owed + self._worth * len(self._under_way) < AHEAD + self._latency / self._step

    def sent(self, number: int, now: float) -> None:
        """Request `number` was sent."""
        self._under_way[number] = now

    def taken(self, number: int, now: float, gain: float) -> None:
        """It was answered, and what came allows `gain` more learner steps."""
        latency = now - self._under_way.pop(number, now)
        self._latency += (RATE if self._latency else 1.0) * (latency - self._latency)
        self._worth += RATE * (max(gain, 0.0) - self._worth)

    def stepped(self, seconds: float) -> None:
        """A learner step took so long."""
        self._step += (RATE if self._step else 1.0) * (seconds - self._step)
