"""The server: static files from memory, and a small API in which every request carries its state.

The server keeps no state between requests. Physics and agents have separate pools of worker processes ("lanes"), so that a slow
search cannot delay visitors who build by hand. `web/jobs.py` does the work of a request in such a process.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import trilith.web.request_schema as schema
from trilith.agents.dynamics.files import read_model
from trilith.agents.dynamics.registry import is_model, make_world
from trilith.search.config import SearchConfig
from trilith.utils.checks import require
from trilith.utils.files import prefix_errors, read_file
from trilith.web.access import HEADERS, AccessControl, is_loopback
from trilith.web.catalog import Catalog, short_name
from trilith.web.connections import Connection
from trilith.web.pool import PATIENCE, Busy, Crashed, Pool, TooSlow
from trilith.world.actions import CLEARANCE, OFFSETS
from trilith.world.physics import PHYSICS
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, PLACE_Y, SLOTS, Role
from trilith.world.tasks import TASKS, Task, get_task

PHYSICS_LIMIT = 5.0
"""Time limit in seconds for a placement, which usually takes some milliseconds."""
AGENT_LIMIT = 20.0
"""Time limit in seconds for a decision of an agent, or for a film."""
WORKERS = max(2, os.cpu_count() or 2)
"""Number of processes in each of the two lanes, physics and agents."""
FIRST_START = 30.0
"""Maximum seconds that the other workers wait for the first worker, which may have to compile the rules."""
BUDGET = 50
"""Default number of simulations per decision of agents that search. They take about a third of a second."""
QUEUE = 64
"""Maximum number of requests that wait in a lane. Further requests get the status 503."""
BODY_SECONDS = 10.0
"""Seconds that a visitor has to send a request."""
JSON, GIF = "application/json", "image/gif"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Handler = Callable[[Any], Awaitable[bytes]]
"""Answers requests to one address. It takes the body of a request, converted by the `read` of its route (see `_endpoint`), and returns the
bytes of the answer."""

REQUESTS = {
    "start": ("begin", "task level seed placements?"),
    "step": ("place", "state placement zero_on_hit?"),
    "replay": ("replay", "recording"),
    "act": ("act", "state agent seed? zero_on_hit?"),
    "ideas": ("ideas", "state agent seed? count?"),
    "values": ("values", "state agent seed? slot"),
}
"""Maps each request to two values: the worker's job (a function of `web/jobs.py`), and the fields that are its arguments
(`request_schema.READERS`)."""
PHYSICS_REQUESTS = ("start", "step", "replay")
"""Requests that need no agent. They run in the lane of physics."""


class Site:
    """The shared state of the handlers: the two lanes of workers, the tasks and agents on offer, the transition model for searches, and the
    opened file."""

    def __init__(
        self,
        agents: Sequence[str],
        opened: tuple[str, list[dict[str, Any]]] | None,
        workers: int,
        budget: int,
        tasks: Sequence[str] = (),
        world: str = SearchConfig.world,
    ) -> None:
        self.tasks = TASKS | {name: get_task(name) for name in tasks}
        names = tuple(self.tasks)
        self.catalog = Catalog(agents, budget, self.tasks, world)
        make_world(world, False)  # raises an error for a world that cannot be used, before the first request
        self.world = None if world == SearchConfig.world else world
        """Name of the transition model whose predictions are shown; None if agents search in the simulator."""
        self.physics = Pool(workers, QUEUE, PHYSICS_LIMIT, given=(names,))
        self.thinking = Pool(workers, QUEUE, AGENT_LIMIT, given=(names, self.catalog.trained(), self.world))
        self.opened = opened
        self.folder: str | None = None
        """The folder for films. It is removed when the server ends. Each film has its own folder inside."""

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Starts the worker processes with the server, and ends them with it."""
        with TemporaryDirectory(prefix="trilith-web-", ignore_cleanup_errors=True) as self.folder:
            starting = asyncio.ensure_future(self._start())
            try:
                yield
            finally:
                starting.cancel()
                self.physics.stop()
                self.thinking.stop()

    async def _start(self) -> None:
        """Starts a single process in each lane first. If code has to be compiled, this process does it, and the others find the result on
        disk."""
        for lane in (self.physics, self.thinking):
            lane.start(1)
            with suppress(TimeoutError):  # the others start even if the first one hangs
                await asyncio.wait_for(lane.ready.wait(), FIRST_START)
        self.physics.start()
        self.thinking.start()

    def about(self) -> dict[str, Any]:
        """Constants, tasks and agents. The page reads these before it requests a scene."""
        return {
            "tasks": [{**_describe(task), "agents": self.catalog.about[task.name]} for task in self.tasks.values()],
            "agents": self.catalog.titles,
            "roles": {role.name.lower(): int(role) for role in Role},
            "slots": SLOTS,
            "place_x": PLACE_X,
            "place_y": PLACE_Y,
            "block_height": BLOCK_HEIGHT,
            "clearance": CLEARANCE,
            "physics": PHYSICS,
            "offsets": OFFSETS,
            "world": self.world and {"name": short_name(self.world), "tasks": _learned_tasks(self.world)},
            "opened": self.opened and {"name": self.opened[0], "count": len(self.opened[1])},
        }

    async def answer(self, name: str, data: Any) -> bytes:
        """Validates the request `name`, one of `REQUESTS`, and returns its answer. `data` is the parsed JSON of the request."""
        job, fields = REQUESTS[name]
        given = schema.read(data, fields)
        if "level" in given:
            given["task"], given["level"] = schema.task_and_level(given["task"], given["level"])
        if "agent" in given:
            given["agent"] = self.catalog.find(given["agent"], given["state"].task)
        lane = self.physics if name in PHYSICS_REQUESTS else self.thinking
        return await lane.run(job, *given.values())

    async def predict(self, data: Any) -> bytes:
        """Predicts the outcome of a placement with the transition model in which agents search. `data` is the parsed JSON of the request.
        Raises ValueError if they search in the simulator."""
        given = schema.read(data, "state placement zero_on_hit?")
        require(self.world is not None, "there is nothing to predict with: start the page with --world and the folder of a model")
        return await self.thinking.run("predict", self.world, *given.values())

    async def film(self, data: Any) -> bytes:
        """Returns a GIF of a recorded episode. `data` is the parsed JSON of the request."""
        given = schema.read(data, "recording by?")
        with TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as mine:  # removed here, because the worker may be killed
            return await self.thinking.run("film", *given.values(), mine)

    async def open(self, body: bytes) -> bytes:
        """Returns the episodes in a file that the visitor chose, each as its text and a note. `body` is the whole request.

        The file may be large, so a worker parses the request. It is a worker of the agents' lane, so that building by hand is not delayed.
        """
        return await self.thinking.run("open", body)


def create_app(
    host: str = "127.0.0.1",
    path: str | Path | None = None,
    agents: Sequence[str] = (),
    workers: int = WORKERS,
    budget: int = BUDGET,
    tasks: Sequence[str] = (),
    token: str | None = None,
    world: str = SearchConfig.world,
) -> Starlette:
    """Returns the application, for a server that listens on the address `host`. It has `workers` processes for physics, and as many for
    agents. With a `token`, only visitors who have it get access. The other arguments are those of `trilith.web.serve`. Raises ValueError if
    the file at `path` holds no episode, or if there is no such agent, task or world.
    """
    for name in tasks:
        get_task(name)  # before the file is opened, because its episodes may belong to this task
    site = Site(agents, None if path is None else (Path(path).name, _open(path)), workers, budget, tasks, world)
    handlers: dict[str, Handler] = {name: partial(site.answer, name) for name in REQUESTS}
    handlers |= {"predict": site.predict, "film": site.film}
    opened = {"recordings": site.opened[1] if site.opened else []}
    routes = [
        *(_fixed(f"/api/{name}", schema.dumps(data).encode(), JSON) for name, data in (("about", site.about()), ("opened", opened))),
        *(_endpoint(name, each, schema.MAX_BODY, schema.parse, GIF if name == "film" else JSON) for name, each in handlers.items()),
        _endpoint("open", site.open, schema.MAX_FILE, bytes, JSON),
        *_static_routes(),
    ]
    app = Starlette(
        routes=routes,
        lifespan=site.lifespan,
        middleware=[Middleware(AccessControl, host=host, token=token)],
        exception_handlers={**dict.fromkeys([HTTPException, *REFUSALS], _refusal), 500: _unexpected},
    )
    app.state.site = site
    return app


def _endpoint(name: str, handler: Handler, limit: int, read: Callable[[bytes], Any], media_type: str) -> Route:
    """The route of a handler. `read` converts the body of a request, at most `limit` bytes, to the handler's argument."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return _error(415, "the content type must be application/json")
        body = await asyncio.wait_for(_body(request, limit), BODY_SECONDS)
        return Response(await _unless_gone(request, handler(read(body))), media_type=media_type)

    return Route(f"/api/{name}", endpoint, methods=["POST"])


async def _body(request: Request, limit: int) -> bytes:
    """The body of a request. Raises HTTPException if it is longer than `limit` bytes. Never keeps more bytes than that."""
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > limit:
            raise HTTPException(413, f"the request has more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


async def _unless_gone(request: Request, work: Awaitable[bytes]) -> bytes:
    """Awaits `work` and returns its result. If the visitor leaves, cancels `work`, because a useless search would delay other visitors,
    and raises ClientDisconnect."""
    task = asyncio.ensure_future(work)

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    watch = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


def _error(status: int, line: str) -> Response:
    text, headers = " ".join(line.split()), {"retry-after": "1"} if status == 503 else None
    return Response(schema.dumps({"error": text if len(text) <= 300 else text[:299] + "…"}), status, headers, media_type=JSON)


REFUSALS: dict[type[Exception], tuple[int, str]] = {
    ValueError: (400, "{}"),
    ClientDisconnect: (400, "the visitor went away"),
    TimeoutError: (408, f"the request did not arrive within {BODY_SECONDS:g} s"),
    Busy: (503, "too many requests at the moment: try again in a second"),
    TooSlow: (504, "this took longer than the server allows, and was stopped"),
    Crashed: (500, "this failed on the server: {}"),
}
"""Maps each type of error to an HTTP status and a message. {} in a message is replaced by the text of the error."""


async def _refusal(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _error(error.status_code, error.detail)
    status, line = next(REFUSALS[kind] for kind in type(error).__mro__ if kind in REFUSALS)
    return _error(status, line.format(error))


async def _unexpected(request: Request, error: Exception) -> Response:
    response = _error(500, "this failed on the server")
    response.raw_headers.extend(HEADERS)  # unlike other answers, this one does not pass through AccessControl
    return response


def _static_routes() -> list[Route]:
    """Routes for the page's files, which are read once. A request can only name one of these files; no path of a client is looked up
    on disk."""

    files = {path.name: path for path in sorted((Path(__file__).parent / "static").iterdir()) if path.suffix in TYPES}
    urls = {"/": files["index.html"]} | {f"/static/{name}": path for name, path in files.items()}
    return [_fixed(url, path.read_bytes(), TYPES[path.suffix]) for url, path in urls.items()]


def _fixed(url: str, content: bytes, media_type: str) -> Route:
    """A route that always gives the same answer."""

    async def get(request: Request) -> Response:
        return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

    return Route(url, get, methods=["GET"])


def _describe(task: Task) -> dict[str, Any]:
    """A task for the page. Its description comes from the task's docstring, which has fixed headings."""
    head, *sections = inspect.getdoc(type(task)).split("\n## ") if inspect.getdoc(type(task)) else [""]  # type: ignore[union-attr]
    text = {section.split("\n", 1)[0]: " ".join(section.split("\n", 1)[-1].split()) for section in sections}
    return {
        "name": task.name,
        "title": task.title,
        "levels": [*task.levels, *task.generalisation],
        "unit": task.unit,
        "sticky_cost": task.sticky_cost,
        "keeps_supply": task.keeps_supply,
        "goal": " ".join(head.split()),
        "reward": text.get("Reward", ""),
        "end": text.get("End", ""),
    }


def _learned_tasks(world: str) -> list[str] | None:
    """The tasks on which a learned model was trained. None if `world` is not the folder of a learned model."""
    return read_model(Path(world))[2]["tasks"] if is_model(world) else None


def _open(path: str | Path) -> list[dict[str, Any]]:
    """Reads the episodes in a file. Raises ValueError, with the path and the reason, if the file cannot be shown."""
    try:
        text = read_file(path, schema.MAX_FILE).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    with prefix_errors(f"{path} cannot be shown: "):
        return schema.open_text(text)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OverflowError:
        raise ValueError(f"port {port}: must be 0 to 65535") from None
    except OSError as error:
        raise ValueError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    bound.listen(128)
    return bound


def _url(host: str, bound: socket.socket, token: str | None = None) -> str:
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{name}]' if ':' in name else name}:{bound.getsockname()[1]}/{f'?token={token}' if token else ''}"


def _server(app: Starlette) -> uvicorn.Server:
    options: dict[str, Any] = {"http": Connection, "access_log": False, "timeout_graceful_shutdown": 2}
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", **options))


def run(
    host: str,
    port: int,
    open_browser: bool,
    path: str | Path | None = None,
    agents: Sequence[str] = (),
    budget: int = BUDGET,
    tasks: Sequence[str] = (),
    world: str = SearchConfig.world,
) -> None:
    """Serves the page until interrupted. The arguments are those of `trilith.web.serve`."""
    token = None if is_loopback(host) else secrets.token_urlsafe(16)
    app = create_app(host, path, agents, budget=budget, tasks=tasks, token=token, world=world)
    bound = _bind(host, port)
    url, name = _url(host, bound, token), socket.gethostname() if host in ("0.0.0.0", "::") else host
    if token is not None:
        print(f"from other machines: {_url(name, bound, token)} (only with this token; what is sent is not encrypted)", flush=True)
    print(f"the page is at {url} (Ctrl-C ends it)", flush=True)
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    _server(app).run(sockets=[bound])


@contextmanager
def background(
    path: str | Path | None = None,
    agents: Sequence[str] = (),
    workers: int = WORKERS,
    tasks: Sequence[str] = (),
    world: str = SearchConfig.world,
) -> Iterator[str]:
    """Context manager: serves the page in a thread during the `with` block, for tests and screenshots. Yields the address as soon as the
    page answers. Raises RuntimeError if it does not answer within `PATIENCE`."""
    app = create_app("127.0.0.1", path, agents, workers, tasks=tasks, world=world)
    bound = _bind("127.0.0.1", 0)
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + PATIENCE
        while not app.state.site.physics.ready.is_set():
            if time.monotonic() > until or app.state.site.physics.broken or not thread.is_alive():
                raise RuntimeError("the page's server did not get ready: see its messages above")
            time.sleep(0.05)
        yield _url("127.0.0.1", bound)
    finally:
        server.should_exit = True
        thread.join(15)
