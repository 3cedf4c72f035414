"""Replays: windows, jobs, provenance, interruptions, single flight."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from msgspec import Raw

from brain.errors import CapabilityError, ConflictError, InvalidInputError
from brain.memory.replay import ReplayService
from shared_protocol.codec import decode_messages
from shared_protocol.messages import (
    AssistantMessage,
    AttachmentPart,
    Base64Content,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
    text_of,
)
from tests.fakes.scripted_model import Fail, Prompt, Reply, ScriptedModel, chat_model
from tests.integration.memory.pipelines import USAGE, answered, said


def chat(rounds: int):
    return tuple(
        message
        for number in range(1, rounds + 1)
        for message in (said(f"question {number} " + "x" * 200), answered(f"answer {number}"))
    )


@contextlib.asynccontextmanager
async def open_replay(pool, model: ScriptedModel | None = None, **kwargs):
    model = model or ScriptedModel(script=lambda _: "They talked.")
    async with model.serve() as collector:
        yield ReplayService(pool, collector, chat_model(), chat_model(), **kwargs), model


async def queued(pool):
    async with pool.connection() as conn:
        rows = await (
            await conn.execute(
                "SELECT chat_json, first_index, serial_key, chat_id, chat_title, message_count FROM pending_extractions ORDER BY id"
            )
        ).fetchall()
    return [(decode_messages(row[0]), *row[1:]) for row in rows]


def questions(messages) -> list[int]:
    return [
        int(text_of(message.parts).split()[1])
        for message in messages
        if isinstance(message, UserMessage) and text_of(message.parts).startswith("question")
    ]


async def test_nothing_was_replayed_yet(pool):
    async with open_replay(pool) as (replays, _):
        status = await replays.status()
    assert (status.state, status.messages_total, status.windows_compacted, status.jobs_queued, status.error) == (
        "idle",
        0,
        0,
        0,
        None,
    )


async def test_twenty_rounds_give_two_windows_and_three_jobs(pool):
    async with open_replay(pool) as (replays, _):
        started = await replays.start(chat(20), title="Old", compaction_rounds=8, context_rounds=3)
        assert (started.state, started.messages_total) == ("running", 0)
        assert await replays.walk_one()
        status = await replays.status()
    assert (status.state, status.messages_total, status.windows_compacted, status.jobs_queued, status.error) == (
        "finished",
        40,
        2,
        3,
        None,
    )
    jobs = await queued(pool)
    assert [questions(messages) for messages, *_ in jobs] == [list(range(1, 9)), list(range(9, 16)), list(range(16, 21))]
    assert [text_of(messages[0].parts)[:20] for messages, *_ in jobs[1:]] == ["CONTEXT COMPACTION: "] * 2
    # The summary stands in front of the raw messages: positions count from the message it takes the place of.
    assert [first for _, first, *_ in jobs] == [0, 15, 29]
    assert {row[2] for row in jobs} == {jobs[0][2]}
    assert all((row[3], row[4]) == (None, "Old") for row in jobs)


@pytest.mark.parametrize("rounds", [1, 2, 7, 8, 9, 11, 12, 13, 25])
async def test_every_round_is_queued_exactly_once(pool, rounds):
    async with open_replay(pool) as (replays, _):
        await replays.start(chat(rounds), compaction_rounds=4, context_rounds=3)
        await replays.walk_one()
    assert [number for messages, *_ in await queued(pool) for number in questions(messages)] == list(range(1, rounds + 1))


async def test_upload_is_dropped_when_the_walk_has_ended(pool):
    async with open_replay(pool) as (replays, _):
        await replays.start(chat(12))
        await replays.walk_one()
        async with pool.connection() as conn:
            rows = await (await conn.execute("SELECT upload_json, summary_json FROM replay_runs")).fetchall()
    assert rows == [("[]", None)]


async def test_second_replay_waits_for_the_first(pool):
    async with open_replay(pool) as (replays, _):
        await replays.start(chat(3))
        with pytest.raises(ConflictError):
            await replays.start(chat(3))
        await replays.walk_one()
        await replays.start(chat(3))


async def test_two_brains_do_not_walk_the_same_replay(pool):
    gate = asyncio.Event()

    async with open_replay(pool) as (first, _), open_replay(pool) as (second, _):
        await first.start(chat(20))
        assert sorted(await asyncio.gather(first.walk_one(), second.walk_one())) == [False, True]
        gate.set()
        assert (await first.status()).jobs_queued == 3
        assert (await second.status()) == await first.status()


async def test_failed_compaction_keeps_what_was_queued(pool):
    model = ScriptedModel(script=lambda _: "They talked.")
    model.answers["compaction"] = ["They talked.", Fail("content_filter", "no")]
    async with open_replay(pool, model) as (replays, _):
        await replays.start(chat(20))
        await replays.walk_one()
        status = await replays.status()
        assert (status.state, status.messages_total, status.windows_compacted, status.jobs_queued) == ("failed", 0, 1, 1)
        assert "content_filter" in status.error
        assert len(await queued(pool)) == 1
        await replays.start(chat(3))


async def test_walk_interrupted_twice_is_finished_by_others(pool):
    """5,000 messages; the brain is stopped once in an orderly way and once killed: nothing is queued twice or lost."""
    reached = asyncio.Event()
    stuck = asyncio.Event()
    calls = 0

    def script(prompt: Prompt) -> Reply:
        nonlocal calls
        calls += 1
        return "They talked."

    class Stuck(ScriptedModel):
        async def handle_run(self, http):
            if calls in {3, 6} and not stuck.is_set():
                reached.set()
                await asyncio.sleep(30)
            return await super().handle_run(http)

    upload = chat(2500)
    async with open_replay(pool, Stuck(script=script), lease_seconds=0.5) as (first, _):
        await first.start(upload)
        walking = asyncio.create_task(first.walk_one())
        await asyncio.wait_for(reached.wait(), 5)
        walking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await walking
        reached.clear()
        calls = 4
        killed = asyncio.create_task(first.walk_one())
        await asyncio.wait_for(reached.wait(), 5)
        async with pool.connection() as conn:  # a killed brain gives nothing back: its lease runs out
            await conn.execute("UPDATE replay_runs SET lease = gen_random_uuid(), lease_until = now() - interval '1 second'")
        stuck.set()
        async with open_replay(pool) as (second, _):
            assert await second.walk_one()
            status = await second.status()
        killed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killed
    assert status.state == "finished"
    jobs = await queued(pool)
    assert [number for messages, *_ in jobs for number in questions(messages)] == list(range(1, 2501))
    assert status.jobs_queued == len(jobs)


async def test_running_service_picks_a_walk_up_and_survives_being_cancelled(pool):
    async with open_replay(pool, poll_seconds=30) as (replays, _):
        running = asyncio.create_task(replays.run())
        await asyncio.sleep(0.05)
        await replays.start(chat(12))
        async with asyncio.timeout(5):
            while (await replays.status()).state != "finished":
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


def straddling():
    call = AssistantMessage(parts=(ToolCallPart("c", "dice__roll", Raw(b"{}")),), meta=USAGE, finish_reason="tool_calls")
    result = ToolResultMessage((ToolResultPart("c", "dice__roll", (TextPart("4"),)),))
    return (said("one"), call, said("two"), result, answered("four"))


@pytest.mark.parametrize(
    ("messages", "knobs"),
    [
        ((), {}),
        ((said("one"),), {}),
        ((answered("one"),), {}),
        (straddling(), {}),
        (chat(2), {"compaction_rounds": 1}),
        (chat(2), {"context_rounds": 0}),
    ],
    ids=["empty", "unanswered", "no user message", "straddling tool pair", "compactionRounds", "contextRounds"],
)
async def test_uploads_that_break_a_rule_are_refused_even_while_another_walks(pool, messages, knobs):
    async with open_replay(pool) as (replays, _):
        await replays.start(chat(2))
        with pytest.raises(InvalidInputError):
            await replays.start(messages, **knobs)


async def test_rules_that_hold_for_imports_alone_do_not_hold_for_replays(pool):
    call = AssistantMessage(parts=(ToolCallPart("c", "dice__roll", Raw(b"{}")),), meta=USAGE, finish_reason="tool_calls")
    result = ToolResultMessage((ToolResultPart("c", "another__name", ()),))
    between = AssistantMessage(parts=(), meta=USAGE, finish_reason="length")
    async with open_replay(pool) as (replays, _):
        assert (await replays.start((said("one"), call, between, result, answered("four")))).state == "running"
        await replays.walk_one()
        assert (await replays.status()).jobs_queued == 1


async def test_pictures_need_models_that_see(pool):
    image = UserMessage((AttachmentPart("image", Base64Content("iVBORw0KGgo="), "image/png"),), chat(1)[0].created_at)
    async with open_replay(pool) as (replays, _):
        with pytest.raises(CapabilityError):
            await replays.start((image, answered("nice")))
