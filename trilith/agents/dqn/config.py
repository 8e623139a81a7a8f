"""All settings of Q-learning. The fields of the dataclass are also options of the command line. This module imports no learning
framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import arg

from trilith.agents.dynamics.config import OnlineConfig
from trilith.networks.config import Mask, NetConfig
from trilith.search.config import ONLINE, SearchConfig
from trilith.utils.checks import require
from trilith.utils.config import check_least, check_most


@dataclass(frozen=True)
class DQNConfig:
    """All settings of Q-learning. The defaults equal the recipe `objects`, except that the number of steps left is not an input."""

    net: NetConfig = field(default_factory=NetConfig)
    """Options of the Q-network."""
    actions: Annotated[str, arg(prefix_name=False)] = "relative"
    """Action space: relative (an edge and an offset along x), relative_xy (along x and y), or absolute (a cell of a grid)."""
    offsets: int = 15
    """Relative actions: number of offsets along an axis."""
    grid: tuple[int, int] | None = None
    """Absolute actions: size of the grid, as number of heights and number of widths. None: the size that the paper found best for the
    task."""
    mask: Mask = "legal"
    """Which actions are allowed in acting, in exploring and in the bootstrap maximum. none: all actions (an invalid choice ends the
    episode). edges: actions that place an available block at an object. legal: as edges, but the placed block must also overlap nothing
    solid."""
    stop: bool = True
    """Whether the trained agent ends the episode if every action has a negative value; actors that explore never do so. In targets, state
    values are then at least 0 (with the network objects always). The mask none needs no such option, because an invalid edge ends the
    episode."""
    learning_rate: float = 5e-4
    """Learning rate of Adam."""
    warmup: int = 500
    """Learner steps over which the learning rate rises from 0."""
    decay_steps: int = 30_000
    """Learner steps over which the learning rate falls to a tenth, along a cosine; 0: it stays constant."""
    batch: int = 64
    """Transitions in a learner step."""
    updates_per_step: Annotated[float, arg(prefix_name=False)] = 0.2
    """Learner steps for each actor step. Learner and actors wait for each other to keep this ratio."""
    discount: float = 0.9
    """Discount factor. In long episodes, a factor near 1 makes the agent delay rewards that it can also get later."""
    n_step: int = 1
    """Number of rewards that are summed before the bootstrap."""
    double: bool = True
    """Double Q-learning, for networks without state values: the online network selects the action, the target network gives its value."""
    tau: float = 0.005
    """Rate at which the target network moves towards the online network, per learner step; higher in the first 1 / tau steps. 0: the target
    network is a copy of the online network, renewed every `target_period` learner steps."""
    target_period: int = 1000
    """Learner steps between copies to the target network, if `tau` is 0."""
    act_with_target: bool = True
    """Whether actors and saved weights use the target network (an average over recent learner steps) instead of the online network. No
    effect if `tau` is 0."""
    huber_delta: float = 10.0
    """Delta of the Huber loss: errors above delta count linearly. A small delta makes values optimistic, because risks appear only as rare
    large errors."""
    max_grad_norm: float = 10.0
    """Maximum norm of gradients, which are clipped to it; 0: no clipping."""
    mirror: bool = True
    """Whether half of the transitions are replayed with left and right swapped; the rules are symmetric."""
    epsilon: float = 0.3
    """Exploration: at step n (from 0) an action is random with probability ε / max(L - n, 1). L is a running mean of the episode length at
    the same level. The paper prints min instead of max, but its stated purpose, less exploration early in an episode, needs max."""
    replay_mb: float = 600.0
    """Maximum size of the replay in megabytes. Corrections have a replay of their own, of the same size."""
    counterfactual_actions: int = 8
    """Maximum number of counterfactual actions that an actor simulates beside an action chosen without search. Half are drawn from the 16
    actions with the highest values, the others from all actions that the mask allows. The learner trains on counterfactual actions too; a
    network without state values only on those that end the episode."""
    counterfactual_targets: int = 3
    """Network objects: number of counterfactual actions per state that get a target r + γ V(s') for their value. They are drawn anew at
    every learner step. Actions that end the episode always get a target. For all others, only the predictions of reward and end are
    learned."""
    lookahead: float = 0.5
    """Network objects: probability that an actor replaces the chosen action by the one with the highest r + γ V(s') among the chosen and
    the counterfactual actions."""
    lower_bounds: bool = True
    """Whether to raise a target to the observed return if the target is lower. The simulator is deterministic, so the observed return can
    be earned again."""
    outcome_weight: float = 0.5
    """Network objects: weight of the errors of predicted rewards and ends, relative to the errors of values."""
    corrections_per_update: float = 0.0
    """Corrections per learner step. For a correction, the planner continues from one state of an episode that the agent played. If the
    planner earns more, the agent learns from the planner's actions."""
    correction_share: float = 0.35
    """Fraction of a batch that comes from corrections, as soon as there are any."""
    margin: float = 0.3
    """Margin by which, in corrections, the value of the planner's action should exceed the values of all other actions."""
    margin_weight: float = 1.0
    """Weight of the margin loss, relative to the errors of values."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Options of the search of actors during training; budget 0: no search. The trained agent can search with other settings."""
    model: OnlineConfig = field(default_factory=OnlineConfig)
    """Options of the transition model that is learned in the same run, if --world is online."""
    learning_starts: int = 6000
    """Number of actor steps before learning starts, at most as many as the replay holds. Until then actors make random legal placements;
    at step n, with probability 1 / max(L - n, 1) (see `epsilon`), they draw from all actions that the mask allows. If a
    placement would touch an obstacle, a counterfactual action replaces it, so that episodes get longer."""

    def check(self) -> None:
        """Raises ValueError if options contradict each other. The message names the options and the alternatives."""
        shown = self.actions != "absolute" or not self.corrections_per_update
        require(shown, "the planner shows relative actions: for absolute ones choose --agent.corrections-per-update 0")
        used = self.search.world != ONLINE or self.search.budget
        require(used, "the world online is learned for a search: choose a budget, such as --budget 5, or leave out --world")

    def __post_init__(self) -> None:
        check_least(
            self,
            batch=1,
            n_step=1,
            target_period=1,
            learning_starts=0,
            corrections_per_update=0,
            outcome_weight=0,
            warmup=0,
            decay_steps=0,
            max_grad_norm=0,
            epsilon=0,
            margin=0,
            margin_weight=0,
            counterfactual_actions=0,
            counterfactual_targets=0,
        )
        check_most(self, offsets=1000)
        require(all(1 <= count <= 1000 for count in self.grid or ()), f"grid {self.grid}: must be from 1 to 1000 heights and widths")
        for name in ("discount", "tau", "correction_share", "lookahead"):
            require(0 <= getattr(self, name) <= 1, f"{name} {getattr(self, name)}: must be from 0 to 1")
        for name in ("updates_per_step", "replay_mb", "learning_rate", "huber_delta"):
            require(0 < getattr(self, name) < float("inf"), f"{name} {getattr(self, name)}: must be above 0")
