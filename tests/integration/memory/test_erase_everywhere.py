"""A planted word is remembered, recalled, and erased with its chats: it is in no table, no queue, no prompt, no dump.

Every column of every table is read, whatever it is called, so that a table added later is looked through as well.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING

import pytest
from msgspec import Raw
from psycopg import sql

from brain.chats.store import ChatStore
from brain.errors import InvalidInputError
from brain.jobs.queue import JobQueue, QueuePolicy, enqueue_snapshot
from brain.jobs.worker import JobWorker
from brain.memory.erase import Eraser, EraseTarget
from brain.memory.forget import Corrections
from brain.memory.notes import NoteRules
from brain.memory.pipeline import MemoryPipeline
from brain.memory.recall import Recaller
from brain.memory.replay import ReplayService
from brain.memory.rewrite import Rewriter
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tokens import fold
from brain.memory.transfer import Transfer
from brain.memory.views import NewNote, NoteSource
from brain.memory.writer import Writer
from brain.memory.writer_tools import WriterTools
from shared_protocol.instants import Instant
from shared_protocol.messages import (
    AssistantMessage,
    AttachmentPart,
    Base64Content,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from tests.fakes.scripted_model import Fail, chat_model
from tests.integration.memory.pipelines import USAGE, answered, open_memory, said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from uuid import UUID

    from psycopg import AsyncConnection

    from brain.memory.evidence import Fact
    from brain.memory.writer import Written
    from tests.integration.memory.pipelines import Memory

DAY = date(2026, 3, 2)
NOW = Instant("2026-03-20T10:00:00Z")
WORD = "Zaunkönig"
PLANTED, TITLED, DROPPED, BYSTANDER = (f"1755500000000-{number}" for number in range(1, 5))
POLICY = QueuePolicy(lease_seconds=1800, first_delay_seconds=300)


class Chats:
    """The chats as the eraser needs them, on the real tables."""

    @asynccontextmanager
    async def hold(self, chat_id: str) -> AsyncGenerator[None]:
        yield

    async def delete(self, conn: AsyncConnection, chat_id: str) -> bool:
        return await ChatStore().delete(conn, chat_id)


async def find_word(store: EltmStore, word: str = WORD) -> set[str]:
    """Return every ``table.column`` in which the word stands: as text, escaped, without its accents, or as bytes."""
    found: set[str] = set()
    async with store.pool.connection() as conn:
        columns = await (
            await conn.execute(
                """
                SELECT c.table_schema, c.table_name, c.column_name, c.data_type
                  FROM information_schema.columns AS c
                  JOIN information_schema.tables AS t USING (table_schema, table_name)
                 WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
                """
            )
        ).fetchall()
        assert len(columns) > 100
        for schema, table, column, kind in columns:
            shown = sql.Identifier(column) if kind == "bytea" else sql.SQL("{}::text").format(sql.Identifier(column))
            rows = await conn.execute(sql.SQL("SELECT {} FROM {}").format(shown, sql.Identifier(schema, table)))
            if any(holds(row[0], word) for row in await rows.fetchall()):
                found.add(f"{table}.{column}")
    return found


def holds(value: object, word: str) -> bool:
    if value is None:
        return False
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if "\\u" in text:
        text += text.encode().decode("unicode_escape", "replace")
    return fold(word) in fold(text)


def picture(text: str) -> AttachmentPart:
    return AttachmentPart("image", Base64Content(base64.b64encode(f"PNG {text}".encode()).decode()), "image/png")


def asked_of_a_tool(escaped: str) -> tuple:
    call = ToolCallPart("c", "exa__search", Raw(f'{{"query":"{escaped}"}}'.encode()))
    return (
        said("Please look it up."),
        AssistantMessage(parts=(call,), meta=USAGE, finish_reason="tool_calls"),
        ToolResultMessage((ToolResultPart("c", "exa__search", (TextPart("Nothing."),)),)),
        answered("Nothing found."),
    )


async def plant(memory: Memory) -> None:
    """Put the word wherever the product can put it, by the ways of the product."""
    store, chats = memory.store, ChatStore()
    async with store.pool.connection() as conn, conn.transaction():
        seen = UserMessage((TextPart(f"My passport word is {WORD.upper()}."), picture(WORD)), Instant("2026-03-02T12:00:00Z"))
        await chats.insert(conn, PLANTED, title="Passport", messages=(seen, answered("Noted.")))
        await chats.add_drop(conn, PLANTED, (said(f"An older word on the {WORD}."), answered("Yes.")))
        await chats.insert(conn, TITLED, title=f"About the {WORD}", messages=(said("Hello."), answered("Hi.")))
        await chats.insert(conn, DROPPED, title="Long one", messages=(said("Hello."), answered("Hi.")))
        await chats.add_drop(
            conn, DROPPED, (UserMessage((TextPart(f"A {WORD} again."), picture(f"only {WORD}")), NOW), answered("Yes."))
        )
        await chats.insert(conn, BYSTANDER, title="Bystander", messages=(said("My badge is 7."), answered("Fine.")))
        by_tool = asked_of_a_tool("the zaunk\\u00f6nig")
        await enqueue_snapshot(conn, by_tool, chat_id=None, chat_title="escaped")
    # Remembered, with source, subject and attribute.
    memory.model.answers = {
        "extraction": [
            f'[1] The user\'s passport word is {WORD}. | "My passport word is {WORD}"',
            Fail("upstream", f"what is a {WORD}?"),
        ],
        "plan": [
            f"NOTE | 1 | user (person) |\nATTRIBUTE | 1 | user (person) | passport word = {WORD}\nNOTE | 1 | {WORD} (bird) |"
        ],
    }
    queue = JobQueue(store.pool, POLICY)
    worker = JobWorker(queue, memory.pipeline.work, is_paused=not_paused, workers=1)
    async with store.pool.connection() as conn:
        await conn.execute("UPDATE pending_extractions SET visible_after = now() + interval '1 day'")
        await enqueue_snapshot(conn, (said(f"My passport word is {WORD}."), answered("Noted.")), chat_id=PLANTED, chat_title=WORD)
    assert await worker.work_one()
    async with store.pool.connection() as conn:  # this one fails, and its error quotes the word
        await enqueue_snapshot(conn, (said("Something else."), answered("Noted.")), chat_id=BYSTANDER, chat_title="Bystander")
    assert await worker.work_one()
    # Corrected, renamed, merged and forgotten by a person.
    corrections = Corrections(store.pool, store.spaces)
    user, bird = [view.entity for view in await store.reads.list_entities(10)]
    edited = (
        await store.notes.attach_to_entity(user.id, [NewNote(DAY, f"Saw a {WORD}."), NewNote(DAY, f"{WORD}: forgotten")])
    ).notes
    await corrections.edit_note(edited[0].id, "Saw a bird.")
    await corrections.forget_note(edited[1].id)
    await store.entities.refine(bird.id, name="wren", author="person")
    other = (await store.entities.create(f"{WORD}e", "bird")).view.entity
    await store.relationships.create(user.id, other.id, f"fond of {WORD}")
    await store.entities.set_attributes(other.id, {WORD: "yes"}, author="person")
    replays = ReplayService(store.pool, memory.collector, chat_model(), chat_model())
    await replays.start((said(f"A {WORD} sang."), answered("Nice.")), title=WORD)


async def not_paused() -> bool:
    return False


async def test_the_word_is_found_before_and_nowhere_after(store: EltmStore) -> None:
    async with open_memory(store) as memory:
        await plant(memory)
        assert await find_word(store) >= {
            "attachments.content",
            "chat_drops.messages_json",
            "chat_search.body",
            "chat_search.folded",
            "chats.chat_json",
            "chats.title",
            "eltm_aliases.alias",
            "eltm_entities.canonical_name",
            "eltm_entities.terms",
            "eltm_entity_attributes.key",
            "eltm_entity_attributes.value",
            "eltm_extraction_runs.chat_title",
            "eltm_extraction_runs.outcome",
            "eltm_note_sources.excerpt",
            "eltm_notes.note",
            "eltm_notes.terms",
            "eltm_relationships.verb",
            "eltm_revisions.after",
            "eltm_revisions.before",
            "pending_extractions.chat_json",
            "pending_extractions.last_error",
            "replay_runs.title",
            "replay_runs.upload_json",
        }
        memory.model.script = lambda _: f"What is the {WORD}?"
        rewriter = Rewriter(memory.collector, chat_model(), 2)
        recaller = Recaller(rewriter, memory.search, entity_limit=5, note_limit=5, now=lambda: NOW)
        assert WORD in str(await recaller.recall((said("What was it again?"),)))

        eraser = Eraser(store.pool, store.spaces, Chats())
        done = await eraser.erase(EraseTarget(text=WORD), include_chats=True)
        assert [chat.id for chat in done.chats] == [PLANTED, TITLED]
        assert await find_word(store) == set()

        assert holds(str(await recaller.recall((said("What was it again?"),))), WORD) is False
        assert holds(b"".join([piece async for piece in Transfer(store).export()]), WORD) is False
        memory.model.prompts.clear()
        memory.model.script = lambda _: "Nothing worth remember."
        async with store.pool.connection() as conn:
            await conn.execute("UPDATE pending_extractions SET visible_after = now()")
        worker = JobWorker(JobQueue(store.pool, POLICY), memory.pipeline.work, is_paused=not_paused, workers=1)
        while await worker.work_one():
            pass
        assert not any(holds(prompt.user_text, WORD) for prompt in memory.model.prompts)
        # What has nothing to do with it is still there.
        async with store.pool.connection() as conn:
            chats = await (await conn.execute("SELECT id FROM chats ORDER BY id")).fetchall()
            contents = await (await conn.execute("SELECT count(*) FROM attachments")).fetchall()
        assert [chat_id for (chat_id,) in chats] == [DROPPED, BYSTANDER]
        assert contents == [(0,)]
        assert "wren" in [view.entity.canonical_name for view in await store.reads.list_entities(10)]


class SlowWriter:
    """A writer that waits for the test before it writes."""

    def __init__(self, writer: Writer) -> None:
        self.model = writer.model
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self._writer = writer

    async def write(self, facts: Sequence[Fact], *, run_id: UUID, today: date) -> Written:
        self.reached.set()
        await self.go_on.wait()
        return await self._writer.write(facts, run_id=run_id, today=today)


async def test_a_writer_in_mid_work_cannot_bring_it_back(store: EltmStore) -> None:
    """The model has read the job already when a person erases the word: nothing of it is written any more."""
    async with open_memory(store) as memory:
        memory.model.answers = {
            "extraction": [f'[1] The user\'s passport word is {WORD}. | "My passport word is {WORD}"'],
            "plan": [f"NOTE | 1 | {WORD} (bird) |\nATTRIBUTE | 1 | user (person) | word = {WORD}"],
        }
        slow = SlowWriter(Writer(store, memory.search, memory.collector, chat_model(), max_rounds=5))
        pipeline = MemoryPipeline(store.pool, memory.pipeline.extractor, slow, memory.search)  # type: ignore[arg-type]
        async with store.pool.connection() as conn:
            region = (said(f"My passport word is {WORD}."), answered("Noted."))
            await enqueue_snapshot(conn, region, chat_id=PLANTED, chat_title="x")
        worker = JobWorker(JobQueue(store.pool, POLICY), pipeline.work, is_paused=not_paused, workers=1)
        working = asyncio.create_task(worker.work_one())
        await asyncio.wait_for(slow.reached.wait(), 10)
        await Eraser(store.pool, store.spaces, Chats()).erase(EraseTarget(text=WORD))
        slow.go_on.set()
        await asyncio.wait_for(working, 30)
        assert await find_word(store) == set()


async def test_a_closed_run_writes_by_no_way(store: EltmStore) -> None:
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": ["?"]}
        async with store.pool.connection() as conn:
            await enqueue_snapshot(conn, (said(f"A {WORD}."), answered("Yes.")), chat_id=PLANTED, chat_title="x")
        worker = JobWorker(JobQueue(store.pool, POLICY), memory.pipeline.work, is_paused=not_paused, workers=1)
        await worker.work_one()
        ((run_id,),) = await memory.rows("SELECT id FROM eltm_extraction_runs")
        user = (await store.entities.create("user", "person")).view.entity
        await Eraser(store.pool, store.spaces, Chats()).erase(EraseTarget(text=WORD))
        with pytest.raises(InvalidInputError):
            await store.notes.attach_to_entity(user.id, [NewNote(DAY, "late")], NoteRules(sources=(NoteSource(run_id),)))
        tools = WriterTools(store, EltmSearch(store.pool, store.spaces), [], run_id)
        for name, args in (
            ("create_entity", b'{"name":"late"}'),
            ("set_entity_attribute", b'{"entity_id":1,"key":"k","value":"late"}'),
        ):
            assert (await tools.execute("c", name, Raw(args))).is_error
        assert [view.entity.canonical_name for view in await store.reads.list_entities(10)] == ["user"]
        assert await memory.notes() == []


async def test_an_erased_statement_does_not_move_its_edge(store: EltmStore) -> None:
    ada, acme = [(await store.entities.create(name)).view.entity.id for name in ("ada", "acme")]
    edge = (await store.relationships.create(ada, acme, "works_at")).relationship.id
    await store.notes.attach_to_relationship(edge, [NewNote(DAY, "Ada was fired.")], valid=False)
    await Eraser(store.pool, store.spaces).erase(EraseTarget(text="was fired"))
    await store.relationships.set_valid(edge, valid=True)
    again = await store.notes.attach_to_relationship(edge, [NewNote(DAY, "Ada was fired")], valid=False)
    assert (again.notes, again.kept_out, again.valid) == ([], 1, True)
    assert (await store.reads.get_relationship(edge)).relationship.valid
