"""A response that streams ready-made event bytes: pings in silence, and notices at once when the client is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from litestar.response.base import ASGIResponse, Response

from brain.turns.events import CONNECTED
from shared_protocol.sse import HEARTBEAT_SECONDS, PING_COMMENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from litestar.types import Receive, Send

HEADERS: Final = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}


class EventStream(Response[Any]):
    """An event stream out of an iterable of whole events. ``on_close`` is called once, however the stream ends."""

    def __init__(
        self,
        events: AsyncIterable[bytes],
        *,
        first: bytes = CONNECTED,
        on_close: Callable[[], None] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        super().__init__(content=None, status_code=200, headers=HEADERS, media_type="text/event-stream")
        self._events = events
        self._first = first
        self._on_close = on_close
        self._heartbeat_seconds = heartbeat_seconds

    def to_asgi_response(self, app: object, request: object, **options: Any) -> ASGIResponse:
        """Return the ASGI form; the options that Litestar offers besides headers and cookies have no meaning here."""
        del app, request
        headers = {**HEADERS, **(options.get("headers") or {})}
        return _AsgiEventStream(
            self._events,
            first=self._first,
            on_close=self._on_close,
            heartbeat_seconds=self._heartbeat_seconds,
            headers=headers,
            cookies=options.get("cookies"),
        )


class _AsgiEventStream(ASGIResponse):
    _should_set_content_length = False

    def __init__(
        self,
        events: AsyncIterable[bytes],
        *,
        first: bytes,
        on_close: Callable[[], None] | None,
        heartbeat_seconds: float,
        headers: dict[str, Any],
        cookies: Any,
    ) -> None:
        super().__init__(headers=headers, media_type="text/event-stream", status_code=200, cookies=cookies)
        self._events = events
        self._first = first
        self._on_close = on_close
        self._heartbeat_seconds = heartbeat_seconds
        self._last_sent = 0.0

    async def send_body(self, send: Send, receive: Receive) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(self._send_events(send))
                heartbeat = group.create_task(self._send_pings(send))
                # Answers when the client has gone, and also when the response is complete.
                while (await receive())["type"] != "http.disconnect":
                    continue
                sender.cancel()
                heartbeat.cancel()
        finally:
            if self._on_close is not None:
                self._on_close()

    async def _send_events(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._last_sent = loop.time()
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for block in self._events:
            self._last_sent = loop.time()
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pings(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        while True:
            silence = loop.time() - self._last_sent
            if silence >= self._heartbeat_seconds:
                self._last_sent = loop.time()
                await send({"type": "http.response.body", "body": PING_COMMENT, "more_body": True})
                silence = 0.0
            await asyncio.sleep(self._heartbeat_seconds - silence)
