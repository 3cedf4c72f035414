"""An answer that is a stream of server-sent events: flushed one by one, kept alive in silence, ended when the client leaves."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from litestar import Request, Response
from litestar.response.base import ASGIResponse

from shared_protocol.sse import HEARTBEAT_SECONDS, PING_COMMENT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from litestar.types import Receive, Scope, Send

_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response[Any]):
    """Streams the encoded events of a generator.

    The generator is closed when the client goes away: it sees ``GeneratorExit`` or a cancellation, and has to let it pass.
    """

    def __init__(self, events: AsyncGenerator[bytes], *, heartbeat_s: float = HEARTBEAT_SECONDS) -> None:
        super().__init__(content=None, media_type="text/event-stream", status_code=200)
        self._events = events
        self._heartbeat_s = heartbeat_s

    def to_asgi_response(self, app: object, request: Request[Any, Any, Any], **_: Any) -> ASGIResponse:  # pyright: ignore[reportIncompatibleMethodOverride] - the framework's other arguments shape bodies, and this one is shaped
        """Return the running form of the answer."""
        del app, request
        return _RunningStream(self._events, self._heartbeat_s)


class _RunningStream(ASGIResponse):
    def __init__(self, events: AsyncGenerator[bytes], heartbeat_s: float) -> None:
        super().__init__(body=b"", media_type="text/event-stream", status_code=200)
        self._events = events
        self._heartbeat_s = heartbeat_s
        self._last_sent = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until they or the client end."""
        del scope
        async with aclosing(self._events):
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            tasks = {
                asyncio.create_task(self._pump(send), name="event-stream"),
                asyncio.create_task(self._beat(send), name="event-stream-heartbeat"),
                asyncio.create_task(_wait_for_disconnect(receive), name="event-stream-disconnect"),
            }
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        for task in done:
            task.result()

    async def _pump(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            self._last_sent = clock()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, send: Send) -> None:
        # One sleeping task per stream instead of a timer per event: it looks at the clock when it wakes.
        clock = asyncio.get_running_loop().time
        self._last_sent = clock()
        while True:
            silence = clock() - self._last_sent
            if silence >= self._heartbeat_s:
                await send({"type": "http.response.body", "body": PING_COMMENT, "more_body": True})
                self._last_sent = clock()
                silence = 0.0
            await asyncio.sleep(self._heartbeat_s - silence)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
