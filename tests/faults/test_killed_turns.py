"""kill -9 of a brain in each phase of a turn and of a compaction: the last good history stays, no snapshot is lost or doubled."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared_protocol.messages import Message, TextPart, ToolCallPart
from shared_protocol.run import ToolCallEvent
from tests.fakes.hand import FakeHand, FakeRun, Script
from tests.integration.turns.conftest import CHAT, Brain, EventFeed, free_port, names, until
from tests.integration.turns.test_compaction import rounds
from tests.unit.brain.chats.test_store import picture_chat

ROOT = Path(__file__).parents[2]
BODY = {"text": "next", "model": "gw/large", "personaId": 0}


class Victim:
    """The process that is going to be killed."""

    def __init__(self, process: asyncio.subprocess.Process, http: httpx2.AsyncClient) -> None:
        self.process = process
        self.http = http

    def order(self, command: str) -> None:
        """Let it edit the chat: ``delete`` or ``truncate``."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def victim(database_url: str, hand: FakeHand) -> AsyncGenerator[Victim]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.brain_program", database_url, hand.url, str(port),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"ready\n"
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            yield Victim(process, http)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def answers_again(brain: Brain) -> None:
    """The chat works: the dead process's lock and row are no obstacle."""

    async def attempt() -> bool:
        answer = await brain.http.post(f"/api/chats/{CHAT}/messages", json=BODY)
        return answer.status_code == 200 and b"event: done" in answer.content

    async with asyncio.timeout(10):
        while not await attempt():
            await asyncio.sleep(0.05)


async def hang(run: FakeRun) -> None:
    await run.cancelled.wait()


async def hang_in_text(run: FakeRun) -> None:
    await run.text("Half an ")
    await run.cancelled.wait()


async def hang_after_a_message(run: FakeRun) -> None:
    await run.text("All of it")
    await run.message(TextPart("All of it"))
    await run.cancelled.wait()


async def hang_in_a_tool(run: FakeRun) -> None:
    await run.message(ToolCallPart("c1", "dice__wait", b"{}"), finish_reason="tool_calls")  # type: ignore[arg-type]
    await run.send(ToolCallEvent("c1", "dice__wait", b"{}"))  # type: ignore[arg-type]
    await run.call("c1", "dice__wait")


async def hang_after_a_tool(run: FakeRun) -> None:
    await run.tool_round(("c1", "dice__roll", "{}"))
    await run.cancelled.wait()


async def overflow(run: FakeRun) -> None:
    await run.error("context_exhausted", "full")


async def overflow_after_a_tool(run: FakeRun) -> None:
    await run.tool_round(("c1", "dice__roll", "{}"))
    await run.error("context_exhausted", "full")


async def overflow_and_hang_the_next_summary(run: FakeRun) -> None:
    run.hand.summary = hang
    await run.error("context_exhausted", "full")


@dataclass(frozen=True)
class Phase:
    """How to bring a turn into a phase, and how to know that it is there: an event, and the runs the hand has begun."""

    prepare: Callable[[FakeHand], None]
    history: list[Message]
    event: str
    runs: int = 1
    body: dict[str, Any] = field(default_factory=dict[str, Any])


def playing(*scripts: Script) -> Callable[[FakeHand], None]:
    return lambda hand: hand.scripts.extend(scripts)


def summarising(*scripts: Script) -> Callable[[FakeHand], None]:
    def prepare(hand: FakeHand) -> None:
        hand.scripts.extend(scripts)
        hand.summary = hang

    return prepare


FULL = rounds(4, input_tokens=90_000)
PHASES: dict[str, Phase] = {
    "before the first token": Phase(playing(hang), rounds(2), "context"),
    "in the text": Phase(playing(hang_in_text), rounds(2), "text"),
    "after the message, before the end": Phase(playing(hang_after_a_message), rounds(2), "usage"),
    "in a tool": Phase(playing(hang_in_a_tool), rounds(2), "tool_call"),
    "while a person is asked": Phase(playing(hang_in_a_tool), rounds(2), "tool_approval", body={"approvals": True}),
    "between two rounds": Phase(playing(hang_after_a_tool), rounds(2), "tool_result"),
    "in the summary before the run": Phase(summarising(), FULL, "comment"),
    "after the summary, in the run": Phase(playing(hang_in_text), FULL, "text", 2),
    "in the summary after an overflow": Phase(summarising(overflow), rounds(4), "context", 2),
    "in the summary after an overflow behind tools": Phase(summarising(overflow_after_a_tool), rounds(4), "tool_result", 2),
    "in the run after an overflow": Phase(playing(overflow, hang_in_text), rounds(4), "text", 3),
    "in the second summary": Phase(playing(overflow, overflow_and_hang_the_next_summary), rounds(8), "retry", 4),
    "while replacing a message": Phase(playing(hang_in_text), rounds(3), "text", body={"replaceFrom": 2}),
    "detached": Phase(playing(hang_in_text), rounds(2), "text", body={"detach": True}),
}


@pytest.mark.prefix_moves("compactions")
@pytest.mark.parametrize("name", list(PHASES))
async def test_a_killed_brain_leaves_the_last_good_history(database_url: str, brain: Brain, hand: FakeHand, name: str) -> None:
    phase = PHASES[name]
    await brain.create_chat(*phase.history)
    before = await brain.load()
    phase.prepare(hand)
    async with victim(database_url, hand) as other:
        async with other.http.stream("POST", f"/api/chats/{CHAT}/messages", json=BODY | phase.body) as response:
            feed = EventFeed(response)
            await feed.next(phase.event)
            await until(lambda: len(hand.runs) >= phase.runs)
            assert len(hand.runs) == phase.runs
            await other.kill()
    assert await brain.load() == before
    assert await brain.rows("SELECT * FROM pending_extractions") == []
    assert await brain.rows("SELECT * FROM chat_drops") == []
    assert await brain.rows("SELECT * FROM turn_memories") == []
    hand.scripts.clear()
    hand.summary = "A short summary."
    await answers_again(brain)
    assert await brain.rows("SELECT * FROM live_turns") == []


@pytest.mark.prefix_moves("compactions")
async def test_a_brain_killed_in_its_store_stores_all_or_nothing(database_url: str, brain: Brain, hand: FakeHand) -> None:
    await brain.create_chat(*rounds(4, input_tokens=90_000))
    before = await brain.load()
    async with victim(database_url, hand) as other, brain.pool.connection() as blocker:
        async with blocker.transaction():
            # The queue refuses rows until this transaction ends: the victim is in the middle of its own.
            await blocker.execute("LOCK TABLE pending_extractions IN EXCLUSIVE MODE")
            async with other.http.stream("POST", f"/api/chats/{CHAT}/messages", json=BODY) as response:
                feed = EventFeed(response)
                await feed.next("usage")
                await until_blocked(brain)
                await other.kill()
    assert await brain.load() == before
    assert await brain.rows("SELECT * FROM pending_extractions") == []
    await answers_again(brain)
    assert len(await brain.rows("SELECT * FROM pending_extractions")) == 1


@pytest.mark.parametrize(
    ("command", "table"), [("delete", "pending_extractions"), ("delete", "attachments"), ("truncate", "chat_search")]
)
async def test_a_brain_killed_in_an_edit_changes_nothing(database_url: str, brain: Brain, command: str, table: str) -> None:
    history = [*picture_chat(), *rounds(2)]
    await brain.create_chat(*history)
    before = await brain.load()
    async with victim(database_url, brain.hand) as other, brain.pool.connection() as blocker:
        async with blocker.transaction():
            await blocker.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")  # type: ignore[arg-type]
            other.order(command)
            await until_blocked(brain)
            # It holds the chat: nobody else may answer or change it now.
            assert (await brain.http.post(f"/api/chats/{CHAT}/messages", json=BODY)).status_code == 409
            await other.kill()
    assert await brain.load() == before
    assert await brain.rows("SELECT * FROM pending_extractions") == []
    await answers_again(brain)


async def test_a_stored_turn_of_a_killed_brain_is_whole(database_url: str, brain: Brain, hand: FakeHand) -> None:
    await brain.create_chat(*rounds(4, input_tokens=90_000))
    async with victim(database_url, hand) as other:
        async with other.http.stream("POST", f"/api/chats/{CHAT}/messages", json=BODY) as response:
            events = await EventFeed(response).rest()
            await other.kill()
    assert names(events)[-1] == "done"
    assert len((await brain.load()).messages) == 1 + 4 + 2
    assert len(await brain.rows("SELECT * FROM pending_extractions")) == 1
    assert len(await brain.rows("SELECT * FROM chat_drops")) == 1


async def test_a_hand_that_dies_in_mid_stream_is_an_error_and_stores_nothing(brain: Brain, hand: FakeHand) -> None:
    async def dying(run: FakeRun) -> None:
        await run.text("Half an ")
        transport: Any = run._response._payload_writer.transport  # type: ignore[union-attr]
        transport.abort()

    await brain.create_chat()
    hand.scripts.append(dying)
    events = await brain.send()
    assert names(events)[-1] == "error"
    assert events[-1].data["type"] == "HandUpstreamException"
    assert (await brain.load()).messages == ()
    await brain.idle()


async def until_blocked(brain: Brain) -> None:
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'daapu-victim' AND wait_event_type = 'Lock'"
    async with asyncio.timeout(5):
        while not await brain.rows(query):
            await asyncio.sleep(0.01)
