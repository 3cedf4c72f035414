"""What a hand process takes: large requests and lines do not multiply, a stream is small."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.gateway import FakeGateway, Gate, Reply, chunk, running_gateway, sse
from tests.fakes.hand_client import events_of, eventually, run_request
from tests.fakes.tool_host import running_tool_host

TOKEN = "memory-token"
HEADERS = {"x-daapu-token": TOKEN}
MB = 1024 * 1024


class Process:
    """A hand process and what the kernel says about it."""

    def __init__(self, pid: int, url: str, session: aiohttp.ClientSession) -> None:
        self.pid = pid
        self.url = url
        self.session = session

    def figure(self, key: str) -> float:
        """Return a figure of ``/proc`` in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024

    def forget_peak(self) -> float:
        """Start the peak anew and return the present size."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.figure("VmRSS")

    async def run(self, request: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Run to the end."""
        body = io.BytesIO(json.dumps(request).encode())
        async with self.session.post(f"{self.url}/v1/run", data=body, headers=HEADERS) as response:
            assert response.status == 200
            return [event async for event in events_of(response)]


@asynccontextmanager
async def hand_process(gateway: FakeGateway) -> AsyncGenerator[Process]:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    environment = {**os.environ, "HAND_TOKEN": TOKEN, "HAND_PORT": str(port)}
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "hand", env=environment, stdout=asyncio.subprocess.DEVNULL)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        process = Process(child.pid, f"http://127.0.0.1:{port}", session)
        try:
            await eventually(lambda: is_up(process), 30)
            await process.run(run_request(gateway.base_url, streamIdleTimeoutMs=0))
            yield process
        finally:
            child.kill()
            await child.wait()


async def is_up(process: Process) -> bool:
    try:
        async with process.session.get(f"{process.url}/v1/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs the figures of Linux"),
]

ANSWER = Reply(sse(chunk({"content": "ok"}), chunk(finish="stop", usage=(1, 1))))


async def test_a_request_of_nearly_50_mib_is_held_twice_at_most() -> None:
    image = {
        "type": "attachment",
        "kind": "image",
        "mimeType": "image/png",
        "content": {"type": "base64", "base64": "A" * 49 * MB},
    }
    messages = [{"role": "user", "parts": [image]}]
    async with running_gateway(ANSWER) as gateway, hand_process(gateway) as process:
        before = process.forget_peak()
        events = await process.run(run_request(gateway.base_url, model={"input": ["text", "image"]}, messages=messages))
        assert events[-1][0] == "done"
        assert process.figure("VmHWM") - before < 2.5 * 49


async def test_a_line_of_a_megabyte_takes_a_few_megabytes() -> None:
    line = Reply(sse(chunk({"content": "x" * MB}), chunk(finish="stop", usage=(1, 1))))
    async with running_gateway(line) as gateway, hand_process(gateway) as process:
        before = process.forget_peak()
        for _ in range(5):
            assert (await process.run(run_request(gateway.base_url)))[-1][0] == "done"
        assert process.figure("VmHWM") - before < 20


async def test_500_streams_with_tools_and_long_histories_stay_under_200_mb() -> None:
    gate = asyncio.Event()
    first, *rest = sse(chunk({"content": "begun"}), chunk(finish="stop", usage=(1, 1)))
    streams = iter([ANSWER])
    text = "An earlier message of the conversation, of which there are many. " * 6
    history: list[dict[str, Any]] = []
    for _ in range(30):
        history.append({"role": "user", "parts": [{"type": "text", "text": text}]})
        meta = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        history.append({"role": "assistant", "parts": [{"type": "text", "text": text}], "meta": meta, "finishReason": "stop"})
    history.append({"role": "user", "parts": [{"type": "text", "text": "And now?"}]})

    def reply(_: object) -> Reply:
        return next(streams, Reply([first, Gate(gate), *rest]))

    begun = 0

    async def one(process: Process, request: dict[str, Any]) -> str:
        nonlocal begun
        async with process.session.post(f"{process.url}/v1/run", json=request, headers=HEADERS) as response:
            last = ""
            async for name, _ in events_of(response):
                if name == "text_delta":
                    begun += 1
                last = name
            return last

    async with running_gateway(by=reply) as gateway, running_tool_host() as host, hand_process(gateway) as process:
        warm = process.figure("VmRSS")
        request = run_request(gateway.base_url, **host.urls, messages=history, streamIdleTimeoutMs=0)
        runs = [asyncio.create_task(one(process, request)) for _ in range(500)]
        try:
            await eventually(lambda: begun == 500, 90)
            size = process.figure("VmRSS")
        finally:
            gate.set()
        assert set(await asyncio.gather(*runs)) == {"done"}
        assert size < 200
        per_stream_kb = (size - warm) * 1024 / 500
        # 24 kB of it is the history itself.
        assert per_stream_kb < 150 + 24
