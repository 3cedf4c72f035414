"""SQL of what stays beside the records: revisions, keep-out hashes, extraction runs and sources."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

import msgspec
from psycopg.rows import class_row

from brain.memory.views import Author, NoteSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

SubjectType: TypeAlias = Literal["note", "entity", "relationship"]
Change: TypeAlias = Literal["created", "edited", "forgotten", "restored", "moved"]


class NewRevision(msgspec.Struct, frozen=True):
    """What was done to a record, before and after as a person reads it."""

    subject_type: SubjectType
    subject_id: int
    author: Author
    change: Change
    before: str | None = None
    after: str | None = None


class RevisionRow(msgspec.Struct, frozen=True):
    """A stored revision."""

    created_at: datetime
    author: Author
    change: Change
    before: str | None
    after: str | None


class SourceRow(msgspec.Struct, frozen=True):
    """A stored source with its run."""

    chat_id: str | None
    chat_title: str | None
    message_index: int | None
    message_created_at: datetime | None
    excerpt: str
    run_id: UUID
    model: str
    prompt_version: str
    extracted_at: datetime


class NoteBirth(msgspec.Struct, frozen=True):
    """When a note was written and by whom."""

    created_at: datetime
    created_by: Author


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """An extraction that begins."""

    kind: Literal["chat", "replay", "digest"]
    extraction_model: str
    writer_model: str
    prompt_version: str
    job_id: int | None = None
    chat_id: str | None = None
    chat_title: str | None = None
    first_message: int | None = None
    last_message: int | None = None


async def insert_revisions(conn: AsyncConnection, revisions: Sequence[NewRevision]) -> None:
    """Write revisions."""
    async with conn.cursor() as cur:
        await cur.executemany(
            """
            INSERT INTO eltm_revisions (subject_type, subject_id, author, change, before, after)
            VALUES (%(subject_type)s, %(subject_id)s, %(author)s, %(change)s, %(before)s, %(after)s)
            """,
            [msgspec.structs.asdict(revision) for revision in revisions],
        )


async def list_revisions(conn: AsyncConnection, subject_type: SubjectType, subject_id: int) -> list[RevisionRow]:
    """Return what was done to a record, oldest first."""
    async with conn.cursor(row_factory=class_row(RevisionRow)) as cur:
        await cur.execute(
            """
            SELECT created_at, author, change, before, after
              FROM eltm_revisions
             WHERE subject_type = %(subject_type)s AND subject_id = %(subject_id)s
             ORDER BY id
            """,
            {"subject_type": subject_type, "subject_id": subject_id},
        )
        return await cur.fetchall()


async def move_revisions(conn: AsyncConnection, subject_type: SubjectType, source_id: int, target_id: int) -> None:
    """Give a record's history to the one it was merged into."""
    await conn.execute(
        """
        UPDATE eltm_revisions
           SET subject_id = %(target_id)s
         WHERE subject_type = %(subject_type)s AND subject_id = %(source_id)s
        """,
        {"subject_type": subject_type, "source_id": source_id, "target_id": target_id},
    )


async def get_keep_out_key(conn: AsyncConnection, fresh: bytes) -> bytes:
    """Return the key of the hashes; ``fresh`` becomes it if there is none yet."""
    cur = await conn.execute("SELECT key FROM eltm_kept_out_key")
    row = await cur.fetchone()
    if row is None:
        await conn.execute(
            "INSERT INTO eltm_kept_out_key (key) VALUES (%(key)s) ON CONFLICT (only_row) DO NOTHING",
            {"key": fresh},
        )
        cur = await conn.execute("SELECT key FROM eltm_kept_out_key")
        row = await cur.fetchone()
    assert row is not None
    return bytes(row[0])


async def has_kept_out(conn: AsyncConnection) -> bool:
    """Whether anything was ever erased."""
    cur = await conn.execute("SELECT EXISTS (SELECT 1 FROM eltm_kept_out)")
    row = await cur.fetchone()
    return row is not None and bool(row[0])


async def find_kept_out(conn: AsyncConnection, hashes: Sequence[bytes]) -> set[bytes]:
    """Return which of the hashes are kept out."""
    cur = await conn.execute("SELECT hash FROM eltm_kept_out WHERE hash = ANY(%(hashes)s)", {"hashes": list(hashes)})
    return {bytes(row[0]) for row in await cur.fetchall()}


async def insert_kept_out(conn: AsyncConnection, hashes: Sequence[bytes]) -> None:
    """Keep statements out from now on."""
    await conn.execute(
        """
        INSERT INTO eltm_kept_out (hash)
        SELECT unnest(%(hashes)s::bytea[])
            ON CONFLICT (hash) DO NOTHING
        """,
        {"hashes": list(hashes)},
    )


async def insert_run(conn: AsyncConnection, run: NewRun) -> UUID:
    """Record that an extraction begins and return its id."""
    cur = await conn.execute(
        """
        INSERT INTO eltm_extraction_runs (job_id, kind, chat_id, chat_title, first_message, last_message,
                                          extraction_model, writer_model, prompt_version)
        VALUES (%(job_id)s, %(kind)s, %(chat_id)s, %(chat_title)s, %(first_message)s, %(last_message)s,
                %(extraction_model)s, %(writer_model)s, %(prompt_version)s)
        RETURNING id
        """,
        msgspec.structs.asdict(run),
    )
    row = await cur.fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


async def finish_run(
    conn: AsyncConnection,
    run_id: UUID,
    *,
    outcome: str,
    rung: str | None,
    facts: int,
    facts_dropped: int,
) -> None:
    """Record how an extraction ended."""
    await conn.execute(
        """
        UPDATE eltm_extraction_runs
           SET outcome = %(outcome)s, rung = %(rung)s, facts = %(facts)s, facts_dropped = %(facts_dropped)s,
               finished_at = now()
         WHERE id = %(run_id)s
        """,
        {"run_id": run_id, "outcome": outcome, "rung": rung, "facts": facts, "facts_dropped": facts_dropped},
    )


async def hold_run(conn: AsyncConnection, run_id: UUID) -> bool:
    """Keep a run from being closed until the transaction ends; false if it is closed, or gone."""
    cur = await conn.execute(
        "SELECT 1 FROM eltm_extraction_runs WHERE id = %(id)s AND NOT closed FOR SHARE",
        {"id": run_id},
    )
    return await cur.fetchone() is not None


async def close_runs(conn: AsyncConnection, job_ids: Sequence[int]) -> None:
    """Let the runs of jobs write nothing more; waits for what they are committing."""
    await conn.execute(
        "UPDATE eltm_extraction_runs SET closed = true WHERE job_id = ANY(%(job_ids)s) AND NOT closed",
        {"job_ids": list(job_ids)},
    )


async def insert_sources(conn: AsyncConnection, note_ids: Sequence[int], sources: Sequence[NoteSource]) -> None:
    """Link notes to where they come from; a link that is there stays. An erased run leaves no link."""
    async with conn.cursor() as cur:
        await cur.executemany(
            """
            INSERT INTO eltm_note_sources (note_id, run_id, fact, message_index, message_created_at, excerpt)
            SELECT %(note_id)s, id, %(fact)s, %(message_index)s, %(message_created_at)s, left(%(excerpt)s, 2000)
              FROM eltm_extraction_runs
             WHERE id = %(run_id)s
                ON CONFLICT (note_id, run_id, message_index, fact) DO NOTHING
            """,
            [{"note_id": note_id, **msgspec.structs.asdict(source)} for note_id in note_ids for source in sources],
        )


async def list_sources(conn: AsyncConnection, note_id: int) -> list[SourceRow]:
    """Return where a note comes from, oldest link first; the chat is ``None`` when it is gone."""
    async with conn.cursor(row_factory=class_row(SourceRow)) as cur:
        await cur.execute(
            """
            SELECT chat.id AS chat_id, coalesce(chat.title, r.chat_title) AS chat_title,
                   CASE WHEN chat.id IS NOT NULL THEN s.message_index END AS message_index,
                   s.message_created_at, s.excerpt, s.run_id, r.extraction_model AS model, r.prompt_version,
                   s.created_at AS extracted_at
              FROM eltm_note_sources AS s
              JOIN eltm_extraction_runs AS r ON r.id = s.run_id
              LEFT JOIN chats AS chat ON chat.id = r.chat_id
             WHERE s.note_id = %(note_id)s
             ORDER BY s.id
            """,
            {"note_id": note_id},
        )
        return await cur.fetchall()


async def get_note_birth(conn: AsyncConnection, note_id: int) -> NoteBirth | None:
    """Return when a note was written and by whom."""
    async with conn.cursor(row_factory=class_row(NoteBirth)) as cur:
        await cur.execute("SELECT created_at, created_by FROM eltm_notes WHERE id = %(id)s", {"id": note_id})
        return await cur.fetchone()
