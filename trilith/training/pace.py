"""How far actors run ahead of the learner."""

from __future__ import annotations

from math import inf

AHEAD = 200
"""Learner steps' worth of episodes that actors may be ahead by, so that neither side waits for single messages."""
RATE = 0.1
"""Share of a new result in the running means."""


class Pace:
    """Says whether to ask for more episodes, so that both sides work and the ratio of their steps holds (paper §D.1).

    Episodes that are under way will be owed as well, so they count: with a hundred actors they are many times what the learner has
    at hand. But it goes on meanwhile, and what it will have used up when they arrive may be asked for on top. Both are known from
    earlier requests: `worth`, the learner steps that a result allowed, and `drawn`, those made while it was under way. If the
    learner waits for actors, `drawn` comes to what is under way, so that always more is asked for, until all actors are busy.

    A learner to which infinitely many steps are owed runs freely, and so do the actors (§F.4): they get as many requests as they take.
    """

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.worth = 0.0
        self.drawn = 0.0
        self._under_way: dict[int, int] = {}
        """Learner step that each request under way was sent at, by its number."""

    def wants(self, owed: float) -> bool:
        """Whether to ask for more episodes, with so many learner steps owed now."""
        return owed == inf or owed + self.worth * len(self._under_way) < self.ahead + self.drawn

    def sent(self, number: int, step: int) -> None:
        """Request `number` was sent at a learner step."""
        self._under_way[number] = step

    def taken(self, number: int, step: int, gain: float) -> None:
        """It was answered at a learner step, and what came allows `gain` more of them."""
        drawn = step - self._under_way.pop(number, step)
        self.drawn += RATE * (drawn - self.drawn)
        if 0 <= gain < inf:
            self.worth += RATE * (gain - self.worth)
