"""Two brains on one database: a chat is answered by one of them, and either can be asked about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from brain.chats.service import ChatService
from brain.db.pools import open_pool
from brain.errors import ChatBusyError
from brain.jobs.queue import enqueue_encoded
from brain.turns import queries
from brain.turns.service import STALE_SECONDS, find_live_chats
from shared_protocol.messages import AssistantMessage, TextPart, text_of
from tests.fakes.hand import FakeHand, FakeRun
from tests.integration.turns.conftest import CHAT, Brain, EventFeed, Settings, free_port, names, run_brain
from tests.integration.turns.test_compaction import rounds

SSE = {"accept": "text/event-stream"}


@pytest.fixture
async def other(database_url: str, hand: FakeHand) -> AsyncGenerator[Brain]:
    async with open_pool(database_url, name="other") as pool, run_brain(database_url, pool, hand, Settings()) as brain:
        yield brain


async def waiting(run: FakeRun) -> None:
    await run.text("One ", "two")
    await run.cancelled.wait()


async def test_a_chat_that_is_busy_elsewhere_is_409(brain: Brain, other: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(waiting)
    async with brain.sending() as feed:
        await feed.next("text")
        answer = await other.http.post(f"/api/chats/{CHAT}/messages", json={"text": "x", "model": "gw/large", "personaId": 0})
        assert answer.status_code == 409
    await brain.idle()
    assert names(await other.send("now you"))[-1] == "done"


async def test_many_sends_at_once_store_one_answer_each_time(brain: Brain, other: Brain) -> None:
    await brain.create_chat()
    body = {"text": "x", "model": "gw/large", "personaId": 0}
    brains = [brain, other] * 5
    answers = await asyncio.gather(*(each.http.post(f"/api/chats/{CHAT}/messages", json=body) for each in brains))
    done = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert done
    assert all(b"event: done" in answer.content for answer in done)
    assert len((await brain.load()).messages) == 2 * len(done)


async def test_the_other_brain_tells_the_state_and_forwards_the_stream(brain: Brain, other: Brain) -> None:
    gate = asyncio.Event()

    async def script(run: FakeRun) -> None:
        await run.text("One ", "two")
        await gate.wait()
        await run.message(TextPart("One two"))
        await run.done()

    await brain.create_chat()
    brain.hand.scripts.append(script)
    async with brain.sending(detach=True) as feed:
        await feed.read_text("One two")
    mine = (await brain.http.get(f"/api/chats/{CHAT}/run")).json()
    assert mine["state"] == "running"
    assert (await other.http.get(f"/api/chats/{CHAT}/run")).json() == mine
    async with other.http.stream("GET", f"/api/chats/{CHAT}/run", headers=SSE) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        forwarded = EventFeed(response)
        await forwarded.read_text("One two")
        gate.set()
        assert names(await forwarded.rest())[-1] == "done"
    assert (await other.http.get(f"/api/chats/{CHAT}/run")).json() == {"state": "idle"}


async def test_a_stop_reaches_the_owner(brain: Brain, other: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(waiting)
    async with brain.sending() as feed:
        await feed.read_text("One two")
        begin = time.monotonic()
        answer = await other.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
        assert (answer.status_code, answer.json()) == (202, {"state": "stopping"})
        events = await feed.rest()
        assert time.monotonic() - begin < 1
    assert names(events)[-1] == "done"
    last = (await other.load()).messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.interrupted


async def test_an_approval_reaches_the_owner(database_url: str, pool: Any, hand: FakeHand, other: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.tool_round(("c:1 ?", "dice__roll", "{}"))
        await run.answer("Rolled.")

    hand.scripts.append(script)
    async with run_brain(database_url, pool, hand, Settings(ask=("dice",))) as brain:
        await brain.create_chat()
        async with brain.sending(approvals=True) as feed:
            await feed.next("tool_approval")
            unknown = await other.http.post(f"/api/chats/{CHAT}/approvals/nope", json={"decision": "approve"})
            assert unknown.status_code == 404
            url = f"/api/chats/{CHAT}/approvals/c%3A1%20%3F"
            answer = await other.http.post(url, json={"decision": "approve"})
            assert answer.status_code == 204, answer.text
            assert names(await feed.rest())[-1] == "done"


async def test_an_owner_that_is_gone_is_no_owner(brain: Brain) -> None:
    await brain.create_chat()
    async with brain.pool.connection() as conn:
        dead = f"http://127.0.0.1:{free_port()}"
        await queries.claim_turn(conn, CHAT, turn_id="dead", owner="dead", address=dead)
    assert (await brain.http.get(f"/api/chats/{CHAT}/run")).json() == {"state": "idle"}
    assert (await brain.http.get(f"/api/chats/{CHAT}/run", headers=SSE)).status_code == 204
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={})).status_code == 409
    assert names(await brain.send())[-1] == "done"
    assert await brain.rows("SELECT * FROM live_turns") == []


async def test_an_owner_that_was_not_seen_for_long_is_not_asked(brain: Brain) -> None:
    await brain.create_chat()
    async with brain.pool.connection() as conn:
        await queries.claim_turn(conn, CHAT, turn_id="old", owner="old", address="http://127.0.0.1:1")
        assert await queries.find_live_turn(conn, CHAT, stale_seconds=STALE_SECONDS) is not None
        assert await queries.list_live_chats(conn, stale_seconds=STALE_SECONDS) == [CHAT]
        await conn.execute("UPDATE live_turns SET seen_at = now() - interval '1 minute'")
        assert await queries.find_live_turn(conn, CHAT, stale_seconds=STALE_SECONDS) is None
        assert await queries.list_live_chats(conn, stale_seconds=STALE_SECONDS) == []
        assert await queries.touch_turns(conn, owner="old") == 1
        assert await queries.find_live_turn(conn, CHAT, stale_seconds=STALE_SECONDS) is not None


async def test_a_forwarded_request_is_not_forwarded_again(brain: Brain, other: Brain) -> None:
    await brain.create_chat()
    async with brain.pool.connection() as conn:
        # Two restarted brains that each take the other for the owner.
        await queries.claim_turn(conn, CHAT, turn_id="x", owner="nobody", address=other.url)
    assert (await brain.http.get(f"/api/chats/{CHAT}/run")).json() == {"state": "idle"}


async def test_deleting_the_chat_removes_its_row_and_grants(brain: Brain) -> None:
    await brain.create_chat()
    async with brain.pool.connection() as conn:
        await queries.claim_turn(conn, CHAT, turn_id="x", owner="x", address="x")
        await queries.insert_grant(conn, CHAT, "dice__roll")
        await queries.insert_grant(conn, "1-1", "dice__roll")
        assert await queries.has_grant(conn, CHAT, "dice__roll")
        assert not await queries.has_grant(conn, "1-1", "dice__roll")
        assert not await queries.claim_turn(conn, "1-1", turn_id="x", owner="x", address="x")
        await conn.execute("DELETE FROM chats")
    assert await brain.rows("SELECT * FROM live_turns") == []
    assert await brain.rows("SELECT * FROM tool_grants") == []


async def test_a_turn_whose_lock_was_lost_never_overwrites_the_answer_of_another_brain(brain: Brain, other: Brain) -> None:
    gate = asyncio.Event()

    async def script(run: FakeRun) -> None:
        await run.text("late")
        await gate.wait()
        await run.message(TextPart("late"))
        await run.done()

    await brain.create_chat()
    brain.hand.scripts.append(script)
    async with brain.sending("first") as feed:
        await feed.next("text")
        # At this moment a second brain may take the chat, whatever the first one still believes.
        session = brain.locks._session
        assert session is not None
        await brain.rows(f"SELECT pg_terminate_backend({session.info.backend_pid})")
        assert names(await other.send("second"))[-1] == "done"
        gate.set()
        assert names(await feed.rest())[-1] == "error"
    stored = (await brain.load()).messages
    assert [text_of(message.parts) for message in stored] == ["second", "Hello there."]  # type: ignore[arg-type]
    assert await brain.rows("SELECT * FROM live_turns") == []


@pytest.mark.parametrize("edit", ["delete", "truncate"])
async def test_a_chat_that_is_answered_elsewhere_is_not_edited(brain: Brain, other: Brain, edit: str) -> None:
    chats = ChatService(other.pool, other.store, other.locks, enqueue=enqueue_encoded, live=find_live_chats)
    await brain.create_chat(*rounds(2))
    brain.hand.scripts.append(waiting)
    async with brain.sending() as feed:
        await feed.next("text")
        with pytest.raises(ChatBusyError):
            await (chats.delete(CHAT) if edit == "delete" else chats.truncate(CHAT, 2))
    await brain.idle()
    assert len((await brain.load()).messages) == 4
