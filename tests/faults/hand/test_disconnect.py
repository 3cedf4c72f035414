"""Section 8.3: a brain that goes away is noticed within a second at every stage, and nothing stays open upstream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from hand.settings import Settings
from tests.fakes.gateway import Gate, Pause, Reply, calls, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand_client import HandClient, eventually, run_request, running_hand
from tests.fakes.tool_host import ToolHost

PROMPT_SECONDS = 1.0


async def leave_when(hand: HandClient, request: dict[str, object], ready: Callable[[], Awaitable[None]]) -> float:
    """Start a run, hang up once ``ready`` returns, and return how long the hand took to end it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
    import json

    body = json.dumps(request).encode()
    head = f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: test-token-0123456789\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readuntil(b": connected\n\n")
    async with asyncio.timeout(5):
        await ready()
    left = time.monotonic()
    writer.transport.abort()
    await eventually(lambda: not hand.hand.routes.open_runs)
    took = time.monotonic() - left
    assert "outcome=aborted" in hand.log_text
    return took


async def test_while_the_gateway_thinks(hand: HandClient) -> None:
    async with running_gateway(Reply(status=0, then="stall")) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url), lambda: gateway.until(lambda: len(gateway.requests) == 1))
        await gateway.until_quiet()
    assert took < PROMPT_SECONDS


async def test_in_the_middle_of_the_answer_although_nothing_is_being_written(hand: HandClient) -> None:
    never = asyncio.Event()

    async def ready() -> None:
        await gateway.until(lambda: len(gateway.requests) == 1)

    async with running_gateway(Reply([*sse(chunk({"content": "a"}), done=False), Gate(never)])) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url), ready)
        await gateway.until_quiet()
    assert took < PROMPT_SECONDS


async def test_while_tokens_are_streaming(hand: HandClient) -> None:
    pieces = [piece for _ in range(2000) for piece in (*sse(chunk({"content": "a"}), done=False), Pause(0.002))]
    async with running_gateway(Reply(pieces)) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url), lambda: gateway.until(lambda: len(gateway.requests) == 1))
        await gateway.until_quiet()
    assert took < PROMPT_SECONDS


async def test_during_the_wait_before_a_retry(hand: HandClient) -> None:
    async with running_gateway(refuses(500, "x")) as gateway:
        request = run_request(gateway.base_url, maxRetries=0)
        # The sixth failure is followed by a wait of 3.2 s.
        took = await leave_when(hand, request, lambda: gateway.until(lambda: len(gateway.requests) == 5))
        count = len(gateway.requests)
        await gateway.until_quiet()
        assert len(gateway.requests) == count
    assert took < PROMPT_SECONDS


async def test_during_the_tool_listing(hand: HandClient, tool_host: ToolHost) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return web.Response()

    tool_host.on_list = hang
    async with running_gateway(says("never")) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url, **tool_host.urls), lambda: wait(began))
        assert gateway.requests == []
    async with asyncio.timeout(5):
        await ended.wait()
    assert took < PROMPT_SECONDS


async def test_during_tool_execution_all_posts_are_cancelled(hand: HandClient, tool_host: ToolHost) -> None:
    three, ended = asyncio.Event(), []

    async def hang(request: web.Request) -> web.Response:
        call = await request.json()
        if len(tool_host.calls) == 3:
            three.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(call["id"])
        return web.Response()

    tool_host.on_call = hang
    async with running_gateway(calls(("a", "t", {}), ("b", "t", {}), ("c", "t", {}))) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url, **tool_host.urls), lambda: wait(three))
    await eventually(lambda: len(ended) == 3)
    assert took < PROMPT_SECONDS


async def test_after_a_complete_round_whose_connection_stays_open(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)), done=False)
    async with running_gateway(Reply(pieces, then="stall")) as gateway:
        took = await leave_when(hand, run_request(gateway.base_url), lambda: gateway.until(lambda: len(gateway.requests) == 1))
        await gateway.until_quiet()
    assert took < PROMPT_SECONDS


async def test_a_brain_that_stops_reading_holds_the_gateway_back_instead_of_filling_memory(hand: HandClient) -> None:
    import json

    block = b"".join(sse(*(chunk({"content": "x" * 1000}) for _ in range(1000)), done=False))
    async with running_gateway(Reply([block] * 200)) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
        body = json.dumps(run_request(gateway.base_url, streamIdleTimeoutMs=300)).encode()
        head = f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: test-token-0123456789\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.transport.pause_reading()
        writer.write(head.encode() + body)
        await gateway.until(lambda: len(gateway.requests) == 1)
        # Longer than the idle timeout: being held back by the brain is not the gateway's silence.
        await asyncio.sleep(0.8)
        assert gateway.open_connections == 1
        assert hand.hand.routes.open_runs == 1
        assert "idle timeout" not in hand.log_text
        writer.transport.abort()
        await gateway.until_quiet()


async def wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_heartbeat_comments_fill_silence_and_leave_with_the_stream() -> None:
    from shared_protocol.sse import HEARTBEAT_SECONDS

    assert Settings(token="t").heartbeat_seconds == HEARTBEAT_SECONDS == 15.0
    async with (
        running_hand(heartbeat_seconds=0.05) as hand,
        running_gateway(Reply([Pause(0.4), *says("late").pieces])) as gateway,
        hand.open_run(run_request(gateway.base_url)) as response,
    ):
        raw = await response.read()
    assert raw.startswith(b": connected\n\n: ping\n\n: ping\n\n")
    assert raw.count(b": ping\n\n") <= 9
    assert raw.endswith(b'event: done\ndata: {"finishReason":"stop"}\n\n')


async def test_a_busy_stream_needs_no_heartbeat() -> None:
    pieces = [piece for _ in range(30) for piece in (*sse(chunk({"content": "a"}), done=False), Pause(0.01))]
    answer = Reply([*pieces, *says("end").pieces])
    async with (
        running_hand(heartbeat_seconds=0.25) as hand,
        running_gateway(answer) as gateway,
        hand.open_run(run_request(gateway.base_url)) as response,
    ):
        assert b": ping" not in await response.read()
