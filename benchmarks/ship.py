"""Puts the best weights of a run into the package, with a card: recipe, cost, and the reward on test scenes, measured here.

    python benchmarks/ship.py runs/x --commit 1234abc --command "trilith train …" [--scenes 10000] [--searched lookahead:8:1000]
    python benchmarks/ship.py trilith/zoo/objects/connecting.safetensors      # only measures again what is shipped

Rewards are on the hardest level and on all levels without search, on the hardest with the searches named, and on the levels beyond
the curriculum without search and with 50 simulations. `python docs/cards.py` then writes docs/agents.md from the cards.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tyro
from tyro.conf import Positional

from trilith.agents.registry import ZOO
from trilith.agents.weights import weights_file
from trilith.evaluation.runner import Evaluation, Run
from trilith.search.config import SearchConfig
from trilith.training.actor import Simulated
from trilith.utils.console import Progress
from trilith.utils.files import atomic_write, read_json, write_json
from trilith.world.tasks import Level, get_task

LARGEST = 2_000_000
"""Bytes of weights that may be committed."""


@dataclass
class Options:
    """What to ship."""

    run: Positional[Path]
    """Folder of a finished run, or weights that are shipped, to be measured again."""
    commit: str | None = None
    """The commit that it was trained with."""
    command: str | None = None
    """The command that trained it then."""
    scenes: int = 10_000
    """Test scenes without search, for the hardest level and for all levels each."""
    searched: tuple[str, ...] = ("lookahead:8:1000", "rollout:10:1000", "rollout:100:1000")
    """Search algorithm, simulations per decision, and test scenes of the hardest level: a figure each."""
    beyond: int = 500
    """Test scenes of each level beyond the curriculum."""
    name: str = "objects"
    """Name of the agent."""
    results: Path = Path("results")
    """Where the evaluations go."""


BEYOND_BUDGET = 50
"""Simulations per decision on levels beyond the curriculum."""


def measured(options: Options, task: str, level: Level, algorithm: str, budget: int, scenes: int) -> dict[str, Any]:
    """What an evaluation gave, of which a card tells a part."""
    evaluation = Evaluation(str(options.run), task, level, scenes=scenes, search=SearchConfig(budget, algorithm=algorithm))
    run = Run(evaluation, options.results / f"{options.run.stem}-{task}-{level}-{scenes}-{algorithm}{budget}.json")
    with Progress(f"{task}, {level}, budget {budget}", scenes, len(run.episodes())) as progress:
        for episodes in run.run(workers=2):
            progress.add(len(episodes), "")
    result = run.finish()
    known = ("reward", "interval", "solved", "forfeited")
    figures = {key: round(float(result[key]), 4) for key in known if result[key] is not None}
    ends = {reason: count for reason, count in result["reasons"].items() if count}
    return {"level": level, "budget": budget, **({"algorithm": algorithm} if budget else {}), "scenes": scenes, **figures, "ends": ends}


def wanted(options: Options, task: str) -> Iterator[tuple[Level, str, int, int]]:
    """What to measure: level, search algorithm, simulations per decision, scenes."""
    yield "hardest", "rollout", 0, options.scenes
    yield "all", "rollout", 0, options.scenes
    for each in options.searched:
        algorithm, budget, scenes = each.split(":")
        yield "hardest", algorithm, int(budget), int(scenes)
    for level in get_task(task).generalisation:
        for budget_ in (0, BEYOND_BUDGET):
            yield level, "rollout", budget_, options.beyond


def main() -> None:
    """Measures, then copies."""
    options = tyro.cli(Options, description=__doc__)
    weights = weights_file(options.run)
    about = read_json(weights.with_suffix(".json"))
    if weights.stat().st_size > LARGEST:
        raise SystemExit(f"{weights} has {weights.stat().st_size} bytes: at most {LARGEST} are shipped")
    task = about["task"]
    if options.run.is_dir():
        about |= told_by_run(options)
    about["test"] = [measured(options, task, *each) for each in wanted(options, task)]
    out = ZOO / options.name / f"{task}.safetensors"
    data = weights.read_bytes()
    with atomic_write(out) as aside:
        aside.write_bytes(data)
    write_json(out.with_suffix(".json"), about)
    for each in about["test"]:
        print(
            f"{task} {each['level']}, budget {each['budget']}: {each['reward']:.3f} ± {each['interval']:.3f}, {each['solved']:.1%} solved"
        )
    print(out)


def told_by_run(options: Options) -> dict[str, Any]:
    """What a card tells of a training: how it was made, what it cost, and its learning curve."""
    if options.commit is None or options.command is None:
        raise SystemExit("a run is shipped with --commit and --command: what it was trained with")
    about, config = read_json(weights_file(options.run).with_suffix(".json")), read_json(options.run / "config.json")
    log = [json.loads(line) for line in (options.run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    last, kept = log[-1], about["valid"]["core_minutes"]  # of training, and after which these weights were there
    minutes = {"minutes": last["minutes"], "core_minutes": last["core_minutes"], "kept": kept}
    cost = {name: round(value, 1) for name, value in minutes.items()} | {"processes": 1 + config["actors"]}
    cost["simulated"] = {name: last[f"simulated_{name}"] for name in Simulated._fields}
    curve = [[round(line["core_minutes"], 1), round(line["hardest"], 3)] for line in log if line["kind"] == "valid"]
    return {"command": options.command, "commit": options.commit, "cost": cost, "curve": curve}


if __name__ == "__main__":
    main()
