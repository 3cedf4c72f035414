"""Provenance: which extraction wrote what, and from a note back to the message it rests on (idea E)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from brain.errors import NotFoundError
from brain.memory import queries_history, queries_views
from brain.memory.queries_history import Change, NewRun, SourceRow
from brain.memory.reads import subjects_of
from brain.memory.views import Author, Note, NoteSource, Subject
from shared_protocol.instants import Instant, instant_from_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool


class Source(msgspec.Struct, frozen=True, rename="camel"):
    """Where a note comes from; ``chatId`` and ``messageIndex`` are null once the chat is gone."""

    chat_id: str | None
    chat_title: str | None
    message_index: int | None
    message_created_at: Instant | None
    excerpt: str
    run_id: UUID
    model: str
    prompt_version: str
    extracted_at: Instant


class Revision(msgspec.Struct, frozen=True, rename="camel"):
    """What was done to a record."""

    at: Instant
    by: Author
    change: Change
    before: str | None
    after: str | None


class NoteDetail(msgspec.Struct, frozen=True, rename="camel"):
    """A note with its subject, its sources and its history."""

    note: Note
    subject: Subject
    sources: list[Source]
    history: list[Revision]


class Provenance:
    """Records extraction runs and answers where notes come from."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def start_run(self, run: NewRun) -> UUID:
        """Record that an extraction begins; its id goes into every ``NoteSource``."""
        async with self._pool.connection() as conn:
            return await queries_history.insert_run(conn, run)

    async def finish_run(
        self,
        run_id: UUID,
        *,
        outcome: str,
        rung: str | None = None,
        facts: int = 0,
        facts_dropped: int = 0,
    ) -> None:
        """Record how an extraction ended: a word for the outcome, the rung that answered, facts kept and dropped."""
        async with self._pool.connection() as conn:
            await queries_history.finish_run(
                conn,
                run_id,
                outcome=outcome,
                rung=rung,
                facts=facts,
                facts_dropped=facts_dropped,
            )

    async def add_sources(self, note_id: int, sources: Sequence[NoteSource]) -> None:
        """Link a note to further places; links that exist stay."""
        async with self._pool.connection() as conn, conn.transaction():
            await queries_history.insert_sources(conn, [note_id], sources)

    async def note_detail(self, note_id: int) -> NoteDetail:
        """Return a note with its subject, sources and history.

        Raises:
            NotFoundError: it does not exist.
        """
        async with self._pool.connection() as conn:
            note = (await queries_views.get_notes(conn, [note_id])).get(note_id)
            if note is None:
                raise NotFoundError("note", note_id)
            subject = (await subjects_of(conn, [note])).get(note_id)
            if subject is None:
                raise NotFoundError("note", note_id)
            sources = await queries_history.list_sources(conn, note_id)
            revisions = await queries_history.list_revisions(conn, "note", note_id)
            birth = await queries_history.get_note_birth(conn, note_id)
        history = [
            Revision(instant_from_datetime(row.created_at), row.author, row.change, row.before, row.after) for row in revisions
        ]
        if birth is not None:
            first_text = next((row.before for row in revisions if row.change == "edited"), None)
            after = first_text or f"{note.event_date}: {note.note}"
            history.insert(0, Revision(instant_from_datetime(birth.created_at), birth.created_by, "created", None, after))
        return NoteDetail(note, subject, [_source(row) for row in sources], history)


def _source(row: SourceRow) -> Source:
    return Source(
        chat_id=row.chat_id,
        chat_title=row.chat_title,
        message_index=row.message_index,
        message_created_at=None if row.message_created_at is None else instant_from_datetime(row.message_created_at),
        excerpt=row.excerpt,
        run_id=row.run_id,
        model=row.model,
        prompt_version=row.prompt_version,
        extracted_at=instant_from_datetime(row.extracted_at),
    )
