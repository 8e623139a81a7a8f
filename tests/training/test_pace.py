"""Learner and actors keep the ratio of their steps and neither waits without need: the loop of a run in small, with a clock of its own."""

import pytest

from trilith.training.pace import AHEAD, Pace


class Loop:
    """One learner step takes a tick; requests take `ticks` and bring `gain` learner steps each; an actor does one at a time."""

    def __init__(self, actors: int, ticks: int, gain: float) -> None:
        self.pace, self.actors, self.ticks, self.gain = Pace(), actors, ticks, gain
        self.busy: dict[int, int] = {}
        self.due, self.steps, self.sent, self.waited, self.most = 0.0, 0, 0, 0, 0.0

    def run(self, ticks: int) -> None:
        for now in range(ticks):
            while len(self.busy) < self.actors and self.pace.wants(self.due):
                self.sent += 1
                self.pace.sent(self.sent, now)
                self.busy[self.sent] = now + self.ticks
            for number in [each for each, done in self.busy.items() if done <= now]:
                del self.busy[number]
                self.due += self.gain
                self.pace.taken(number, now, self.gain)
            if self.due >= 1:
                self.due -= 1
                self.steps += 1
                self.pace.stepped(1.0)
            else:
                self.waited += 1
            if now > ticks // 2:
                self.most = max(self.most, self.due)


@pytest.mark.parametrize(("ticks", "gain"), [(5, 20.0), (2000, 40.0), (200, 80.0)])
def test_many_actors_keep_a_learner_busy_and_hardly_ahead_of_it(ticks: int, gain: float) -> None:
    loop = Loop(128, ticks, gain)
    loop.run(100_000)
    assert loop.waited < ticks + 0.02 * 100_000  # but for the first request
    assert loop.most < AHEAD + 2 * gain  # though 128 requests at once would be up to ten thousand steps


def test_actors_that_are_too_few_are_all_busy() -> None:
    loop = Loop(3, 1000, 20.0)
    loop.run(50_000)
    assert loop.steps > 0.95 * 3 * 20 * 50
    assert loop.due < 20


def test_actors_of_a_learner_that_runs_freely_are_all_busy() -> None:
    loop = Loop(16, 100, 0.0)
    loop.due = 1.0
    loop.run(1000)
    assert loop.sent == 16 * 10
