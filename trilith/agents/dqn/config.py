"""Everything that Q-learning depends on, as a dataclass whose fields are also the command line. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import arg

from trilith.agents.dynamics.config import OnlineConfig
from trilith.networks.config import Mask, NetConfig
from trilith.search.config import ONLINE, SearchConfig
from trilith.utils.config import check_least, check_most


@dataclass(frozen=True)
class DQNConfig:
    """Everything that Q-learning depends on. The defaults are those of `objects`, but for the number of steps left as an input."""

    net: NetConfig = field(default_factory=NetConfig)
    """The network that values actions."""
    actions: Annotated[str, arg(prefix_name=False)] = "relative"
    """The space of actions: relative (an edge and an offset along x), relative_xy (along x and y), or absolute (a cell of a grid)."""
    offsets: int = 15
    """Relative actions: number of offsets along an axis."""
    grid: tuple[int, int] | None = None
    """Absolute actions: heights and widths of the grid; the size the paper found best for the task, unless given."""
    mask: Mask = "legal"
    """What may be chosen, in acting, exploring and the bootstrap maximum alike: anything (an invalid choice ends the
    episode), edges from an available block to an object, or of these only placements that overlap nothing."""
    stop: bool = True
    """Whether to end an episode, by an invalid edge, where every action is expected to lose: so nothing is ever worth less than 0.
    With the mask `none` that is an action among others."""
    learning_rate: float = 5e-4
    """Of Adam."""
    warmup: int = 500
    """Learner steps over which the learning rate rises from 0."""
    decay_steps: int = 30_000
    """Learner steps over which the learning rate falls to a tenth, along a cosine; 0 keeps it."""
    batch: int = 64
    """Transitions of a learner step."""
    updates_per_step: Annotated[float, arg(prefix_name=False)] = 0.2
    """Learner steps for each actor step, kept by both waiting for each other."""
    discount: float = 0.9
    """Discount factor. In long episodes one near 1 makes the agent put off what can wait."""
    n_step: int = 1
    """Rewards that are summed before the bootstrap."""
    double: bool = True
    """Networks without values of states: whether the learning network picks the action whose value the target network then gives."""
    tau: float = 0.005
    """Share by which the target network moves towards the learning one after every learner step; 0: it is copied instead."""
    target_period: int = 1000
    """Learner steps between copies to the target network, if `tau` is 0."""
    act_with_target: bool = True
    """Whether actors and saved weights use the target network, an average over the last learner steps, instead of the learning one."""
    huber_delta: float = 10.0
    """Errors of values beyond this count linearly, not squared. The cost of a risk shows only in rare large errors, so a small delta
    makes values optimistic."""
    max_grad_norm: float = 10.0
    """The norm that gradients are clipped to; 0: not clipped."""
    mirror: bool = True
    """Whether half of the transitions are replayed with left and right swapped; the rules are symmetric."""
    epsilon: float = 0.3
    """Exploration: at step n an action is random with probability ε / max(L - n, 1). L is a running mean of the length of
    episodes of that level. The paper prints min; its purpose, less exploration early, needs max."""
    replay_mb: float = 600.0
    """Size of the replay in megabytes."""
    counterfactual_actions: int = 8
    """Actions that actors who do not search simulate beside the one they choose: half of them of the 16 of the highest values, the others
    any that the mask allows. They are learned from as the one that is made; by networks without values of states only those that end
    the episode."""
    counterfactual_targets: int = 3
    """Network objects: counterfactual actions of a state, drawn anew for each learner step, whose values get a target r + γ V(s'). Those
    that end the episode have one anyway. Of the others only rewards and ends are learned."""
    lookahead: float = 0.5
    """Network objects: probability that an actor makes, of its choice and the actions simulated beside it, the one of the highest
    r + γ V(s') instead of its choice."""
    lower_bounds: bool = True
    """Whether a target is at least the return that followed. The world is deterministic, so that return can be had again."""
    outcome_weight: float = 0.5
    """Network objects: weight of the errors of predicted rewards and ends beside those of values."""
    corrections_per_update: float = 0.0
    """Corrections per learner step. In a correction the agent plays an episode, and the planner plays on from one of its states; if the
    planner earns more, its actions are learned."""
    correction_share: float = 0.35
    """Share of corrections in a batch."""
    margin: float = 0.3
    """By how much the value of a corrected action should exceed that of any other."""
    margin_weight: float = 1.0
    """Weight of falling short of the margin beside the errors of values."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Search of actors during training; none with budget 0. It does not affect the search of the trained agent."""
    model: OnlineConfig = field(default_factory=OnlineConfig)
    """With the world `online`: the model that is learned beside the agent, and that actors search in."""
    learning_starts: int = 6000
    """Steps in the replay before learning starts, by chance: placements that overlap nothing, and about one action an episode of all
    that the mask allows. With counterfactual actions, those that would touch an obstacle are replaced by others: so much is built, and
    by chance some of it earns something."""

    def check(self) -> None:
        """Raises ValueError naming options that do not go together."""
        if self.actions == "absolute" and self.corrections_per_update:
            raise ValueError("the planner shows relative actions: for absolute ones choose --agent.corrections-per-update 0")
        if self.search.world == ONLINE and not self.search.budget:
            raise ValueError("the world online is learned for a search: choose a budget, such as --budget 5, or leave out --world")

    def __post_init__(self) -> None:
        check_least(self, batch=1, n_step=1, target_period=1, learning_starts=0, corrections_per_update=0, outcome_weight=0)
        check_least(
            self,
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
        if self.grid is not None and not all(1 <= count <= 1000 for count in self.grid):
            raise ValueError(f"grid {self.grid}: must be from 1 to 1000 heights and widths")
        for name in ("discount", "tau", "correction_share", "lookahead"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be from 0 to 1")
        for name in ("updates_per_step", "replay_mb", "learning_rate", "huber_delta"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")
