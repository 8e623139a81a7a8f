"""Who may ask, and what one visitor can do to the others: nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page's tests were left out: starlette is not installed")

from web_client import HOST, JSON, Client

from trilith.web import connections, server
from trilith.web.access import COOKIE, AccessControl, is_loopback
from trilith.web.pool import Pool
from trilith.world.episode import Recording, start

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    running = Client(server.create_app(workers=1))
    yield running
    running.close()


@pytest.mark.parametrize(
    "headers",
    [
        (HOST, ("origin", "http://[")),
        (HOST, ("origin", "http://127.0.0.1:8000"), ("origin", "http://127.0.0.1:8000")),
        (HOST, ("origin", "http://evil.example"), ("origin", "http://127.0.0.1:8000")),
        (HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-origin")),
    ],
)
def test_strange_and_double_headers_are_refused_with_the_headers_of_every_answer(client: Client, headers: Any) -> None:
    for answer in (client.get("/", *headers), client.post("start", {}, *headers, JSON)):
        assert answer.status == 403
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_even_an_answer_to_a_mistake_of_the_server_has_the_headers_of_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, scope: Any) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(AccessControl, "problem", broken)
    running = Client(server.create_app(workers=1))
    try:

        async def ask() -> Any:
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "scheme": "http", "server": None}
            with pytest.raises(RuntimeError, match="a mistake"):  # told to the log as well
                await running.app({**scope, "client": None, "root_path": "", "http_version": "1.1"}, None, send)
            return sent[0]

        answer = running.run(ask())
        assert answer["status"] == 500
        assert b"content-security-policy" in dict(answer["headers"])
    finally:
        running.close()


def test_eight_megabytes_of_numbers_hold_up_nobody_who_builds(client: Client) -> None:
    state = json.dumps(start("connecting", 0, np.random.default_rng(0)).to_json())
    huge = b'{"text":[' + b"1.5," * (2 * 1024 * 1024 - 10) + b"1]}"

    assert client.post("step", {"state": state, "placement": [0, 0, 0.4, False]}).status == 200  # until a worker of each kind is ready
    assert client.post("open", {"text": "{}"}).status == 400

    async def visitors() -> tuple[int, float]:
        opening = asyncio.ensure_future(client.ask("open", huge))
        await asyncio.sleep(0.05)
        longest = 0.0
        while not opening.done():
            began = time.monotonic()
            assert (await client.ask("step", {"state": state, "placement": [0, 0, 0.4, False]})).status == 200
            longest = max(longest, time.monotonic() - began)
        return (await opening).status, longest

    status, longest = client.run(visitors())
    assert status == 400
    assert longest < 1.0


def test_a_film_that_is_stopped_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    app = server.create_app(workers=1)
    app.state.site.thinking = Pool(1, 8, 0.5, "slow_jobs")  # whose films take a minute
    running = Client(app)
    try:
        recording = json.dumps(Recording(start("connecting", 0, np.random.default_rng(0)), ()).to_json())
        for _ in range(2):
            assert running.post("film", {"recording": recording}).status == 504
        [folder] = tmp_path.iterdir()
        assert list(folder.iterdir()) == []
    finally:
        running.close()
    assert list(tmp_path.iterdir()) == []


def test_hundreds_of_half_open_connections_lock_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 2.0)
    with server.background(workers=1) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host is not None
        assert port is not None
        crowd = []
        try:
            for k in range(300):
                crowd.append(socket.create_connection((host, port)))
                if k % 2:
                    crowd[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127")
            began = time.monotonic()
            page = http.client.HTTPConnection(host, port, timeout=10)
            for _ in range(2):  # the second on the same connection
                page.request("GET", "/api/about")
                answer = page.getresponse()
                assert (answer.status, len(json.loads(answer.read())["tasks"])) == (200, 4)
            assert time.monotonic() - began < 1.5
            page.sock.sendall(b"GET / HT")  # and then it, too, is half a request
            time.sleep(3)
            for each in [*crowd, page.sock]:
                each.settimeout(1)
                with suppress(ConnectionResetError):
                    assert each.recv(1) == b"", "closed"
        finally:
            for each in crowd:
                each.close()


POST = b"POST /api/step HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
NEXT = b"GET /api/opened HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "refused",
    [
        b"\x00\xff garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        POST + b"Content-Length: x\r\n\r\n",
        POST + b"Content-Length: 5\r\n\r\nhello",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_a_malformed_request_gets_the_headers_of_every_answer_and_nothing_behind_it_is_answered(site: str, refused: bytes) -> None:
    with socket.create_connection((urlsplit(site).hostname, urlsplit(site).port)) as connection:
        connection.settimeout(20)
        connection.sendall(refused + NEXT)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))  # until the server closes it
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 4") == 1
    for header in (b"content-security-policy: default-src 'none'", b"x-content-type-options: nosniff", b"connection: close"):
        assert header in answer.lower()


def test_beyond_loopback_only_those_who_know_the_token_are_let_in() -> None:
    running = Client(server.create_app(host="192.168.0.7", workers=1, token=TOKEN))
    here = ("host", "192.168.0.7:8000")
    try:
        wrong = [("cookie", f"{COOKIE}=wrong"), ("cookie", f"{COOKIE}={TOKEN[:-1]}"), ("authorization", "Bearer wrong"), ("cookie", ";=")]
        for header in wrong:
            answer = running.get("/", here, header)
            assert answer.status == 401
            assert answer.body.decode().count("\n") == 1
            assert "token" in answer.body.decode()
            assert TOKEN not in answer.body.decode()
            answer = running.post("start", {"task": "covering", "level": 0, "seed": 0}, here, JSON, header)
            assert (answer.status, list(answer.json())) == (401, ["error"])
        assert running.get("/", here, query=b"token=wrong").status == 401
        entry = running.get("/", here, query=f"token={TOKEN}".encode())
        assert (entry.status, entry.headers["location"]) == (303, "/")
        cookie = ("cookie", entry.headers["set-cookie"].split(";")[0])
        assert "HttpOnly" in entry.headers["set-cookie"]
        for known in (cookie, ("authorization", f"Bearer {TOKEN}")):
            assert running.get("/", here, known).status == 200
            assert running.post("start", {"task": "covering", "level": 0, "seed": 0}, here, JSON, known).status == 200
    finally:
        running.close()


def test_the_address_that_is_printed_beyond_loopback_has_the_token() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    command = [sys.executable, "-m", "trilith.cli", "web", "--host", "0.0.0.0", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://(.*):(\d+)/\?token=([\w-]{20,})", process.stdout.readline())
        assert found is not None
        assert found[1] != "127.0.0.1", "whoever serves beyond this machine wants the address for others"
        assert f"http://127.0.0.1:{found[2]}/?token={found[3]}" in process.stdout.readline()
        for token, status in ((found[3], 303), ("x", 401)):
            page = http.client.HTTPConnection("127.0.0.1", int(found[2]), timeout=20)
            page.request("GET", f"/?token={token}")
            assert page.getresponse().status == status
    finally:
        process.terminate()
        process.wait(20)
