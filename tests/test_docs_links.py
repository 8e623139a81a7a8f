"""What the README and the pages say is so: files, links, names of outputs, paths of the glossary. That their commands run is in
test_docs_run.py."""

import re
import shlex
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from trilith.agents.registry import shipped
from trilith.agents.weights import read_card
from trilith.training.config import FREE, TrainConfig
from trilith.world.tasks import TASKS

RECIPE = ("--recipe", TrainConfig.recipe)  # the default
ROOT = Path(__file__).parent.parent
GENERATED = {ROOT / "docs/reference" / name for name in ("commands.md", "api.md", "recipes.md")}  # by `make docs`
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs/start/commands.md").read_text(encoding="utf-8")


def test_files_that_the_readme_names_exist():
    for path in re.findall(r"\]\(((?:docs|trilith|benchmarks|examples)/[^)]+)\)", README):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"^      (\w+(?:\.py|/))", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert (ROOT / "trilith" / name).exists(), name


def test_paths_of_the_glossary_exist():
    rows = re.findall(r"^\| .* \|$", (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([\w*/]+(?:\.py|/))`", row)]
    assert len(paths) > 40
    for path in paths:
        assert any((ROOT / "trilith").glob(path.rstrip("/"))), path


WRITING = r"^(?: {4})?trilith (train|train-model|record-episodes|compare|report|plot|draw|film) ([^#\n]*)"
"""Commands of code blocks that write files which they can be told the name of."""


def test_commands_of_the_docs_name_their_output_and_do_not_share_one():
    """Those of the notebook are of earlier versions."""
    written: dict[str, dict[str, str]] = {}
    pages = [page for page in (ROOT / "README.md", *ROOT.glob("docs/*/*.md")) if page.name != "notebook.md"]
    commands = [found for page in pages for found in re.findall(WRITING, page.read_text(encoding="utf-8"), re.MULTILINE)]
    assert len(commands) > 25
    for name, given in commands:
        words = shlex.split(given)
        if "--resume" in words:
            continue
        assert "--out" in words, f"trilith {name} {given}"
        options = {word: following for word, following in pairwise([*words, ""]) if word.startswith("--")}
        if name in ("train", "train-model", "record-episodes", "compare", "report"):
            out = options.pop("--out")
            options |= {"--of": " ".join(takewhile(lambda word: not word.startswith("--"), words))}
            run = {key: value for key, value in options.items() if key[2:].replace("-", "_") not in FREE and (key, value) != RECIPE}
            assert written.setdefault(out, run) == run, f"two commands write {out}"


@pytest.mark.parametrize("task", TASKS)
def test_the_results_of_objects_are_those_of_its_card(task):
    tests = {(each["level"], each["budget"]): each for each in read_card(shipped("objects")[task])["test"]}
    plain, searched = (f"{tests['hardest', budget]['reward']:.2f} ± {tests['hardest', budget]['interval']:.2f}" for budget in (0, 10))
    [row] = re.findall(rf"^\| {TASKS[task].title} \|.* ± .*$", README, re.MULTILINE)
    assert [cell.strip() for cell in row.split("|")][6:8] == [plain, searched]
    results = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")
    [figures] = re.findall(r"^\| `objects`: sees.*$", results, re.MULTILINE)
    at = 2 + 2 * [*TASKS].index(task)
    assert [cell.strip() for cell in figures.split("|")][at : at + 2] == [
        f"{tests[level, 0]['reward']:.2f}" for level in ("all", "hardest")
    ]


def test_every_command_says_how_long_it_takes():
    for line in (README + TOUR).splitlines():
        if re.match(r"(make|trilith) [^#]*#", line):
            assert re.search(r"\(.*(\d+ s|minute|as long as you say).*\)|trilith web", line), line


@pytest.mark.parametrize("page", [*ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_links_of_the_docs_lead_somewhere(page):
    for path in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / path).exists() or (page.parent / path).resolve() in GENERATED, path


def test_an_audit_fails_where_it_could_not_look():
    rules = (ROOT / "Makefile").read_text().split("\naudit:", 1)[1].split("\n\n", 1)[0]
    [command] = [line.split() for line in rules.splitlines() if "pip-audit " in line and "install" not in line]
    assert "--strict" in command, "otherwise what was skipped passes"
    assert {"--require-hashes", "requirements/test.txt"} <= set(command), "all that is locked, and exactly that"
