"""Section 1: routes, token, error bodies, body cap; section 15: what is logged about a refusal."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fakes.gateway import running_gateway, says
from tests.fakes.hand_client import TOKEN, HandClient, run_request, running_hand

FIFTY_MIB = 52_428_800


async def test_health_needs_no_token_and_names_the_version(hand: HandClient) -> None:
    async with hand.session.get(f"{hand.url}/v1/health") as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        assert await response.json() == {"ok": True, "version": "0.1.0"}


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "schlüssel"])
@pytest.mark.parametrize("path", ["/v1/run", "/v1/embed", "/nowhere", "/v1/complete"])
async def test_without_the_token_every_path_is_401_before_routing(hand: HandClient, path: str, token: str | None) -> None:
    status, body = await hand.post(path, b"not even JSON", token)
    assert (status, body["ok"], body["error"]["type"]) == (401, False, "auth")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/complete"), ("GET", "/v1/run"), ("DELETE", "/v1/embed"), ("GET", "/")]
)
async def test_unknown_route_is_404_and_names_method_and_path(hand: HandClient, method: str, path: str) -> None:
    async with hand.session.request(method, f"{hand.url}{path}", headers={"x-daapu-token": TOKEN}) as response:
        body = await response.json()
        assert response.status == 404
        assert body["error"]["type"] == "invalid_request"
        assert method in body["error"]["message"]
        assert path in body["error"]["message"]


async def test_error_bodies_byte_by_byte(hand: HandClient) -> None:
    async with hand.session.post(f"{hand.url}/v1/run", data=b"x") as response:
        assert response.content_type == "application/json"
        wanted = b'{"ok":false,"error":{"type":"auth","message":"missing or wrong x-daapu-token"}}'
        assert await response.read() == wanted


async def test_an_unexpected_exception_is_500_internal(hand: HandClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> bytes:
        raise LookupError("SECRET")

    monkeypatch.setattr(type(hand.hand.routes._services.metrics), "render", fail)
    async with hand.session.get(f"{hand.url}/metrics", headers={"x-daapu-token": TOKEN}) as response:
        assert response.status == 500
        body = await response.json()
    assert body == {"ok": False, "error": {"type": "internal", "message": "unexpected LookupError in the hand"}}


async def test_health_with_another_method_needs_the_token(hand: HandClient) -> None:
    status, _ = await hand.post("/v1/health", b"", None)
    assert status == 401


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"[1]", b'"text"', b"null", b"12"])
async def test_a_body_that_is_no_json_object_is_400(hand: HandClient, body: bytes) -> None:
    status, answer = await hand.post("/v1/run", body)
    assert (status, answer["ok"], answer["error"]["type"]) == (400, False, "invalid_request")


async def test_announced_body_over_50_mib_is_refused_before_it_is_read(hand: HandClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
    head = f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: {TOKEN}\r\nContent-Length: {FIFTY_MIB + 1}\r\n\r\n"
    writer.write(head.encode())
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 5)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert str(FIFTY_MIB).encode() in answer
    writer.close()


async def test_unannounced_body_over_50_mib_is_refused_once_the_count_is_passed(hand: HandClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
    writer.write(f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    piece = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
    for _ in range(50):
        writer.write(piece)
        await writer.drain()
    assert not reader._buffer, "nothing is refused up to the cap"
    writer.write(b"1\r\n \r\n")
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 5)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert str(FIFTY_MIB).encode() in answer
    writer.close()


async def test_a_large_request_passes(hand: HandClient) -> None:
    async with running_gateway(says("ok")) as gateway:
        image = {
            "type": "attachment",
            "kind": "image",
            "mimeType": "image/png",
            "content": {"type": "base64", "base64": "A" * 5_000_000},
        }
        request = run_request(gateway.base_url, model={"input": ["text", "image"]}, messages=[{"role": "user", "parts": [image]}])
        events = await hand.run(request)
        assert events[-1] == ("done", {"finishReason": "stop"})
        url = gateway.requests[0].body["messages"][0]["content"][0]["image_url"]["url"]
        assert url == "data:image/png;base64," + "A" * 5_000_000


async def test_expect_continue_is_answered(hand: HandClient) -> None:
    async with running_gateway(says("ok")) as gateway:
        body = json.dumps(run_request(gateway.base_url)).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
        head = f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: {TOKEN}\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode())
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 100 ")
        writer.write(body)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 200 ")
        writer.close()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
async def test_an_offer_to_speak_another_protocol_is_passed_over(hand: HandClient, upgrade: str) -> None:
    # The HTTP client of the Java library offers HTTP/2 with every request, its body included.
    async with running_gateway(says("ok")) as gateway:
        body = json.dumps(run_request(gateway.base_url)).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
        offer = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAEAAEAA"
        head = f"POST /v1/run HTTP/1.1\r\nHost: x\r\nx-daapu-token: {TOKEN}\r\n{offer}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode())
        await asyncio.sleep(0.05)
        writer.write(body)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), 5)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"event: done" in answer
        writer.close()


async def test_the_stream_opens_with_its_headers_and_a_comment_before_the_gateway_answers(hand: HandClient) -> None:
    from tests.fakes.gateway import Reply

    async with (
        running_gateway(Reply(status=0, then="stall")) as gateway,
        hand.open_run(run_request(gateway.base_url)) as response,
    ):
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["connection"] == "keep-alive"
        assert await response.content.readexactly(13) == b": connected\n\n"


async def test_http_1_0_clients_get_an_unchunked_stream_that_ends_with_the_connection(hand: HandClient) -> None:
    async with running_gateway(says("plain")) as gateway:
        body = json.dumps(run_request(gateway.base_url)).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", hand.hand.port)
        writer.write(f"POST /v1/run HTTP/1.0\r\nx-daapu-token: {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.partition(b"\r\n\r\n")[2].startswith(b": connected\n\nevent: text_delta\n")
        assert answer.endswith(b'event: done\ndata: {"finishReason":"stop"}\n\n')
        writer.close()


async def test_a_refusal_is_logged_with_type_and_message(hand: HandClient) -> None:
    await hand.post("/v1/run", b"{}", "wrong-token-value")
    await hand.post("/nowhere", b"{}")
    events = [line["event"] for line in hand.log_lines]
    assert "[hand] request rejected error=auth: missing or wrong x-daapu-token" in events
    assert any(event.startswith("[hand] request rejected error=invalid_request: ") and "/nowhere" in event for event in events)
    assert "wrong-token-value" not in hand.log_text


async def test_the_log_names_the_run_and_holds_no_content(hand: HandClient) -> None:
    async with running_gateway(says("SECRET ANSWER", usage=(11, 3))) as gateway:
        messages = [{"role": "user", "parts": [{"type": "text", "text": "SECRET PROMPT"}]}]
        request = run_request(gateway.base_url, messages=messages, systemPrompt="SECRET SYSTEM", runId="run-77")
        headers = {"x-daapu-token": TOKEN, "x-request-id": "request-5"}
        async with hand.session.post(f"{hand.url}/v1/run", json=request, headers=headers) as response:
            await response.read()
    lines = {line["event"]: line for line in hand.log_lines if line.get("run") == "run-77"}
    start = lines["[hand] run start runId=run-77 model=acme/large-1"]
    end = lines["[hand] run end runId=run-77 model=acme/large-1 rounds=1 outcome=done inputTokens=11 outputTokens=3"]
    assert start["request"] == end["request"] == "request-5"
    assert end["inputTokens"] == 11
    for secret in ("SECRET", TOKEN, "gateway-key"):
        assert secret not in hand.log_text


async def test_start_is_logged_with_host_and_port() -> None:
    async with running_hand() as hand:
        assert hand.log_lines[0]["event"] == f"[hand] listening on 127.0.0.1:{hand.hand.port}"


async def test_metrics_need_the_token_unless_made_public() -> None:
    async with running_hand() as closed, closed.session.get(f"{closed.url}/metrics") as response:
        assert response.status == 401
    async with running_hand(metrics_public=True) as public, public.session.get(f"{public.url}/metrics") as response:
        assert response.status == 200
        assert "hand_open_streams 0.0" in await response.text()


async def test_metrics_count_runs_tokens_retries_and_first_deltas(hand: HandClient) -> None:
    from tests.fakes.gateway import refuses

    async with running_gateway(refuses(503, {"error": {"message": "busy"}}), says("hello", usage=(7, 2))) as gateway:
        await hand.run(run_request(gateway.base_url, maxRetries=2))
    async with hand.session.get(f"{hand.url}/metrics", headers={"x-daapu-token": TOKEN}) as response:
        text = await response.text()
    assert 'hand_runs_total{outcome="done"} 1.0' in text
    assert 'hand_tokens_total{direction="input"} 7.0' in text
    assert 'hand_tokens_total{direction="output"} 2.0' in text
    assert 'hand_retries_total{cause="http"} 1.0' in text
    assert "hand_first_delta_seconds_count 1.0" in text
    assert "hand_open_streams 0.0" in text
