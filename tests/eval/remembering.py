"""Puts the whole corpus through the pipeline and counts what is in the memory afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date

import msgspec

from brain.memory.evidence import contains_quote, overlap
from brain.memory.pipeline import MemoryPipeline, Origin
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tokens import query_terms
from shared_protocol.messages import UserMessage, text_of
from tests.eval.corpus import Chat, Session

Prepare = Callable[[Chat, Session], None]


class Remembered(msgspec.Struct, frozen=True):
    """Figures of one pass over the corpus and a second one."""

    facts: int
    notes: int
    kept: int
    dated: int
    with_date: int
    sourced: int
    verbatim: int
    supported: int
    traps: int
    trap_cases: int
    found_at_5: int
    found_at_10: int
    added_by_rerun: int
    dropped: int
    seconds: float
    missed: list[str]

    @property
    def recall(self) -> float:
        """Share of the facts that are in a note."""
        return self.kept / self.facts


async def remember_corpus(
    chats: list[Chat],
    store: EltmStore,
    search: EltmSearch,
    pipeline: MemoryPipeline,
    prepare: Prepare = lambda _chat, _session: None,
) -> Remembered:
    """Remember everything, count, remember everything again, count what was added."""
    started = time.perf_counter()
    await _remember(chats, pipeline, prepare)
    seconds = time.perf_counter() - started
    rows = await _rows(store)
    notes = [row[0] for row in rows]
    gold = [fact for chat in chats for fact in chat.gold]
    kept = [fact for fact in gold if any(fact.is_in(note) for note in notes)]
    with_date = [fact for fact in kept if fact.date]
    dated = [
        fact for fact in with_date if any(fact.is_in(row[0]) and row[1] == date.fromisoformat(fact.date or "") for row in rows)
    ]
    found_at_5, found_at_10 = 0, 0
    for fact in gold:
        hits = [hit.note.note for hit in (await search.search_notes(fact.ask, 10)).notes]
        found_at_5 += any(fact.is_in(note) for note in hits[:5])
        found_at_10 += any(fact.is_in(note) for note in hits)
    said = [
        text_of(message.parts)
        for chat in chats
        for session in chat.sessions
        for message in session.messages
        if isinstance(message, UserMessage)
    ]
    async with store.pool.connection() as conn:
        dropped = await (await conn.execute("SELECT coalesce(sum(facts_dropped), 0)::int FROM eltm_extraction_runs")).fetchone()
    await _remember(chats, pipeline, prepare)
    after = len(await _rows(store))
    return Remembered(
        facts=len(gold),
        notes=len(notes),
        kept=len(kept),
        dated=len(dated),
        with_date=len(with_date),
        sourced=sum(bool(row[2]) for row in rows),
        verbatim=sum(any(contains_quote(text, note) for text in said) for note in notes),
        supported=sum(bool(row[2]) and overlap(row[0], query_terms(row[2])) >= 0.2 for row in rows),
        traps=sum(trap.casefold() in note.casefold() for chat in chats for trap in chat.traps for note in notes),
        trap_cases=sum(len(chat.traps) for chat in chats),
        found_at_5=found_at_5,
        found_at_10=found_at_10,
        added_by_rerun=after - len(notes),
        dropped=dropped[0] if dropped else 0,
        seconds=seconds,
        missed=[f"{fact.chat}: {fact.text}" for fact in gold if fact not in kept],
    )


async def _remember(chats: list[Chat], pipeline: MemoryPipeline, prepare: Prepare) -> None:
    for number, chat in enumerate(chats):
        for session in chat.sessions:
            prepare(chat, session)
            origin = Origin("chat", None, f"1755500000000-{number}", chat.id, session.first_index)
            await pipeline.remember(session.messages, origin)


async def _rows(store: EltmStore) -> list[tuple[str, date, str | None]]:
    async with store.pool.connection() as conn:
        cur = await conn.execute(
            """
            SELECT note.note, note.event_date,
                   (SELECT source.excerpt FROM eltm_note_sources AS source
                     WHERE source.note_id = note.id AND source.message_index IS NOT NULL ORDER BY source.id LIMIT 1)
              FROM eltm_notes AS note
             ORDER BY note.id
            """
        )
        return await cur.fetchall()
