"""Files that cannot be are refused in one line: the small form of `robustness/fuzz_files.py`."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SPEC = spec_from_file_location("fuzz_files", Path(__file__).parents[1] / "robustness" / "fuzz_files.py")
assert SPEC is not None
assert SPEC.loader is not None
fuzz_files = sys.modules["fuzz_files"] = module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz_files)
COUNTS = {"results given to report": 30, "results and journals of evaluate": 60}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("kind", fuzz_files.KINDS)
def test_a_file_that_cannot_be_is_refused_in_one_line(folder, kind):
    fuzz, _ = fuzz_files.KINDS[kind]
    tally = fuzz(folder, COUNTS.get(kind, 12), np.random.default_rng(1))
    assert tally.failures == []
    assert tally.refused > 0
