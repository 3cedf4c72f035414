"""A model gateway on loopback that replays bytes: real sockets, real HTTP, any misbehaviour.

A script answers requests in order; the last entry answers all that follow. Every request is recorded.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

End = Literal["close", "reset", "stall", "keep"]


@dataclass(frozen=True)
class Pause:
    """Wait between two writes."""

    seconds: float


@dataclass(frozen=True)
class Gate:
    """Wait until the test opens the gate."""

    event: asyncio.Event


Piece = bytes | Pause | Gate


@dataclass(frozen=True)
class Reply:
    """One answer: status 0 means no HTTP answer at all."""

    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: Literal["close", "chunked", "length"] = "close"
    then: End = "close"


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.raw)


Script = Callable[[Received], Reply]


def sse(*documents: object, done: bool = True) -> list[bytes]:
    """Return documents as data events, the end marker last."""
    events = [b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents]
    return [*events, b"data: [DONE]\n\n"] if done else events


def chunk(delta: object = None, *, finish: str | None = None, usage: tuple[int, int] | None = None) -> dict[str, object]:
    """Return one chat completion chunk."""
    document: dict[str, object] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    document["choices"] = [{"index": 0, "delta": delta if delta is not None else {}, "finish_reason": finish}]
    if usage is not None:
        document["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return document


def says(text: str, usage: tuple[int, int] | None = (10, 5)) -> Reply:
    """Return a plain text answer."""
    return Reply(sse(chunk({"role": "assistant", "content": text}), chunk(finish="stop", usage=usage)))


def calls(*wanted: tuple[str, str, object], text: str = "") -> Reply:
    """Return an answer with tool calls: id, name, arguments."""
    entries = [
        {"index": position, "id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for position, (call_id, name, arguments) in enumerate(wanted)
    ]
    return Reply(sse(chunk({"content": text, "tool_calls": entries}), chunk(finish="tool_calls", usage=(20, 7))))


def refuses(status: int, body: bytes | str | object = b"") -> Reply:
    """Return an HTTP failure."""
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return Reply([raw] if raw else [], status=status, headers={"content-type": "application/json"}, framing="length")


def answers_json(document: object) -> Reply:
    """Return a whole JSON answer with status 200, as embeddings are."""
    return Reply([json.dumps(document).encode()], headers={"content-type": "application/json"}, framing="length", then="keep")


class FakeGateway:
    """The server; ``base_url`` goes into a run request."""

    def __init__(self, script: Sequence[Reply] | Script) -> None:
        self._script = script
        self._writers: set[asyncio.StreamWriter] = set()
        self.requests: list[Received] = []
        self.changed = asyncio.Condition()
        self.port = 0

    @property
    def base_url(self) -> str:
        """Address of the gateway, with ``/v1``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        """Sockets that the client has not closed."""
        return len(self._writers)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, at most 5 s, until ``condition`` holds after a request or the end of a connection."""
        async with asyncio.timeout(5), self.changed:
            await self.changed.wait_for(condition)

    async def until_quiet(self) -> None:
        """Wait until no client is connected."""
        await self.until(lambda: not self._writers)

    def reply_to(self, request: Received) -> Reply:
        """Choose the answer."""
        if callable(self._script):
            return self._script(request)
        return self._script[min(len(self.requests), len(self._script)) - 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._writers.add(writer)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            # The client has hung up.
            return
        finally:
            writer.close()
            self._writers.discard(writer)
            await self._announce()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await read_request(reader)
        self.requests.append(request)
        await self._announce()
        reply = self.reply_to(request)
        playing = asyncio.ensure_future(play(reply, writer))
        # Whoever waits for the client's next byte notices at once when it hangs up.
        hung_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((playing, hung_up), return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                return False
            await playing
            if reply.then == "stall":
                await hung_up
        finally:
            for task in (playing, hung_up):
                task.cancel()
            await asyncio.gather(playing, hung_up, return_exceptions=True)
        if reply.then == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return reply.then == "keep"

    async def _announce(self) -> None:
        async with self.changed:
            self.changed.notify_all()


async def read_request(reader: asyncio.StreamReader) -> Received:
    """Read one HTTP request with a body of announced length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    return Received(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def play(reply: Reply, writer: asyncio.StreamWriter) -> None:
    """Write an answer piece by piece."""
    if reply.status == 0:
        return
    lines = [f"HTTP/1.1 {reply.status} Status", *(f"{name}: {value}" for name, value in reply.headers.items())]
    if reply.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif reply.framing == "length":
        lines.append(f"content-length: {sum(len(piece) for piece in reply.pieces if isinstance(piece, bytes))}")
    lines.append("connection: keep-alive" if reply.then == "keep" else "connection: close")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await writer.drain()
    for piece in reply.pieces:
        if isinstance(piece, Pause):
            await asyncio.sleep(piece.seconds)
        elif isinstance(piece, Gate):
            await piece.event.wait()
        else:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece)
            await writer.drain()
    if reply.framing == "chunked":
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def running_gateway(*script: Reply, by: Script | None = None) -> AsyncGenerator[FakeGateway]:
    """Yield a gateway that answers with ``script`` in order, or as the function says."""
    gateway = FakeGateway(by or script)
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await gateway.serve(reader, writer)
        except asyncio.CancelledError:
            # Only at the end of the test; StreamReaderProtocol would log a cancelled handler as a failure.
            pass
        finally:
            connections.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=2**27)
    gateway.port = server.sockets[0].getsockname()[1]
    try:
        yield gateway
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


AsyncCheck = Callable[[], Awaitable[bool]]
