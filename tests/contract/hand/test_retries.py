"""Section 8: attempts, waits, idle timeout, and what follows a complete round."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from hand.retry import delay_ms
from tests.fakes.gateway import Pause, Reply, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand_client import HandClient, names_of, run_request, text_of


def test_delays_double_from_100_to_6400_ms() -> None:
    assert [delay_ms(attempt) for attempt in range(1, 10)] == [100, 200, 400, 800, 1600, 3200, 6400, 6400, 6400]
    assert delay_ms(10_000) == 6400


async def test_a_failed_attempt_is_announced_with_its_delay_and_made_again(hand: HandClient) -> None:
    async with running_gateway(refuses(503, {"error": {"message": "busy"}}), refuses(500, ""), says("ok")) as gateway:
        started = time.monotonic()
        events = await hand.run(run_request(gateway.base_url, maxRetries=3))
        assert len(gateway.requests) == 3
    assert time.monotonic() - started >= 0.3
    assert names_of(events) == ["retry", "retry", "text_delta", "assistant_message", "done"]
    assert events[0][1] == {"attempt": 1, "delayMs": 100, "message": '503: {"message":"busy"}'}
    assert events[1][1] == {"attempt": 2, "delayMs": 200, "message": "500 status code (no body)"}


async def test_max_retries_counts_all_attempts_and_ends_without_a_retry_event(hand: HandClient) -> None:
    async with running_gateway(refuses(502, "<html>bad</html>")) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=2))
        assert len(gateway.requests) == 2
        assert names_of(events) == ["retry", "error"]
        assert events[-1][1] == {"type": "upstream", "message": "maxRetries (2) exhausted: 502: <html>bad</html>"}
        events = await hand.run(run_request(gateway.base_url, maxRetries=1))
        assert len(gateway.requests) == 3
        assert events[-1][1]["message"].startswith("maxRetries (1) exhausted: ")


async def test_max_retries_0_has_no_limit(hand: HandClient) -> None:
    async with running_gateway(*[refuses(500, "x")] * 3, says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=0))
    assert [data["delayMs"] for name, data in events if name == "retry"] == [100, 200, 400]
    assert events[-1][0] == "done"


async def test_the_attempt_counter_starts_again_with_each_round(hand: HandClient, tool_host) -> None:
    from tests.fakes.gateway import calls

    async with running_gateway(refuses(500, "x"), calls(("c1", "t", {})), refuses(500, "x"), says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls, maxRetries=2))
    assert [data["attempt"] for name, data in events if name == "retry"] == [1, 1]
    assert events[-1][0] == "done"


async def test_retry_after_is_not_consulted(hand: HandClient) -> None:
    busy = Reply([b"{}"], status=503, headers={"retry-after": "30"}, framing="length")
    async with running_gateway(busy, says("ok")) as gateway:
        async with asyncio.timeout(4):
            events = await hand.run(run_request(gateway.base_url, maxRetries=2))
    assert events[0][1]["delayMs"] == 100


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 422, 425, 429, 451, 499])
async def test_every_http_4xx_is_terminal(hand: HandClient, status: int) -> None:
    async with running_gateway(refuses(status)) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=3))
        assert len(gateway.requests) == 1
    assert events == [("error", {"type": "upstream", "message": f"{status} status code (no body)"})]


@pytest.mark.parametrize("status", [300, 500, 501, 502, 503, 504, 520, 529, 599])
async def test_other_statuses_are_transient(hand: HandClient, status: int) -> None:
    async with running_gateway(refuses(status)) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=2))
        assert len(gateway.requests) == 2
    assert names_of(events) == ["retry", "error"]


async def test_messages_of_http_failures_are_cut_at_4000_characters(hand: HandClient) -> None:
    async with running_gateway(refuses(400, "y" * 9000)) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert events[-1][1]["message"] == "400: " + "y" * 3995


async def test_keys_never_appear_in_messages(hand: HandClient) -> None:
    body = {"error": {"message": "Incorrect API key provided: gateway-key-0123456789"}}
    async with running_gateway(refuses(401, body)) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert events[-1][1] == {"type": "upstream", "message": '401: {"message":"Incorrect API key provided: ***"}'}


async def test_an_unreachable_gateway_is_transient(hand: HandClient) -> None:
    events = await hand.run(run_request("http://127.0.0.1:1/v1", maxRetries=2))
    assert names_of(events) == ["retry", "error"]
    assert events[-1][1]["type"] == "upstream"


async def test_silence_ends_the_attempt_after_the_idle_timeout(hand: HandClient) -> None:
    async with running_gateway(Reply(sse(chunk({"content": "a"}), done=False), then="stall"), says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=2, streamIdleTimeoutMs=150))
        assert len(gateway.requests) == 2
        retry = next(data for name, data in events if name == "retry")
        assert retry == {"attempt": 1, "delayMs": 100, "message": "stream idle timeout, retrying"}
        await gateway.until_quiet()


@pytest.mark.parametrize("noise", [b": ping\n\n", b"\n\n", b"event: ping\n\n", b"data: ping\n\n", b"id: 7\n\n", b"data:\n\n"])
async def test_noise_does_not_rearm_the_idle_timer(hand: HandClient, noise: bytes) -> None:
    pieces = [piece for _ in range(40) for piece in (noise, Pause(0.05))]
    async with running_gateway(Reply([*pieces, *sse(chunk({"content": "late"}))])) as gateway:
        events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=300))
    assert events == [("error", {"type": "upstream", "message": "maxRetries (1) exhausted: stream idle timeout, retrying"})]


@pytest.mark.parametrize("document", [{}, [], 3, "x", None, {"choices": []}])
async def test_any_json_document_rearms_the_idle_timer(hand: HandClient, document: object) -> None:
    beat = b"data: " + json.dumps(document).encode() + b"\n\n"
    pieces = [piece for _ in range(8) for piece in (beat, Pause(0.1))]
    answer = sse(chunk({"content": "late"}), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply([*pieces, *answer])) as gateway:
        events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=400))
    assert events[-1][0] == "done"


async def test_idle_timeout_0_is_off(hand: HandClient) -> None:
    answer = sse(chunk({"content": "late"}), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply([Pause(0.4), *answer])) as gateway:
        events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=0))
    assert text_of(events) == "late"


async def test_silence_before_the_response_head_counts_as_idle(hand: HandClient) -> None:
    async with running_gateway(Reply(status=0, then="stall")) as gateway:
        started = time.monotonic()
        events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=700))
        assert 0.69 <= time.monotonic() - started < 5
    assert events[-1][1]["message"].endswith("stream idle timeout, retrying")


async def test_a_complete_round_waits_five_seconds_for_the_end_of_the_stream(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)), done=False)
    async with running_gateway(Reply(pieces, then="stall")) as gateway:
        started = time.monotonic()
        events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=60_000))
        took = time.monotonic() - started
    assert events[-1][0] == "done"
    assert 4.9 <= took < 6.5


async def test_the_idle_timeout_shortens_that_wait(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)), done=False)
    async with running_gateway(Reply(pieces, then="stall")) as gateway:
        async with asyncio.timeout(3):
            events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=200))
    assert events[-1][0] == "done"


async def test_text_inside_that_wait_still_counts(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)), done=False)
    late = sse(chunk({"content": "b"}), done=False)
    async with running_gateway(Reply([*pieces, Pause(0.1), *late], then="reset")) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert text_of(events) == "ab"
    assert events[-1][0] == "done"


async def test_corrupt_bytes_after_a_complete_round_are_forgiven(hand: HandClient) -> None:
    pieces = [*sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)), done=False), b'data: {"broken\n\n']
    async with running_gateway(Reply(pieces)) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert events[-1][0] == "done"


async def test_the_end_marker_ends_the_round_although_the_connection_stays_open(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply(pieces, then="stall")) as gateway:
        async with asyncio.timeout(2):
            events = await hand.run(run_request(gateway.base_url, streamIdleTimeoutMs=60_000))
        await gateway.until_quiet()
    assert events[-1][0] == "done"


async def test_a_kept_alive_socket_that_the_gateway_has_closed_is_not_an_attempt(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply(pieces, framing="chunked", then="keep")) as gateway:
        for _ in range(3):
            events = await hand.run(run_request(gateway.base_url, maxRetries=1))
            assert names_of(events) == ["text_delta", "assistant_message", "done"]
        assert gateway.open_connections == 1
