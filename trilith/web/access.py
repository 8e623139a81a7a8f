"""Who may ask: requests for a foreign host or from another site are refused, and every answer says what the page may do.

The page listens on loopback, where any web site that is open in the same browser could reach it. So a request must name this
machine in its Host header (a site that points its own name at 127.0.0.1 cannot), and must come from the page itself.

Beyond loopback a request must also know the token of this server: as `?token=` in the address that the server prints, which is
answered with a cookie, in that cookie, or as `Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
COOKIE = "trilith-token"
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host.lower() in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessControl:
    """Refuses what does not come from the page itself, and adds the headers above to every answer."""

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        self.app, self.token = app, token
        self.names = {*LOOPBACK, host.lower()}
        self.any_address = not is_loopback(host)
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

        status, problem, more = 403, self.problem(scope), []
        if problem is None and self.token is not None:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if scope["path"] == "/" and self._is_token(given):  # a cookie from now on, and an address without the token in it
                status, problem = 303, ""
                more = [(b"location", b"/"), (b"set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Lax; Path=/".encode())]
            elif not self._knows_token(scope):
                status, problem = 401, "this page asks for its token: open the address that trilith web printed when it started"
        if problem is None:
            await self.app(scope, receive, answer)
            return
        plain = not scope["path"].startswith("/api/")
        kind = b"text/plain; charset=utf-8" if plain else b"application/json"
        body = f"{problem}\n" if plain else json.dumps({"error": problem})
        await answer({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]})
        await answer({"type": "http.response.body", "body": body.encode()})

    def _is_token(self, given: str) -> bool:
        """In a time that says nothing about how much of it is right."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _knows_token(self, scope: Scope) -> bool:
        for name, value in scope["headers"]:
            text = value.decode("latin-1")
            if name == b"authorization" and text.startswith("Bearer ") and self._is_token(text[len("Bearer ") :]):
                return True
            if name == b"cookie":
                try:
                    morsel = SimpleCookie(text).get(COOKIE)
                except CookieError:
                    continue
                if morsel is not None and self._is_token(morsel.value):
                    return True
        return False

    def problem(self, scope: Scope) -> str | None:
        """Why the request is refused, None if it is not."""
        names = [name for name, _ in scope["headers"]]
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if names.count(b"host") != 1 or not self._is_us(host):
            return "the Host header does not name this machine"
        if any(names.count(name) > 1 for name in (b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")):
            return "a header that says where the request comes from is there twice"
        origin = headers.get(b"origin")
        try:
            foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        except ValueError:
            foreign = True
        if foreign:
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
