"""Measures the runs of several seeds on test scenes, and puts the final weights of the median one into the package, with a card.

    python tools/ship.py runs/seed0 runs/seed1 runs/seed2 --commit 1234abc
    python tools/ship.py trilith/zoo/objects/connecting.safetensors runs/seed1 runs/seed2 --commit 1234abc
    python tools/ship.py trilith/zoo/objects/connecting.safetensors      # only measures again what is shipped

A file of shipped weights stands for the run that made it, which its card describes.

Every seed is measured on the hardest level and on all levels without search, and on the hardest with ten simulations; the median by the
first of these also on the levels beyond the curriculum. `python tools/cards.py` then writes docs/reference/agents.md from the cards.
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
"""Bytes of weights that may be committed."""
BEYOND_BUDGET = 50
"""Simulations per decision on levels beyond the curriculum."""


@dataclass
class Options:
    """What to ship."""

    runs: Positional[tuple[Path, ...]]
    """Folders of finished runs and files of shipped weights that differ in their seeds alone."""
    commit: str | None = None
    """The commit that the runs were trained with."""
    scenes: int = 10_000
    """Test scenes without search, for the hardest level and for all levels each."""
    searched: tuple[str, ...] = ("rollout:10:1000",)
    """Search algorithm, simulations per decision, and test scenes of the hardest level: a figure each."""
    beyond: int = 500
    """Test scenes of each level beyond the curriculum, of the median seed."""
    name: str = "objects"
    """Name of the agent."""
    workers: int = 2
    """Processes."""
    results: Path = Path("results")
    """Folder of the evaluations."""


def measured(options: Options, weights: Path, task: str, level: Level, algorithm: str, budget: int, scenes: int) -> dict[str, Any]:
    """The figures of an evaluation that a card has."""
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
    """Level, search algorithm, simulations per decision and scenes of each evaluation of a seed."""
    yield "hardest", "rollout", 0, options.scenes
    yield "all", "rollout", 0, options.scenes
    for each in options.searched:
        algorithm, budget, scenes = each.split(":")
        yield "hardest", algorithm, int(budget), int(scenes)


TRAINED = ("seed", "command", "commit", "learner_steps", "cost", "curve")
"""What a card says of the training of its weights."""


def training(run: Path, commit: str | None) -> dict[str, Any]:
    """Seed, command, commit, cost and learning curve of a run or of shipped weights."""
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
    """Measures, then copies."""
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
