"""Statistics over seeds and scenes: medians with their range, confidence intervals of means and differences, bootstrap, interquartile mean.
Needs only numpy.

The rewards of an agent in a task are an array (seeds, scenes). Two trainings of the same agent give different results, so agents are
trained with several seeds, and a confidence interval must reflect the variation between seeds. An interval over the scenes of one seed says
nothing about another training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, lgamma, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rewards = NDArray[np.float64]
Statistic = Callable[[Rewards], float]


class Interval(NamedTuple):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside of the interval."""
        return self.low > 0 or self.high < 0


def half_width(values: Rewards) -> float | None:
    """Half the width of the 95 % interval of a mean (normal approximation), for instance over scenes. None for fewer than two values."""
    return 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None


class Spread(NamedTuple):
    """Median, minimum and maximum over seeds, the numbers that the paper reports."""

    median: float
    low: float
    high: float


def spread_of_seeds(means: Sequence[float]) -> Spread:
    """Median, minimum and maximum of `means`, which has the mean reward of each seed."""
    return Spread(float(np.median(means)), float(np.min(means)), float(np.max(means)))


def interquartile_mean(values: Rewards) -> float:
    """Mean of all values except the lowest and the highest quarter. A quarter of n values has n/4 values, rounded down."""
    ordered = np.sort(values, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap(strata: Sequence[Rewards], statistic: Statistic, rng: np.random.Generator, repeats: int = 2000) -> Interval:
    """Computes `statistic` from the mean rewards of all seeds, with a 95 % percentile interval from a stratified bootstrap (Agarwal et al.
    2021).

    `strata` has one array of rewards (seeds, scenes) for each task. `statistic` takes one array with the mean rewards of all seeds of all
    tasks. Each of the `repeats` samples draws seeds with replacement within each task. If a task has only one seed, its scenes are drawn
    instead.
    """
    drawn = [statistic(np.concatenate([_resampled(rewards, rng) for rewards in strata])) for _ in range(repeats)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(statistic(np.concatenate([rewards.mean(axis=1) for rewards in strata])), float(low), float(high))


def _resampled(rewards: Rewards, rng: np.random.Generator) -> Rewards:
    """Draws one bootstrap sample of seeds, with replacement, and returns their mean rewards (seeds,). If there is only one seed, draws its
    scenes instead, and returns one mean (1,)."""
    seeds, scenes = rewards.shape
    if seeds == 1:
        return rewards[:, rng.integers(scenes, size=scenes)].mean(axis=1)
    return rewards.mean(axis=1)[rng.integers(seeds, size=seeds)]


def probability_of_improvement(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """Probability that a seed of the first agent has a higher mean reward than a seed of the second, averaged over tasks.

    `first` and `second` have one list per task, with the mean reward of each seed of that agent. Equal rewards count half.
    """
    tasks = []
    for x, y in zip(first, second, strict=True):
        difference = np.subtract.outer(np.asarray(x), np.asarray(y))
        tasks.append((difference > 0).mean() + (difference == 0).mean() / 2)
    return float(np.mean(tasks))


def difference_of_seeds(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Difference of the mean rewards of two agents, with Welch's confidence interval over their seeds. Each agent needs two seeds or more.

    A bootstrap interval is not used, because it would be too narrow for a few seeds: a bootstrap never draws values beyond those observed.
    """
    x, y = np.asarray(first), np.asarray(second)
    value = float(x.mean() - y.mean())
    parts = [float(each.var(ddof=1)) / len(each) for each in (x, y)]
    error = sqrt(sum(parts))
    if not error:
        return Interval(value, value, value)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(each) - 1) for part, each in zip(parts, (x, y), strict=True))
    half = t_quantile(freedom) * error
    return Interval(value, value - half, value + half)


def mean_over_seeds(means: Sequence[float]) -> Interval:
    """Returns the mean of `means` and its 95 % confidence interval by Student's distribution. `means` has the mean reward of
    each seed. The interval of a single seed is infinite."""
    values = np.asarray(means)
    value, n = float(values.mean()), len(values)
    half = t_quantile(n - 1) * float(values.std(ddof=1)) / sqrt(n) if n > 1 else inf
    return Interval(value, value - half, value + half)


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's distribution with `freedom` degrees of freedom, found by bisection."""
    nodes = np.linspace(0.0, 1.0, 401)
    weights = np.where(np.arange(401) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    scale = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(freedom * pi) / 2

    def mass(t: float) -> float:
        """The probability of the interval (0, t), by Simpson's rule. The substitution x = √ν tan φ, where ν is `freedom`, turns the density
        into a power of cos φ."""
        top = np.arctan(t / sqrt(freedom))
        density = np.cos(nodes * top) ** (freedom - 1)
        return float(exp(scale) * sqrt(freedom) * top * (weights * density).sum() / 1200)

    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mass(middle) < 0.475 else (low, middle)
    return high
