"""The command line: reads the arguments and runs one of the `COMMANDS`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from tyro.conf import subcommand

from trilith import __version__
from trilith.cli.compare import Compare
from trilith.cli.demo import Demo
from trilith.cli.evaluate import Evaluate, Report
from trilith.cli.lists import Agents, Recipes, Scenes, Tasks
from trilith.cli.model import TrainModel
from trilith.cli.pictures import Film, Scene
from trilith.cli.record import RecordEpisodes
from trilith.cli.reproduce import Reproduce
from trilith.cli.train import Plot, Train
from trilith.cli.verify import Verify
from trilith.cli.web import Web
from trilith.training.config import TrainConfig, recipe_config, run_config
from trilith.utils.checks import require

COMMANDS = {
    "tasks": Tasks,
    "agents": Agents,
    "recipes": Recipes,
    "scene": Scene,
    "film": Film,
    "demo": Demo,
    "web": Web,
    "evaluate": Evaluate,
    "compare": Compare,
    "report": Report,
    "record-episodes": RecordEpisodes,
    "train": Train,
    "train-model": TrainModel,
    "plot": Plot,
    "scenes": Scenes,
    "reproduce": Reproduce,
    "verify": Verify,
}


def _parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments name. Raises SystemExit as a parser does, ValueError for an unknown command, recipe or run."""
    named = next(iter(arguments), "--help")
    require(named.startswith("-") or named in COMMANDS, f"there is no command {named!r}: choose {', '.join(COMMANDS)}")
    # The recipe and task, or the run to resume, set the defaults of all other training options, so they are read first.
    given = {}
    for argument, following in pairwise([*arguments, ""]):
        name, _, value = argument.partition("=")
        given[name] = value or following
    known = {name: given[f"--{name}"] for name in ("recipe", "task") if f"--{name}" in given and named == "train"}
    config: TrainConfig[Any] = run_config(Path(given["--resume"])) if "--resume" in given else recipe_config(**known)
    require(
        hasattr(config.agent, "mask") or not any(argument.startswith("--agent.mask") for argument in arguments),
        f"--agent.mask is for discrete actions: those of the recipe {config.recipe} are continuous, leave it out",
    )
    choices: dict[str, Any] = {name: Annotated[command, subcommand(name)] for name, command in COMMANDS.items()}
    choices["train"] = Annotated[Train[type(config.agent)], subcommand("train", default=Train(config))]  # type: ignore[misc]
    union: Any = Union[*choices.values()]
    return tyro.cli(union, args=arguments, prog="trilith", description="Agents that learn to build with blocks.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Bad input gets one line on standard error and exit code 2."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the stream is closed, as by >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as this runs
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show "≤" shows "?"
    alone = arguments is None  # this process is for the command only
    arguments = sys.argv[1:] if arguments is None else arguments
    if [*arguments] == ["--version"]:
        print(f"trilith {__version__}")
        return
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            command = _parse(arguments)
        command.run()
        sys.stdout.flush()
    except SystemExit as stop:
        if stop.code and errors.getvalue():
            print(f"trilith: {_one_line(errors.getvalue())}", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of our output, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python writes once more at exit, and prints an error
        raise SystemExit(1) from None
    except (ValueError, OSError) as error:
        print(f"trilith: {' '.join(str(error).splitlines())}", file=sys.stderr)
        raise SystemExit(2) from None
    except MemoryError as error:
        print(f"trilith: not enough memory: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        if alone:  # all output is written; Ctrl-C while Python shuts down must not change the exit code
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _one_line(box: str) -> str:
    """The text of a parser's framed message, without frame and advice."""
    words: list[str] = []
    titled = False
    for line in box.splitlines():
        text = line.strip(" │")
        if text.startswith(("For full helptext", "Argument helptext")):
            break
        if text and set(text) == {"-"}:  # a frame of plain letters: a title, then a rule
            words, titled = words if titled else [], True
        elif text and text[0] not in "╭╰─":
            words.append(text)
    said = re.sub(r"Error parsing __tyro-dummy-inner__[\w.]*: ", "", " ".join(words))
    said = re.sub(r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number", said)
    return said or "bad arguments: see --help"
