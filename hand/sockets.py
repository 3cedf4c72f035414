"""One HTTP/1.1 connection to a gateway.

Bytes go from the socket straight into a sink: no stream reader, no future and no task switch per read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast

from hand.http_body import BodyError, BodyReader, ChunkedBody, ClosingBody, LengthBody

_LONGEST_HEAD = 262_144
_MOST_LENGTH_DIGITS = 18
_LINGER_SECONDS = 0.5


class Origin(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int


class Owner(Protocol):
    """Whoever keeps the sockets that are open."""

    def give_back(self, connection: Connection, origin: Origin) -> None:
        """Keep a socket for the next request."""
        ...

    def forget(self, connection: Connection) -> None:
        """Drop a socket that has closed."""
        ...


class Sink(Protocol):
    """Whoever takes the body of an answer."""

    def feed(self, data: bytes) -> None:
        """Take payload bytes."""
        ...

    def end(self, problem: Exception | None) -> None:
        """The body is over; ``problem`` if it ended too early."""
        ...


class Head:
    """Status and header fields of an answer."""

    __slots__ = ("fields", "keeps_alive", "status")

    def __init__(self, status: int, fields: list[tuple[bytes, bytes]], keeps_alive: bool) -> None:
        self.status = status
        self.fields = fields
        self.keeps_alive = keeps_alive


def parse_head(data: bytes) -> tuple[Head, BodyReader]:
    """Read status line and header fields.

    Raises:
        BodyError: this is no HTTP/1 answer.
    """
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    version, _, rest = lines[0].partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise BodyError("the gateway does not speak HTTP/1")
    fields: list[tuple[bytes, bytes]] = []
    known: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if colon and name and name[:1] not in b" \t":
            fields.append((name, value.strip(b" \t")))
            known[name.lower()] = fields[-1][1]
    return _framed(int(status), fields, known, version)


def _framed(
    status: int, fields: list[tuple[bytes, bytes]], known: Mapping[bytes, bytes], version: bytes
) -> tuple[Head, BodyReader]:
    connection = known.get(b"connection", b"").lower()
    keeps_alive = b"close" not in connection and (version != b"HTTP/1.0" or b"keep-alive" in connection)
    body: BodyReader
    length = known.get(b"content-length", b"")
    if status in {204, 304}:
        body = LengthBody(0)
    elif b"chunked" in known.get(b"transfer-encoding", b"").lower():
        body = ChunkedBody()
    elif length.isdigit() and len(length) <= _MOST_LENGTH_DIGITS:
        body = LengthBody(int(length))
    else:
        body, keeps_alive = ClosingBody(), False
    return Head(status, fields, keeps_alive), body


class Connection(asyncio.Protocol):
    """One socket to a gateway; carries one request at a time."""

    def __init__(self, owner: Owner, origin: Origin) -> None:
        self._owner = owner
        self._origin = origin
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.Future[Head] | None = None
        self._head_data = b""
        self._body: BodyReader | None = None
        self._keeps_alive = False
        self._sink: Sink | None = None
        # What arrived before anyone asked for the body.
        self._early: list[bytes] = []
        self._over = False
        self._problem: Exception | None = None
        self._paused = False
        self._lingering: asyncio.TimerHandle | None = None
        self.heard: bool = False
        self.idle_since: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the socket can carry another request."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def send(self, head: bytes, body: bytes) -> asyncio.Future[Head]:
        """Write a request; the future brings the head of the answer or the reason why there is none."""
        assert self._transport is not None
        self._head = asyncio.get_running_loop().create_future()
        self._head_data, self._body, self._sink, self._problem = b"", None, None, None
        self._early, self._over, self.heard = [], False, False
        if len(body) > 65_536:
            # A large body travels as it is instead of being copied behind its head.
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)
        return self._head

    def attach(self, sink: Sink) -> None:
        """Let the body flow into ``sink``, beginning with what has already come."""
        self._sink = sink
        early, self._early = self._early, []
        if early:
            sink.feed(b"".join(early))
        if self._over:
            sink.end(self._problem)
        self.resume_reading()

    def pause_reading(self) -> None:
        """Stop taking bytes from the gateway; its own buffers fill up and it waits."""
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def release(self, *, at_end_marker: bool = False) -> None:
        """Be done with this answer: a complete one leaves the socket for the next request, another is cut off.

        After the end marker of a stream the framing's own end is due at once, often in a packet of its own; it is waited for a
        moment (by nobody but the socket), as a new connection with TLS costs the next request far more.
        """
        self._sink = None
        if not (self._keeps_alive and self.is_open and self._problem is None):
            self.abort()
        elif self._over:
            self._owner.give_back(self, self._origin)
        elif at_end_marker:
            self.resume_reading()
            self._lingering = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.abort)
        else:
            self.abort()

    def abort(self) -> None:
        """Close the socket at once; nothing is heard of it again."""
        self._sink = None
        self._stop_lingering()
        if self._transport is not None:
            self._transport.abort()
        self._owner.forget(self)

    def _stop_lingering(self) -> bool:
        lingering, self._lingering = self._lingering, None
        if lingering is not None:
            lingering.cancel()
        return lingering is not None

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.heard = True
        try:
            self._take(data)
        except BodyError as problem:
            self._deliver(problem.payload)
            self._finish(ConnectionError(str(problem)))
            self.abort()

    def _take(self, data: bytes) -> None:
        body = self._body
        if body is None:
            rest = self._take_head(data)
            body = self._body
            if body is None:
                return
            data = rest
        if self._over:
            # Bytes beyond the answer: the gateway is confused, so this socket is not used again.
            self._keeps_alive = self._keeps_alive and not data
            return
        if data:
            self._deliver(body.feed(data))
        if body.done:
            self._finish(None)

    def _deliver(self, payload: bytes) -> None:
        if not payload:
            return
        if self._sink is not None:
            self._sink.feed(payload)
        elif self._lingering is None:
            self._early.append(payload)
            self.pause_reading()

    def _take_head(self, data: bytes) -> bytes:
        head = self._head
        if head is None or head.done():
            self._keeps_alive = False
            return b""
        self._head_data += data
        while True:
            end, width = _end_of_head(self._head_data)
            if end < 0:
                if len(self._head_data) > _LONGEST_HEAD:
                    raise BodyError("the head of the answer does not end")
                return b""
            parsed, body = parse_head(self._head_data[:end])
            rest = self._head_data[end + width :]
            self._head_data = rest
            if parsed.status >= 200 or parsed.status == 101:
                break
        self._head_data = b""
        self._body = body
        self._keeps_alive = parsed.keeps_alive
        head.set_result(parsed)
        return rest

    def eof_received(self) -> bool:
        """The gateway sends no more; the socket is closed."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._owner.forget(self)
        if exc is None and self._body is not None and not self._over:
            try:
                self._body.end()
            except BodyError as problem:
                exc = ConnectionError(str(problem))
            self._finish(exc)
        else:
            self._finish(exc or ConnectionError("the gateway closed the connection without an answer"))

    def _finish(self, problem: Exception | None) -> None:
        if self._over:
            return
        self._over, self._problem = True, problem
        if self._head is not None and not self._head.done():
            self._head.set_exception(problem or ConnectionError("the gateway closed the connection without an answer"))
        if self._sink is not None:
            self._sink.end(problem)
        elif self._stop_lingering():
            self.release()


def _end_of_head(data: bytes) -> tuple[int, int]:
    """Return where the blank line after the head begins, and its width; some servers end lines with LF alone."""
    crlf, lf = data.find(b"\r\n\r\n"), data.find(b"\n\n")
    if lf >= 0 and (crlf < 0 or lf < crlf):
        return lf, 2
    return crlf, 4
