"""Entries of a ledger that nobody played, to test what is made of entries."""

from collections.abc import Callable

import numpy as np
import pytest

from trilith.evaluation.scene_sets import VERSION
from trilith.paper.actions import pack
from trilith.paper.ledger import Entry, Training
from trilith.paper.plan import Measurement, Run
from trilith.utils.config import to_json
from trilith.world.physics import PHYSICS


def make_entry_for(test: Measurement, mean: float = 1.0, scenes: int | None = None) -> Entry:
    """The entry that answers a test, with rewards around a mean."""
    count = scenes or test.scenes
    run = test.agent if isinstance(test.agent, Run) else None
    training = run and Training(
        recipe=run.recipe,
        options=dict(run.options),
        config=to_json(run.config()),
        seed=run.seed,
        weights="last",
        learner_steps=4000,
        actor_steps=16000,
        simulated={"made": 16000, "counterfactual": 0, "corrections": 0},
        core_minutes=20.0,
        level=1,
        curve=[(2000, 10.0, mean / 2, mean / 3), (4000, 20.0, mean, mean / 1.5)],
    )
    rewards = mean + np.random.default_rng(run.seed if run else 0).normal(0, 0.1, count)
    return Entry(
        agent=run.name if run else str(test.agent),
        weights="0" * 16 if run else None,
        training=training,
        task=test.task,
        level=test.level,
        split="test",
        scenes=count,
        seed=0,
        zero_on_hit=True,
        sample=False,
        search=to_json(test.search) if test.search.budget else None,
        version=VERSION,
        physics=PHYSICS,
        commit=None,
        rewards=rewards.tolist(),
        reasons=["max_steps"] * count,
        actions=pack([[]] * count),
    )


@pytest.fixture
def entry_for() -> Callable[..., Entry]:
    return make_entry_for
