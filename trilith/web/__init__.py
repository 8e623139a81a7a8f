"""The page in the browser: build by hand, watch an agent, see its ideas. `serve` runs it. It needs the packages of the extra `web`."""

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

    `path` is a recorded episode or a result file to open in the page. `agents` are further names that `trilith.agents.registry.load`
    understands, such as folders of training runs. Trained agents are also offered with `budget` simulations per decision. `tasks` are
    further tasks to offer, as my_module:MyTask. `world` is the world in which agents search, by a name that
    `trilith.agents.dynamics.registry.make_world` knows. If it is not the simulator, the page shows its predictions. Raises ValueError
    in one line if a file cannot be read, or if the address cannot be used.
    """
    try:
        from trilith.web.server import run
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ValueError(f'the page needs {error.name}: pip install "trilith[web]", or -e ".[web]" in a clone') from None
    run(host, port, open_browser, path, agents, budget, tasks, world)


__all__ = ["serve"]
