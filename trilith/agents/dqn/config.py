"""All settings of Q-learning, as a dataclass whose fields are also the command line. Imports no learning framework."""

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
    """All settings of Q-learning. The defaults are those of the recipe `objects`, except that the input lacks the number of steps left."""

    net: NetConfig = field(default_factory=NetConfig)
    """The network that values actions."""
    actions: Annotated[str, arg(prefix_name=False)] = "relative"
    """The space of actions: relative (an edge and an offset along x), relative_xy (along x and y), or absolute (a cell of a grid)."""
    offsets: int = 15
    """Relative actions: number of offsets along an axis."""
    grid: tuple[int, int] | None = None
    """Absolute actions: number of heights and of widths of the grid. Unless given, the size that the paper found best for the task."""
    mask: Mask = "legal"
    """Which actions are allowed. The same mask holds for acting, exploring and the bootstrap maximum: anything (an invalid choice ends
    the episode), edges from an available block to an object, or only those of these edges whose placements overlap nothing."""
    stop: bool = True
    """Whether to end an episode, by an invalid edge, where every action has a negative value. So no state is worth less than 0.
    With the mask `none` such an edge is an ordinary action."""
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
    """Networks without state values: whether the learning network selects the action and the target network gives its value."""
    tau: float = 0.005
    """Share by which the target network moves towards the learning network after every learner step. 0: it is copied instead, every
    `target_period` steps."""
    target_period: int = 1000
    """Learner steps between copies to the target network, if `tau` is 0."""
    act_with_target: bool = True
    """Whether actors and saved weights use the target network, an average over the last learner steps, instead of the learning
    network."""
    huber_delta: float = 10.0
    """Errors of values above this count linearly, not squared. The cost of a risk appears only in rare large errors, so a small delta
    makes values optimistic."""
    max_grad_norm: float = 10.0
    """The norm that gradients are clipped to; 0: not clipped."""
    mirror: bool = True
    """Whether half of the transitions are replayed with left and right swapped; the rules are symmetric."""
    epsilon: float = 0.3
    """Exploration: at step n an action is random with probability ε / max(L - n, 1). L is a running mean of the episode length at
    that level. The paper prints min, but its purpose, less exploration early, needs max."""
    replay_mb: float = 600.0
    """Size of the replay in megabytes."""
    counterfactual_actions: int = 8
    """Counterfactual actions that an actor without search simulates beside the chosen action: half of them from the 16 highest values, the
    others any that the mask allows. The learner uses them like the action made; a network without state values uses only those that
    end the episode."""
    counterfactual_targets: int = 3
    """Network objects: number of counterfactual actions per state whose values get a target r + γ V(s'), drawn anew for each learner step.
    Actions that end the episode always have a target. For the other actions only rewards and ends are learned."""
    lookahead: float = 0.5
    """Network objects: probability that an actor does not make its chosen action, but the one with the highest r + γ V(s') among the
    chosen and the counterfactual actions."""
    lower_bounds: bool = True
    """Whether a target is at least the return that followed. The world is deterministic, so this return can be earned again."""
    outcome_weight: float = 0.5
    """Network objects: weight of the errors of predicted rewards and ends, relative to the errors of values."""
    corrections_per_update: float = 0.0
    """Corrections per learner step. In a correction the agent plays an episode, and the planner plays on from one of its states; if the
    planner earns more, its actions are learned."""
    correction_share: float = 0.35
    """Share of corrections in a batch."""
    margin: float = 0.3
    """By how much the value of a corrected action should exceed the value of any other action."""
    margin_weight: float = 1.0
    """Weight of the margin loss, relative to the errors of values."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Search of actors during training. With budget 0 they do not search. The search of the trained agent does not depend on this."""
    model: OnlineConfig = field(default_factory=OnlineConfig)
    """With the world `online`: the model that is learned beside the agent, and in which actors search."""
    learning_starts: int = 6000
    """Steps in the replay before learning starts. They are random: placements that overlap nothing and, about once per episode, any action
    that the mask allows. With counterfactual actions, a placement that would touch an obstacle is replaced by one of these. So
    episodes get long, and some random placements earn a reward."""

    def check(self) -> None:
        """Raises ValueError naming options that do not go together."""
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
