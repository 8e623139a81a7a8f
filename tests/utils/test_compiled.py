"""Compiled functions kept on disk follow their sources."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shell import ENVIRONMENT

from trilith.utils.compiled import TOLD

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import outer
print(outer.outer(1.0), sum(outer.outer.stats.cache_hits.values()))
"""


def run(folder: Path) -> list[str]:
    program = PROGRAM.format(folder=str(folder))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_a_change_in_one_file_makes_what_was_compiled_from_it_elsewhere_stale(tmp_path):
    (tmp_path / "inner.py").write_text("from trilith.utils.compiled import compiled\n@compiled\ndef inner(x):\n    return x + 1\n")
    (tmp_path / "outer.py").write_text(
        "from inner import inner\nfrom trilith.utils.compiled import compiled\n@compiled\ndef outer(x):\n    return inner(x) * 10\n"
    )
    assert run(tmp_path) == ["20.0", "0"]
    assert run(tmp_path) == ["20.0", "1"]  # kept on disk
    (tmp_path / "inner.py").write_text("from trilith.utils.compiled import compiled\n@compiled\ndef inner(x):\n    return x + 2\n")
    assert run(tmp_path) == ["30.0", "0"]


OWN = """
import sys
sys.path.insert(0, "")
import own
print(own.own(1.0), sum(own.own.stats.cache_hits.values()))
"""


def write(path: Path, body: str) -> None:
    """A file with a compiled function, always of the same time: that alone must not decide."""
    path.write_text(f"from trilith.utils.compiled import compiled\n{body}\n")
    os.utime(path, (10**9, 10**9))


def run_own(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-B", "-c", OWN], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_function_in_a_users_module_is_compiled_anew_when_its_file_changes(tmp_path):
    write(tmp_path / "own.py", "@compiled\ndef own(x):\n    return x + 1")
    assert run_own(tmp_path) == ["2.0", "0"]
    assert run_own(tmp_path) == ["2.0", "1"]  # kept on disk
    write(tmp_path / "own.py", "@compiled\ndef own(x):\n    return x + 2")
    assert run_own(tmp_path) == ["3.0", "0"]


def test_a_function_in_a_users_module_is_compiled_anew_when_what_it_builds_in_changes(tmp_path):
    write(tmp_path / "own.py", "from part import part, HALF\n@compiled\ndef own(x):\n    return part(x) * HALF")
    write(tmp_path / "part.py", "HALF = 0.5\n@compiled\ndef part(x):\n    return x + 1")
    assert run_own(tmp_path) == ["1.0", "0"]
    assert run_own(tmp_path) == ["1.0", "1"]
    write(tmp_path / "part.py", "HALF = 0.5\n@compiled\ndef part(x):\n    return x + 3")
    assert run_own(tmp_path) == ["2.0", "0"]
    (tmp_path / "number.py").write_text("FACTOR = 2.0")
    write(tmp_path / "own.py", "from number import FACTOR\n@compiled\ndef own(x):\n    return x * FACTOR")
    assert run_own(tmp_path) == ["2.0", "0"]
    (tmp_path / "number.py").write_text("FACTOR = 3.0")
    assert run_own(tmp_path) == ["3.0", "0"]


def test_a_function_that_is_in_no_file_is_compiled_all_the_same():
    code = "from trilith.utils.compiled import compiled\n@compiled\ndef double(x):\n    return 2 * x\nprint(double(4))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout == "8\n"


COLD = """
import gc
import trilith
import numpy as np
from trilith.world.tasks.silhouette import filled
filled(trilith.start("silhouette", 0, np.random.default_rng(0)).scene)
print(gc.isenabled())
"""


def watched(*line: object, **options: object) -> tuple[str, str]:
    """What a process prints, and what it prints as errors to a terminal."""
    here, there = os.openpty()
    done = subprocess.run([sys.executable, *map(str, line)], stdout=subprocess.PIPE, stderr=there, text=True, check=True, **options)
    os.close(there)
    with open(here, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # a terminal without writers is an error, not an end
        return done.stdout, terminal.read(65536).decode().replace("\r\n", "\n")
    return done.stdout, ""


def test_the_first_run_says_once_that_it_compiles_and_later_ones_say_nothing(tmp_path):
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path)}
    for told in (f"{TOLD}\n", ""):
        assert watched("-c", COLD, cwd=tmp_path, env=environment) == ("True\n", told)


@pytest.mark.longest
def test_an_evaluation_compiles_before_its_workers_start(tmp_path):
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    line = ["-m", "trilith.cli", "evaluate", "legal", "--task", "silhouette", "--scenes", "17", "--level", "0"]
    _, errors = watched(*line, cwd=tmp_path, env=environment)
    assert errors.startswith(f"{TOLD}\n")
    assert errors.count(TOLD) == 1
