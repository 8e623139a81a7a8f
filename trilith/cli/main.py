"""The command line: parses the arguments and runs one of the `COMMANDS`. The fields of a command's class are its options."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Union

import docstring_parser
import tyro
from tyro.conf import Suppress, arg, subcommand

from trilith import __version__
from trilith.cli.compare import Compare
from trilith.cli.demo import Demo
from trilith.cli.evaluate import Evaluate, Report
from trilith.cli.lists import Agents, CheckScenes, Recipes, Tasks
from trilith.cli.model import TrainModel
from trilith.cli.pictures import Draw, Film
from trilith.cli.record import RecordEpisodes
from trilith.cli.reproduce import Reproduce
from trilith.cli.train import Plot, Train
from trilith.cli.verify import Verify
from trilith.cli.web import Web
from trilith.training.config import TrainConfig, flat, recipe_config, run_config
from trilith.utils.checks import cut, require
from trilith.utils.config import to_json

COMMANDS = {
    "tasks": Tasks,
    "agents": Agents,
    "recipes": Recipes,
    "draw": Draw,
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
    "check-scenes": CheckScenes,
    "reproduce": Reproduce,
    "verify": Verify,
}
TRAIN_OPTIONS = {"task", "recipe", "out", "minutes", "core_minutes", "steps", "actors", "cluster", "seed", "seeds", "device"}
"""Options that `trilith train --help` shows, besides --resume. `--help-all` shows all."""

_parse_docstrings = docstring_parser.parse_from_object


def _parse_docstrings_as_paragraphs(*given: Any) -> docstring_parser.Docstring:
    """Parses the docstrings of fields, which are the help texts of options, and joins the lines of each.

    tyro would begin a new line at every indented line, and fields' docstrings come with their indentation.
    """
    parsed = _parse_docstrings(*given)
    for each in parsed.params:
        each.description = " ".join(each.description.split()) if each.description else None
    return parsed


docstring_parser.parse_from_object = _parse_docstrings_as_paragraphs  # type: ignore[assignment]


def _parse(arguments: Sequence[str]) -> Any:
    """Parses the arguments and returns the command to run. Raises ValueError for an unknown command, recipe or run. The parser itself
    raises SystemExit, after help and after wrong options."""
    named = next(iter(arguments), "--help")
    require(named.startswith("-") or named in COMMANDS, f"there is no command {named!r}: choose {', '.join(COMMANDS)}")
    # Recipe and task, or the run to resume, are read first, because they set the defaults of all other training options.
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
    if named == "train":
        choices["train"] = Annotated[Train[type(config.agent)], subcommand("train", default=Train(config))]  # type: ignore[misc]
        _check_initials(arguments, config)
        if {"-h", "--help"} & {*arguments}:
            choices["train"] = _few_options(config)
    arguments = ["--help" if argument == "--help-all" else argument for argument in arguments]
    union: Any = Union[*choices.values()]
    with warnings.catch_warnings(action="ignore"):  # the parser warns of our types when it looks for options like an unknown one
        return tyro.cli(union, args=arguments, prog="trilith", description="Agents that learn to build with blocks.")


def _few_options(config: TrainConfig[Any]) -> Any:
    """A version of the command `train` that has only the `TRAIN_OPTIONS`, for its help text."""
    hidden = [(each.name, Annotated[Any, Suppress], field(default=None)) for each in fields(config) if each.name not in TRAIN_OPTIONS]
    few: Any = make_dataclass("FewOptions", hidden, bases=(TrainConfig[Any],), frozen=True)
    shown = [("config", Annotated[few, arg(name="")])]
    command: Any = make_dataclass("FewTrain", shown, bases=(Train[Any],), namespace={"__doc__": Train.__doc__})
    return Annotated[command, subcommand("train", default=command(few(**vars(config))))]


def _check_initials(arguments: Sequence[str], config: TrainConfig[Any]) -> None:
    """If an option is abbreviated to its initials, such as --agent.lr, raises ValueError with the full name. The parser itself would only
    suggest options with a similar spelling."""
    meant = {}
    for name in flat(to_json(config)):
        group, dot, last = name.rpartition(".")
        initials = "".join(word[0] for word in last.split("_"))
        if len(initials) > 1:
            meant[f"--{group}{dot}{initials}"] = f"--{name.replace('_', '-')}"
    for given in (argument.partition("=")[0] for argument in arguments):
        require(given not in meant, f"there is no option {given}: do you mean {meant.get(given)}?")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command in `arguments`, by default the arguments of this process. Bad input gets one line on standard error and exit code
    2."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the stream is closed, for instance by >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show "≤" shows "?"
    alone = arguments is None  # this process runs nothing else
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
            _refuse(_one_line(errors.getvalue()))
        raise
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python would write again at exit, and print an error
        raise SystemExit(1) from None
    except (ValueError, OSError) as error:
        _refuse(" ".join(str(error).splitlines()))
        raise SystemExit(2) from None
    except MemoryError as error:
        _refuse(f"not enough memory: {error}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        if alone:  # all output is written; Ctrl-C during the shutdown must not change the exit code
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _refuse(line: str) -> None:
    """Prints an error as one line to standard error. If it is too long, its middle is cut out."""
    print(f"trilith: {cut(line)}", file=sys.stderr)


def _one_line(box: str) -> str:
    """Returns the parser's error message `box` as one line, without its frame and its advice."""
    words: list[str] = []
    titled = False
    for line in box.splitlines():
        text = line.strip(" │")
        if text.startswith(("For full helptext", "Argument helptext")):
            break
        if text and set(text) == {"-"}:  # a frame in plain ASCII: a title, then a line of dashes
            words, titled = words if titled else [], True
        elif text and text[0] not in "╭╰─":
            words.append(text)
    said = re.sub(r"Error parsing __tyro-dummy-inner__[\w.]*: ", "", " ".join(words))
    said = re.sub(r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number", said)
    return said or "bad arguments: see --help"
