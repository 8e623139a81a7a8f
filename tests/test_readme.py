"""What the README shows works as it stands there."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

cli = import_module("trilith.cli.main")  # the room has its function under the same name
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = sorted(set(re.findall(r"^trilith [^#\n]*", README, re.MULTILINE)))


@pytest.mark.parametrize("example", EXAMPLES)
def test_python_examples_run(example):
    exec(compile(example, "README.md", "exec"), {})


def test_there_are_examples_and_commands():
    assert len(EXAMPLES) >= 2
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_the_options_shown(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([*shlex.split(command)[1:], "--help"])
    assert stop.value.code == 0
    words = [word for word in shlex.split(command) if word.startswith("--")]
    text = capsys.readouterr().out
    assert all(word in text for word in words)


def test_files_that_the_readme_names_exist():
    for path in re.findall(r"\]\(((?:docs|trilith|benchmarks|examples)/[^)]+)\)", README):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"^      (\w+(?:\.py|/))", README, re.MULTILINE):
        assert (ROOT / "trilith" / name).exists(), name
