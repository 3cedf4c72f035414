"""What nobody sends by accident: nothing of it crashes or hangs the hand, leaks a secret, or is answered with 500."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import time
from typing import Any

import pytest
from aiohttp import web

from hand import app as hand_app
from tests.fakes.gateway import Pause, Reply, calls, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand_client import TOKEN, HandClient, embed_request, eventually, names_of, run_request, text_of
from tests.fakes.tool_host import ToolHost

DEPTHS = [1, 50, *range(300, 1010, 11), 1500, 20_000, 200_000]
KEY = "gateway-key-0123456789"


async def exchange(hand: HandClient, raw: bytes) -> bytes:
    """Write raw bytes and read all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
    writer.write(raw)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


def request_bytes(body: bytes, *fields: bytes, path: bytes = b"/v1/run") -> bytes:
    head = [
        b"POST %b HTTP/1.1" % path,
        b"Host: x",
        b"Connection: close",
        b"x-daapu-token: " + TOKEN.encode(),
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*head, *fields]) + b"\r\n\r\n" + body


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET /v1/health HTTP/9.9\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nx-daapu-token: SECRET\0VALUE\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nx-daapu-token SECRET VALUE\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nx-daapu-token: " + b"SECRET" * 5000 + b"\r\n\r\n",
        b"GET /" + b"SECRET" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/run HTTP/1.1\r\nHost: SECRET\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/run HTTP/1.1\r\nHost: SECRET\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00SECRET\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_the_error_body_and_no_word_in_the_log(
    hand: HandClient, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await exchange(hand, raw)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 400 ", head)
    assert json.loads(body)["error"]["type"] == "invalid_request"
    assert b"SECRET" not in body
    assert "SECRET" not in hand.log_text + caplog.text


@pytest.mark.parametrize("path", [b"/%ff%00", b"/\xff\xfe", b"//", b"/v1/run/../run", b"*", b"http://x/v1/run?\xed\xa0\x80"])
async def test_odd_paths_and_ids_are_answered(hand: HandClient, path: bytes) -> None:
    answer = await exchange(hand, request_bytes(b"{}", b"x-request-id: \xff\xed\xa0\x80", path=path))
    assert re.match(rb"HTTP/1\.[01] 40[04] ", answer)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["ok"] is False


async def test_a_request_id_that_is_no_utf8_does_not_stop_a_run(hand: HandClient) -> None:
    async with running_gateway(says("ok")) as gateway:
        body = json.dumps(run_request(gateway.base_url)).encode()
        answer = await exchange(hand, request_bytes(body, b"x-request-id: caf\xe9"))
    assert b"event: done" in answer
    assert "outcome=done" in hand.log_text


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"rot13"])
async def test_a_body_in_a_broken_encoding_is_400(hand: HandClient, encoding: bytes) -> None:
    answer = await exchange(hand, request_bytes(b"nothing like it", b"Content-Encoding: " + encoding))
    assert re.match(rb"HTTP/1\.[01] 400 ", answer)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request"


async def test_a_small_body_that_unpacks_beyond_the_cap_is_refused(hand: HandClient) -> None:
    bomb = gzip.compress(b" " * (60 << 20))
    answer = await exchange(hand, request_bytes(bomb, b"Content-Encoding: gzip"))
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("maxTokens", "1e400"),
        ("maxTokens", "-1e400"),
        ("maxTokens", "NaN"),
        ("maxTokens", "Infinity"),
        ("maxTokens", "1e-400"),
        ("maxTokens", "1" * 5000),
        ("maxRounds", "9" * 400 + ".0"),
        ("streamIdleTimeoutMs", "1e30"),
        ("maxRetries", "1" + "0" * 30),
        ("extra", "1e400"),
        ("extra", "NaN"),
        ("extra", '"\\x"'),
        ("extra", '"\x01"'),
        ("extra", '"\\ud800"'),
        ("extra", '{"a":1,"a":2}'),
        ("runId", '"\\ud800"'),
        ("runId", '"a\\u0000\\n\\rb"'),
        ("systemPrompt", '"\\udc00\\ud800"'),
        ("responseFormat", '{"type":"json_schema","name":"n","schema":{"a":1e400}}'),
    ],
)
async def test_strange_values_are_refused_or_taken_but_never_a_crash(hand: HandClient, field: str, value: str) -> None:
    async with running_gateway(says("ok")) as gateway:
        body = json.dumps({**run_request(gateway.base_url), field: "@@"}).replace('"@@"', value).encode()
        answer = await exchange(hand, request_bytes(body))
    assert re.match(rb"HTTP/1\.1 (200|400) ", answer), answer
    assert b'"internal"' not in answer


async def test_of_duplicate_keys_the_last_one_counts(hand: HandClient) -> None:
    async with running_gateway(says("ok")) as gateway:
        body = json.dumps(run_request(gateway.base_url)).encode()
        answer = await exchange(hand, request_bytes(body[:-1] + b',"maxTokens":17,"runId":"second"}'))
        assert gateway.requests[0].body["max_completion_tokens"] == 17
    assert b"event: done" in answer
    assert "runId=second" in hand.log_text


PLACES: list[dict[str, Any]] = [
    {"extra": "@@"},
    {"messages": "@@"},
    {"messages": [{"role": "user", "parts": "@@"}]},
    {"messages": [{"role": "user", "parts": [{"type": "text", "text": "a", "x": "@@"}]}]},
    {"messages": [{"role": "user", "parts": [{"type": "attachment", "kind": "image", "content": "@@"}]}]},
    {"messages": [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "tool": "t", "args": "@@"}]}]},
    {
        "messages": [
            {"role": "tool_result", "parts": [{"type": "tool_result", "id": "c", "parts": [{"type": "text", "text": "@@"}]}]}
        ]
    },
    {"model": {"input": "@@"}},
    {"model": {"additionalProperties": {"x": "@@"}}},
    {"responseFormat": {"type": "json_schema", "name": "n", "schema": {"x": "@@"}}},
]


@pytest.mark.parametrize("place", PLACES, ids=json.dumps)
async def test_requests_nested_to_any_depth(hand: HandClient, place: dict[str, Any]) -> None:
    async with running_gateway(says("ok")) as gateway:
        for depth in DEPTHS:
            body = json.dumps(run_request(gateway.base_url, **place)).replace('"@@"', nested(depth)).encode()
            async with hand.session.post(f"{hand.url}/v1/run", data=body, headers={"x-daapu-token": TOKEN}) as response:
                answer = await response.text()
                assert response.status in {200, 400}, (depth, answer)
            assert '"internal"' not in answer, depth
            assert response.status == 400 or "event: done" in answer or '"invalid_request"' in answer, (depth, answer)
    assert "unexpected exception" not in hand.log_text


CHUNKS = [
    '{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1},"extra":@@}',
    '{"choices":[{"index":0,"delta":{"content":@@},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}',
    '{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"t","arguments":{"x":@@}}}]},'
    '"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}',
    '{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{\\"x\\":@@}"}}]},'
    '"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}',
    '{"error":{"message":"no","x":@@}}',
    "@@",
]


@pytest.mark.parametrize("template", CHUNKS)
@pytest.mark.parametrize("bracket", ["[", '{"error":'])
async def test_chunks_nested_to_any_depth(hand: HandClient, template: str, bracket: str) -> None:
    depths = iter(DEPTHS)

    def reply(_: object) -> Reply:
        depth = next(depths)
        deep = nested(depth) if bracket == "[" else '{"error":' * depth + "1" + "}" * depth
        if '"{\\"x' in template:
            deep = deep.replace('"', '\\"')
        return Reply([b"data: " + template.replace("@@", deep).encode() + b"\n\n", b"data: [DONE]\n\n"])

    async with running_gateway(by=reply) as gateway:
        for depth in DEPTHS:
            events = await hand.run(run_request(gateway.base_url, maxRounds=1))
            assert names_of(events)[-1] in {"done", "error"}
            assert events[-1][1].get("type") in {None, "upstream", "round_limit", "empty_response"}, (depth, events[-1])
    assert "unexpected exception" not in hand.log_text


@pytest.mark.parametrize("depth", DEPTHS)
async def test_tool_hosts_nested_to_any_depth(hand: HandClient, tool_host: ToolHost, depth: int) -> None:
    async def list_deep(_: web.Request) -> web.Response:
        return web.Response(text='{"tools":[{"name":"t","description":"d","schema":{"x":@@}}]}'.replace("@@", nested(depth)))

    async def call_deep(_: web.Request) -> web.Response:
        return web.Response(text='{"parts":[{"type":"text","text":"a","x":@@}]}'.replace("@@", nested(depth)))

    tool_host.on_call = call_deep
    async with running_gateway(calls(("c", "t", {})), says("ok")) as gateway:
        for on_list in (None, list_deep):
            tool_host.on_list = on_list
            # Read as bytes: what the hand passes on may be nested too deeply for the reader of this test.
            async with hand.open_run(run_request(gateway.base_url, **tool_host.urls)) as response:
                answer = await response.read()
            assert b"event: done" in answer or b'"tool_transport"' in answer or b'"invalid_request"' in answer
    assert "unexpected exception" not in hand.log_text


@pytest.mark.parametrize("depth", DEPTHS)
async def test_embeddings_nested_to_any_depth(hand: HandClient, depth: int) -> None:
    for template in ('{"data":[{"index":0,"embedding":[1]}],"x":@@}', '{"data":[{"index":0,"embedding":[1]}],"usage":@@}', "@@"):
        async with running_gateway(Reply([template.replace("@@", nested(depth)).encode()], framing="length")) as gateway:
            status, _ = await hand.embed(embed_request(gateway.base_url, input=["a"]))
            assert status in {200, 502}


@pytest.mark.parametrize("usage", ["1e308", "1e400", "1" * 400, "-5", "NaN", '{"a":1}'])
async def test_absurd_counts_of_tokens(hand: HandClient, usage: str) -> None:
    chunks = b"".join(sse(chunk({"content": "x"}, finish="stop", usage=(3, 2)), done=False))
    absurd = b'data: {"choices":[],"usage":{"prompt_tokens":%b,"completion_tokens":%b}}\n\n' % (usage.encode(), usage.encode())
    async with running_gateway(Reply([chunks, absurd, b"data: [DONE]\n\n"])) as gateway:
        assert (await hand.run(run_request(gateway.base_url)))[-1][0] == "done"
    answer = b'{"data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":%b,"total_tokens":1}}' % usage.encode()
    async with running_gateway(Reply([answer], framing="length")) as gateway:
        status, _ = await hand.embed(embed_request(gateway.base_url, input=["a"]))
        assert status in {200, 502}


@pytest.mark.parametrize("index", ['"' + "1" * 5000 + '"', "1" * 30, "-1", "1.5", '"٣"', '"²"', "null", "[]"])
async def test_absurd_indexes_of_calls(hand: HandClient, index: str) -> None:
    entry = '{"index":@@,"id":"a","function":{"name":"t","arguments":"{}"}}'.replace("@@", index).encode()
    first = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[%b]}}]}\n\n' % entry
    async with running_gateway(Reply([first, *sse(chunk(finish="tool_calls", usage=(1, 1)))])) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRounds=1))
    assert names_of(events) == ["assistant_message", "error"]
    assert events[-1][1]["type"] == "round_limit"


@pytest.mark.parametrize("separator", ["\r\n", "\n", "\r", "\0"])
async def test_a_key_cannot_write_header_fields_or_requests(hand: HandClient, separator: str) -> None:
    async with running_gateway(says("ok")) as gateway:
        key = f"{KEY}{separator}x-evil: 1{separator}{separator}GET / HTTP/1.1"
        events = await hand.run(run_request(gateway.base_url, model={"apiKey": key}))
        status, _ = await hand.embed(
            embed_request(gateway.base_url, model={**embed_request("x")["model"], "baseUrl": gateway.base_url, "apiKey": key})
        )
        assert gateway.requests == []
    assert [(name, data["type"]) for name, data in events] == [("error", "upstream")]
    assert status == 502
    assert KEY not in str(events) + hand.log_text


async def test_a_key_at_the_cut_of_a_message_is_not_half_shown(hand: HandClient) -> None:
    for padding in (3980, 3990, 4000):
        body = {"error": {"message": "y" * (padding - 20) + KEY}}
        async with running_gateway(refuses(400, body), Reply(sse(body, done=False))) as gateway:
            for _ in range(2):
                events = await hand.run(run_request(gateway.base_url))
                assert "gateway-key" not in events[-1][1]["message"]
    for padding in range(180, 200, 4):
        async with running_gateway(refuses(400, "z" * padding + KEY)) as gateway:
            _, answer = await hand.embed(embed_request(gateway.base_url))
            assert "gateway" not in answer["error"]["message"].replace("the gateway answered", "")


async def test_cookies_do_not_travel_from_run_to_run(hand: HandClient, tool_host: ToolHost) -> None:
    sets = {"content-type": "text/event-stream", "set-cookie": "session=of-another-key; Path=/"}
    answer = Reply(sse(chunk({"content": "a"}), chunk(finish="stop", usage=(1, 1))), headers=sets)

    async def list_tools(_: web.Request) -> web.Response:
        return web.json_response({"tools": []}, headers={"set-cookie": "session=of-another-run; Path=/"})

    tool_host.on_list = list_tools
    async with running_gateway(answer) as gateway:
        address = gateway.base_url.replace("127.0.0.1", "localhost")
        urls = {name: url.replace("127.0.0.1", "localhost") for name, url in tool_host.urls.items()}
        for _ in range(2):
            assert (await hand.run(run_request(address, **urls)))[-1][0] == "done"
        assert all("cookie" not in request.headers for request in gateway.requests)
    assert all("cookie" not in listing.headers for listing in tool_host.listings)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nxxxxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"SSH-2.0-x\r\n",
    ],
)
async def test_a_broken_tool_host_is_tool_transport(hand: HandClient, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with running_gateway(says("never")) as gateway:
        request = run_request(gateway.base_url, toolListUrl=address, toolCallbackUrl=address)
        events = await hand.run(request)
        assert gateway.requests == []
    server.close()
    assert [(name, data["type"]) for name, data in events] == [("error", "tool_transport")]


async def test_whoever_sends_no_request_loses_the_socket(hand: HandClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hand_app.HEAD_SECONDS == 60
    monkeypatch.setattr(hand_app, "HEAD_SECONDS", 0.2)
    started = time.monotonic()
    assert await exchange(hand, b"GET /v1/health HTT") == b""
    assert await exchange(hand, b"") == b""
    assert time.monotonic() - started < 5
    # A request that has come in time is answered however long it takes.
    async with running_gateway(Reply([Pause(0.5), *says("late").pieces])) as gateway:
        assert text_of(await hand.run(run_request(gateway.base_url))) == "late"


async def test_half_a_request_holds_nothing_but_its_own_socket(hand: HandClient) -> None:
    body = json.dumps(run_request("http://127.0.0.1:1/v1")).encode()
    whole = request_bytes(body)
    writers = []
    for place in (0, 1, 20, len(whole) - len(body) - 2, len(whole) - len(body), len(whole) - 1):
        _, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
        writer.write(whole[:place])
        writers.append(writer)
    async with running_gateway(says("ok")) as gateway:
        assert text_of(await hand.run(run_request(gateway.base_url))) == "ok"
    assert hand.hand.routes.open_runs == 0
    for writer in writers:
        writer.transport.abort()
    await eventually(lambda: hand.hand.routes.open_runs == 0)
    assert "unexpected exception" not in hand.log_text


async def test_brains_that_hang_up_at_any_moment_leave_no_exception(hand: HandClient) -> None:
    async with running_gateway(says("ok" * 1000)) as gateway:
        raw = request_bytes(json.dumps(run_request(gateway.base_url)).encode())
        for turn in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
            writer.write(raw)
            await asyncio.sleep(turn % 12 * 0.0007)
            writer.transport.abort()
        await eventually(lambda: hand.hand.routes.open_runs == 0)
    assert "unexpected exception" not in hand.log_text
