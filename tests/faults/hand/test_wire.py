"""The transport to the gateways on real sockets: odd heads, broken framing, encodings, redirects, sockets that die."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.fakes.gateway import Pause, Reply, chunk, running_gateway, says, sse
from tests.fakes.hand_client import HandClient, eventually, names_of, run_request, text_of

ANSWER = b"".join(sse(chunk({"content": "hello"}), chunk(finish="stop", usage=(1, 1))))


@asynccontextmanager
async def raw_server(*answers: Sequence[bytes]) -> AsyncGenerator[str]:
    """Answer the n-th connection with the n-th list of writes, then close it."""
    queue = list(answers)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            for piece in queue.pop(0) if queue else ():
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


HEADS = [
    [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + ANSWER],
    [b"HTTP/1.1 200 OK\nContent-Type: text/event-stream\n\n" + ANSWER],
    [b"HTTP/1.0 200 OK\r\n\r\n", ANSWER],
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", ANSWER],
    [b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + ANSWER],
    [bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"] + [ANSWER],
    [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER), ANSWER[:7], ANSWER[7:] + b"surplus"],
    [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x;ext\r\n" % len(ANSWER), ANSWER, b"\r\n0\r\nT: x\r\n\r\n"],
    [b"HTTP/1.1 203 Whatever\r\n\r\n" + ANSWER],
]


@pytest.mark.parametrize("writes", HEADS)
async def test_odd_but_readable_answers(hand: HandClient, writes: list[bytes]) -> None:
    async with raw_server(writes) as base_url:
        events = await hand.run(run_request(base_url))
    assert text_of(events) == "hello"
    assert events[-1][0] == "done"


BROKEN = [
    [],
    [b"SSH-2.0-OpenSSH_9\r\n\r\n"],
    [b"HTTP/1.1 200"],
    [b"x" * 300_000],
    [b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + sse(chunk({"content": "hello"}), done=False)[0]],
    [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"],
    [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip"],
    [b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nabc"],
]


@pytest.mark.parametrize("writes", BROKEN)
async def test_broken_answers_are_transient(hand: HandClient, writes: list[bytes]) -> None:
    good = [b"HTTP/1.1 200 OK\r\n\r\n", ANSWER]
    async with raw_server(writes, good) as base_url:
        events = await hand.run(run_request(base_url, maxRetries=2))
    assert [name for name in names_of(events) if name != "text_delta"] == ["retry", "assistant_message", "done"]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ANSWER, mtime=0)),
        ("x-gzip", gzip.compress(ANSWER, mtime=0)),
        ("deflate", zlib.compress(ANSWER)),
        ("deflate", zlib.compress(ANSWER, wbits=-zlib.MAX_WBITS)),
        ("identity", ANSWER),
    ],
)
async def test_encodings_are_undone_byte_by_byte(hand: HandClient, encoding: str, body: bytes) -> None:
    pieces = [body[place : place + 1] for place in range(len(body))]
    async with running_gateway(Reply(pieces, headers={"content-encoding": encoding})) as gateway:
        assert text_of(await hand.run(run_request(gateway.base_url))) == "hello"


async def test_a_gzipped_refusal_is_read(hand: HandClient) -> None:
    body = gzip.compress(b'{"error":{"message":"no such model"}}')
    reply = Reply([body], status=404, headers={"content-encoding": "gzip"}, framing="length")
    async with running_gateway(reply) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert events[-1][1]["message"] == '404: {"message":"no such model"}'


async def test_an_endless_refusal_is_cut(hand: HandClient) -> None:
    async with running_gateway(Reply([b"y" * 100_000] * 100, status=500)) as gateway:
        async with asyncio.timeout(10):
            events = await hand.run(run_request(gateway.base_url))
    assert len(events[-1][1]["message"]) == len("maxRetries (1) exhausted: ") + 4000


async def test_a_socket_that_died_while_idle_is_replaced_without_an_attempt(hand: HandClient) -> None:
    keep = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
    # The server closes after each answer although it promised to keep the connection.
    async with raw_server([keep, ANSWER], [keep, ANSWER], [keep, ANSWER]) as base_url:
        for _ in range(3):
            events = await hand.run(run_request(base_url, maxRetries=1))
            assert events[-1][0] == "done"


async def test_concurrent_runs_use_sockets_of_their_own_and_share_them_afterwards(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply(pieces, framing="chunked", then="keep")) as gateway:
        for _ in range(3):
            runs = [hand.run(run_request(gateway.base_url)) for _ in range(20)]
            assert all(events[-1][0] == "done" for events in await asyncio.gather(*runs))
        assert 1 <= gateway.open_connections <= 20
        assert hand.hand.gateway.open_sockets == gateway.open_connections


async def test_a_socket_is_kept_when_the_end_of_the_body_comes_after_the_end_marker(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)))
    late_end = Reply([*pieces, Pause(0.1)], framing="chunked", then="keep")
    async with running_gateway(late_end) as gateway:
        for _ in range(3):
            assert (await hand.run(run_request(gateway.base_url)))[-1][0] == "done"
            await eventually(lambda: hand.hand.gateway.idle_sockets == 1)
        assert (len(gateway.requests), gateway.open_connections) == (3, 1)


async def test_a_socket_that_goes_on_after_the_end_marker_is_closed(hand: HandClient) -> None:
    pieces = sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1)))
    endless = [piece for _ in range(200) for piece in (b": and on\n\n", Pause(0.02))]
    async with running_gateway(Reply([*pieces, *endless], framing="chunked", then="keep")) as gateway:
        assert (await hand.run(run_request(gateway.base_url)))[-1][0] == "done"
        await gateway.until_quiet()
    assert hand.hand.gateway.open_sockets == 0


async def test_a_host_that_speaks_no_tls_is_transient(hand: HandClient) -> None:
    async with running_gateway(says("never")) as gateway:
        events = await hand.run(run_request(gateway.base_url.replace("http://", "https://"), streamIdleTimeoutMs=1000))
    assert events[-1][1]["type"] == "upstream"


async def test_tls_is_verified_by_default() -> None:
    from hand.pool import ConnectionPool

    context = ConnectionPool()._tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    "base_url", ["gw.example/v1", "ftp://gw.example/v1", "http://", "http://[", "http://exa mple/v1", "http://127.0.0.1:99999/v1"]
)
async def test_an_impossible_address_is_upstream_not_a_crash(hand: HandClient, base_url: str) -> None:
    events = await hand.run(run_request(base_url, maxRetries=1))
    assert [(name, data["type"]) for name, data in events] == [("error", "upstream")]


@pytest.mark.parametrize("api_key", ["sk-ümläut-0123456", "line\nbreak-0123456", "nul\0-0123456789"])
async def test_a_key_that_no_header_can_hold_is_upstream_and_stays_secret(hand: HandClient, api_key: str) -> None:
    async with running_gateway(says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, model={"apiKey": api_key}))
    assert events[-1][0] == "done" or events[-1][1]["type"] == "upstream"
    assert api_key not in str(events)
    assert api_key not in hand.log_text


async def test_redirects_of_a_post_keep_method_and_body(hand: HandClient) -> None:
    async with running_gateway(says("there")) as target:
        moved = Reply(status=307, headers={"location": f"{target.base_url}/chat/completions"}, framing="length")
        async with running_gateway(moved) as gateway:
            assert text_of(await hand.run(run_request(gateway.base_url))) == "there"
        assert target.requests[0].method == "POST"
        assert target.requests[0].body["messages"]
