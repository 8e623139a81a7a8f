"""The server: static files from memory, and a small API whose every request carries the state it is about.

Nothing is kept between requests. Physics has worker processes of its own, and agents have others, so that a slow search can
hold up nobody who builds by hand.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import shutil
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
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
from trilith.web.access import HEADERS, AccessControl, is_loopback
from trilith.web.catalog import Catalog, short_name
from trilith.web.connections import Connection
from trilith.web.pool import PATIENCE, Busy, Crashed, Pool, TooSlow
from trilith.world.actions import CLEARANCE, OFFSETS
from trilith.world.episode import State
from trilith.world.physics import PHYSICS
from trilith.world.scene import BLOCK_HEIGHT, PLACE_X, PLACE_Y, SLOTS, Role
from trilith.world.tasks import TASKS, Task, get_task

PHYSICS_LIMIT = 5.0
"""Seconds for a placement; it takes some milliseconds."""
AGENT_LIMIT = 20.0
"""Seconds for a decision of an agent, or a film."""
WORKERS = max(2, os.cpu_count() or 2)
"""Processes of each of the two lanes, physics and agents."""
FIRST_START = 30.0
"""Seconds that the other workers wait for the first, which may have to compile the rules."""
BUDGET = 50
"""Simulations per decision of agents that search, unless told otherwise: about a third of a second."""
QUEUE = 64
"""Requests that may wait in each lane; one more is told to come back later."""
BODY_SECONDS = 10.0
"""Time a visitor has for sending a request."""
MAX_PLACEMENTS = 64
"""Placements in a link; no episode has more than 28."""
MAX_IDEAS = 12
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Handler = Callable[[Request, Any], Awaitable[bytes]]
"""Given the request and what its JSON says."""


class Site:
    """What the handlers share: the two lanes of workers, the tasks and agents on offer, the world that is searched, and the file
    that was opened."""

    def __init__(
        self,
        agents: Sequence[str],
        opened: tuple[str, list[dict[str, str]]] | None,
        workers: int,
        budget: int,
        tasks: Sequence[str] = (),
        world: str = SearchConfig.world,
    ) -> None:
        self.tasks = TASKS | {name: get_task(name) for name in tasks}
        names = tuple(self.tasks)
        self.catalog = Catalog(agents, budget, self.tasks, world)
        make_world(world, False)  # one that cannot be used is refused here, before anybody asks
        self.world = None if world == SearchConfig.world else world
        """The world whose predictions are shown, if there is one beside the simulator."""
        self.physics = Pool(workers, QUEUE, PHYSICS_LIMIT, given=(names,))
        self.thinking = Pool(workers, QUEUE, AGENT_LIMIT, given=(names, self.catalog.trained(), self.world))
        self.opened = opened
        self.folder: Path | None = None
        """Where films are made: a folder each."""
        self._films: set[Path] = set()
        """Those that somebody waits for."""

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Worker processes live as long as the server."""
        with TemporaryDirectory(prefix="trilith-web-", ignore_cleanup_errors=True) as folder:
            self.folder = Path(folder)
            starting = asyncio.ensure_future(self._start())
            try:
                yield
            finally:
                starting.cancel()
                self.physics.stop()
                self.thinking.stop()

    async def _start(self) -> None:
        """One process first: what it has compiled, if anything has to be, the others find on disk."""
        for lane in (self.physics, self.thinking):
            lane.start(1)
            with suppress(TimeoutError):  # a first one that hangs must not keep the others from starting
                await asyncio.wait_for(lane.ready.wait(), FIRST_START)
        self.physics.start()
        self.thinking.start()

    def about(self) -> dict[str, Any]:
        """What the page needs to know before it asks for a scene."""
        return {
            "tasks": [{**_describe(task), "agents": self.catalog.about[task.name]} for task in self.tasks.values()],
            "agents": list(self.catalog.specs),
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

    async def start(self, request: Request, data: dict[str, Any]) -> bytes:
        """A scene by task, level and seed, and the placements of a link made in it."""
        schema.fields(data, ("task", "level", "seed"), ("placements",))
        task, level = schema.task_and_level(data["task"], data["level"])
        seed = schema.integer(data["seed"], "seed", 0, schema.MAX_SEED)
        return await self.physics.run("begin", task, level, seed, schema.placements(data.get("placements", []), MAX_PLACEMENTS))

    async def step(self, request: Request, data: dict[str, Any]) -> bytes:
        """A state and a placement; the next state and the fall."""
        schema.fields(data, ("state", "placement"), ("zero_on_hit",))
        zero_on_hit = schema.boolean(data.get("zero_on_hit", False), "zero_on_hit")
        return await self.physics.run("place", _going_on(data["state"]), schema.placement(data["placement"]), zero_on_hit)

    async def act(self, request: Request, data: dict[str, Any]) -> bytes:
        """A state and an agent; what it places, the next state and the fall."""
        schema.fields(data, ("state", "agent"), ("seed", "zero_on_hit"))
        seed = schema.integer(data.get("seed", 0), "seed", 0, schema.MAX_SEED)
        zero_on_hit = schema.boolean(data.get("zero_on_hit", False), "zero_on_hit")
        state = _going_on(data["state"])
        return await self.thinking.run("act", state, self.catalog.find(data["agent"], state.task), seed, zero_on_hit)

    async def ideas(self, request: Request, data: dict[str, Any]) -> bytes:
        """A state and an agent; what it thinks."""
        schema.fields(data, ("state", "agent"), ("seed", "count"))
        seed = schema.integer(data.get("seed", 0), "seed", 0, schema.MAX_SEED)
        count = schema.integer(data.get("count", 5), "count", 1, MAX_IDEAS)
        state = _going_on(data["state"])
        return await self.thinking.run("ideas", state, self.catalog.find(data["agent"], state.task), seed, count)

    async def values(self, request: Request, data: dict[str, Any]) -> bytes:
        """A state, an agent and a slot; what the agent expects of that block in every place it considers."""
        schema.fields(data, ("state", "agent", "slot"), ("seed",))
        seed = schema.integer(data.get("seed", 0), "seed", 0, schema.MAX_SEED)
        slot = schema.integer(data["slot"], "slot", 0, SLOTS - 1)
        state = _going_on(data["state"])
        return await self.thinking.run("values", state, self.catalog.find(data["agent"], state.task), seed, slot)

    async def predict(self, request: Request, data: dict[str, Any]) -> bytes:
        """A state and a placement; what the world that is searched says will come of it."""
        schema.fields(data, ("state", "placement"), ("zero_on_hit",))
        if self.world is None:
            raise ValueError("there is nothing to predict with: start the page with --world and the folder of a model")
        zero_on_hit = schema.boolean(data.get("zero_on_hit", False), "zero_on_hit")
        return await self.thinking.run("predict", self.world, _going_on(data["state"]), schema.placement(data["placement"]), zero_on_hit)

    async def replay(self, request: Request, data: dict[str, Any]) -> bytes:
        """A recorded episode; all its states and falls."""
        schema.fields(data, ("recording",))
        return await self.physics.run("replay", schema.recording(data["recording"]))

    async def film(self, request: Request, data: dict[str, Any]) -> bytes:
        """A recorded episode; a GIF of it."""
        schema.fields(data, ("recording",))
        recording = schema.recording(data["recording"])
        assert self.folder is not None
        for left in set(self.folder.iterdir()) - self._films:  # by a film that was stopped
            shutil.rmtree(left, ignore_errors=True)
        mine = self.folder / secrets.token_hex(8)
        self._films.add(mine)
        try:
            return await self.thinking.run("film", recording, str(mine))
        finally:
            self._films.discard(mine)
            shutil.rmtree(mine, ignore_errors=True)

    async def open(self, request: Request, body: bytes) -> bytes:
        """The text of a file that the visitor chose; the episodes in it, each as its text and a note.

        It may be large, so even the request is read by a worker, and not by one of those that people who build wait for.
        """
        return await self.thinking.run("open", body)

    async def opened_file(self, request: Request) -> Response:
        """The episodes of the file that the server was started with."""
        recordings = self.opened[1] if self.opened else []
        return Response(schema.dumps({"recordings": recordings}), media_type="application/json")


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
    """The application, with `workers` processes for physics and as many for agents; with a `token`, for those who know it only.

    Trained agents are offered as they are, and with `budget` simulations per decision unless that is 0. `tasks` are further ones
    to offer, as my_module:MyTask. In `world` agents search, and the page shows what it predicts, unless it is the simulator.
    Raises ValueError if the file at `path` holds no episode, or if there is no such agent, task or world.
    """
    for name in tasks:
        get_task(name)  # before the file is read, which may be of it
    site = Site(agents, None if path is None else (Path(path).name, schema.open_text(_read(path))), workers, budget, tasks, world)
    about = schema.dumps(site.about()).encode()

    async def get_about(request: Request) -> Response:
        return Response(about, media_type="application/json")

    posts: dict[str, tuple[Handler, int, str]] = {
        "start": (site.start, schema.MAX_BODY, "application/json"),
        "step": (site.step, schema.MAX_BODY, "application/json"),
        "act": (site.act, schema.MAX_BODY, "application/json"),
        "ideas": (site.ideas, schema.MAX_BODY, "application/json"),
        "values": (site.values, schema.MAX_BODY, "application/json"),
        "predict": (site.predict, schema.MAX_BODY, "application/json"),
        "replay": (site.replay, schema.MAX_BODY, "application/json"),
        "film": (site.film, schema.MAX_BODY, "image/gif"),
    }
    routes = [
        Route("/api/about", get_about, methods=["GET"]),
        Route("/api/opened", site.opened_file, methods=["GET"]),
        *(Route(f"/api/{name}", _endpoint(*each, schema.parse), methods=["POST"]) for name, each in posts.items()),
        Route("/api/open", _endpoint(site.open, schema.MAX_FILE, "application/json", bytes), methods=["POST"]),
        *_static_routes(),
    ]
    app = Starlette(
        routes=routes,
        lifespan=site.lifespan,
        middleware=[Middleware(AccessControl, host=host, token=token)],
        exception_handlers={HTTPException: _http_error, 500: _unexpected},
    )
    app.state.site = site
    return app


def _endpoint(handler: Handler, limit: int, media_type: str, read: Callable[[bytes], Any]) -> Callable[[Request], Awaitable[Response]]:
    """A handler with everything around it that can go wrong, each with its status and one line. `read` makes a body what it takes."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return _error(415, "the content type must be application/json")
        try:
            body = await asyncio.wait_for(_body(request, limit), BODY_SECONDS)
        except TimeoutError:
            return _error(408, f"the request did not arrive within {BODY_SECONDS:g} s")
        except ClientDisconnect:
            return _error(400, "the request was not sent to its end")
        if body is None:
            return _error(413, f"the request has more than {limit} bytes")
        try:
            return Response(await _unless_gone(request, handler(request, read(body))), media_type=media_type)
        except ValueError as error:
            return _error(400, str(error))
        except Busy:
            return _error(503, "too many requests at the moment: try again in a second", {"retry-after": "1"})
        except TooSlow:
            return _error(504, "this took longer than the server allows, and was stopped")
        except Crashed as error:
            return _error(500, f"this failed on the server: {error}")
        except ClientDisconnect:
            return _error(400, "the visitor went away")

    return endpoint


async def _body(request: Request, limit: int) -> bytes | None:
    """The body of a request, None if it is longer than it may be; no more than that is ever kept."""
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > limit:
            return None
        parts.append(part)
    return b"".join(parts)


async def _unless_gone(request: Request, work: Awaitable[bytes]) -> bytes:
    """The result of `work`, which is dropped when the visitor goes away: a search for nobody would keep others waiting."""
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


def _error(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    text = " ".join(line.split())
    return Response(schema.dumps({"error": text if len(text) <= 300 else text[:299] + "…"}), status, headers, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail)


async def _unexpected(request: Request, error: Exception) -> Response:
    response = _error(500, "this failed on the server")
    response.raw_headers.extend(HEADERS)  # this answer alone does not pass the guard
    return response


def _static_routes() -> list[Route]:
    """The page's files, read once: a request can only name one of them, and no path of a client is ever looked up on disk."""

    def route(url: str, content: bytes, media_type: str) -> Route:
        async def get(request: Request) -> Response:
            return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

        return Route(url, get, methods=["GET"])

    files = {path.name: path for path in sorted((Path(__file__).parent / "static").iterdir()) if path.suffix in TYPES}
    routes = [route(f"/static/{name}", path.read_bytes(), TYPES[path.suffix]) for name, path in files.items()]
    return [route("/", files["index.html"].read_bytes(), TYPES[".html"]), *routes]


def _going_on(text: Any) -> State:
    state = schema.state(text)
    if state.ended:
        raise ValueError(f"this episode has ended ({state.ended})")
    return state


def _describe(task: Task) -> dict[str, Any]:
    """A task for the page; what it is about comes from its docstring, which has fixed headings."""
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
    """The tasks that a model has learned from; None for a world that is not learned."""
    return read_model(Path(world))[2]["tasks"] if is_model(world) else None


def _read(path: str | Path) -> str:
    try:
        if Path(path).stat().st_size > schema.MAX_FILE:
            raise ValueError(f"{path} has more than {schema.MAX_FILE} bytes")
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None


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
    options: dict[str, Any] = {"http": Connection, "access_log": False, "limit_concurrency": 256, "timeout_graceful_shutdown": 2}
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
    """Serves the page until interrupted."""
    token = None if is_loopback(host) else secrets.token_urlsafe(16)
    app = create_app(host, path, agents, budget=budget, tasks=tasks, token=token, world=world)
    bound = _bind(host, port)
    url = _url(host, bound, token)
    print(f"the page is at {url} (Ctrl-C ends it)", flush=True)
    if token is not None:
        there = url if host not in ("0.0.0.0", "::") else _url(socket.gethostname(), bound, token)
        print(f"from other machines: {there} (only with this token; what is sent is not encrypted)", flush=True)
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
    """The address of a page served from a thread while the block runs, once it can answer: for tests and screenshots."""
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
