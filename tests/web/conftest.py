"""A page in a real Chromium, where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from visitor import Visitor, visit

from trilith.web.browser import chromium, find_chromium

REQUIRED = os.environ.get("TRILITH_REQUIRE_BROWSER") == "1"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; without one these tests are left out, or fail where TRILITH_REQUIRE_BROWSER=1 asks for them."""
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        missing = "Playwright is not installed (pip install playwright)"
    else:
        missing = "" if find_chromium() else "no Chromium was found (Debian: apt-get install chromium)"
    if missing:
        if REQUIRED:
            pytest.fail(f"the page's browser tests are required, but {missing}")
        pytest.skip(f"the page's browser tests were left out: {missing}")
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of a running server."""
    pytest.importorskip("starlette", reason="the page's tests were left out: starlette is not installed")
    from trilith.web.server import background

    with background(workers=1) as url:
        yield url


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a learned model of Covering Hard, small and after a few steps of learning."""
    from trilith.agents.dynamics.config import ModelConfig
    from trilith.agents.dynamics.files import save_model
    from trilith.agents.dynamics.learner import ModelLearner
    from trilith.agents.dynamics.transitions import simulated, transitions
    from trilith.data.recording import Recorder, record
    from trilith.networks.config import DynamicsConfig
    from trilith.networks.parameters import parameters_of
    from trilith.world.trajectory import read_episodes

    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("models") / "small"
    for _ in record(Recorder(("legal",), "covering_hard", episodes=40), data, 1):
        pass
    net = DynamicsConfig(width=16, layers=1, heads=2, pair=8)
    learner, rng = ModelLearner(ModelConfig(net=net, steps=30), 0), np.random.default_rng(0)
    table = transitions(simulated(episode) for episode in read_episodes(data))
    for _ in range(30):
        learner.step(table, rng)
    folder.mkdir()
    save_model(folder, net, ["covering_hard"], parameters_of(learner.net), {})
    return str(folder)


@pytest.fixture
def visitor(browser: Any, site: str) -> Iterator[Visitor]:
    """A visitor at 1280 × 800. Whatever a test does, nothing may be written to the console as an error."""
    with visit(browser, site) as someone:
        yield someone
