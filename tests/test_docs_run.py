"""Every command and code block of the README and the site runs, in a short form where it trains or takes long.

A page runs from top to bottom in a folder of its own, so that a command finds what those above it made. What cannot be run here is in
`NOT_RUN`, with the reason; a command that is neither run nor named there fails its page.
Files, links and figures that pages name are in test_docs_links.py.
"""

import contextlib
import io
import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import matplotlib as mpl
import pytest

from trilith.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RECORD = {DOCS / "notebook.md"}  # its commands are of earlier versions
MADE = {DOCS / "reference/agents.md", DOCS / "reference/paper_recipes.md", DOCS / "paper_rerun.md"}  # by tools, and kept
BUILT = {DOCS / f"reference/{name}.md" for name in ("commands", "api", "recipes")}  # by `make docs`, and not kept
PAGES = [each for each in sorted(DOCS.glob("**/*.md")) if each not in RECORD | BUILT and each.parent != DOCS / "reference/tasks"]
PAGES = [ROOT / "README.md", *PAGES, *sorted(DOCS.glob("**/*.ipynb"))]

NOT_RUN = {
    "trilith web": "a server that does not end; tests/web runs it",
    "make": "installs, or runs these tests; looked up in the Makefile",
    "pip install": "the network; the extras are looked up in pyproject.toml",
    "ray": "other machines",
    "trilith train .*--cluster local": "starts a cluster; tests/training/test_ray.py does",
    "trilith train .*--cluster auto": "other machines",
    "trilith train --track wandb": "wandb; tests/training/test_trackers.py does",
    "wandb": "wandb",
    "tensorboard": "a server that does not end",
    "trilith check-scenes": "a minute; tests/evaluation/test_scene_sets.py checks a part",
    "trilith reproduce (?!--report).*--scale": "minutes to days; tests/paper/test_execute.py runs a part",
    "trilith reproduce --films": "a ledger of trained agents; tests/paper/test_report.py films some",
    "python benchmarks": "measures for minutes; tests/cli/test_cli.py starts each",
    "python robustness": "disturbs for minutes; tests/test_fuzz_files.py runs a part",
    "python tools": "a release; plays for minutes",
    "python docs/sb3_curve.py": "sb3-contrib",
    "python examples/sb3_maskable_ppo.py": "sb3-contrib",
    "python examples/optuna_search.py": "optuna",
}
"""Patterns of commands that are not run here, and why: what they need, or how long they take. What they name must exist."""
LIBRARIES = {"dm_env", "minari"}
"""A block that imports one of these runs only where it is installed."""
LEDGER = "trilith evaluate scripted --task covering --ledger ledger"
GIVEN = {
    "evaluate.md": "trilith train --task silhouette --out runs/silhouette",
    "submit.md": "trilith train --task covering_hard --out runs/x",
    "ledger.md": LEDGER,
    "reproduce.md": LEDGER,
}
"""What a page takes for granted: a command that makes it."""
OWN = {
    "my_module": "from own_agent import Flat as MyAgent\nfrom own_algorithm import ALGORITHM\nfrom own_task import Tower as MyTask\n",
    **{name: (ROOT / f"examples/{name}.py").read_text(encoding="utf-8") for name in ("own_agent", "own_algorithm", "own_task")},
}
"""Modules in the folder of every page."""

PLAYED = {"--steps": "2", "--episodes": "4", "--evaluate-every": "2", "--evaluate-scenes": "1", "--actors": "0"}
SHORT = {
    "train .*--resume": {"--steps": "3", "--actors": "0"},
    r"train .*--recipe \w+:": PLAYED,
    "train .*--world online": {**PLAYED, "--agent.learning-starts": "120", "--agent.model.first-steps": "1"},
    "train ": {**PLAYED, "--agent.learning-starts": "40"},
    "evaluate .*--record": {"--scenes": "4", "--workers": "1"},  # one of the first four is filmed
    "(evaluate|compare) ": {"--scenes": "1", "--workers": "1"},
    "record-episodes ": {"--episodes": "12", "--workers": "1"},
    "train-model ": {"--model.steps": "2"},
    "verify ": {"--workers": "1"},
}
"""Options of the short forms of commands, by patterns of their beginning; the first that fits counts."""
LEFT_OUT = {"--minutes", "--core-minutes"}
MAX_BUDGET = 3
COMMAND = r"(?:trilith|make|python|pip|ray|wandb|tensorboard)(?= |$)[^`]*"
INCOMPLETE = r"…|\.\.\.|\b[A-Z]{2,}\b|(?<![\w.])N\b|\[|\*"


def text_of(page: Path) -> str:
    """The text of a page; of a notebook, that between its code, which tests/test_notebooks.py runs."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def items(page: Path) -> Iterator[tuple[str, str]]:
    """Python blocks ("python"), commands of blocks ("command") and commands within sentences ("mentioned"), in their order."""
    lines = text_of(page).splitlines()
    language, block = None, []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("```"):
            if language is None:
                language, block = line.removeprefix("```"), []
                continue
            if language == "python":
                yield language, "\n".join(block)
            elif language not in ("", "text", "yaml") and not language.startswith("{"):
                raise AssertionError(f"{page.name}: a block of {language!r}")
            language = None
        elif language is not None:
            block.append(line)
            if not language and line.strip():
                yield "command", line.partition(" #")[0].strip()
        elif line.startswith("    ") and (not before.strip() or before.startswith("    ")) and page.suffix == ".md":
            yield "command", line.partition(" #")[0].strip()
        else:
            yield from (("mentioned", each) for each in re.findall(rf"`({COMMAND})`", line))


ITEMS = {page: [*items(page)] for page in PAGES}


def reason(command: str) -> str | None:
    """Why a command is not run here, or None."""
    return next((why for beginning, why in NOT_RUN.items() if re.match(rf"{beginning}(?![\w-])", command)), None)


def short(words: list[str]) -> list[str]:
    """The words of a `trilith` command with options that make it short."""
    options = dict(next((options for pattern, options in SHORT.items() if re.match(pattern, " ".join(words))), {}))
    kept, rest = [], iter(word.removeprefix("/tmp/") for word in words)
    for word in rest:
        if word in LEFT_OUT:
            next(rest)
        elif word in options:
            kept += [word, options.pop(word)]
            next(rest)
        elif word == "--budget":
            budgets = dict.fromkeys(min(int(each), MAX_BUDGET) for each in next(rest).split(","))
            kept += [word, ",".join(map(str, budgets))]
        else:
            kept.append(word)
    return [*kept, *(each for pair in options.items() for each in pair)]


@cache
def help_of(command: str, recipe: str) -> str:
    """What a command says of its options."""
    said = io.StringIO()
    with pytest.raises(SystemExit), contextlib.redirect_stdout(said):
        main([command, *(["--recipe", recipe] if recipe else []), "--help-all"])
    return said.getvalue()


def look_up(command: str) -> None:
    """What a command names exists: the command itself, its options, the script, the target, the extras."""
    program, *words = shlex.split(command)
    options = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help-all"}
    if program == "trilith":
        assert words[0] in COMMANDS, command
        recipe = words[words.index("--recipe") + 1] if "--recipe" in words else ""
        assert not [option for option in options if option not in help_of(words[0], recipe)], command
    elif program == "python":
        script = ROOT / words[0] / "__main__.py" if (ROOT / words[0]).is_dir() else ROOT / words[0]
        source = script.read_text(encoding="utf-8")
        assert not [option for option in options if option[2:].replace("-", "_") not in source], command
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), command
    elif program == "pip":
        known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        assert {extra for extras in re.findall(r"\[(.*?)\]", command) for extra in extras.split(",")} <= known.keys(), command


def run(kind: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a block or a command, or looks up what it names."""
    if kind == "python":
        text = re.sub(r"^STEPS = \d+", "STEPS = 20", re.sub(r"^SCENES = \d+", "SCENES = 2", text, flags=re.M), flags=re.M)
        try:
            exec(compile(text, "page", "exec"), {})
        except ModuleNotFoundError as error:
            if not any(library in str(error) for library in LIBRARIES):
                raise
        return
    program, *words = shlex.split(text)
    incomplete = kind == "mentioned" and (re.search(INCOMPLETE, text) or len(words) < 2 or words[-1].startswith("--"))
    if incomplete or reason(text):
        look_up(text)
        return
    if program == "python":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words)
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        return
    assert program == "trilith", f"{text}: neither run nor named in NOT_RUN"
    try:
        main(short(words))
    except SystemExit as stop:
        if stop.code:
            pytest.fail(f"{text}\n{capsys.readouterr().err}")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if ITEMS[page]], ids=lambda page: page.stem)
def test_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    for name, source in OWN.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    for name in OWN:
        monkeypatch.delitem(sys.modules, name, raising=False)  # so that those of this folder are found
    done = set()
    given = [("command", GIVEN[page.name])] if page.name in GIVEN else []
    for kind, text in given + ITEMS[page]:
        if (kind, text) not in done:
            run(kind, text, capsys)
        done |= {(kind, text), ("mentioned", text)}


def test_what_is_not_run_is_on_a_page():
    given = [text for each in ITEMS.values() for kind, text in each if kind != "python"]
    unused = [beginning for beginning in NOT_RUN if not any(re.match(rf"{beginning}(?![\w-])", text) for text in given)]
    assert not unused
    assert sum(len(each) for each in ITEMS.values()) > 100


FIGURES = [page for page in PAGES if page.suffix == ".md" and page.name != "paper_recipes.md"]  # which has settings


@pytest.mark.parametrize("page", FIGURES, ids=lambda page: page.stem)
def test_every_figure_names_the_command_that_made_it(page):
    """In its section, or at the beginning of a page that a tool made. A table with a few numbers is no figure."""
    beginning, *sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for section in [beginning, *sections]:
        rows = [line for line in section.splitlines() if line.lstrip().startswith("|")]
        figure = "![" in section or len(re.findall(r"\d\.\d", "\n".join(rows))) > 5
        said = f"{beginning}\n{section}" if page in MADE else section
        named = re.search(rf"`{COMMAND}`|^    {COMMAND}|^```python", said, re.MULTILINE)
        assert named or not figure, section.splitlines()[0]


HAND_WRITTEN = [page for page in PAGES if page.suffix == ".md" and page not in MADE]


def words_of(page: Path) -> int:
    """Words with a letter or a digit: the bars of a table are none."""
    return sum(any(letter.isalnum() for letter in word) for word in page.read_text(encoding="utf-8").split())


def test_the_readme_and_the_site_are_short():
    readme, *site = HAND_WRITTEN
    assert words_of(readme) < 700
    assert sum(map(words_of, site)) < 14_000


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_lines_wrap_at_100_letters(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(line) > 100 and not line.startswith("|")], "tables cannot wrap"
