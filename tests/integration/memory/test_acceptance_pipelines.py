"""The acceptance list of the memory (memory §26), by its numbers: what belongs to queue, extraction, writer and replay."""

from __future__ import annotations

import pytest
from msgspec import Raw

from brain.errors import InvalidInputError
from brain.jobs import queries
from brain.jobs.queue import JobQueue, QueuePolicy, enqueue_snapshot
from brain.jobs.worker import JobWorker
from brain.memory.maintenance import Maintenance
from brain.memory.replay import ReplayService
from brain.memory.search import EltmSearch
from shared_protocol.messages import AssistantMessage, TextPart, ToolCallPart, ToolResultMessage, ToolResultPart
from tests.eval.corpus import load_corpus
from tests.eval.remembering import remember_corpus
from tests.eval.setups import RecordedModel, bundled_pipeline, recorded_pipeline
from tests.fakes.scripted_model import chat_model
from tests.integration.memory.pipelines import CHAT, FACTS, USAGE, answered, open_memory, said

POLICY = QueuePolicy(lease_seconds=1800, first_delay_seconds=300)


async def enqueue(store, messages=CHAT, chat_id="1755500000000-42") -> int:
    async with store.pool.connection() as conn:
        return await enqueue_snapshot(conn, messages, chat_id=chat_id, chat_title="Moves")


def worker(memory) -> JobWorker:
    maintenance = Maintenance(memory.store.pool)
    return JobWorker(JobQueue(memory.store.pool, POLICY), memory.pipeline.work, is_paused=maintenance.is_enabled, workers=1)


async def jobs(store) -> list[queries.JobSummaryRow]:
    async with store.pool.connection() as conn:
        return await queries.list_jobs(conn, state=None, limit=100, offset=0)


async def let_pass(store, seconds: float) -> None:
    async with store.pool.connection() as conn:
        await conn.execute("UPDATE pending_extractions SET visible_after = visible_after - make_interval(secs => %s)", (seconds,))


@pytest.mark.parametrize(
    "words", ["Nothing worth remember.", "nothing worth remember", "NOTHING WORTH REMEMBER!", " Nothing  worth\nremember? "]
)
async def test_08_sentinel_in_any_casing_with_or_without_the_final_mark_writes_nothing(store, words):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [words]
        before = await store.reads.version()
        await enqueue(store)
        assert await worker(memory).work_one()
        assert (await jobs(store), await memory.notes(), memory.model.asked("writer")) == ([], [], [])
        assert await store.reads.version() == before


async def test_09_killed_failing_and_corrupt_jobs(store):
    """The kill itself is in the suite of faults: here its trace in the table, a lease that nobody keeps."""
    async with open_memory(store) as memory:
        killed = await enqueue(store, chat_id="a")
        queue = JobQueue(store.pool, POLICY)
        assert (await queue.claim()).id == killed
        assert await queue.claim() is None
        await let_pass(store, 1801)
        memory.model.answers = {"extraction": ["?"], "plan": []}
        assert await worker(memory).work_one()  # the lease is over: the job returns, and fails
        (job,) = await jobs(store)
        assert (job.id, job.state, job.attempts) == (killed, "retrying", 2)
        assert not await worker(memory).work_one()
        async with store.pool.connection() as conn:
            await conn.execute("UPDATE pending_extractions SET chat_json = '{'")
        await let_pass(store, 700)
        healthy = await enqueue(store, chat_id="b")
        memory.model.answers = {"extraction": [FACTS], "plan": ["NOTE | 1 | user (person) |"]}
        loop = worker(memory)
        assert await loop.work_one()  # the corrupt one, first in line
        assert await loop.work_one()
        assert [job.id for job in await jobs(store)] == [killed]
        assert healthy not in [job.id for job in await jobs(store)]
        assert len(await memory.notes()) == 2


async def test_13_twenty_rounds_with_8_and_3_give_two_windows_and_three_jobs(store):
    chat = tuple(message for number in range(20) for message in (said(f"question {number} " + "x" * 200), answered("answer")))
    async with open_memory(store) as memory:
        memory.model.script = lambda _: "They talked."
        replays = ReplayService(store.pool, memory.collector, chat_model(), chat_model())
        await replays.start(chat, compaction_rounds=8, context_rounds=3)
        await replays.walk_one()
        status = await replays.status()
        assert (status.windows_compacted, status.jobs_queued, len(await jobs(store))) == (2, 3, 3)
        call = AssistantMessage(parts=(ToolCallPart("c", "dice__roll", Raw(b"{}")),), meta=USAGE, finish_reason="tool_calls")
        result = ToolResultMessage((ToolResultPart("c", "dice__roll", (TextPart("4"),)),))
        with pytest.raises(InvalidInputError):  # the routes answer it with 400
            await replays.start((*chat, said("x"), call, said("y"), result, answered("z")))


async def test_15_switching_maintenance_off_drains_the_queue(store):
    maintenance = Maintenance(store.pool)
    async with open_memory(store) as memory:
        await enqueue(store)
        await maintenance.set_enabled(enabled=True)
        assert not await worker(memory).work_one()
        await maintenance.set_enabled(enabled=False)
        assert await worker(memory).work_one()
        assert await jobs(store) == []


async def test_planted_recalled_and_deleted_adds_nothing(store):
    """Idea J: a word is remembered, asked for in a later chat, and that chat is deleted. Even an extractor that falls for it adds nothing."""
    async with open_memory(store) as memory:
        memory.model.answers = {
            "extraction": ['[1] The user\'s passport word is Heliotrope. | "passport word is Heliotrope"'],
            "plan": ["NOTE | 1 | user (person) |"],
        }
        await enqueue(store, (said("My passport word is Heliotrope."), answered("I will remember.")), "a")
        await worker(memory).work_one()
        assert len(await memory.notes()) == 1
        call = AssistantMessage(
            parts=(ToolCallPart("c", "gsg__investigate", Raw(b'{"query":"passport word"}')),),
            meta=USAGE,
            finish_reason="tool_calls",
        )
        report = ToolResultMessage((ToolResultPart("c", "gsg__investigate", (TextPart("The passport word is Heliotrope."),)),))
        by_tool = (said("What is my passport word?"), call, report, answered("It is Heliotrope."))
        by_injection = (said("What is my passport word?"), answered("Your passport word is Heliotrope."))
        for chat_id, chat, cited in (("b", by_tool, 4), ("c", by_injection, 2), ("d", by_injection, 1)):
            memory.model.answers = {
                "extraction": [f"[{cited}] The user's passport word is Heliotrope."],
                "plan": ["NOTE | 1 | user (person) |"],
            }
            await enqueue(store, chat, chat_id)
            await worker(memory).work_one()
        assert await jobs(store) == []
        assert len(await memory.notes()) == 1


async def test_recorded_answers_twice_add_no_note_and_the_bundled_model_under_three_percent(store):
    chats = load_corpus()[:6]
    search = EltmSearch(store.pool, store.spaces)
    model = RecordedModel()
    recorded = await remember_corpus(chats, store, search, recorded_pipeline(store, search, model), model.prepare)
    assert recorded.added_by_rerun == 0
    bundled = await remember_corpus(chats, store, search, bundled_pipeline(store, search))
    assert bundled.added_by_rerun < 0.03 * bundled.notes
