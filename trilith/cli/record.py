"""The command `record-episodes`, which records episodes of agents as data to learn from."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trilith.search.config import SearchConfig, SearchOptions
from trilith.utils.checks import require
from trilith.utils.console import tracked


@dataclass
class RecordEpisodes:
    """Record episodes with all their states, as data to learn from. After a stop or a kill, the same command resumes.

    Example: trilith record-episodes objects planner --task covering_hard --episodes 2000 --epsilon 0.1 --out data/covering_hard
    """

    agents: Positional[Annotated[tuple[str, ...], arg(metavar="AGENT [AGENT ...]")]]
    """Agents, which take turns: each episode is played by the next one. An agent is a name that `trilith agents` lists, the folder of a
    training run, a file of weights, or my_module:MyAgent."""
    task: str
    """Name of a task, or my_module:MyTask."""
    out: Path
    """Folder for the episodes."""
    level: str = "all"
    """A level's number or name, "hardest", or "all" for the training mix."""
    episodes: int = 1000
    """Number of episodes. If the folder has fewer, the missing ones are added."""
    format: Literal["arrays", "minari"] = "arrays"
    """arrays: safetensors files. minari (extra minari): also a Minari dataset of the same episodes, in OUT/minari."""
    epsilon: float = 0.0
    """Probability that the agent's placement is replaced by a random legal one."""
    split: Literal["new", "valid", "test"] = "new"
    """Which scenes to play: new ones, on which no agent is evaluated, or those of a frozen set."""
    seed: int = 0
    """Seed of agents and of new scenes."""
    zero_on_hit: bool = False
    """The return of an episode is 0 if a block touches an obstacle, as in the paper."""
    budget: int = 0
    """Simulations per decision. Above 0, all agents must have action values."""
    search: SearchOptions = field(default_factory=SearchOptions)
    workers: int = 2
    """Number of processes. The recording does not depend on it."""

    def run(self) -> None:
        """Records the missing episodes, and prints their mean reward."""
        from trilith.data.minari import check_minari, write_minari
        from trilith.data.recording import Recorder, record, rewards_of

        if self.format == "minari":
            check_minari()
        require(self.workers >= 1, f"{self.workers} workers: must be 1 or more")
        search = SearchConfig(self.budget, **vars(self.search))
        recorder = Recorder(
            self.agents, self.task, self.level, self.episodes, self.split, self.seed, self.epsilon, self.zero_on_hit, search
        )
        rewards: list[float] = []
        begin = time.monotonic()
        parts = (rewards_of(arrays) for arrays, _ in record(recorder, self.out, self.workers))
        tracked(f"{', '.join(self.agents)}, {self.task}", self.episodes, rewards, parts)
        mean, seconds = sum(rewards) / len(rewards), time.monotonic() - begin
        print(f"{len(rewards)} episodes, mean reward {mean:.3f}, in {seconds:.1f} s", file=sys.stderr)
        if self.format == "minari":
            count = write_minari(self.out, self.out / "minari")
            print(f"{count} episodes in {self.out / 'minari'}", file=sys.stderr)
        print(self.out)
