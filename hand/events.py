"""The event stream towards the brain: order, flushing, heartbeat, back pressure (section 3)."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from aiohttp import HttpVersion11, web

from hand.thoughts import Channel
from shared_protocol.codec import encode_run_event
from shared_protocol.run import RunEvent
from shared_protocol.sse import CONNECTED_COMMENT, PING_COMMENT

HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Connection": "keep-alive"}

_PREFIX: Final[dict[Channel, bytes]] = {
    "text": b'event: text_delta\ndata: {"text":',
    "reasoning": b'event: reasoning_delta\ndata: {"text":',
}
_CONGESTED_BYTES = 262_144
_POLL_SECONDS = 0.01
_encode = msgspec.json.Encoder().encode


class EventStream:
    """One open response. Deltas are collected and leave together when the read that brought them is done.

    Bytes go straight to the socket's transport: a write through the framework costs a task switch, and writes are what a
    trickling stream consists of.
    """

    def __init__(self, request: web.BaseRequest, heartbeat_seconds: float) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=HEADERS)
        self._transport: asyncio.Transport | None = None
        self._heartbeat_seconds = heartbeat_seconds
        self._heartbeat: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._last_write = 0.0
        self._channel: Channel = "text"
        self._pieces: list[str] = []
        self._blocks: list[bytes] = []
        self._chunked = True
        self.first_delta_at: float | None = None
        self.opened_at: float = self._loop.time()

    async def open(self) -> web.StreamResponse:
        """Send the head and the first comment."""
        self._chunked = self._request.version >= HttpVersion11
        if self._chunked:
            self._response.enable_chunked_encoding()
        _ = await self._response.prepare(self._request)
        await self._response.write(CONNECTED_COMMENT)
        self._transport = self._request.transport
        self._last_write = self._loop.time()
        self._heartbeat = self._loop.call_later(self._heartbeat_seconds, self._beat)
        return self._response

    async def close(self) -> None:
        """End the stream; nothing may follow."""
        self.stop_heartbeat()
        await self._response.write_eof()

    def stop_heartbeat(self) -> None:
        """Let go of the timer, also when the brain has gone."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None

    def add_delta(self, channel: Channel, text: str) -> None:
        """Collect a piece of a channel; neighbours of one channel become one event."""
        if channel != self._channel and self._pieces:
            self._close_delta()
        self._channel = channel
        self._pieces.append(text)

    def flush(self) -> None:
        """Send what was collected."""
        if self._pieces:
            self._close_delta()
        if self._blocks:
            blocks, self._blocks = self._blocks, []
            self._write(blocks[0] if len(blocks) == 1 else b"".join(blocks))

    def send(self, event: RunEvent) -> None:
        """Send an event behind everything collected."""
        self._blocks_after_deltas().append(encode_run_event(event))
        self.flush()

    def send_raw(self, event: bytes) -> None:
        """Send an encoded event behind everything collected."""
        self._blocks_after_deltas().append(event)
        self.flush()

    @property
    def is_congested(self) -> bool:
        """Whether the brain reads slower than the gateway writes."""
        return self._transport is not None and self._transport.get_write_buffer_size() > _CONGESTED_BYTES

    async def drained(self) -> None:
        """Wait until the brain has caught up; ends with the cancellation of the run if it never does."""
        transport = self._transport
        if transport is None:
            return
        # The transport tells only its protocol, which is the framework's, when it has room again.
        while not transport.is_closing() and transport.get_write_buffer_size() > _CONGESTED_BYTES // 4:  # noqa: ASYNC110  # see above
            await asyncio.sleep(_POLL_SECONDS)

    def _blocks_after_deltas(self) -> list[bytes]:
        if self._pieces:
            self._close_delta()
        return self._blocks

    def _close_delta(self) -> None:
        if self.first_delta_at is None:
            self.first_delta_at = self._loop.time()
        pieces = self._pieces
        text = pieces[0] if len(pieces) == 1 else "".join(pieces)
        pieces.clear()
        self._blocks.append(b"%b%b}\n\n" % (_PREFIX[self._channel], _encode(text)))

    def _write(self, block: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            # The brain has gone; the run is about to be cancelled.
            return
        self._last_write = self._loop.time()
        transport.write(b"%x\r\n%b\r\n" % (len(block), block) if self._chunked else block)

    def _beat(self) -> None:
        silent = self._loop.time() - self._last_write
        if silent >= self._heartbeat_seconds - 0.001:
            self._write(PING_COMMENT)
            silent = 0.0
        self._heartbeat = self._loop.call_later(self._heartbeat_seconds - silent, self._beat)
