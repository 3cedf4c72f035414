"""500 concurrent runs with random faults; afterwards no socket, task or memory may be left.

About ten seconds by default; ``SOAK_SECONDS=60`` for a minute.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from hand import app as hand_app
from tests.fakes.gateway import Pause, Received, Reply, calls, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand_client import HandClient, events_of, eventually, names_of, run_request, running_hand
from tests.fakes.tool_host import ToolHost, running_tool_host

CONCURRENT = 500
SECONDS = float(os.environ.get("SOAK_SECONDS", "10"))
FIRST_OF_ROUND = {"done", "error"}


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def tasks_of_the_hand() -> list[str]:
    """Return the tasks that the hand has started; requests run in tasks of the server, which go with their connections."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    return [
        coroutine.__qualname__
        for coroutine in coroutines
        if str(Path(hand_app.__file__).parent) in str(getattr(coroutine, "cr_code", ""))
    ]


def a_reply(dice: random.Random) -> Reply:
    """Return something that a gateway might do."""
    text = "word " * dice.randint(1, 200)
    slow = [piece for part in text.split(" ")[:20] for piece in (*sse(chunk({"content": part}), done=False), Pause(0.005))]
    return dice.choice(
        [
            says(text),
            says(text),
            says(f"<think>{text}</think>{text}"),
            Reply([*slow, *sse(chunk(finish="stop", usage=(1, 1)))], framing="chunked"),
            Reply(sse(chunk({"content": text}), chunk(finish="stop", usage=(1, 1))), framing="chunked", then="keep"),
            calls((f"c{dice.random()}", "dice__roll", {"sides": 6}), (f"d{dice.random()}", "fs__read", {"p": text})),
            calls(("same", "dice__roll", {"text": text})),
            Reply(sse(chunk({"content": text}), done=False), then="reset"),
            Reply(sse(chunk({"content": text}), done=False), then="stall"),
            Reply([*slow[:10], b'data: {"broken'], framing="chunked"),
            Reply([bytes(dice.randbytes(300))]),
            Reply(status=0, then="reset"),
            Reply(status=0, then="stall"),
            refuses(500, {"error": {"message": text}}),
            refuses(429, {"error": {"message": "rate limit"}}),
            refuses(400, {"error": {"message": "prompt is too long"}}),
            Reply(sse({"error": {"message": "overloaded", "code": 529}}, done=False)),
            Reply(sse(chunk({"content": "x" * 200_000}), chunk(finish="length", usage=(1, 1)))),
        ]
    )


async def one_run(hand: HandClient, gateway_url: str, host: ToolHost, dice: random.Random, number: int) -> str:
    """Run once, hanging up early now and then; return how it ended."""
    history = [{"role": "user", "parts": [{"type": "text", "text": "history " * dice.randint(1, 400)}]}]
    request = run_request(
        gateway_url,
        messages=history,
        runId=f"run-{number}",
        maxRetries=dice.choice([1, 2, 3]),
        streamIdleTimeoutMs=1000,
        maxRounds=3,
        **(host.urls if dice.random() < 0.7 else {}),
    )
    leave_after = dice.choice([None, None, None, 0, 1, 3])
    events = []
    async with hand.open_run(request) as response:
        assert response.status == 200
        async for event in events_of(response):
            events.append(event)
            if leave_after is not None and len(events) > leave_after:
                return "left"
    names = names_of(events)
    assert sum(name in FIRST_OF_ROUND for name in names) == 1, names
    assert names[-1] in FIRST_OF_ROUND
    return names[-1]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_nothing_is_left_after_many_runs_with_random_faults() -> None:
    dice = random.Random(20261130)
    outcomes: Counter[str] = Counter()

    def reply(_: Received) -> Reply:
        return a_reply(dice)

    async def call_tool(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(dice.random() * 0.02)
        if dice.random() < 0.05:
            return web.Response(status=500)
        return web.json_response(
            {"parts": [{"type": "text", "text": "r" * dice.randint(0, 2000)}], "isError": dice.random() < 0.2}
        )

    async with running_hand() as hand, running_gateway(by=reply) as gateway, running_tool_host() as host:
        host.on_call = call_tool
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
            client = HandClient(hand.hand, session, hand._log)
            memory: list[float] = []
            number = 0
            ends = time.monotonic() + SECONDS
            while time.monotonic() < ends or len(memory) < 4:
                wave = range(number, number + CONCURRENT)
                number += CONCURRENT
                outcomes.update(await asyncio.gather(*(one_run(client, gateway.base_url, host, dice, index) for index in wave)))
                gateway.requests.clear()
                host.calls.clear()
                host.call_headers.clear()
                host.listings.clear()
                hand._log.truncate(0)
                hand._log.seek(0)
                gc.collect()
                memory.append(resident_mb())
        await eventually(lambda: not hand.hand.routes.open_runs and not tasks_of_the_hand(), 10)
        # Idle sockets are kept for 15 s at most; broken ones are closed at once.
        await eventually(lambda: hand.hand.gateway.open_sockets <= gateway.open_connections, 40)
    assert set(outcomes) == {"done", "error", "left"}
    # On a calm machine about a third each; on a busy one most gateways look silent.
    assert min(outcomes.values()) > 0, outcomes
    # The first waves fill pools and caches; from then on it stays level.
    assert memory[-1] - memory[1] < 30, memory
