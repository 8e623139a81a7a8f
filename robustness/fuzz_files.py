"""Mutates files of every kind that is read, and checks that the reader either accepts a file or refuses it in one line.

python robustness/fuzz_files.py [--share 1.0] [--seed 0]

A failure is any error but a ValueError or OSError (which the command line prints in one line, exit code 2), a message that is empty or has
several lines, or a mutated file that is accepted although its checksum is that of other content. Prints a table; ends with an error if
there is a failure.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tyro

from trilith.agents.dqn.config import DQNConfig
from trilith.agents.dynamics.config import ModelConfig, ModelRunConfig
from trilith.agents.rs0.config import RS0Config
from trilith.agents.weights import load_policy
from trilith.cli.evaluate import _result_table
from trilith.cli.model import _table
from trilith.data.recording import Recorder, record
from trilith.evaluation import report
from trilith.evaluation.runner import Evaluation
from trilith.evaluation.runner import Run as Measurement
from trilith.networks.config import DynamicsConfig, EncoderConfig, NetConfig
from trilith.training import checkpoint
from trilith.training.config import CONFIG, TrainConfig, run_config
from trilith.training.dynamics import draw_log, train_model
from trilith.training.log import JSONL, cut_log
from trilith.training.plot import curve, model_curve
from trilith.training.run import Run, train
from trilith.utils.console import show, table_of
from trilith.utils.files import parse_json, read_json, sealed, write_json
from trilith.utils.tensors import load_tensors, save_tensors
from trilith.world.episode import Recording
from trilith.world.trajectory import read_episodes

AGENTS: dict[str, Any] = {
    "objects": DQNConfig(
        net=NetConfig(width=8, layers=1, heads=2, pair=4, decoder=8, message=4, token=8), batch=4, updates_per_step=0.2,
        learning_starts=8, replay_mb=0.1, corrections_per_update=0.0,
    ),
    "mlp-rs0": RS0Config(net=EncoderConfig("mlp", width=8), batch=4, updates_per_step=0.2, learning_starts=8, replay_mb=0.1),
}  # fmt: skip
"""Maps a recipe of each algorithm to small options."""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**9, 10**30, -(10**400), 0.5, -2.5, 1e308, -1e-300, "", "x", "0", "NaN", "$x$ \\ % _", "a\nb", "\x00",
    "os:abort", "../..", [], [[]], [None], [1, 2, 3], {}, {"a": 1}, {"": None}, "7" * 5000,
)  # fmt: skip
"""Values that replace others."""


@dataclass
class Options:
    """Options of the test."""

    share: float = 1.0
    """Factor of the numbers of mutations in `KINDS`."""
    seed: int = 0


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path (keys and indices) of every value in JSON data; of each list, only of the first four."""
    yield path
    if isinstance(data, dict):
        for key in data:
            yield from places(data[key], (*path, key))
    elif isinstance(data, list):
        for k in range(min(len(data), 4)):
            yield from places(data[k], (*path, k))


def mutated(data: Any, rng: np.random.Generator) -> Any:
    """A copy with one to three mutations: values replaced, removed, renamed or added to a list."""
    data = deepcopy(data)
    for _ in range(int(rng.integers(1, 4))):
        ways = list(places(data))
        *way, last = ways[int(rng.integers(len(ways)))] or (None,)
        value = deepcopy(VALUES[int(rng.integers(len(VALUES)))])  # a copy, because the next change may be inside it
        if last is None:
            if rng.integers(10) == 0:
                return value
            continue
        inner = data
        for key in way:
            inner = inner[key]
        choice = int(rng.integers(5))
        if choice == 0:
            del inner[last]
        elif choice == 1 and isinstance(inner, dict):
            inner[f"{last}x"] = inner.pop(last)
        elif choice == 2 and isinstance(inner, list):
            inner.append(value)
        else:
            inner[last] = value
    return data


def spoiled(text: bytes, rng: np.random.Generator) -> bytes:
    """A copy with the end cut off, one bit flipped, three bytes overwritten, or up to 40 bytes repeated."""
    data = bytearray(text)
    at = int(rng.integers(len(data)))
    choice = int(rng.integers(4))
    if choice == 0:
        return bytes(data[:at])
    if choice == 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif choice == 2:
        data[at : at + 3] = bytes(rng.integers(256, size=3).tolist())
    else:
        data[at:at] = data[max(at - 40, 0) : at]
    return bytes(data)


def as_json(data: Any, rng: np.random.Generator) -> bytes:
    """Mutated data as JSON; one time in four, the JSON of the data with spoiled bytes."""
    if rng.integers(4) == 0:
        return spoiled(json.dumps(data).encode(), rng)
    return json.dumps(mutated(data, rng)).encode()


def resealed(text: bytes) -> bytes:
    """The JSON object `text` with the right checksum. Other text stays as it is."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(sealed(data)).encode() if isinstance(data, dict) else text


def write_changed(path: Path, data: dict[str, Any], rng: np.random.Generator) -> bool:
    """Writes mutated data, half of the time with the right checksum. Returns whether the checksum is wrong, so that the file must be
    refused."""
    text = as_json(data, rng)
    if rng.integers(2):
        path.write_bytes(resealed(text))
        return False
    path.write_bytes(text)
    try:
        return json.dumps(parse_json(text)) != json.dumps(data)
    except ValueError:
        return True


class Tally:
    """The outcomes of the mutations of one kind of file."""

    def __init__(self) -> None:
        self.tried = self.refused = self.taken = 0
        self.failures: list[str] = []

    @contextmanager
    def attempt(self, changed: bool = False) -> Iterator[None]:
        """Context manager: counts the outcome of one mutation. With `changed`, it must be refused."""
        self.tried += 1
        try:
            yield
            self.taken += 1
            if changed:
                self.failures.append("taken although changed")
        except (ValueError, OSError) as error:
            if "\n" in str(error) or not str(error):
                self.failures.append(f"not one line: {error!r}")
            self.refused += 1
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")


def trained(folder: Path, recipe: str) -> Path:
    """The folder of a small finished run, which the first call trains."""
    out = folder / recipe
    config: TrainConfig[Any] = TrainConfig(out=out, recipe=recipe, actors=0, steps=2, episodes=2, evaluate_every=2, evaluate_scenes=1)
    if not (out / checkpoint.NAME).exists():
        train(replace(config, task="silhouette", agent=AGENTS[recipe]), screen=False)
    return out


def fuzz_facts(folder: Path, count: int, rng: np.random.Generator, recipe: str = "objects") -> Tally:
    """Facts of checkpoints, with the right checksum."""
    tally, run = Tally(), trained(folder, recipe)
    path = run / checkpoint.NAME
    whole = path.read_bytes()
    arrays, texts = load_tensors(path)
    facts = json.loads(texts["facts"])
    for _ in range(count):
        text = as_json(facts, rng).decode(errors="replace")
        save_tensors(path, arrays, {"facts": text})
        with tally.attempt():
            there = Run(run_config(run))
            there.load()
            there.curriculum.levels(there.learner.steps)
    path.write_bytes(whole)
    return tally


def fuzz_flips(folder: Path, count: int, rng: np.random.Generator, recipe: str = "objects") -> Tally:
    """Single bits of the arrays of checkpoints: each flip must be refused."""
    tally, run = Tally(), trained(folder, recipe)
    path = run / checkpoint.NAME
    whole = path.read_bytes()
    first = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(count):
        data = bytearray(whole)
        data[int(rng.integers(first, len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        with tally.attempt():
            checkpoint.load(path)
    path.write_bytes(whole)
    if tally.taken:
        tally.failures.append(f"{tally.taken} damaged checkpoints were taken for whole ones")
    return tally


def fuzz_configs(folder: Path, count: int, rng: np.random.Generator, recipe: str = "objects") -> Tally:
    """Configs of runs."""
    tally, run = Tally(), trained(folder, recipe)
    config = read_json(run / CONFIG)
    (folder / "other").mkdir(exist_ok=True)
    for _ in range(count):
        (folder / "other" / CONFIG).write_bytes(as_json(config, rng))
        with tally.attempt():
            run_config(folder / "other")
    return tally


def fuzz_cards(folder: Path, count: int, rng: np.random.Generator, recipe: str = "objects") -> Tally:
    """Cards and, one time in four, the first 600 bytes of their weights."""
    tally, run = Tally(), trained(folder, recipe)
    card = read_json(run / "last.json")
    weights = (run / "last.safetensors").read_bytes()
    path = folder / "weights.safetensors"
    for number in range(count):
        head = number % 4 == 3
        write_json(path.with_suffix(".json"), card)
        changed = not head and write_changed(path.with_suffix(".json"), card, rng)
        path.write_bytes(spoiled(weights[:600], rng) + weights[600:] if head else weights)
        with tally.attempt(changed):
            load_policy(path)
    return tally


def measured(folder: Path, agent: str = "legal", scenes: int = 20) -> tuple[Evaluation, Path, bytes]:
    """Runs an evaluation. Returns it, the path of its result, and the content of its last journal."""
    evaluation, out = Evaluation(agent, "connecting", "all", scenes=scenes, worst=2), folder / f"{agent}.json"
    out.unlink(missing_ok=True)
    run = Measurement(evaluation, out)
    journal = b""
    for _ in run.run(1):
        journal = run.journal.read_bytes()
    run.finish()
    return evaluation, out, journal


def fuzz_reports(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """Result files in the folder of a report. Only one report in forty draws figures, to save time."""
    tally = Tally()
    _, out, _ = measured(folder)
    data, results = read_json(out), folder / "results"
    results.mkdir(exist_ok=True)
    for number in range(count):
        with tally.attempt(write_changed(results / "a.json", data, rng)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about characters that a font lacks
            with nullcontext() if number % 40 == 0 else patch.object(report, "_figure", return_value=False):
                report.write_report(results, folder / "report")
    return tally


def fuzz_results(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """Results and journals that an evaluation finds. Episodes that it accepts from a journal must be the right ones."""
    tally = Tally()
    evaluation, out, journal = measured(folder)
    whole, data = out.read_bytes(), read_json(out)
    path = folder / ".legal.journal"
    heading, *lines = journal.splitlines(keepends=True)
    known = {each["index"]: each for line in lines for each in json.loads(line.rsplit(b" ", 1)[0])[1]}
    for number in range(count):
        out.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        changed = False
        if number % 2:
            which = int(rng.integers(len(lines)))
            text, digest = lines[which].rstrip().rsplit(b" ", 1)
            line = as_json(json.loads(text), rng) + b" " + digest + b"\n"
            path.write_bytes(heading + b"".join([*lines[:which], line, *lines[which + 1 :]]) if number % 4 == 1 else spoiled(journal, rng))
        else:
            changed = write_changed(out, data, rng)
        with tally.attempt(changed):
            run = Measurement(evaluation, out)
            if run.result is not None:
                _result_table(run.result)
            else:
                for episode in run.episodes():
                    known = next(
                        each
                        for each in json.loads(lines[episode["index"] // 16].rsplit(b" ", 1)[0])[1]
                        if each["index"] == episode["index"]
                    )
                    if json.loads(json.dumps(episode)) != known:
                        raise AssertionError(f"a journal gave {episode}")
    out.write_bytes(whole)
    return tally


def fuzz_recordings(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """Recordings, which are read and replayed."""
    tally = Tally()
    _, out, _ = measured(folder)
    data = {name: read_json(out)["worst"][0][name] for name in ("start", "placements", "zero_on_hit", "physics")}
    path = folder / "recording.json"
    for _ in range(count):
        path.write_bytes(as_json(data, rng))
        with tally.attempt():
            for _ in Recording.from_json(read_json(path)).replay():
                pass
    return tally


def fuzz_datasets(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """The file dataset.json of recorded episodes, and their arrays with the right checksum."""
    tally, data = Tally(), folder / "data"
    for _ in record(Recorder(("legal",), "silhouette", episodes=4), data, 1):
        pass
    about, [path] = data / "dataset.json", data.glob("*.safetensors")
    facts, (arrays, texts) = read_json(about), load_tensors(path)
    for number in range(count):
        changed = write_changed(about, facts, rng)
        stated = None
        if number % 4 == 1:  # an array in the place of another, or a part of it
            names = sorted(arrays)
            name, other = (names[int(rng.integers(len(names)))] for _ in range(2))
            stated = save_tensors(path, arrays | {name: arrays[other][: int(rng.integers(len(arrays[other]) + 1))]}, texts)
        elif number % 4 == 3:
            lists = {name: as_json(json.loads(texts[name]), rng).decode(errors="replace") for name in ("agents", "levels", "reasons")}
            stated = save_tensors(path, arrays, texts | lists)
        if stated:
            write_json(about, sealed(facts | {"checksums": [stated]}))
        with tally.attempt(changed and not stated):
            list(read_episodes(data))
        save_tensors(path, arrays, texts)
    return tally


def modelled(folder: Path) -> ModelRunConfig:
    """Trains a small learned model. Returns the config of its training."""
    data = folder / "episodes"
    for _ in record(Recorder(("legal",), "covering_hard", episodes=20), data, 1):
        pass
    model = ModelConfig(DynamicsConfig(width=8, layers=1, heads=1, pair=4), batch=4, steps=2)
    config = ModelRunConfig((data,), folder / "model", log_steps=1, model=model)
    train_model(config, screen=False)
    return config


def fuzz_models(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """Facts of the checkpoint of a learned model, with the right checksum, and its validation.json."""
    tally, config = Tally(), modelled(folder)
    path, other = config.out / checkpoint.NAME, config.out / "validation.json"
    found, (arrays, texts) = read_json(other), load_tensors(path)
    facts = json.loads(texts["facts"])
    for number in range(count):
        changed = False
        if number % 2:
            save_tensors(path, arrays, {"facts": as_json(facts, rng).decode(errors="replace")})
        else:
            changed = write_changed(other, found, rng)
        with tally.attempt(changed):
            told = train_model(config, screen=False)
            _table("", told["recorded"], told["nudge"])
        save_tensors(path, arrays, texts)
        write_json(other, found)
    return tally


def fuzz_logs(folder: Path, count: int, rng: np.random.Generator) -> Tally:
    """Logs of runs and of trainings of models. Only two in forty are drawn, to save time."""
    tally, logs = Tally(), [(run / JSONL).read_bytes() for run in (trained(folder, "objects"), modelled(folder).out)]
    out = folder / "log"
    out.mkdir(exist_ok=True)
    for number in range(count):
        lines = logs[number % 2].splitlines(keepends=True)
        which = int(rng.integers(len(lines)))
        lines[which] = as_json(json.loads(lines[which]), rng) + b"\n"
        (out / JSONL).write_bytes(b"".join(lines))
        with tally.attempt(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about axes from 1e-300 to 1e308
            with nullcontext() if number % 40 < 2 else patch("trilith.training.dynamics.Figure.savefig", _touch):
                draw_log(out)
            cut_log(out, 60.0, 2)
            model_curve(out)
            if number % 2 == 0:  # refuses a run without evaluations
                curve(out)
    return tally


def _touch(figure: Any, path: Path, **options: Any) -> None:
    path.touch()


KINDS: dict[str, tuple[Callable[[Path, int, np.random.Generator], Tally], int]] = {
    "facts of checkpoints": (fuzz_facts, 60),
    "bit flips in checkpoints": (fuzz_flips, 160),
    "configs of runs": (fuzz_configs, 130),
    "cards and headers of weights": (fuzz_cards, 350),
    "facts of checkpoints, RS0": (partial(fuzz_facts, recipe="mlp-rs0"), 60),
    "configs of runs, RS0": (partial(fuzz_configs, recipe="mlp-rs0"), 130),
    "cards and headers of weights, RS0": (partial(fuzz_cards, recipe="mlp-rs0"), 350),
    "recorded episodes": (fuzz_datasets, 600),
    "checkpoints and validations of models": (fuzz_models, 500),
    "logs": (fuzz_logs, 400),
    "results given to report": (fuzz_reports, 4000),
    "results and journals of evaluate": (fuzz_results, 3000),
    "recordings": (fuzz_recordings, 500),
}
"""Maps each kind of file to its test and its number of mutations."""


def main() -> None:
    """Tests all kinds of files and prints the table."""
    options = tyro.cli(Options, description=__doc__)
    table, failed = table_of("files", "mutated", "refused in one line", "taken", "failures", "seconds"), 0
    folder = Path(tempfile.mkdtemp(prefix="trilith_fuzz"))
    try:
        for number, (name, (fuzz, count)) in enumerate(KINDS.items()):
            begin = time.monotonic()
            tally = fuzz(folder, max(int(count * options.share), 1), np.random.default_rng([options.seed, number]))
            failed += len(tally.failures)
            numbers = (tally.tried, tally.refused, tally.taken, len(tally.failures))
            table.add_row(name, *map(str, numbers), f"{time.monotonic() - begin:.1f}")
            print(f"{name}: {tally.tried} tried, {len(tally.failures)} failures", file=sys.stderr)
            for failure in sorted(set(tally.failures))[:10]:
                print(f"  {failure[:300]}", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(table)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
