"""Levels are raised evenly, and end in the task's own mix."""

import pytest

from trilith.training.curriculum import CurriculumConfig, Schedule
from trilith.world.tasks import TASKS


@pytest.mark.parametrize("task", TASKS)
def test_levels_rise_from_the_first_to_the_last(task: str) -> None:
    schedule = Schedule(task, CurriculumConfig(1000, 0.0))
    levels = [schedule.levels(step) for step in range(0, 1200, 10)]
    tops = [max(i for i, p in enumerate(each) if p > 0) for each in levels]
    count = len(TASKS[task].levels)
    assert tops == sorted(tops)
    assert set(tops[100:]) == {count - 1}
    held = [tops[:100].count(level) for level in range(count)]
    assert max(held) - min(held) <= 1, "evenly"
    assert levels[-1] == pytest.approx(TASKS[task].mix)
    assert all(sum(each) == pytest.approx(1) for each in levels)


def test_a_share_goes_to_the_hardest_level_reached() -> None:
    assert Schedule("covering_hard", CurriculumConfig(0, 0.5)).levels(0) == pytest.approx((1 / 3, 2 / 3))
