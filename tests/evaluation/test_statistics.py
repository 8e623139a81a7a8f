"""Statistics against values that are known: from tables, from a definition, or from the distribution they were drawn from."""

import re

import numpy as np
import pytest

from trilith.cli.evaluate import _seeds_table
from trilith.evaluation.statistics import (
    bootstrap,
    difference_of_seeds,
    interquartile_mean,
    mean_over_seeds,
    probability_of_improvement,
    spread_of_seeds,
    t_quantile,
)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.3027), (4, 2.7764), (10, 2.2281), (30, 2.0423), (1000, 1.9623)],
)
def test_quantiles_of_student_are_those_of_a_table(freedom, expected):
    assert t_quantile(freedom) == pytest.approx(expected, abs=2e-4)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert interquartile_mean(np.array([[100.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, -50.0]])) == 3.5
    assert interquartile_mean(np.array([1.0, 2.0, 6.0])) == 3.0
    assert interquartile_mean(np.arange(10.0)) == 4.5


def test_median_and_range():
    assert spread_of_seeds([3.0, 1.0, 2.0, 8.0]) == (2.5, 1.0, 8.0)


def test_probability_of_improvement_counts_pairs():
    assert probability_of_improvement([[1, 2, 3]], [[0, 2, 4]]) == pytest.approx((1 + 1.5 + 2) / 9)
    assert probability_of_improvement([[1, 2], [5, 5]], [[3, 4], [5, 5]]) == 0.25


def test_welchs_interval_is_that_of_the_textbook():
    """With equal numbers and variances it is the ordinary t interval; otherwise with the degrees of freedom of Welch and Satterthwaite."""
    found = difference_of_seeds([1.0, 2.0, 3.0], [5.0, 6.0, 7.0])
    assert found == pytest.approx((-4.0, -4.0 - 2.7764 * (2 / 3) ** 0.5, -4.0 + 2.7764 * (2 / 3) ** 0.5), abs=1e-3)
    assert found.excludes_zero
    other = difference_of_seeds([0.0, 4.0], [1.0, 2.0, 3.0])
    variance, freedom = 8 / 2 + 1 / 3, (8 / 2 + 1 / 3) ** 2 / ((8 / 2) ** 2 / 1 + (1 / 3) ** 2 / 2)
    assert other.high - other.value == pytest.approx(t_quantile(freedom) * variance**0.5)
    assert not other.excludes_zero
    assert difference_of_seeds([1.0, 1.0], [0.0, 0.0]) == (1.0, 1.0, 1.0)


def test_one_seed_proves_nothing():
    assert mean_over_seeds([2.0]) == (2.0, -np.inf, np.inf)
    assert not mean_over_seeds([2.0]).excludes_zero
    assert mean_over_seeds([1.0, 2.0, 3.0]).low == pytest.approx(2 - 4.3027 / np.sqrt(3), abs=1e-3)


def test_intervals_over_three_seeds_hold_the_truth_as_often_as_they_say():
    """A bootstrap of three seeds would hold it in about 75 of 100."""
    rng = np.random.default_rng(0)
    held = [abs((found := difference_of_seeds(*rng.normal(size=(2, 3)))).value) <= found.high - found.value for _ in range(400)]
    assert 0.93 <= np.mean(held) <= 0.99


def test_the_bootstrap_draws_seeds_within_tasks_and_scenes_of_a_single_seed():
    rng = np.random.default_rng(0)
    far = [np.zeros((5, 4)), np.full((5, 4), 100.0)]
    assert bootstrap(far, lambda means: float(means.mean()), rng, 50) == (50.0, 50.0, 50.0), "never more seeds of one task"
    seeds = rng.normal(size=(40, 1))
    found = bootstrap([np.repeat(seeds, 30, axis=1)], lambda means: float(means.mean()), rng)
    assert found.value == pytest.approx(seeds.mean())
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * seeds.std() / 40**0.5, rel=0.1)
    scenes = rng.normal(size=(1, 400))
    alone = bootstrap([scenes], lambda means: float(means.mean()), rng)
    assert (alone.high - alone.low) / 2 == pytest.approx(1.96 * scenes.std() / 20, rel=0.1)


def test_several_seeds_are_shown_with_their_interquartile_mean():
    results = [
        {"reward": m, "rewards": [m, m], "search": None, "task": "covering", "level": "all", "episodes": 2} for m in (1.0, 2.0, 3.0, 9.0)
    ]
    table = _seeds_table("runs/x", results)
    shown = dict(zip(*(column.cells for column in table.columns), strict=True))
    assert shown["median seed (lowest to highest)"] == "2.500 (1.000 to 9.000)"
    value, low, high = map(float, re.findall(r"[\d.]+", shown["interquartile mean (bootstrap over seeds)"]))
    assert value == 2.5
    assert 1.0 <= low < value < high <= 9.0
