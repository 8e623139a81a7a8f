"""All settings of RS0. The fields of the dataclass are also options of the command line. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tyro.conf import arg

from trilith.networks.config import EncoderConfig
from trilith.utils.checks import require
from trilith.utils.config import check_least


@dataclass(frozen=True)
class RS0Config:
    """All settings of RS0. Defaults are the paper's values if the paper gives them. Fields marked "Ours" are our choice."""

    net: EncoderConfig = field(default_factory=EncoderConfig)
    """Options of the network: its input, and its size."""
    actions: Annotated[Literal["relative", "absolute"], arg(prefix_name=False)] = "relative"
    """Continuous action space: relative (X, x, y, Δx, s) or absolute (X, x, y, s)."""
    discount: float = 0.98
    """Discount factor."""
    length: int = 5
    """Steps of a sequence. A sequence is shorter if its episode ends."""
    retrace_lambda: float = 1.0
    """Ours: λ of Retrace, the weight of later rewards of a sequence."""
    epsilon: float | None = None
    """Fraction of actions that are drawn uniformly from all actions. None: the paper's value, which is 0.08 in tasks with short episodes
    (Silhouette, Covering Hard) and 0.03 in others."""
    updates_per_step: Annotated[float | None, arg(prefix_name=False)] = None
    """Learner steps for each actor step. Learner and actors wait for each other to keep this ratio. None: both run freely, as in the paper,
    but the learner makes at most one step per eight actor steps."""
    replay: int = 100_000
    """Maximum number of sequences in the replay. The oldest are dropped first. Every step of an episode begins a sequence."""
    replay_mb: float = 300.0
    """Ours: maximum size of the replay in megabytes."""
    learning_starts: int = 1000
    """Ours: number of steps in the replay before learning starts; at most the capacity of the replay."""
    batch: int = 64
    """Ours: batch size, the number of sequences in a learner step."""
    learning_rate: float = 3e-4
    """Ours: learning rate of Adam."""
    warmup: int = 0
    """Ours: learner steps over which the learning rate rises from 0."""
    decay_steps: int = 0
    """Ours: learner steps over which the learning rate falls to a tenth, along a cosine; 0: it stays constant."""
    max_grad_norm: float = 10.0
    """Ours: maximum norm of gradients, which are clipped to it; 0: no clipping."""
    tau: float = 0.005
    """Ours: rate at which the target network moves towards the online network, per learner step; higher in the first 1 / tau steps."""
    samples: int = 1
    """Ours: number of actions drawn from the policy in each state, to estimate the state's value and to improve the policy. A policy with
    several Gaussians needs two or more, because their weights learn by comparing these actions."""
    value_gradient: float = 1.0
    """Ours: weight of the policy loss that uses the critic's gradient (SVG(0))."""
    entropy: float = 0.01
    """Ours: weight of a bonus for the entropy of the policy."""
    bound_penalty: float = 1.0
    """Ours: weight of a penalty on means outside the range of actions: the squared distance of a mean from this range. Actions are clipped
    to the range, so no other loss moves such means back."""
    scale: float = 0.5
    """Ours: approximate standard deviation of actions with initial weights."""
    min_scale: float = 0.02
    """Ours: minimum standard deviation of actions."""
    components: int = 1
    """Number of Gaussians in the policy's mixture; the paper has one. No effect with the encoder `attention`, which has six Gaussians for
    each pair of a kind of block and an object."""
    candidates: int = 0
    """Ours: number of actions that a trained agent draws from its policy. Among these actions and the means of all components, the agent
    chooses the one with the highest value by the critic. 0: the agent chooses the mean of the most likely component."""
    act_with_target: bool = False
    """Ours: whether actors and saved weights use the target network (an average over recent learner steps) instead of the online
    network."""
    mirror: bool = False
    """Ours: whether half of the sequences are mirrored (left and right swapped) when they are replayed. The rules are symmetric."""
    legal: float = 0.0
    """Ours: fraction of actions that are random legal placements, each encoded as the nearest action."""
    imitate: float = 0.0
    """Ours: weight of an imitation loss, the negative log-likelihood of actions that earned more than expected. In this loss, each action
    is weighted by its excess over the expected return, at most 1."""

    def __post_init__(self) -> None:
        check_least(
            self,
            batch=1,
            length=1,
            samples=1,
            components=1,
            candidates=0,
            learning_starts=0,
            replay=256,
            warmup=0,
            decay_steps=0,
            max_grad_norm=0,
            entropy=0,
            bound_penalty=0,
            imitate=0,
            value_gradient=0,
        )
        for name in ("discount", "retrace_lambda", "tau", "epsilon", "legal"):
            value = getattr(self, name)
            require(value is None or 0 <= value <= 1, f"{name} {value}: must be from 0 to 1")
        for name in ("updates_per_step", "replay_mb", "learning_rate", "scale", "min_scale"):
            value = getattr(self, name)
            require(value is None or 0 < value < float("inf"), f"{name} {value}: must be above 0")
        require(self.min_scale < self.scale < 1, f"scale {self.scale}: must be above min_scale, {self.min_scale}, and below 1")
        known = self.actions in ("relative", "absolute")
        require(known, f"there are no continuous actions {self.actions!r}: choose relative or absolute")
