"""Settings for learning a transition model, from recorded episodes or together with an agent. Imports no learning framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trilith.networks.config import DynamicsConfig
from trilith.utils.checks import require
from trilith.utils.config import check_least


@dataclass(frozen=True)
class ModelConfig:
    """Settings for learning a transition model. The paper gives none of these, except that a model is unrolled for 1 to 4 steps."""

    net: DynamicsConfig = field(default_factory=DynamicsConfig)
    unroll: int = 1
    """Number of steps that a model is unrolled in training, each from the previous prediction. The losses of all steps are added."""
    batch: int = 64
    """Batch size: unrolled sequences per learner step."""
    steps: int = 10_000
    """Learner steps."""
    learning_rate: float = 1e-3
    """Maximum learning rate of Adam. The rate rises over the first 200 steps, and falls along a cosine to a tenth at the last step."""
    noise: float = 0.0
    """Standard deviation in metres of the noise added to the positions of blocks before the first prediction. The noise reduces drift over
    several steps."""

    def __post_init__(self) -> None:
        check_least(self, batch=1, steps=1)
        require(1 <= self.unroll <= 4, f"unroll {self.unroll}: must be 1 to 4")
        require(0 < self.learning_rate < 1, f"learning rate {self.learning_rate}: must be between 0 and 1")
        require(0 <= self.noise < 1, f"noise {self.noise}: must be 0 to 1 metres")


@dataclass(frozen=True)
class OnlineConfig(ModelConfig):
    """Settings for learning a transition model together with an agent whose actors search in it. The paper gives none of these."""

    steps: int = 10_000
    """Number of learner steps of the model over which its learning rate falls to a tenth. After that the rate is constant."""
    first_steps: int = 500
    """Number of learner steps of the model before actors search in it. Until then actors act without search, and the model makes one
    learner step per learner step of the agent."""
    every: int = 4
    """Number of learner steps of the agent per learner step of the model, once actors search in the model."""
    replay_mb: float = 50.0
    """Maximum size of the model's replay of placements, in megabytes. The oldest placements are dropped first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, every=1, first_steps=1)
        require(0 < self.replay_mb < float("inf"), f"replay_mb {self.replay_mb}: must be above 0")


@dataclass(frozen=True)
class ModelRunConfig:
    """Options of a training run that learns a transition model from recorded episodes."""

    data: tuple[Path, ...]
    """Folders of recorded episodes, as `trilith record-episodes` writes them."""
    out: Path
    """Folder for the model, its log and its checkpoints."""
    valid: tuple[Path, ...] = ()
    """Folders of episodes to validate on, preferably of frozen scenes (--split valid). If none are given, a tenth of the training episodes
    is held out."""
    seed: int = 0
    """Seed of the initial weights and of the random order of training."""
    agent: str | None = None
    """An agent with action values. The model is also validated on the eight placements that this agent values most, because a search tries
    these first."""
    log_steps: int = 250
    """Number of learner steps between two lines of the log."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        require(self.data, "no data: name at least one folder of recorded episodes")
        check_least(self, seed=0, log_steps=1)
