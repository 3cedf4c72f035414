"""A client that goes away, a client that comes back, a person who stops the answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from shared_protocol.messages import AssistantMessage, TextPart, ToolCallPart
from tests.fakes.hand import FakeHand, FakeRun
from tests.integration.turns.conftest import CHAT, Brain, EventFeed, Settings, names, run_brain, text_of_events, until


def endless(pieces: int = 3) -> Any:
    async def script(run: FakeRun) -> None:
        for number in range(pieces):
            await run.text(f"piece {number} ")
        await run.cancelled.wait()

    return script


def gated(gate: asyncio.Event) -> Any:
    async def script(run: FakeRun) -> None:
        await run.reasoning("Hm. ")
        await run.text("One ", "two ")
        await gate.wait()
        await run.text("three")
        await run.message(TextPart("One two three"))
        await run.done()

    return script


async def test_a_client_that_leaves_cancels_its_turn(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    async with brain.sending() as feed:
        await feed.next("text")
    await until(lambda: brain.hand.runs and brain.hand.runs[0].cancelled.is_set())
    await brain.idle()
    assert (await brain.load()).messages == ()
    assert await brain.rows("SELECT * FROM live_turns") == []
    assert names(await brain.send("again"))[-1] == "done"


async def test_a_detached_turn_goes_on_and_stores(brain: Brain) -> None:
    gate = asyncio.Event()
    await brain.create_chat()
    brain.hand.scripts.append(gated(gate))
    async with brain.sending(detach=True) as feed:
        await feed.next("text")
    gate.set()
    await brain.idle()
    assert len((await brain.load()).messages) == 2


async def test_events_of_a_detached_turn_carry_ids(brain: Brain) -> None:
    await brain.create_chat()
    events = await brain.send(detach=True)
    turn_ids = {event.id.rpartition("-")[0] for event in events[1:]}
    assert len(turn_ids) == 1
    assert [int(event.id.rpartition("-")[2]) for event in events[1:]] == [1, 2, 3, 4, 5]


async def test_who_joins_is_told_which_message_is_replaced(brain: Brain) -> None:
    gate = asyncio.Event()
    await brain.create_chat()
    await brain.send("first")
    brain.hand.scripts.append(gated(gate))
    async with brain.sending("in other words", detach=True, replaceFrom=0) as feed:
        await feed.next("text")
        state = (await brain.http.get(f"/api/chats/{CHAT}/run")).json()
    assert state["replaceFrom"] == 0
    assert state["message"]["parts"] == [{"type": "text", "text": "in other words"}]
    gate.set()
    await brain.idle()


async def test_a_rejoin_replays_everything_and_follows(brain: Brain) -> None:
    gate = asyncio.Event()
    await brain.create_chat()
    brain.hand.scripts.append(gated(gate))
    async with brain.sending(detach=True) as feed:
        await feed.read_text("One two ")
    state = (await brain.http.get(f"/api/chats/{CHAT}/run")).json()
    assert state["state"] == "running"
    assert state["pendingApprovals"] == []
    assert state["lastEventId"].startswith(state["turnId"] + "-")
    assert state["message"]["parts"] == [{"type": "text", "text": "Hi"}]
    assert state["message"]["createdAt"] == state["startedAt"]
    assert state["replaceFrom"] is None
    async with brain.http.stream("GET", f"/api/chats/{CHAT}/run", headers={"accept": "text/event-stream"}) as response:
        assert response.status_code == 200
        rejoined = EventFeed(response)
        assert (await rejoined.next()).name == "comment"
        first = await rejoined.next("text")
        assert first.data["delta"] == "One two "
        gate.set()
        events = [first, *await rejoined.rest()]
    assert text_of_events(events) == "One two three"
    assert names(events)[-1] == "done"


async def test_a_rejoin_continues_after_the_last_event_it_had(brain: Brain) -> None:
    gate = asyncio.Event()
    await brain.create_chat()
    brain.hand.scripts.append(gated(gate))
    async with brain.sending(detach=True) as feed:
        last = await feed.read_text("One two ")
    headers = {"accept": "text/event-stream", "last-event-id": last.id}
    async with brain.http.stream("GET", f"/api/chats/{CHAT}/run", headers=headers) as response:
        rejoined = EventFeed(response)
        gate.set()
        assert text_of_events(await rejoined.rest()) == "three"


@pytest.mark.parametrize("given", ["TURN-999999", "TURN-" + "9" * 5000, "TURN--1", "TURN-", "other-3", "3", "-", "a b"])
async def test_a_last_event_that_never_was_means_the_start(brain: Brain, given: str) -> None:
    gate = asyncio.Event()
    await brain.create_chat()
    brain.hand.scripts.append(gated(gate))
    async with brain.sending(detach=True) as feed:
        await feed.read_text("One two ")
    turn_id = (await brain.http.get(f"/api/chats/{CHAT}/run")).json()["turnId"]
    headers = {"accept": "text/event-stream", "last-event-id": given.replace("TURN", turn_id)}
    async with brain.http.stream("GET", f"/api/chats/{CHAT}/run", headers=headers) as response:
        assert response.status_code == 200
        rejoined = EventFeed(response)
        gate.set()
        assert text_of_events(await rejoined.rest()) == "One two three"


async def test_without_a_turn_there_is_nothing_to_follow(brain: Brain) -> None:
    await brain.create_chat()
    assert (await brain.http.get(f"/api/chats/{CHAT}/run")).json() == {"state": "idle"}
    answer = await brain.http.get(f"/api/chats/{CHAT}/run", headers={"accept": "text/event-stream"})
    assert answer.status_code == 204
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={})).status_code == 409


async def test_stop_ends_the_turn_within_a_second_and_stores_nothing(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    async with brain.sending() as feed:
        await feed.next("text")
        begin = time.monotonic()
        answer = await brain.http.post(f"/api/chats/{CHAT}/stop", json={})
        assert (answer.status_code, answer.json()) == (202, {"state": "stopping"})
        events = await feed.rest()
        await brain.hand.runs[0].cancelled.wait()
        assert time.monotonic() - begin < 1
    assert names(events)[-2:] == ["stopped", "error"]
    assert events[-2].data == {"by": "user"}
    assert (await brain.load()).messages == ()
    await brain.idle()


async def test_stop_keeps_the_partial_answer_on_request(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    async with brain.sending() as feed:
        await feed.read_text("piece 0 piece 1 piece 2 ")
        await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
        events = await feed.rest()
    assert names(events)[-2:] == ["stopped", "done"]
    _, answer = (await brain.load()).messages
    assert isinstance(answer, AssistantMessage)
    assert answer.parts == (TextPart("piece 0 piece 1 piece 2 "),)
    assert answer.finish_reason == "stop"
    assert answer.interrupted is True
    assert min(answer.meta.input_tokens, answer.meta.output_tokens) >= 1


async def test_a_kept_answer_has_no_unanswered_tool_calls(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.tool_round(("c1", "dice__roll", "{}"), text="Rolling. ")
        await run.tool_round(("c2", "dice__wait", "{}"), text="Again. ")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    async with brain.sending() as feed:
        while (await feed.next("tool_call")).data["id"] != "c2":
            continue
        await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
        assert names(await feed.rest())[-1] == "done"
    messages = (await brain.load()).messages
    assert len(messages) == 4
    last = messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.parts == (TextPart("Again. "),)
    assert last.interrupted
    first = messages[1]
    assert isinstance(first, AssistantMessage)
    assert isinstance(first.parts[-1], ToolCallPart)


async def test_stop_before_anything_was_said_keeps_nothing(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless(0))
    async with brain.sending() as feed:
        await feed.next("context")
        await until(lambda: brain.hand.runs)
        await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
        events = await feed.rest()
    assert names(events)[-2:] == ["stopped", "error"]
    assert (await brain.load()).messages == ()


async def test_a_stop_needs_no_body_but_what_it_has_is_read(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    path = f"/api/chats/{CHAT}/stop"
    async with brain.sending() as feed:
        await feed.next("text")
        assert (await brain.http.post(path, content=b"{}")).status_code == 415
        for body in (b"{", b"null", b'{"keepPartial":null}', b'{"keepPartial":1}'):
            answer = await brain.http.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 400, body
        assert (await brain.http.post(path)).status_code == 202
        assert names(await feed.rest())[-2:] == ["stopped", "error"]
    assert (await brain.http.post(path, headers={"content-type": "application/json"})).status_code == 409


async def test_two_stops_are_as_good_as_one(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    async with brain.sending() as feed:
        await feed.next("text")
        first, second = await asyncio.gather(
            brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True}),
            brain.http.post(f"/api/chats/{CHAT}/stop", json={}),
        )
        assert first.status_code == 202
        assert second.status_code in {202, 409}
        assert names(await feed.rest())[-1] in {"done", "error"}


async def test_a_lost_lock_session_ends_the_turn(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(endless())
    async with brain.sending() as feed:
        await feed.next("text")
        # Of this database only: other tests run beside this one.
        await brain.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'daapu-chat-locks' AND datname = current_database()"
        )
        events = await feed.rest()
    assert names(events)[-1] == "error"
    assert "lock" in events[-1].data["message"]
    assert (await brain.load()).messages == ()
    assert names(await brain.send("again"))[-1] == "done"


async def test_a_shutdown_ends_live_turns_and_tells_their_clients(database_url: str, pool: Any, hand: FakeHand) -> None:
    hand.scripts.append(endless())
    feed: EventFeed
    async with run_brain(database_url, pool, hand, Settings()) as brain:
        await brain.create_chat()
        async with brain.sending(detach=True) as feed:
            await feed.next("text")
            for turn in list(brain.turns._turns):
                turn.abandon("the brain is shutting down")
            assert names(await feed.rest())[-1] == "error"
    assert hand.runs[0].cancelled.is_set()


async def test_silence_is_filled_with_pings(brain: Brain, monkeypatch: Any) -> None:
    from brain.api import messages

    stream = messages.EventStream
    monkeypatch.setattr(messages, "EventStream", lambda events: stream(events, heartbeat_s=0.05))
    await brain.create_chat()
    brain.hand.scripts.append(endless(1))
    async with brain.sending() as feed:
        await feed.next("text")
        try:
            async with asyncio.timeout(0.5):
                await feed.next("never")
        except TimeoutError:
            assert feed.bytes.count(b": ping\n\n") >= 3


async def cut_short(run: FakeRun) -> None:
    await run.text("As far as I ")
    await run.message(TextPart("As far as I "), finish_reason="length")
    await run.error("output_budget_exhausted", "the limit of 1000 tokens was used up")


async def test_an_answer_cut_by_the_output_limit_is_stored_only_if_a_person_asks(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(cut_short)
    assert names(await brain.send())[-1] == "error"
    assert (await brain.load()).messages == ()
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={})).status_code == 409
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})).status_code == 202
    answer = (await brain.load()).messages[-1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.parts, answer.finish_reason, answer.interrupted) == ((TextPart("As far as I "),), "stop", True)
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})).status_code == 409


async def test_a_cut_answer_is_forgotten_when_the_chat_goes_on(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(cut_short)
    await brain.send()
    await brain.send("again")
    assert (await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})).status_code == 409
    assert len((await brain.load()).messages) == 2
