"""Event streams through a real listener: flushed at once, kept alive, ended with their client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx2
from litestar import Litestar, get

from brain.api.events import EventStream
from brain.api.middleware import RequestShell
from tests.integration.api.conftest import listening

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Source:
    """Events as a test hands them out."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def events(self) -> AsyncGenerator[bytes]:
        try:
            while (event := await self.queue.get()) is not None:
                yield event
        finally:
            self.closed.set()


def app_for(source: Source, heartbeat_s: float = 15) -> RequestShell:
    @get("/api/events", sync_to_thread=False)
    def handler() -> EventStream:
        return EventStream(source.events(), heartbeat_s=heartbeat_s)

    return RequestShell(Litestar([handler], openapi_config=None, logging_config=None))


async def test_events_arrive_one_by_one_and_the_end_closes() -> None:
    source = Source()
    async with listening(app_for(source)) as url, httpx2.AsyncClient() as client:
        async with client.stream("GET", f"{url}/api/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert "x-request-id" in answer.headers
            chunks = answer.aiter_raw()
            for event in (b"event: a\ndata: {}\n\n", b"event: b\ndata: {}\n\n"):
                source.queue.put_nowait(event)
                assert await anext(chunks) == event
            source.queue.put_nowait(None)
            assert [chunk async for chunk in chunks] == []
        await asyncio.wait_for(source.closed.wait(), 5)


async def test_silence_is_filled_with_comments() -> None:
    source = Source()
    async with listening(app_for(source, heartbeat_s=0.05)) as url, httpx2.AsyncClient() as client:
        async with client.stream("GET", f"{url}/api/events") as answer:
            chunks = answer.aiter_raw()
            assert await anext(chunks) == b": ping\n\n"
            assert await anext(chunks) == b": ping\n\n"
            source.queue.put_nowait(None)
            async for chunk in chunks:
                assert chunk == b": ping\n\n"


async def test_a_client_that_leaves_closes_the_source() -> None:
    source = Source()
    async with listening(app_for(source)) as url, httpx2.AsyncClient() as client:
        async with client.stream("GET", f"{url}/api/events") as answer:
            source.queue.put_nowait(b"event: a\ndata: {}\n\n")
            await anext(answer.aiter_raw())
        await asyncio.wait_for(source.closed.wait(), 5)


async def test_head_of_a_stream_does_not_wait_for_its_end() -> None:
    source = Source()
    async with listening(app_for(source)) as url, httpx2.AsyncClient(timeout=5) as client:
        answer = await client.head(f"{url}/api/events")
        assert (answer.status_code, answer.content) == (200, b"")
        await asyncio.wait_for(source.closed.wait(), 5)
