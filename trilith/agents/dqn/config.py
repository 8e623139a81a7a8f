"""Everything that Q-learning depends on, as a dataclass whose fields are also the command line. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from tyro.conf import arg

from trilith.agents.base import Algorithm, Recipe
from trilith.agents.model.config import OnlineConfig
from trilith.nets.config import Mask, NetConfig
from trilith.search.config import ONLINE, SearchConfig
from trilith.support.config import check_least, check_most


@dataclass(frozen=True)
class DQNConfig:
    """Everything that Q-learning depends on. The defaults are those of `fast`, but for what its network is told of places and steps."""

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
    ratio: Annotated[float, arg(prefix_name=False)] = 0.1
    """Learner steps for each actor step, kept by both waiting for each other."""
    discount: float = 0.99
    """What a reward one step later counts for."""
    n_step: int = 1
    """Rewards that are summed before the bootstrap."""
    double: bool = True
    """Whether the learning network picks the action whose value the target network then gives."""
    target_rate: float = 0.005
    """Share by which the target network moves towards the learning one after every learner step; 0: it is copied instead."""
    target_period: int = 1000
    """Learner steps between copies to the target network, if `target_rate` is 0."""
    act_with_target: bool = True
    """Whether to act by the target network, an average over the last learner steps, and to keep it, rather than the learning one."""
    huber: float = 10.0
    """Errors of values beyond this count linearly, not squared. What a risk costs is learnt only from rare large errors, so a small one
    makes values those of what usually happens: optimistic."""
    clip: float = 10.0
    """The norm that gradients are clipped to; 0: not clipped."""
    mirror: bool = True
    """Whether half of the transitions are replayed with left and right swapped, which the world does not notice."""
    epsilon: float = 0.3
    """How much is explored: at step n an action is random with probability ε / max(L - n, 1), where L is a running
    mean of the length of episodes of that level. The paper prints min; its purpose, less exploring early, needs max."""
    replay_mb: float = 200.0
    """Size of the replay in megabytes."""
    first_demonstrations: int = 64
    """Episodes of the planner to learn from, before anything else is played."""
    demonstrations: float = 0.4
    """Further such episodes for each learner step: a slow planner then keeps to the pace of the learner, as actors do. Actor
    processes that would have to wait for the learner make more of them instead, unless this is 0."""
    takeover: float = 0.95
    """Probability that the agent plays first in a demonstration and, if that was not the best there is, is relieved somewhere on its
    way: what to do in states that only the agent gets into. Kept if it earns more than the agent did."""
    takeover_budget: int = 16
    """Simulations a decision of a search over the agent's own values, which may take over instead of the planner; 0: it never does."""
    takeover_searched: float | None = None
    """Probability that the search takes over. None: 0.1 where the planner earned 98 % of all there was in its first demonstrations, as it
    does in Covering and Connecting, else 0.95: a search over the agent's own values soon does better, in a fraction of the time."""
    siblings: int = 3
    """Actions that actors who do not search simulate beside the one they make, of the 16 of the highest values. What ends the
    episode, by touching an obstacle or by completing it, is worth its reward and no more, which is learnt."""
    demonstration_share: float = 0.35
    """Share of demonstrations in a batch."""
    demonstration_returns: bool = True
    """Whether a demonstrated action is worth what its episode went on to earn, instead of its reward and the value of what followed."""
    margin: float = 0.3
    """By how much the value of a demonstrated action should exceed that of any other."""
    margin_weight: float = 1.0
    """What falling short of the margin counts for beside the error of a value."""
    margin_steps: int = 0
    """Learner steps over which that weight falls to nothing, after which demonstrations are transitions like any other; 0 keeps it.
    Of several actions that are as good the planner takes one, and the margin holds the others down."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How actors search while they train; with budget 0 they do not. How an agent searches later has nothing to do with it."""
    model: OnlineConfig = field(default_factory=OnlineConfig)
    """With the world `online`: the model that is learned beside the agent, and that actors search in."""
    amortise: float = 0.0
    """Weight of learning what searches found (Hamrick et al. 2020): a cross-entropy between the searched values and the network's."""
    temperature: float = 0.1
    """What values are divided by before they are compared so."""
    min_replay: int = 2000
    """Steps in the replay before learning starts, by chance: placements that overlap nothing, and about one action an episode of all
    that the mask allows."""

    def check(self) -> None:
        """Raises ValueError naming options that do not go together."""
        if self.actions == "absolute" and (self.first_demonstrations or self.demonstrations):
            raise ValueError("the planner demonstrates relative actions: for absolute ones choose no demonstrations, nor first ones")
        if self.amortise and not self.search.budget:
            raise ValueError(f"amortise {self.amortise} needs a search to learn from: choose a budget, or amortise 0")
        if self.search.world == ONLINE and not self.search.budget:
            raise ValueError("the world online is learned for a search: choose a budget, such as --budget 5, or leave out --world")

    def __post_init__(self) -> None:
        check_least(self, batch=1, n_step=1, target_period=1, min_replay=0, first_demonstrations=0, demonstrations=0, takeover_budget=0)
        check_least(self, warmup=0, decay_steps=0, clip=0, epsilon=0, margin=0, margin_weight=0, margin_steps=0, siblings=0, amortise=0)
        check_most(self, offsets=1000)
        if self.grid is not None and not all(1 <= count <= 1000 for count in self.grid):
            raise ValueError(f"grid {self.grid}: must be from 1 to 1000 heights and widths")
        for name in ("discount", "target_rate", "demonstration_share", "takeover", "takeover_searched"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be from 0 to 1")
        for name in ("ratio", "temperature", "replay_mb", "learning_rate", "huber"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")


FAST = DQNConfig(net=NetConfig(place=16, stands=True, ways=True, covers=True, finishes=True, remains=True, clock=True))
"""Ours: what learns fastest on two cores, see docs/learning.md."""

PAPER = DQNConfig(
    # As printed in §C.2 and §D of the paper.
    net=NetConfig(network="graph", width=64, recurrent=3, connectivity="full"),
    actions="relative",
    offsets=15,
    mask="none",
    stop=False,
    learning_rate=1e-4,
    batch=16,
    ratio=4.0,
    epsilon=0.3,
    # Not printed, ours: the plainest choice, or what lets something be seen within an hour (docs/learning.md).
    warmup=0,
    decay_steps=0,
    discount=0.99,
    n_step=1,
    first_demonstrations=0,
    demonstrations=0.0,
    takeover=0.0,
    takeover_budget=0,
    siblings=0,
    double=True,
    target_rate=0.005,
    act_with_target=True,
    huber=1.0,
    clip=10.0,
    mirror=False,
    replay_mb=300.0,
    min_replay=200_000,
)
"""The paper's agent GN-DQN."""

SAVE = replace(FAST, search=SearchConfig(budget=10, root="halving"), amortise=0.1, ratio=0.2)
"""`fast`, but actors search and the network learns what they find (Hamrick et al. 2020). Their steps take ten times as long, so
there are fewer of them for each of the learner's."""

GN_DQN_MCTS = replace(PAPER, learning_rate=2e-4, search=SearchConfig(budget=10, c=2.0, stages=2, root="bound"))
"""The paper's agent GN-DQN-MCTS: as `paper`, but its actors search, by the bound as printed; what they find is not learnt."""

CNN_GN_DQN = replace(PAPER, net=replace(PAPER.net, network="pixels"))
"""The paper's agent CNN-GN-DQN: as `paper`, but all it sees of an object is its segmented image."""

CNN_GN_DQN_MCTS = replace(GN_DQN_MCTS, net=CNN_GN_DQN.net)
"""The paper's agent CNN-GN-DQN-MCTS."""

FAST_PIXELS = replace(
    FAST,
    net=NetConfig(network="pixel-attention"),
    learning_rate=1e-3,
    # As `fast` was when docs/pixels.md was measured; what it does differently by now was not tried from pixels.
    huber=1.0,
    demonstrations=0.1,
    takeover=0.75,
    takeover_searched=0.5,
    demonstration_share=0.5,
)
"""`fast`, but all it sees of an object is its segmented image: attention, demonstrations, the mask of legal actions and how it learns
are those of `fast`; geometry and what is known of places are not. It learns more slowly, and faster with twice the learning rate."""

_PAPER_RUN = {"curriculum": {"steps": 40_000, "hardest_share": 0.0}}
"""Levels raised as printed; all reached alike likely is ours, as the paper does not say."""

ALGORITHM = Algorithm(
    name="dqn",
    config=DQNConfig,
    recipes=(
        Recipe("fast", FAST, "ours: attention over objects, demonstrations of the planner, the mask of legal actions"),
        Recipe("paper", PAPER, "GN-DQN of the paper: its graph network and its hyper-parameters where they are printed", _PAPER_RUN),
        Recipe("gn-dqn-mcts", GN_DQN_MCTS, "GN-DQN-MCTS of the paper: as paper, actors search with ten simulations a decision", _PAPER_RUN),
        Recipe("cnn-gn-dqn", CNN_GN_DQN, "CNN-GN-DQN of the paper: as paper, from segmented images", _PAPER_RUN),
        Recipe("cnn-gn-dqn-mcts", CNN_GN_DQN_MCTS, "CNN-GN-DQN-MCTS of the paper: as gn-dqn-mcts, from segmented images", _PAPER_RUN),
        Recipe("fast-pixels", FAST_PIXELS, "ours: as fast, from segmented images and nothing else of an object"),
        Recipe("save", SAVE, "ours after Hamrick et al. 2020: as fast, actors search and the network learns what they find"),
    ),
    policy="trilith.agents.dqn.policy:DQNPolicy",
    learner="trilith.agents.dqn.learner:DQNLearner",
    needed=("net", "actions", "offsets", "grid", "mask", "stop", "discount"),
    shapes="trilith.agents.dqn.policy:weight_shapes",
)
