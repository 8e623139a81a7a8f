"""Compiled functions kept on disk follow their sources."""

import re
import subprocess
import sys
from pathlib import Path

from trilith.support import compiled

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from trilith.support import compiled
compiled.STAMP = {stamp!r}
import outer
print(outer.outer(1.0), sum(outer.outer.stats.cache_hits.values()))
"""


def run(folder: Path, stamp: str) -> list[str]:
    program = PROGRAM.format(folder=str(folder), stamp=stamp)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_a_change_in_one_file_makes_what_was_compiled_from_it_elsewhere_stale(tmp_path):
    (tmp_path / "inner.py").write_text("from trilith.support.compiled import compiled\n@compiled\ndef inner(x):\n    return x + 1\n")
    (tmp_path / "outer.py").write_text(
        "from inner import inner\nfrom trilith.support.compiled import compiled\n@compiled\ndef outer(x):\n    return inner(x) * 10\n"
    )
    assert run(tmp_path, "before") == ["20.0", "0"]
    assert run(tmp_path, "before") == ["20.0", "1"]  # kept on disk
    (tmp_path / "inner.py").write_text("from trilith.support.compiled import compiled\n@compiled\ndef inner(x):\n    return x + 2\n")
    assert run(tmp_path, "after") == ["30.0", "0"]


def test_every_file_with_compiled_functions_is_among_the_sources():
    root = Path(compiled.__file__).parent.parent
    using = {path for path in root.rglob("*.py") if re.search(r"^@compiled|\bcompiled\(", path.read_text(), re.MULTILINE)}
    assert using <= set(compiled.SOURCES)
