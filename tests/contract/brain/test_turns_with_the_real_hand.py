"""Turns through the real hand, as a program of its own, to a gateway that replays bytes: what the two processes promise each other."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from shared_protocol.messages import AssistantMessage, TextPart
from tests.fakes.gateway import FakeGateway, Gate, Reply, calls, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand import TOKEN, FakeHand
from tests.integration.turns.conftest import CHAT, Brain, Settings, free_port, model_config, names, run_brain, text_of_events
from tests.integration.turns.test_compaction import rounds
from tests.prefix import check_between_turns, check_within_turn, prompt_of_gateway


@dataclass
class Rig:
    """Brain, hand and gateway, all real but the model."""

    brain: Brain
    gateway: FakeGateway
    hand: asyncio.subprocess.Process


@asynccontextmanager
async def hand_program() -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    port = free_port()
    environment = {**os.environ, "HAND_TOKEN": TOKEN, "HAND_PORT": str(port), "HAND_DRAIN_SECONDS": "0.1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hand", env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            while not await _is_up(session, url):
                await asyncio.sleep(0.05)
        yield url, process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def _is_up(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/v1/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def rig(database_url: str, pool: Any, *script: Reply, **model: Any) -> AsyncGenerator[Rig]:
    async with running_gateway(*script) as gateway, hand_program() as (url, process):
        address = FakeHand()
        address.url = url
        settings = Settings(models=[model_config(**model)], gateway=gateway.base_url, hand={"max_retries": 1})
        async with run_brain(database_url, pool, address, settings) as brain:
            yield Rig(brain, gateway, process)


async def test_an_answer_comes_through_both_processes(database_url: str, pool: Any) -> None:
    async with rig(database_url, pool, says("Hello from the gateway.")) as system:
        await system.brain.create_chat()
        events = await system.brain.send("Hi")
        assert names(events)[-1] == "done"
        assert text_of_events(events) == "Hello from the gateway."
        answer = (await system.brain.load()).messages[-1]
        assert isinstance(answer, AssistantMessage)
        assert answer.parts == (TextPart("Hello from the gateway."),)
        assert (answer.meta.input_tokens, answer.meta.output_tokens) == (10, 5)


async def test_every_model_call_begins_with_the_one_before(database_url: str, pool: Any) -> None:
    script = [
        says("One."),
        calls(("c1", "dice__roll", {"sides": 6}), ("c2", "dice__roll", {"sides": 20})),
        calls(("c3", "dice__roll", {"sides": 4})),
        says("Two."),
        says("Three."),
    ]
    async with rig(database_url, pool, *script) as system:
        await system.brain.create_chat()
        for question in ("first", "second", "third"):
            assert names(await system.brain.send(question))[-1] == "done"
        first, second, after_two, after_three, third = (prompt_of_gateway(request.raw) for request in system.gateway.requests)
        assert len(first.tools) == 2
        check_within_turn([second, after_two, after_three])
        check_between_turns(first, second)
        check_between_turns(after_three, third)
        # What follows that question in the next turn is what the model itself was given back in this one.
        assert (
            third.messages[after_three.question + 1 : len(after_three.messages)]
            == after_three.messages[after_three.question + 1 :]
        )
        assert len(system.brain.tools.calls) == 3


async def test_an_overflow_is_compacted_and_answered(database_url: str, pool: Any) -> None:
    body = {"error": {"message": "This model's maximum context length is 100000 tokens.", "code": "context_length_exceeded"}}
    async with rig(database_url, pool, refuses(400, body), says("A summary."), says("Done.")) as system:
        await system.brain.create_chat(*rounds(4))
        events = await system.brain.send("next")
        assert "compaction" in names(events)
        assert names(events)[-1] == "done"
        assert len(system.gateway.requests) == 3


async def test_a_stop_closes_the_connection_to_the_gateway_within_a_second(database_url: str, pool: Any) -> None:
    endless = Reply([*sse(chunk({"content": "Half "}), done=False), Gate(asyncio.Event())])
    async with rig(database_url, pool, endless) as system:
        await system.brain.create_chat()
        async with system.brain.sending() as feed:
            await feed.read_text("Half ")
            begin = time.monotonic()
            await system.brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
            assert names(await feed.rest())[-1] == "done"
            await system.gateway.until_quiet()
            assert time.monotonic() - begin < 1


async def test_a_client_that_leaves_closes_the_connection_to_the_gateway(database_url: str, pool: Any) -> None:
    endless = Reply([*sse(chunk({"content": "Half "}), done=False), Gate(asyncio.Event())])
    async with rig(database_url, pool, endless) as system:
        await system.brain.create_chat()
        async with system.brain.sending() as feed:
            await feed.read_text("Half ")
        await system.gateway.until_quiet()
        await system.brain.idle()
        assert (await system.brain.load()).messages == ()


async def test_a_hand_that_is_killed_in_mid_stream_ends_the_turn(database_url: str, pool: Any) -> None:
    endless = Reply([*sse(chunk({"content": "Half "}), done=False), Gate(asyncio.Event())])
    async with rig(database_url, pool, endless) as system:
        await system.brain.create_chat()
        async with system.brain.sending() as feed:
            await feed.read_text("Half ")
            system.hand.send_signal(signal.SIGKILL)
            events = await feed.rest()
        assert events[-1].data["type"] == "HandUpstreamException"
        assert (await system.brain.load()).messages == ()


@pytest.mark.parametrize("capabilities", [["tool_calls"], []])
async def test_tools_are_sent_only_to_models_that_can_call_them(database_url: str, pool: Any, capabilities: list[str]) -> None:
    async with rig(database_url, pool, says("Ok."), capabilities=capabilities) as system:
        await system.brain.create_chat()
        await system.brain.send("Hi")
        assert bool(system.gateway.requests[0].body.get("tools")) is bool(capabilities)
