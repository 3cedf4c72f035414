"""The hand against the real llama.cpp server with the bundled model: plumbing that no replayed byte can prove."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.hand_client import HandClient, events_of, eventually, names_of, run_request, text_of

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.timeout(300),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="the extra `local` is not installed"),
]

SERVER = Path(__file__).parents[2] / "fakes" / "llama_server.py"


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        lines = (line.strip() for line in process.stdout)
        yield next(line for line in lines if line.startswith("http"))
    finally:
        # Communicating closes the server's input, which ends it.
        process.communicate(timeout=20)


def request_to(address: str, prompt: str, **changes: object) -> dict[str, object]:
    messages = [{"role": "user", "parts": [{"type": "text", "text": prompt}]}]
    request = run_request(f"{address}/v1", messages=messages, maxTokens=64, streamIdleTimeoutMs=120_000)
    model = {"contextWindow": 2048, "maxOutputTokens": 512, "additionalProperties": {"temperature": 0}}
    request["model"].update(model)
    return request | changes


async def test_text(hand: HandClient, address: str) -> None:
    events = await hand.run(request_to(address, "Say hello.", maxTokens=400))
    assert names_of(events) == ["text_delta", "assistant_message", "done"]
    message = events[-2][1]["message"]
    assert text_of(events) == message["parts"][0]["text"]
    assert message["meta"]["inputTokens"] > 0
    assert message["meta"]["outputTokens"] > 0


async def test_a_spent_budget_keeps_the_partial_answer(hand: HandClient, address: str) -> None:
    events = await hand.run(request_to(address, "Tell me a very long story.", maxTokens=8))
    assert names_of(events) == ["text_delta", "assistant_message", "error"]
    assert events[-2][1]["message"]["finishReason"] == "length"
    assert events[-2][1]["message"]["meta"]["outputTokens"] == 8
    assert events[-1][1]["type"] == "output_budget_exhausted"


async def test_json_schema(hand: HandClient, address: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
    response_format = {"type": "json_schema", "name": "city", "schema": schema}
    events = await hand.run(request_to(address, "Name a city in Norway as JSON.", maxTokens=200, responseFormat=response_format))
    assert events[-1][0] == "done"
    assert isinstance(json.loads(text_of(events))["city"], str)


async def test_a_tool_definition_is_accepted(hand: HandClient, address: str, tool_host) -> None:
    events = await hand.run(request_to(address, "Roll a die with six sides.", maxTokens=200, maxRounds=1, **tool_host.urls))
    assert len(tool_host.listings) == 1
    # So small a model may call the tool or chat about it; both are answers to a request that was understood.
    assert events[-1][0] == "done" or events[-1][1]["type"] in {"round_limit", "output_budget_exhausted"}


async def test_a_prompt_over_the_context_is_recognised_in_the_servers_own_words(hand: HandClient, address: str) -> None:
    events = await hand.run(request_to(address, "word " * 4000, maxRetries=3))
    assert names_of(events) == ["error"]
    assert events[0][1]["type"] == "context_exhausted"
    assert "context" in events[0][1]["message"]


async def test_hanging_up_in_mid_stream_makes_the_server_idle(hand: HandClient, address: str) -> None:
    # Without an end of text the model goes on until its budget is spent: more than long enough to be interrupted.
    extra = {"temperature": 0, "ignore_eos": True}
    request = request_to(address, "Count upwards.", maxTokens=1900)
    request["model"]["additionalProperties"] = extra
    async with hand.open_run(request) as response:
        assert (await anext(events_of(response)))[0] == "text_delta"
        assert not await is_idle(address)
    await eventually(lambda: is_idle(address))


async def is_idle(address: str) -> bool:
    def slots() -> list[dict[str, object]]:
        with urllib.request.urlopen(f"{address}/slots", timeout=30) as response:
            return json.load(response)

    return not any(slot["is_processing"] for slot in await asyncio.to_thread(slots))
