"""What the README shows works as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from trilith.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README + (ROOT / "docs/howto/python.md").read_text(encoding="utf-8"), re.DOTALL)
TOUR = (ROOT / "docs/start/commands.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^trilith [^#\n]*", README + TOUR, re.MULTILINE)))


@pytest.mark.parametrize("example", EXAMPLES)
def test_python_examples_run(example):
    exec(compile(example, "README.md", "exec"), {})


def test_there_are_examples_and_commands():
    assert len(EXAMPLES) >= 2
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_the_options_shown(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*shlex.split(command)[1:], "--help"])
    assert stop.value.code == 0
    words = [word for word in shlex.split(command) if word.startswith("--")]
    text = capsys.readouterr().out
    assert all(word in text for word in words)


def test_files_that_the_readme_names_exist():
    for path in re.findall(r"\]\(((?:docs|trilith|benchmarks|examples)/[^)]+)\)", README):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"^      (\w+(?:\.py|/))", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert (ROOT / "trilith" / name).exists(), name


def test_the_readme_is_short():
    assert len([word for word in README.split() if any(letter.isalnum() for letter in word)]) < 700


def test_every_command_says_how_long_it_takes():
    for line in (README + TOUR).splitlines():
        if re.match(r"(make|trilith) [^#]*#", line):
            assert re.search(r"\(.*(\d+ s|minute|as long as you say).*\)|trilith web", line), line


@pytest.mark.parametrize("page", [*ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_links_of_the_docs_lead_somewhere(page):
    for path in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / path).exists(), path
