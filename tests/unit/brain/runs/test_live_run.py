from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from msgspec import Raw

from brain.runs.registry import RunEndedError, RunRegistry
from brain.tools.provider import text_outcome
from tests.fakes.tools import FakeTools

MODEL = cast("Any", None)


async def test_call_is_answered_while_its_run_lives() -> None:
    tools = FakeTools("fs")
    registry = RunRegistry()
    with registry.register(tools, MODEL) as run_id:
        run = registry.find(run_id)
        assert run is not None
        assert await run.perform(tools.execute("c", "fs__run", Raw(b"{}"))) == text_outcome("done")
    assert registry.find(run_id) is None


async def test_end_of_a_run_ends_its_calls() -> None:
    tools = FakeTools("fs")
    tools.block = asyncio.Event()
    registry = RunRegistry()
    with registry.register(tools, MODEL) as run_id:
        run = registry.find(run_id)
        assert run is not None
        calls = [asyncio.create_task(run.perform(tools.execute(str(n), "fs__run", Raw(b"{}")))) for n in range(3)]
        async with asyncio.timeout(5):
            for _ in calls:
                await tools.started.get()
    for call in calls:
        with pytest.raises(RunEndedError):
            await call


async def test_cancelled_caller_cancels_its_call_and_stays_cancelled() -> None:
    tools = FakeTools("fs")
    tools.block = asyncio.Event()
    registry = RunRegistry()
    with registry.register(tools, MODEL) as run_id:
        run = registry.find(run_id)
        assert run is not None
        call = asyncio.create_task(run.perform(tools.execute("c", "fs__run", Raw(b"{}"))))
        async with asyncio.timeout(5):
            await tools.started.get()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
