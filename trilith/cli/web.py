"""The command `web`, which serves the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from trilith.utils.checks import require


@dataclass
class Web:
    """Open a page in the browser to build by hand and to watch agents.

    Example: trilith web --port 8000
    """

    path: Positional[Path | None] = None
    """A recorded episode or a result file to open."""
    host: str = "127.0.0.1"
    """Address to listen on. Visitors from other machines need the printed address, which contains a token."""
    port: int = 8000
    """Port to listen on."""
    browser: bool = True
    """Open the browser."""
    agents: tuple[str, ...] = ()
    """Further agents to offer: folders of training runs, files of weights, or classes of your own as my_module:MyAgent."""
    tasks: tuple[str, ...] = ()
    """Further tasks to offer: classes of your own in a module of this folder, as my_module:MyTask."""
    budget: int = 50
    """Simulations per decision, for trained agents that search. 0: offer no agents that search."""

    world: str = "simulator"
    """The transition model in which agents search: simulator, the folder of a learned model, or my_module:MyWorld. If it is not the
    simulator, the page shows its predictions."""

    def run(self) -> None:
        """Serves the page until interrupted."""
        from trilith.web import serve

        require(self.budget >= 0, f"budget {self.budget}: must be 0 or more")
        require(0 <= self.port <= 65535, f"port {self.port}: must be 0 to 65535")
        serve(self.host, self.port, self.browser, self.path, self.agents, self.budget, self.tasks, self.world)
