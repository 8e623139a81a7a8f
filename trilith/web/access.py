"""Access control: refuses requests for a foreign host or from another site, and adds security headers to every answer.

By default the server listens on loopback, where any web site that is open in the same browser could reach it. So a request must come from
the page itself, and its Host header must name this machine. If a site lets its own name point at 127.0.0.1 (DNS rebinding), the Host header
has the name of the site, and the request is refused.

If the server listens on another address, a request must also have the token of this server. The server prints an address with `?token=`.
The answer to this address sets a cookie. Later requests carry the token in this cookie, or as `Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
"""The content security policy: only the page's own files, no inline script or style, and no frame around the page."""
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
"""Headers of every answer."""
CLOSE = (b"connection", b"close")
"""A further header of every error. After a refused request, nothing more is read from the same connection."""


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address, which only this machine can reach. False for every name except localhost."""
    try:
        return host.lower() in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessControl:
    """Middleware that refuses requests which do not come from the page itself, and adds `HEADERS` to every answer. `host` is the address on
    which the server listens. If there is a `token`, every request must have it."""

    def __init__(self, app: ASGIApp, host: str, token: str | None = None) -> None:
        self.app, self.token = app, token
        self.names = {*LOOPBACK, host.lower()}
        self.any_address = not is_loopback(host)
        if self.any_address:
            self.names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes an accepted request to the application. Answers any other request itself: with an error, or by setting the cookie that
        carries the token."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS, *([CLOSE] if message["status"] >= 400 else [])]
            await send(message)

        request, status, problem, headers = Request(scope), 403, self.problem(scope), {}
        if problem is None and self.token is not None:
            if scope["path"] == "/" and self._is_token(request.query_params.get("token", "")):  # it is moved to a cookie
                status, problem = 303, ""
                headers = {"location": "/", "set-cookie": f"{COOKIE}={self.token}; HttpOnly; SameSite=Lax; Path=/"}
            elif not self._knows_token(request):
                status, problem = 401, "this page asks for its token: open the address that trilith web printed when it started"
        app = self.app
        if problem is not None:
            api = scope["path"].startswith("/api/")
            app = JSONResponse({"error": problem}, status) if api else PlainTextResponse(f"{problem}\n", status, headers)
        await app(scope, receive, answer)

    def _is_token(self, given: str) -> bool:
        """Whether `given` is the token. The comparison takes constant time, so its duration does not reveal a part of the token."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _knows_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return self._is_token(request.cookies.get(COOKIE, "")) or (scheme == "Bearer" and self._is_token(given))

    def problem(self, scope: Scope) -> str | None:
        """The reason to refuse a request, from its headers; None if there is no reason. The token is not checked here."""
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
            # Other sites may only link to the page. Following a link shows the page and sends no data.
            document = headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"
            if not (document and scope["method"] == "GET" and scope["path"] == "/"):
                return "requests from another site are refused"
        return None

    def _is_us(self, host: str) -> bool:
        """Whether a Host header names this machine. If the server listens beyond loopback, any IP address is accepted. This is safe,
        because DNS rebinding needs a name instead of an IP address."""
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
