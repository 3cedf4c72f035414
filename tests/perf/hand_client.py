"""CPU of the brain's HTTP client per event of a stream: aiohttp against httpx2 (spec README, decision 14).

    python -m tests.perf.hand_client --bin BIN

Streams come from the bench's gateway; both clients read raw bytes and count events, nothing else. ``paced``: 50 streams with an event
every 20 ms, so that each read holds one event, as when tokens trickle. ``start``: streams of one event, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import httpx2
import uvloop

BODY = json.dumps({"model": "fake", "stream": True, "messages": [{"role": "user", "content": "x" * 5000}]}).encode()
HEADERS = {"content-type": "application/json"}
Reader = Callable[[str], Awaitable[int]]


def set_gateway(port: int, count: int, delay_us: int) -> None:
    url = f"http://127.0.0.1:{port}/_config?n={count}&size=220&delay_us={delay_us}&first_us={delay_us}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()


async def measure(name: str, reader: Reader, url: str, port: int) -> None:
    results: dict[str, object] = {"client": name}
    for case, streams, repeats, count, delay in (("paced", 50, 1, 100, 20_000), ("bulk", 8, 5, 2000, 0), ("start", 1, 300, 1, 0)):
        set_gateway(port, count, delay)
        begin = time.process_time()
        events = 0
        for _ in range(repeats):
            events += sum(await asyncio.gather(*(reader(url) for _ in range(streams))))
        results[f"{case}_us"] = round((time.process_time() - begin) / events * 1e6, 1)
    print(json.dumps(results), flush=True)


async def run(port: int) -> None:
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, read_bufsize=2**18) as session,
        httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None), trust_env=False) as client,
    ):

        async def with_aiohttp(address: str) -> int:
            events = 0
            async with session.post(address, data=BODY, headers=HEADERS) as response:
                while chunk := await response.content.readany():
                    events += chunk.count(b"\n\n")
            return events

        async def with_httpx2(address: str) -> int:
            events = 0
            async with client.stream("POST", address, content=BODY, headers=HEADERS) as response:
                async for chunk in response.aiter_raw():
                    events += chunk.count(b"\n\n")
            return events

        for _ in range(3):
            await measure("aiohttp", with_aiohttp, url, port)
            await measure("httpx2", with_httpx2, url, port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gateway = subprocess.Popen([str(options.bin.resolve() / "upstream"), str(port)])
    try:
        time.sleep(0.3)
        uvloop.run(run(port))
    finally:
        gateway.kill()
        gateway.wait()


if __name__ == "__main__":
    main()
