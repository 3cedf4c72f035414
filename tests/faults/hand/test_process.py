"""The hand as a process: refusal to start, SIGTERM, and what runs in flight see of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.fakes.gateway import Gate, Reply, chunk, running_gateway, says, sse
from tests.fakes.hand_client import embed_request, events_of, eventually, names_of, run_request

TOKEN = "process-token"
# An interpreter that is still loading libraries on a busy machine takes its time to end.
EXIT_SECONDS = 30


def start(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAND_")} | variables
    return subprocess.run(
        [sys.executable, "-m", "hand"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("token", [None, "", "   "])
def test_without_a_token_it_refuses_to_start(token: str | None) -> None:
    result = start(**({} if token is None else {"HAND_TOKEN": token}))
    assert result.returncode != 0
    assert "HAND_TOKEN" in result.stderr


@pytest.mark.parametrize("port", ["x", "-1", "70000"])
def test_an_unusable_port_is_named(port: str) -> None:
    result = start(HAND_TOKEN="t", HAND_PORT=port)
    assert result.returncode != 0
    assert "HAND_PORT" in result.stderr


def test_a_taken_port_ends_with_a_status_and_the_address() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        result = start(HAND_TOKEN="t", HAND_PORT=str(port))
    assert result.returncode != 0
    assert f"127.0.0.1:{port}" in result.stderr


def test_defaults_are_port_3100_on_loopback() -> None:
    from hand.settings import read_settings

    settings = read_settings({"HAND_TOKEN": " t "})
    assert (settings.port, settings.host, settings.token, settings.metrics_public) == (3100, "127.0.0.1", "t", False)
    assert settings.drain_seconds == 20


@asynccontextmanager
async def hand_process(**variables: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str, aiohttp.ClientSession]]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    environment = {**os.environ, "HAND_TOKEN": TOKEN, "HAND_PORT": str(port), **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hand", env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as session:
        try:
            await eventually(lambda: is_up(session, url), 30)
            yield process, url, session
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def is_up(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/v1/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def test_a_run_right_after_the_start_does_not_take_loading_for_silence() -> None:
    async with hand_process() as (_, url, session), running_gateway(says("ok")) as gateway:
        request = run_request(gateway.base_url, streamIdleTimeoutMs=400, maxRetries=1)
        async with session.post(f"{url}/v1/run", json=request, headers={"x-daapu-token": TOKEN}) as response:
            assert [name async for name, _ in events_of(response)] == ["text_delta", "assistant_message", "done"]


async def test_sigterm_lets_a_run_finish_and_refuses_new_ones() -> None:
    gate = asyncio.Event()
    first, *rest = sse(chunk({"content": "a"}), chunk({"content": "b"}), chunk(finish="stop", usage=(1, 1)))
    async with (
        hand_process() as (process, url, session),
        running_gateway(Reply([first, Gate(gate), *rest]), says("no")) as gateway,
    ):
        headers = {"x-daapu-token": TOKEN}
        async with session.post(f"{url}/v1/run", json=run_request(gateway.base_url), headers=headers) as response:
            events = events_of(response)
            assert await anext(events) == ("text_delta", {"text": "a"})
            process.send_signal(signal.SIGTERM)
            await eventually(lambda: is_refusing(session, url))
            gate.set()
            assert [name async for name, _ in events] == ["text_delta", "assistant_message", "done"]
        async with asyncio.timeout(EXIT_SECONDS):
            assert await process.wait() == 0


async def is_refusing(session: aiohttp.ClientSession, url: str) -> bool:
    headers = {"x-daapu-token": TOKEN}
    # An empty body: until the signal has been handled this is a 400, and no run is started.
    async with session.post(f"{url}/v1/run", data=b"", headers=headers) as response:
        body = await response.json()
        assert (response.status, body["error"]["type"]) in {(400, "invalid_request"), (503, "internal")}
        return response.status == 503


async def test_a_run_that_outlasts_the_limit_ends_with_a_clean_error() -> None:
    never = asyncio.Event()
    answer = Reply([*sse(chunk({"content": "a"}), done=False), Gate(never)])
    async with hand_process(HAND_DRAIN_SECONDS="0.3") as (process, url, session), running_gateway(answer) as gateway:
        headers = {"x-daapu-token": TOKEN}
        async with session.post(f"{url}/v1/run", json=run_request(gateway.base_url), headers=headers) as response:
            events = events_of(response)
            assert await anext(events) == ("text_delta", {"text": "a"})
            process.send_signal(signal.SIGTERM)
            rest = [event async for event in events]
        assert names_of(rest) == ["error"]
        assert rest[0][1] == {"type": "internal", "message": "the hand is shutting down"}
        await gateway.until_quiet()
        async with asyncio.timeout(EXIT_SECONDS):
            assert await process.wait() == 0


async def test_sigterm_lets_an_embedding_finish() -> None:
    gate = asyncio.Event()
    answer = Reply([Gate(gate), b'{"data":[{"index":0,"embedding":[1.5]}]}'])
    async with hand_process() as (process, url, session), running_gateway(answer) as gateway:
        request = embed_request(gateway.base_url, input=["a"], timeoutMs=0)
        headers = {"x-daapu-token": TOKEN}
        embedding = asyncio.create_task(session.post(f"{url}/v1/embed", json=request, headers=headers))
        await gateway.until(lambda: len(gateway.requests) == 1)
        process.send_signal(signal.SIGTERM)
        await eventually(lambda: is_refusing(session, url))
        # Longer than what the server itself grants to requests in flight when it closes.
        await asyncio.sleep(1.5)
        gate.set()
        response = await embedding
        assert (await response.json())["vectors"] == [[1.5]]
        async with asyncio.timeout(EXIT_SECONDS):
            assert await process.wait() == 0


async def test_idle_process_ends_at_once_on_either_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        async with hand_process() as (process, _, _):
            process.send_signal(number)
            started = time.monotonic()
            assert await asyncio.wait_for(process.wait(), EXIT_SECONDS) == 0
            assert time.monotonic() - started < EXIT_SECONDS


async def test_a_second_signal_ends_the_wait() -> None:
    never = asyncio.Event()
    answer = Reply([*sse(chunk({"content": "a"}), done=False), Gate(never)])
    async with hand_process(HAND_DRAIN_SECONDS="60") as (process, url, session), running_gateway(answer) as gateway:
        headers = {"x-daapu-token": TOKEN}
        async with session.post(f"{url}/v1/run", json=run_request(gateway.base_url), headers=headers) as response:
            events = events_of(response)
            assert await anext(events) == ("text_delta", {"text": "a"})
            process.send_signal(signal.SIGTERM)
            await eventually(lambda: is_refusing(session, url))
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(EXIT_SECONDS):
                assert [name async for name, _ in events] == ["error"]
                assert await process.wait() == 0
