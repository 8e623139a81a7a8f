"""What all tests share: `worlds.py` and the examples can be imported from anywhere, and hypothesis draws the same examples in every run."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples")]
settings.register_profile("trilith", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trilith")


class NoTorch:
    """Where torch is not installed, what imports it is skipped: a test, or a whole file of them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch":
            pytest.skip("torch is not installed (extra learn)", allow_module_level=True)


if not find_spec("torch"):
    sys.meta_path.append(NoTorch())


class OneCluster(LoadScopeScheduling):
    """Every test goes to whichever process is free, but those on a Ray cluster to one and the same: they share their cluster."""

    def _split_scope(self, nodeid: str) -> str:
        return "ray" if "/test_ray.py::" in nodeid else nodeid


@pytest.hookimpl(optionalhook=True)  # xdist may be switched off
def pytest_xdist_make_scheduler(config: Any, log: Any) -> OneCluster:
    return OneCluster(config, log)
