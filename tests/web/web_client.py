"""A client that calls the application directly, without sockets: thousands of requests in seconds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

HOST = ("host", "127.0.0.1:8000")
JSON = ("content-type", "application/json")


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """The application with its worker processes, in an event loop and thread of its own: a browser test may have one running here."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.stack = AsyncExitStack()
        self.run(self.stack.enter_async_context(app.router.lifespan_context(app)))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def close(self) -> None:
        self.run(self.stack.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def get(self, path: str, *headers: tuple[str, str], query: bytes = b"") -> Answer:
        return self.run(self.call("GET", path, b"", headers or (HOST,), query))

    def post(self, name: str, body: Any, *headers: tuple[str, str]) -> Answer:
        return self.run(self.ask(name, body, *headers))

    async def ask(self, name: str, body: Any, *headers: tuple[str, str]) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.call("POST", f"/api/{name}", data, headers or (HOST, JSON))

    async def call(self, method: str, path: str, body: bytes, headers: tuple[tuple[str, str], ...], query: bytes = b"") -> Answer:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(errors="replace"),
            "query_string": query,
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            await gone.wait()  # the visitor stays until there is an answer
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = sent[0]
        return Answer(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]),
        )
