"""Measures the runs of several seeds on test scenes, and puts the final weights of the median run into the package, with a card.

    python tools/ship.py runs/seed0 runs/seed1 runs/seed2 --commit 1234abc
    python tools/ship.py trilith/zoo/objects/connecting.safetensors runs/seed1 runs/seed2 --commit 1234abc
    python tools/ship.py trilith/zoo/objects/connecting.safetensors      # only measures again what is shipped

A file of shipped weights stands for the run that made it, which its card describes.

Every seed is measured without search on the hardest level and on all levels, and with `--searched` on the hardest. The median by the first
of these is also measured on generalisation levels. `python tools/cards.py` then writes docs/reference/agents.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tyro
from tyro.conf import Positional

from trilith.agents.registry import ZOO
from trilith.evaluation.runner import Evaluation, Run
from trilith.search.config import SearchConfig
from trilith.training.actor import Simulated
from trilith.utils.console import Progress
from trilith.utils.files import atomic_write, read_json, sealed, write_json
from trilith.world.tasks import Level, get_task

LARGEST = 2_000_000
"""Maximum size in bytes of weights that are shipped."""
BEYOND_BUDGET = 50
"""Simulations per decision on generalisation levels."""


@dataclass
class Options:
    """Options of the command."""

    runs: Positional[tuple[Path, ...]]
    """Folders of finished runs, or files of shipped weights. They may differ only in their seeds."""
    commit: str | None = None
    """Commit with which the runs were trained. Required for folders of runs."""
    scenes: int = 10_000
    """Number of test scenes of each evaluation without search."""
    searched: tuple[str, ...] = ("rollout:10:1000",)
    """Evaluations with search on the hardest level, each as ALGORITHM:BUDGET:SCENES."""
    beyond: int = 500
    """Number of test scenes of each generalisation level, for the median seed."""
    name: str = "objects"
    """Name of the agent in the package."""
    workers: int = 2
    """Number of worker processes."""
    results: Path = Path("results")
    """Folder for the results of the evaluations."""


def measured(options: Options, weights: Path, task: str, level: Level, algorithm: str, budget: int, scenes: int) -> dict[str, Any]:
    """Evaluates weights. Returns the figures for the card."""
    evaluation = Evaluation(str(weights), task, level, scenes=scenes, search=SearchConfig(budget, algorithm=algorithm))
    label = f"{weights.parent.name}-{weights.stem}-{task}-{level}-{scenes}-{algorithm}{budget}"
    run = Run(evaluation, options.results / f"{label}.json")
    with Progress(label, scenes, len(run.episodes())) as progress:
        for episodes in run.run(workers=options.workers):
            progress.add(len(episodes), "")
    result = run.finish()
    known = ("reward", "interval", "solved", "forfeited")
    figures = {key: round(float(result[key]), 4) for key in known if result[key] is not None}
    ends = {reason: count for reason, count in result["reasons"].items() if count}
    return {"level": level, "budget": budget, **({"algorithm": algorithm} if budget else {}), "scenes": scenes, **figures, "ends": ends}


def of_every_seed(options: Options) -> Iterator[tuple[Level, str, int, int]]:
    """Yields the evaluations of a seed: (level, search algorithm, simulations per decision, scenes)."""
    yield "hardest", "rollout", 0, options.scenes
    yield "all", "rollout", 0, options.scenes
    for each in options.searched:
        algorithm, budget, scenes = each.split(":")
        yield "hardest", algorithm, int(budget), int(scenes)


TRAINED = ("seed", "command", "commit", "learner_steps", "cost", "curve")
"""The fields of a card about the training of its weights."""


def training(run: Path, commit: str | None) -> dict[str, Any]:
    """The fields `TRAINED` of a run or of shipped weights. Exits if a run is not finished."""
    if not run.is_dir():
        card = read_json(run.with_suffix(".json"))
        return {name: card.get(name) for name in TRAINED}  # weights shipped earlier lack some
    if commit is None:
        raise SystemExit("runs are shipped with --commit: what they were trained with")
    config = read_json(run / "config.json")
    log = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    about = read_json(run / "last.json")
    if config["steps"] is not None and about["learner_steps"] != config["steps"]:
        raise SystemExit(f"{run} has {about['learner_steps']} of {config['steps']} updates: finish it first")
    last = log[-1]
    minutes, core_minutes = round(last["minutes"], 1), round(last["core_minutes"], 1)
    cost = {"minutes": minutes, "core_minutes": core_minutes, "kept": core_minutes, "processes": 1 + config["actors"]}
    return {
        "seed": config["seed"],
        "command": f"trilith train --recipe {config['recipe']} --task {config['task']} --seed {config['seed']} --actors {config['actors']}",
        "commit": commit,
        "learner_steps": about["learner_steps"],
        "cost": {**cost, "simulated": {name: last[f"simulated_{name}"] for name in asdict(Simulated())}},
        "curve": [[round(line["core_minutes"], 1), round(line["hardest"], 3)] for line in log if line["kind"] == "valid"],
    }


def main() -> None:
    """Measures all runs, then writes weights and card of the median one."""
    options = tyro.cli(Options, description=__doc__)
    files = [run / "last.safetensors" if run.is_dir() else run for run in options.runs]
    for weights in files:
        if weights.stat().st_size > LARGEST:
            raise SystemExit(f"{weights} has {weights.stat().st_size} bytes: at most {LARGEST} are shipped")
    cards = [read_json(weights.with_suffix(".json")) for weights in files]
    if len({(card["task"], card["recipe"], card["zero_on_hit"]) for card in cards}) > 1:
        raise SystemExit("the runs are not of one task, recipe and rule")
    trainings = [training(run, options.commit) for run in options.runs]  # before anything is measured, which takes long
    if len({each["seed"] for each in trainings}) < len(trainings):
        raise SystemExit("two of the runs have the same seed")
    task = cards[0]["task"]
    seeds = []
    for weights, trained in zip(files, trainings, strict=True):
        test = [measured(options, weights, task, *each) for each in of_every_seed(options)]
        seeds.append({**trained, "test": test})
        print(weights, *(f"{each['level']}/{each['budget']}: {each['reward']:.3f} ± {each['interval']:.3f}" for each in test))
    ranked = sorted(range(len(seeds)), key=lambda k: seeds[k]["test"][0]["reward"])
    median = ranked[(len(ranked) - 1) // 2]
    about = {**cards[median], **seeds[median], "seeds": seeds}
    beyond = [(level, "rollout", budget, options.beyond) for level in get_task(task).generalisation for budget in (0, BEYOND_BUDGET)]
    about["test"] = seeds[median]["test"] + [measured(options, files[median], task, *each) for each in beyond]
    out = ZOO / options.name / f"{task}.safetensors"
    data = files[median].read_bytes()
    with atomic_write(out) as aside:
        aside.write_bytes(data)
    write_json(out.with_suffix(".json"), sealed(about))
    print(out)


if __name__ == "__main__":
    main()
