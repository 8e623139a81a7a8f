"""Who may ask: requests for a foreign host or from another site are refused, and every answer says what the page may do.

The page listens on loopback, where any web site that is open in the same browser could reach it. So a request must name this
machine in its Host header (a site that points its own name at 127.0.0.1 cannot), and must come from the page itself.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing but the page's own files, no inline script or style, no frame around it."""
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Guard:
    """Refuses what does not come from the page itself, and adds the headers above to every answer."""

    def __init__(self, app: App, host: str) -> None:
        self.app = app
        self.names = {*LOOPBACK, host.lower()}
        self.any_address = host not in LOOPBACK
        if self.any_address:
            self.names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        problem = self.problem(scope)
        if problem is None:
            await self.app(scope, receive, answer)
            return
        await answer({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"application/json")]})
        await answer({"type": "http.response.body", "body": json.dumps({"error": problem}).encode()})

    def problem(self, scope: Scope) -> str | None:
        """Why the request is refused, None if it is not."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if len(hosts) != 1 or not self._is_us(host):
            return "the Host header does not name this machine"
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "requests from another site are refused"
        site = headers.get(b"sec-fetch-site", "none")
        if site not in ("same-origin", "none"):
            # Following a link to the page is the one thing that other sites may do: it shows the page and sends nothing.
            document = headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"
            if not (document and scope["method"] == "GET" and scope["path"] == "/"):
                return "requests from another site are refused"
        return None

    def _is_us(self, host: str) -> bool:
        """Whether a Host header names this machine. Only a name can be pointed elsewhere, so with --host any address will do."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            _ = urlsplit(f"//{host}").port
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address
