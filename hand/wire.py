"""The transport behind the SDK's ``http_client``: HTTP/1.1 without a task switch per read.

It exists for speed: over the SDK's own transport a chunk costs ten times as much (measured, ``docs/reference/bench-hand.md``).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator

import httpx2

from hand.pool import ConnectionPool
from hand.sockets import Connection, Head, Origin

_LONGEST_ERROR_BODY = 1_048_576
_UNSAFE = re.compile(rb"[\0\r\n]")
EXTENSION = "hand.connection"
"""Key of the connection among the extensions of a response."""


class WireTransport(httpx2.AsyncBaseTransport):
    """Sends what the SDK built and answers as soon as the head is there."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            httpx2.TransportError: no answer.
        """
        url = request.url
        if url.scheme not in {"http", "https"}:
            raise httpx2.UnsupportedProtocol(f"the gateway's address must begin with http:// or https://, not {url.scheme!r}")
        origin = Origin(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        head = _request_head(request)
        body = await request.aread()
        try:
            connection, answer = await self._exchange(origin, head, body)
        except TimeoutError as problem:
            raise httpx2.ConnectTimeout("no connection to the gateway in time") from problem
        except (OSError, OverflowError, UnicodeError) as problem:
            # A port beyond 65535 and a name that is none surface as the other two.
            raise httpx2.ConnectError(f"no answer from the gateway: {problem}") from problem
        return httpx2.Response(
            answer.status, headers=answer.fields, stream=_Body(connection, answer.status), extensions={EXTENSION: connection}
        )

    async def _exchange(self, origin: Origin, head: bytes, body: bytes) -> tuple[Connection, Head]:
        connection = self._pool.take_idle(origin)
        if connection is not None:
            try:
                return connection, await _answer_of(connection, head, body)
            except OSError:
                # The gateway closed an idle socket while we wrote: not an answer, so a fresh socket gets one try.
                if connection.heard:
                    raise
        connection = await self._pool.connect(origin)
        return connection, await _answer_of(connection, head, body)

    async def aclose(self) -> None:
        """Close all sockets."""
        self._pool.close()


async def _answer_of(connection: Connection, head: bytes, body: bytes) -> Head:
    answered = False
    try:
        parsed = await connection.send(head, body)
        answered = True
    finally:
        if not answered:
            connection.abort()
    return parsed


def _request_head(request: httpx2.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines.extend(b"%b: %b" % field for field in request.headers.raw)
    if any(_UNSAFE.search(line) for line in lines):
        # A key with a line end would write header fields, or requests, of its own.
        raise ValueError("a header field holds a control character")
    return b"\r\n".join(lines) + b"\r\n\r\n"


class _Body(httpx2.AsyncByteStream):
    """The body as the SDK reads it: whole answers of embeddings and of refused requests."""

    def __init__(self, connection: Connection, status: int) -> None:
        self._connection = connection
        self._is_refusal = status >= 300
        # Of a refusal only the beginning is ever shown.
        self._limit: float = _LONGEST_ERROR_BODY if self._is_refusal else float("inf")

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._connection.attach(_QueueSink(queue))
        taken = 0
        while taken < self._limit and (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                if self._is_refusal:
                    # The status has said what matters; of the reason there is as much as came.
                    return
                raise httpx2.ReadError(str(item)) from item
            taken += len(item)
            yield item

    async def aclose(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may already be closed when the interpreter ends
            self._connection.release()


class _QueueSink:
    def __init__(self, queue: asyncio.Queue[bytes | Exception | None]) -> None:
        self._queue = queue

    def feed(self, data: bytes) -> None:
        self._queue.put_nowait(data)

    def end(self, problem: Exception | None) -> None:
        self._queue.put_nowait(problem)
