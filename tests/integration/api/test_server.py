"""The listener: says what is wrong with its address, and stops in order when asked."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import httpx2
import pytest

from brain.server import bind, serve
from tests.fakes.hand import FakeHand
from tests.integration.api.conftest import make_config, stop_extraction


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


async def test_a_signal_ends_open_answers_and_closes_everything(database_url: str) -> None:
    port = free_port()
    await stop_extraction(database_url)
    async with FakeHand().serve() as hand, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
        config = make_config(database_url, hand.url, server={"port": port})
        running = asyncio.create_task(serve(config))
        async with asyncio.timeout(30):
            while not running.done():
                try:
                    answer = await client.get("/api/health/ready")
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
                    continue
                break
        assert answer.status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(15):
            await running
    with bind("127.0.0.1", port):  # the address is free again
        pass


async def test_a_taken_port_is_named_with_its_setting(database_url: str) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"port {port}: .*server\.port"):
            await serve(make_config(database_url, "http://127.0.0.1:9", server={"port": port}))
