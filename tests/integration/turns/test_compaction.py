"""Compaction within a turn: before the run, after an overflow, and when it cannot help."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from brain.turns.injection import Recalled
from shared_protocol.messages import AssistantMessage, Message, TextPart, Usage, UserMessage, text_of
from shared_protocol.run import RunRequest
from tests.fakes.hand import FakeHand, FakeRun, is_summary
from tests.integration.turns.conftest import CHAT, Brain, Settings, model_config, names, run_brain
from tests.unit.brain.chats.test_store import picture_chat

pytestmark = pytest.mark.prefix_moves("compactions replace the oldest rounds")

PREFIX = "CONTEXT COMPACTION: "


def rounds(count: int, *, input_tokens: int = 10, words: int = 60) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        messages.append(UserMessage((TextPart(f"question {number} " + "word " * words),), created_at="2026-03-01T08:00:00Z"))  # type: ignore[arg-type]
        usage = Usage(input_tokens=input_tokens, output_tokens=5, total_tokens=input_tokens + 5)
        messages.append(AssistantMessage(parts=(TextPart(f"answer {number}"),), meta=usage, finish_reason="stop"))
    return messages


def asked(request: RunRequest) -> list[str]:
    """The user messages of a request without their harness parts."""
    return [text_of(message.parts[1:] or message.parts) for message in request.messages if isinstance(message, UserMessage)]  # type: ignore[arg-type]


async def overflow(run: FakeRun) -> None:
    await run.text("Hal")
    await run.error("context_exhausted", "maximum context length is 100000 tokens")


async def jobs(brain: Brain) -> list[Any]:
    return await brain.rows("SELECT chat_id, message_count FROM pending_extractions ORDER BY id")


async def drops(brain: Brain) -> list[Any]:
    return await brain.rows("SELECT n, dropped_messages, rounds FROM chat_drops ORDER BY n")


async def test_a_long_history_is_compacted_before_the_run(brain: Brain) -> None:
    await brain.create_chat(*rounds(5, input_tokens=80_001))
    events = await brain.send("next")
    assert names(events)[:4] == ["comment", "compaction", "memory", "context"]
    assert events[1].data == {"droppedMessages": 6, "rounds": 3, "summaryChars": 16, "reason": "proactive"}
    messages = (await brain.load()).messages
    summary = messages[0]
    assert isinstance(summary, UserMessage)
    assert summary.parts == (TextPart(f"{PREFIX}A short summary."),)
    assert summary.created_at is not None
    assert len(messages) == 1 + 4 + 2
    assert await jobs(brain) == [(CHAT, 6)]
    assert await drops(brain) == [(1, 6, 3)]


async def test_the_trigger_is_strict(brain: Brain) -> None:
    await brain.create_chat(*rounds(5, input_tokens=80_000))
    assert "compaction" not in names(await brain.send("next"))


async def test_new_input_that_cannot_fit_compacts_first(database_url: str, pool: Any, hand: FakeHand) -> None:
    settings = Settings(models=[model_config(context_length=2000)])
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat(*rounds(3, input_tokens=1000))
        assert "compaction" not in names(await brain.send("short"))
        await brain.create_chat(*rounds(3, input_tokens=1000), chat_id="1755500000000-43")
        assert "compaction" in names(await brain.send("long input " * 600, chat_id="1755500000000-43"))


async def test_the_summariser_sees_both_regions_with_anchors_and_a_border(brain: Brain) -> None:
    await brain.create_chat(*rounds(3, input_tokens=90_000))
    await brain.send("next")
    request = next(request for request in brain.hand.requests if is_summary(request))
    texts = ["|".join(part.text for part in message.parts if isinstance(part, TextPart)) for message in request.messages]
    assert [text.startswith("<meta><sent-at>") for text in texts] == [True, False, False, True, False, True, False, False]
    assert "[Border]" in texts[2]
    assert "question 1" in texts[3]
    assert request.tool_list_url is None


async def test_an_overflow_compacts_and_runs_again(brain: Brain) -> None:
    await brain.create_chat(*rounds(4))
    brain.hand.scripts.append(overflow)
    events = await brain.send("next")
    assert names(events) == [
        "comment", "memory", "context", "text", "compaction", "retry", "context", "text", "usage", "done",
    ]  # fmt: skip
    assert events[4].data["reason"] == "reactive"
    first, second = brain.hand.chat_requests
    assert asked(second)[0] == f"{PREFIX}A short summary."
    assert asked(second)[-1] == "next"
    # Kept: two rounds, of which the turn's own is one.
    assert len(asked(second)) == 3
    assert first.run_id != second.run_id
    assert await drops(brain) == [(1, 6, 3)]
    assert await jobs(brain) == [(CHAT, 6)]


async def test_completed_tool_rounds_survive_an_overflow(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.tool_round(("c1", "dice__roll", "{}"))
        await run.message(TextPart("cut of"), finish_reason="length")
        await run.error("context_exhausted", "full")

    await brain.create_chat(*rounds(4))
    brain.hand.scripts.append(script)
    events = await brain.send("next")
    assert names(events)[-1] == "done"
    assert len(brain.tools.calls) == 1
    roles = [type(message).__name__ for message in brain.hand.chat_requests[1].messages]
    assert roles[-3:] == ["UserMessage", "AssistantMessage", "ToolResultMessage"]
    kept = (await brain.load()).messages
    assert [type(message).__name__ for message in kept[-4:]] == [
        "UserMessage", "AssistantMessage", "ToolResultMessage", "AssistantMessage",
    ]  # fmt: skip


async def test_a_swallowed_input_is_asked_again(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.tool_round(("c1", "dice__roll", "{}"), text="A long thought about dice. " * 20)
        await run.error("context_exhausted", "full")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    assert names(await brain.send("roll"))[-1] == "done"
    assert asked(brain.hand.chat_requests[1]) == [f"{PREFIX}A short summary.", "roll"]
    assert await drops(brain) == [(1, 3, 1)]


async def test_an_input_that_is_too_large_by_itself_fails_without_paying_for_a_summary(brain: Brain) -> None:
    await brain.create_chat()
    brain.hand.scripts.append(overflow)
    events = await brain.send("far too long")
    assert names(events)[-1] == "error"
    assert "context window" in events[-1].data["message"]
    assert len(brain.hand.requests) == 1
    assert (await brain.load()).messages == ()


async def test_an_endless_overflow_ends_after_bounded_attempts(brain: Brain) -> None:
    await brain.create_chat(*rounds(12))
    before = (await brain.load()).messages
    brain.hand.scripts.extend([overflow] * 20)
    events = await brain.send("next")
    assert names(events)[-1] == "error"
    assert names(events).count("compaction") <= 3
    assert len(brain.hand.requests) <= 7
    assert (await brain.load()).messages == before
    assert await jobs(brain) == []
    assert await drops(brain) == []


async def test_a_summary_that_is_not_smaller_is_asked_for_once_more_and_then_refused(brain: Brain) -> None:
    brain.hand.summary = "blah " * 5000
    await brain.create_chat(*rounds(3, input_tokens=90_000))
    events = await brain.send("next")
    assert names(events)[-1] == "error"
    assert events[-1].data["message"].startswith("compaction failed")
    assert [is_summary(request) for request in brain.hand.requests] == [True, True]


async def test_a_failing_summary_fails_the_turn_and_names_the_cause(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.error("upstream", "no model today")

    brain.hand.summary = script
    await brain.create_chat(*rounds(3, input_tokens=90_000))
    before = (await brain.load()).messages
    events = await brain.send("next")
    assert names(events) == ["comment", "error"]
    assert events[-1].data["type"] == "IllegalStateException"
    assert "Caused by: " in events[-1].data["message"]
    assert (await brain.load()).messages == before
    assert await jobs(brain) == []


async def test_content_the_compaction_model_cannot_read_fails_the_turn_before_any_call(
    database_url: str, pool: Any, hand: FakeHand
) -> None:
    # The first model compacts; the second, which sees, answers.
    settings = Settings(models=[model_config("blind", capabilities=["tool_calls"]), model_config("large")])
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat(*picture_chat(), *rounds(2, input_tokens=90_000))
        events = await brain.send("next")
    assert names(events) == ["comment", "error"]
    assert events[-1].data["type"] == "ModelCapabilityException"
    assert "gw/blind" in events[-1].data["message"]
    assert "image" in events[-1].data["message"]
    assert hand.requests == []


async def test_a_failing_run_after_a_compaction_leaves_everything_as_it_was(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.error("upstream", "down")

    await brain.create_chat(*rounds(3, input_tokens=90_000))
    before = (await brain.load()).messages
    brain.hand.scripts.append(script)
    events = await brain.send("next")
    assert names(events)[-1] == "error"
    assert (await brain.load()).messages == before
    assert await jobs(brain) == []
    assert await drops(brain) == []


async def test_a_chat_that_is_not_remembered_is_compacted_without_a_job(brain: Brain) -> None:
    await brain.create_chat(*rounds(5, input_tokens=90_000))
    assert names(await brain.send("next", remember=False))[-1] == "done"
    assert await jobs(brain) == []
    assert await drops(brain) == [(1, 6, 3)]


async def test_a_request_over_the_byte_limit_compacts_like_an_overflow(database_url: str, pool: Any, hand: FakeHand) -> None:
    async with run_brain(database_url, pool, hand, Settings(run_request_bytes=16_000)) as brain:
        await brain.create_chat(*rounds(8, words=400))
        events = await brain.send("next")
        assert names(events)[-1] == "done"
        assert "compaction" in names(events)


async def test_a_message_over_the_byte_limit_fails_clearly(database_url: str, pool: Any, hand: FakeHand) -> None:
    async with run_brain(database_url, pool, hand, Settings(run_request_bytes=16_000)) as brain:
        await brain.create_chat()
        events = await brain.send("word " * 4000)
    assert "limits.runRequestBytes" in events[-1].data["message"]
    assert hand.requests == []


@pytest.mark.parametrize("keep", [1, 2, 9])
async def test_the_configured_number_of_rounds_is_kept(database_url: str, pool: Any, hand: FakeHand, keep: int) -> None:
    settings = Settings(models=[model_config(compaction_keep_rounds=keep)])
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat(*rounds(5, input_tokens=90_000))
        await brain.send("next")
        kept = min(keep, 4)
        assert len((await brain.load()).messages) == 1 + 2 * kept + 2


async def test_a_second_attempt_drops_more_than_the_summary(database_url: str, pool: Any, hand: FakeHand) -> None:
    async def tools_then_overflow(run: FakeRun) -> None:
        await run.tool_round(("c1", "dice__roll", "{}"), text="A long thought about dice. " * 20)
        await run.error("context_exhausted", "full")

    async with run_brain(database_url, pool, hand, Settings(models=[model_config(compaction_keep_rounds=1)])) as brain:
        await brain.create_chat(*rounds(4))
        hand.scripts.extend([overflow, tools_then_overflow])
        events = await brain.send("next")
        assert names(events)[-1] == "done"
        assert [event.data["rounds"] for event in events if event.name == "compaction"] == [4, 2]
        assert asked(hand.chat_requests[-1]) == [f"{PREFIX}A short summary.", "next"]
        assert await drops(brain) == [(1, 8, 4), (2, 4, 2)]


async def test_what_cannot_be_made_smaller_is_told_as_a_full_window(database_url: str, pool: Any, hand: FakeHand) -> None:
    async with run_brain(database_url, pool, hand, Settings(models=[model_config(compaction_keep_rounds=1)])) as brain:
        await brain.create_chat(*rounds(4))
        hand.scripts.extend([overflow] * 5)
        events = await brain.send("next")
    assert names(events)[-1] == "error"
    assert "does not fit into the context window" in events[-1].data["message"]


class StuckMemory:
    """A memory whose version can be read once."""

    def __init__(self) -> None:
        self.reads = 0

    async def version(self) -> str:
        self.reads += 1
        if self.reads > 1:
            await asyncio.Event().wait()
        return "1"

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        del messages
        return Recalled()


async def test_a_stop_after_a_compaction_keeps_what_was_said(database_url: str, pool: Any, hand: FakeHand) -> None:
    async def script(run: FakeRun) -> None:
        await run.tool_round(("c1", "dice__roll", "{}"), text="A long thought about dice. " * 20)
        await run.text("Half an answer")
        await run.error("context_exhausted", "full")

    hand.scripts.append(script)
    async with run_brain(database_url, pool, hand, Settings(memory=StuckMemory())) as brain:
        await brain.create_chat()
        async with brain.sending("roll") as feed:
            await feed.next("compaction")
            await brain.http.post(f"/api/chats/{CHAT}/stop", json={"keepPartial": True})
            assert names(await feed.rest())[-1] == "done"
        summary, question, answer = (await brain.load()).messages
    assert text_of(summary.parts).startswith(PREFIX)  # type: ignore[arg-type]
    assert text_of(question.parts) == "roll"  # type: ignore[arg-type]
    assert text_of(answer.parts) == "Half an answer"  # type: ignore[arg-type]
