"""Limits the number of connections and the time for the head of a request, so that no client can lock out the others. Also closes
connections that do not speak HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trilith.web.access import CLOSE, HEADERS

HEADER_SECONDS = 10.0
"""Seconds that a client has to send the head of a request. They are counted from the start of the connection or, for a later request, from
its first byte."""
PER_CLIENT = 64
"""Maximum number of simultaneous connections from one address; a browser has about six."""
IN_ALL = 200
"""Maximum number of simultaneous connections from all addresses."""


class Connection(H11Protocol):
    """A connection on which the head of a request must arrive in time. If there are too many connections when a new one is made (see
    `PER_CLIENT` and `IN_ALL`), one of the idle ones is closed: the one that was opened first, no matter when it was last used. If no other
    connection is idle, the new one is closed. A connection is idle if none of its requests waits for an answer."""

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()
        address = self.client and self.client[0]
        self._make_room(PER_CLIENT, lambda other: other.client is not None and other.client[0] == address)
        self._make_room(IN_ALL, lambda other: True)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuses data that is not HTTP, with the usual headers, and closes the connection."""
        head = h11.Response(status_code=400, reason=b"Bad Request", headers=[(b"content-type", b"text/plain"), CLOSE, *HEADERS])
        with suppress(h11.LocalProtocolError):  # the answer to an earlier request has already begun
            for event in (head, h11.Data(data=msg.encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _idle(self) -> bool:
        """Whether no request of this connection waits for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Starts the time limit for the head of a request (`HEADER_SECONDS`), or removes it when the head has arrived."""
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._timer is None and (self.cycle is None or self.conn.trailing_data[0]):
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_room(self, most: int, counts: Callable[[Connection], bool]) -> None:
        open_ = [each for each in cast("set[Connection]", self.connections) if not each.transport.is_closing() and counts(each)]
        if len(open_) > most:
            idle = [each for each in open_ if each._idle and each is not self]
            min(idle, key=lambda each: each._since, default=self).transport.close()
