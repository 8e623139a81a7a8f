"""Everything that Q-learning and search depend on, as dataclasses whose fields are also the command line. Imports no learning framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

Mask = Literal["none", "edges", "legal"]
"""Which actions may be chosen: all, those from an available block to an object, or of these only those that overlap nothing."""

T = TypeVar("T")


def check_least(config: Any, **least: int) -> None:
    """Raises ValueError naming the first field of a config that is less than it may be; None is as good as any."""
    for name, lowest in least.items():
        value = getattr(config, name)
        if value is not None and not lowest <= value < float("inf"):
            raise ValueError(f"{name} {value}: must be {lowest} or more")


@dataclass(frozen=True)
class NetConfig:
    """The network that values actions."""

    network: Literal["attention", "graph"] = "attention"
    """attention over objects (ours), or the paper's graph network."""
    width: int = 64
    """Units of every hidden layer; of a token in the attention network."""
    layers: int = 3
    """Attention: number of layers."""
    heads: int = 4
    """Attention: heads of a layer."""
    pair: int = 32
    """Attention: units for how two objects lie to each other."""
    decoder: int = 128
    """Attention: units of the decoder's hidden layers."""
    recurrent: int = 3
    """Graph: number of recurrent steps, n_rec in the paper."""
    connectivity: Literal["full", "sparse"] = "full"
    """Graph: edges between all objects, or the sparse set of the paper's §C.2."""

    def __post_init__(self) -> None:
        check_least(self, width=1, layers=1, heads=1, pair=1, decoder=1, recurrent=1)
        if self.network == "attention" and self.width % self.heads:
            raise ValueError(f"width {self.width}: must be a multiple of heads, {self.heads}")


@dataclass(frozen=True)
class SearchConfig:
    """How to search. The defaults are ours, see docs/planning.md; the paper's are c = 2 and root = bound."""

    budget: int = 0
    """Simulations a decision; 0: no search."""
    c: float = 0.1
    """Weight of the bonus for what has been tried little."""
    stages: Literal[1, 2] = 2
    """2: first the edge is chosen by its best action, then the action among those of the edge; 1: any action at once."""
    root: Literal["bound", "halving"] = "halving"
    """How actions are chosen at the root: by the upper confidence bound, or by sequential halving of the `considered` best."""
    considered: int = 8
    """Halving: actions that the first simulations are shared among."""

    def __post_init__(self) -> None:
        check_least(self, budget=0, considered=1)
        if not 0 <= self.c < float("inf"):
            raise ValueError(f"c {self.c}: must be a number from 0 on")


@dataclass(frozen=True)
class DQNConfig:
    """Everything that Q-learning depends on. The defaults are the recipe `fast`."""

    net: NetConfig = field(default_factory=NetConfig)
    """The network that values actions."""
    actions: Literal["relative", "relative_xy", "absolute"] = "relative"
    """The space of actions: an edge and an offset along x, or along x and y, or a cell of a grid over the scene."""
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
    decay_steps: int = 60_000
    """Learner steps over which the learning rate falls to a tenth, along a cosine; 0 keeps it."""
    batch: int = 64
    """Transitions of a learner step."""
    ratio: float = 0.1
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
    demonstrations: float = 0.02
    """Further such episodes for each learner step: a slow planner then keeps to the pace of the learner, as actors do. Actor
    processes that would have to wait for the learner make more of them instead, unless this is 0."""
    demonstration_share: float = 0.25
    """Share of demonstrations in a batch."""
    margin: float = 0.3
    """By how much the value of a demonstrated action should exceed that of any other."""
    margin_weight: float = 1.0
    """What falling short of the margin counts for beside the error of a value."""
    margin_steps: int = 0
    """Learner steps over which that weight falls to nothing, after which demonstrations are transitions like any other; 0 keeps it.
    Of several actions that are as good the planner takes one, and the margin holds the others down."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How actors search while they train; with budget 0 they do not. How an agent searches later has nothing to do with it."""
    amortise: float = 0.0
    """Weight of learning what searches found (Hamrick et al. 2020): a cross-entropy between the searched values and the network's."""
    temperature: float = 0.1
    """What values are divided by before they are compared so."""
    min_replay: int = 2000
    """Steps in the replay before learning starts, by chance: placements that overlap nothing, and about one action an episode of all
    that the mask allows."""
    curriculum_steps: int = 10_000
    """Learner steps over which levels are raised from the first to the last."""
    hardest_share: float = 0.5
    """Share of episodes at the highest level reached, on top of the task's own mix of levels up to it."""

    def __post_init__(self) -> None:
        check_least(self, batch=1, n_step=1, target_period=1, min_replay=0, curriculum_steps=0, first_demonstrations=0, demonstrations=0)
        check_least(self, warmup=0, decay_steps=0, clip=0, epsilon=0, margin=0, margin_weight=0, margin_steps=0, amortise=0)
        for name in ("discount", "target_rate", "demonstration_share", "hardest_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be from 0 to 1")
        for name in ("ratio", "temperature", "replay_mb", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")


FAST = DQNConfig()
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
    curriculum_steps=40_000,
    # Not printed, ours: the plainest choice, or what lets something be seen within an hour (docs/learning.md).
    warmup=0,
    decay_steps=0,
    discount=0.99,
    n_step=1,
    first_demonstrations=0,
    demonstrations=0.0,
    double=True,
    target_rate=0.005,
    act_with_target=True,
    clip=10.0,
    mirror=False,
    replay_mb=300.0,
    min_replay=200_000,
    hardest_share=0.0,
)
"""The paper's agent GN-DQN."""

SAVE = replace(FAST, search=SearchConfig(budget=10), amortise=0.1, ratio=0.2)
"""`fast`, but actors search and the network learns what they find (Hamrick et al. 2020). Their steps take ten times as long, so
there are fewer of them for each of the learner's."""

RECIPES: dict[str, DQNConfig] = {"fast": FAST, "paper": PAPER, "save": SAVE}
"""Recipes by name."""


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain values."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(config).items()}


def from_json(kind: type[T], data: Mapping[str, Any]) -> T:
    """The config that `to_json` wrote. Raises ValueError in one line for what it cannot have written."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{data!r} is not a {kind.__name__}")
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in names:
            raise ValueError(f"a {kind.__name__} has no field {name!r}")
        hint = hints[name]
        if isinstance(hint, type) and is_dataclass(hint):
            value = from_json(hint, value)
        values[name] = Path(value) if hint is Path else tuple(value) if isinstance(value, list) else value
    try:
        return kind(**values)
    except TypeError as error:  # a number where there should be a text, or the like
        raise ValueError(f"not a {kind.__name__}: {error}") from None
