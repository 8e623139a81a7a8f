"""What all tests share: `worlds.py` and the examples can be imported from anywhere, and hypothesis draws the same examples in every run."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples")]
settings.register_profile("trilith", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trilith")
