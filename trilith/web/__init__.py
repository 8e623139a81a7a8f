"""The page in the browser: build by hand, watch an agent, see the placements that it considers. `serve` runs the page. It needs the
packages of the extra `web`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def serve(
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = True,
    path: str | Path | None = None,
    agents: Sequence[str] = (),
    budget: int = 50,
    tasks: Sequence[str] = (),
    world: str = "simulator",
) -> None:
    """Serves the page until interrupted.

    `path` is a recorded episode or a result file to open in the page. `agents` are further agents to offer: folders of training runs, files
    of weights, or my_module:MyAgent. Trained agents are offered a second time with `budget` simulations per decision, unless it is 0.
    `tasks` are further tasks to offer, as my_module:MyTask. `world` is the transition model in which agents search: simulator, the folder
    of a learned model, or my_module:MyWorld. If it is not the simulator, the page shows its predictions.

    Raises ValueError, with a one-line message, if a file cannot be read, if there is no such agent, task or world, or if the address cannot
    be used.
    """
    try:
        from trilith.web.server import run
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ValueError(f'the page needs {error.name}: pip install "trilith[web]", or -e ".[web]" in a clone') from None
    run(host, port, open_browser, path, agents, budget, tasks, world)


__all__ = ["serve"]
