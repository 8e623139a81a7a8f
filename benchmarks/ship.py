"""Puts the best weights of a run into the package, with a card: recipe, cost, and the reward on test scenes, measured here.

python benchmarks/ship.py runs/covering_hard [--name fast] [--scenes 1000] [--budgets 0 10]
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tyro
from tyro.conf import Positional

from trilith.agents.card import weights_file
from trilith.agents.registry import ZOO
from trilith.evaluation.evaluate import Evaluation, Run
from trilith.search.config import SearchConfig
from trilith.support.console import Progress
from trilith.support.files import atomic_write, read_json, write_json

LARGEST = 2_000_000
"""Bytes of weights that may be committed."""


@dataclass
class Options:
    """What to ship."""

    run: Positional[Path]
    """Folder of a finished run."""
    name: str = "fast"
    """Name of the agent."""
    scenes: int = 1000
    """Test scenes for each figure on the card."""
    budgets: tuple[int, ...] = (0, 10)
    """Simulations a decision, a figure each."""
    results: Path = Path("results")
    """Where the evaluations go."""


def measured(options: Options, task: str, level: str, budget: int) -> dict[str, Any]:
    """What an evaluation gave, of which a card tells a part."""
    evaluation = Evaluation(str(options.run), task, level, scenes=options.scenes, search=SearchConfig(budget))
    run = Run(evaluation, options.results / f"{options.run.name}-{task}-{level}-{options.scenes}-budget{budget}.json")
    with Progress(f"{task}, {level}, budget {budget}", options.scenes, len(run.episodes())) as progress:
        for episodes in run.run(workers=2):
            progress.add(len(episodes), "")
    result = run.finish()
    figures = {key: round(float(result[key]), 4) for key in ("reward", "interval", "solved")}
    return {"level": level, "budget": budget, "scenes": options.scenes, **figures}


def main() -> None:
    """Measures, then copies."""
    options = tyro.cli(Options, description=__doc__)
    weights = weights_file(options.run)
    about, config = read_json(weights.with_suffix(".json")), read_json(options.run / "config.json")
    if weights.stat().st_size > LARGEST:
        raise SystemExit(f"{weights} has {weights.stat().st_size} bytes: at most {LARGEST} are shipped")
    task = about["task"]
    log = [json.loads(line) for line in (options.run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    minutes = {"minutes": log[-1]["minutes"], "kept": about["valid"]["minutes"]}  # of training, and after which these weights were there
    about["cost"] = {name: round(value, 1) for name, value in minutes.items()} | {"processes": 1 + config["actors"]}
    about["test"] = [measured(options, task, level, budget) for level in ("hardest", "all") for budget in options.budgets]
    out = ZOO / options.name / f"{task}.safetensors"
    with atomic_write(out) as aside:
        aside.write_bytes(weights.read_bytes())
    write_json(out.with_suffix(".json"), about)
    for each in about["test"]:
        print(
            f"{task} {each['level']}, budget {each['budget']}: {each['reward']:.3f} ± {each['interval']:.3f}, {each['solved']:.1%} solved"
        )
    print(out)


if __name__ == "__main__":
    main()
