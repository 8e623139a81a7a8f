"""Recipes of Q-learning: the agents of the paper, and ours. To add a recipe, add an entry to `ALGORITHM.recipes`.

Recipes have versions: if any part of a recipe changes, increase its `version`. This module imports no learning framework.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.dqn.config import DQNConfig
from trilith.networks.config import NetConfig
from trilith.search.config import SearchConfig

OBJECTS = DQNConfig(net=NetConfig(clock=True))
"""Our agent `objects`, which sees objects. It learns from its own episodes and from counterfactual actions, without the planner; see
docs/howto/train.md."""

_OBJECTS_TASKS: dict[str, dict[str, Any]] = {
    # Forty to sixty minutes of one core. In tasks with short episodes a higher discount factor is better, because glue pays off only later.
    "silhouette": {"steps": 36_000, "agent": {"discount": 0.97, "decay_steps": 36_000}},
    "connecting": {"steps": 20_000, "agent": {"decay_steps": 20_000}},
    "covering": {"steps": 24_000, "agent": {"decay_steps": 24_000}},
    "covering_hard": {"steps": 40_000, "agent": {"discount": 0.97, "decay_steps": 40_000}},
}
"""Maps a task to the settings of `objects` for this task, as in `Recipe.tasks`."""
_OBJECTS_TASKS_V2 = {**_OBJECTS_TASKS, "covering": {"steps": 18_000, "agent": {"decay_steps": 18_000}}}
"""Like `_OBJECTS_TASKS`, but for version 2 of the recipe, which differs only in Covering. Shipped agents of the other tasks were trained
with version 2."""

GN_DQN = DQNConfig(
    # As printed in §C.2 and §D of the paper, with the target network of the DQN that it cites.
    net=NetConfig(network="graph", width=64, recurrent=3, connectivity="full"),
    actions="relative",
    offsets=15,
    mask="none",
    stop=False,
    learning_rate=1e-4,
    batch=16,
    updates_per_step=4.0,
    epsilon=0.3,
    n_step=1,
    double=False,
    tau=0.0,
    act_with_target=False,
    counterfactual_actions=0,
    lower_bounds=False,
    corrections_per_update=0.0,
    mirror=False,
    warmup=0,
    decay_steps=0,
    # Our choices, because the paper does not print them.
    discount=0.99,
    target_period=1000,
    huber_delta=1.0,
    max_grad_norm=10.0,
    replay_mb=300.0,
    learning_starts=1000,
)
"""The paper's agent GN-DQN."""

GN_DQN_MCTS = replace(GN_DQN, learning_rate=2e-4, search=SearchConfig(10, algorithm="mcts", c=2.0, stages=2))
"""The paper's agent GN-DQN-MCTS: the same as GN-DQN, but its actors search by UCT as the paper describes. The results of the search are not
used as targets."""

CNN_GN_DQN = replace(GN_DQN, net=replace(GN_DQN.net, network="pixels"))
"""The paper's agent CNN-GN-DQN: the same as GN-DQN, but it sees only the segmented image of each object."""

CNN_GN_DQN_MCTS = replace(GN_DQN_MCTS, net=CNN_GN_DQN.net)
"""The paper's agent CNN-GN-DQN-MCTS: the same as GN-DQN-MCTS, but it sees only the segmented image of each object."""


def _tuned(paper: DQNConfig) -> DQNConfig:
    """A tuned version of an agent of the paper, with changes that let it learn within an hour on one core.

    The changes are the same for relative and absolute actions, so that the agents differ only in their structure. Absolute actions have no
    mask of legal placements. So the mask is `edges` for all, which excludes only invalid choices.
    """
    return replace(
        paper,
        mask="edges",
        learning_rate=5e-4,
        batch=32,
        updates_per_step=0.25,
        double=True,
        tau=0.005,
        act_with_target=True,
        learning_starts=6000,
    )


FROM_PIXELS = replace(
    OBJECTS,
    net=NetConfig(network="pixel-attention"),
    learning_rate=1e-3,
    discount=0.99,
    huber_delta=1.0,
    updates_per_step=0.1,
    corrections_per_update=0.1,
    correction_share=0.5,
    replay_mb=200.0,
    learning_starts=2000,
)
"""Our agent `pixels`. It sees only the segmented image of each object, and the planner corrects it."""

_PAPER_RUN: dict[str, Any] = {"zero_on_hit": True, "steps": 10_000_000, "curriculum": {"steps": 40_000, "hardest_share": 0.0}}
"""Options of a training run as in the paper. One option is our choice, because the paper does not state it: levels are drawn from the
task's training mix, limited to the levels that the curriculum has reached (`hardest_share` is 0)."""
_PAPER_SEARCH_RUN = {**_PAPER_RUN, "steps": 4_000_000}
_TUNED_RUN: dict[str, Any] = {"zero_on_hit": True, "curriculum": {"steps": 3_000, "hardest_share": 0.0}}

_PAPER = {
    "gn-dqn": (GN_DQN, "GN-DQN of the paper: its graph network and its hyper-parameters where they are printed"),
    "gn-dqn-mcts": (GN_DQN_MCTS, "GN-DQN-MCTS of the paper: as gn-dqn, actors search with ten simulations"),
    "cnn-gn-dqn": (CNN_GN_DQN, "CNN-GN-DQN of the paper: as gn-dqn, from segmented images"),
    "cnn-gn-dqn-mcts": (CNN_GN_DQN_MCTS, "CNN-GN-DQN-MCTS of the paper: as gn-dqn-mcts, from segmented images"),
}
_TUNED_ABOUT = "with changes that make it learn in an hour, the same for relative and absolute actions"

ALGORITHM = Algorithm(
    name="dqn",
    config=DQNConfig,
    recipes=(
        *(
            Recipe(
                "objects",
                OBJECTS,
                "ours: placements that see all objects, learned from its own play alone; the mask of legal actions",
                run={"checkpoint_seconds": 180.0, "evaluate_every": 2000, "evaluate_scenes": 200},  # checkpoints hold a large replay
                tasks=tasks,
                version=version,
            )
            for version, tasks in ((3, _OBJECTS_TASKS), (2, _OBJECTS_TASKS_V2))
        ),
        *(
            Recipe(name, config, about, _PAPER_SEARCH_RUN if config.search.budget else _PAPER_RUN, version=2)
            for name, (config, about) in _PAPER.items()
        ),
        *(Recipe(f"{name}-tuned", _tuned(config), f"{name} {_TUNED_ABOUT}", _TUNED_RUN) for name, (config, _) in _PAPER.items()),
        Recipe("pixels", FROM_PIXELS, "ours: from segmented images and nothing else of an object, corrected by the planner"),
    ),
    policy="trilith.agents.dqn.policy:DQNPolicy",
    learner="trilith.agents.dqn.learner:DQNLearner",
    needed=("net", "actions", "offsets", "grid", "mask", "stop", "discount"),
    shapes="trilith.agents.dqn.policy:weight_shapes",
)
