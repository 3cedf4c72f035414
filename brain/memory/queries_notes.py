"""SQL of writing notes: inserting, moving, finding repetitions."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

ENTITY_FK = "eltm_notes_entity_fk"
RELATIONSHIP_FK = "eltm_notes_relationship_fk"


class NoteRow(msgspec.Struct, frozen=True):
    """A note as it is inserted."""

    entity_id: int | None
    relationship_id: int | None
    event_date: date
    note: str
    terms: list[str]
    word_count: int
    text_hash: bytes
    created_by: str


class Repetition(msgspec.Struct, frozen=True):
    """A recorded note of the same day and text."""

    id: int
    event_date: date
    text_hash: bytes


async def lock_subject_notes(conn: AsyncConnection, entity_id: int | None, relationship_id: int | None) -> None:
    """Let only one writer at a time look for repetitions of this subject, until the transaction ends."""
    await conn.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))",
        {"name": f"eltm_notes:{entity_id}:{relationship_id}"},
    )


async def insert_notes(conn: AsyncConnection, rows: Sequence[NoteRow]) -> list[int]:
    """Insert notes and return their ids in input order."""
    cur = await conn.execute(
        "SELECT nextval('eltm_notes_id_seq') FROM generate_series(1, %(count)s)",
        {"count": len(rows)},
    )
    ids = sorted(int(row[0]) for row in await cur.fetchall())
    async with (
        conn.cursor() as writer,
        writer.copy(
            """
            COPY eltm_notes (id, entity_id, relationship_id, event_date, note, terms, word_count, text_hash, created_by)
            FROM STDIN (FORMAT binary)
            """,
        ) as copy,
    ):
        copy.set_types(["int8", "int8", "int8", "date", "text", "text[]", "int4", "bytea", "text"])
        for note_id, row in zip(ids, rows, strict=True):
            await copy.write_row(
                (
                    note_id,
                    row.entity_id,
                    row.relationship_id,
                    row.event_date,
                    row.note,
                    row.terms,
                    row.word_count,
                    row.text_hash,
                    row.created_by,
                ),
            )
    return ids


async def find_repetitions(
    conn: AsyncConnection,
    entity_id: int | None,
    relationship_id: int | None,
    days: Sequence[date],
) -> list[Repetition]:
    """Return what is recorded for a subject on the given days, oldest row first."""
    async with conn.cursor(row_factory=class_row(Repetition)) as cur:
        await cur.execute(
            """
            SELECT id, event_date, text_hash
              FROM eltm_notes
             WHERE (entity_id = %(entity_id)s OR relationship_id = %(relationship_id)s)
               AND event_date = ANY(%(days)s)
               AND forget_id IS NULL
             ORDER BY id
            """,
            {"entity_id": entity_id, "relationship_id": relationship_id, "days": list(days)},
        )
        return await cur.fetchall()


async def move_notes(conn: AsyncConnection, source_id: int, target_id: int) -> int:
    """Give a relationship's notes, forgotten ones included, to another relationship."""
    cur = await conn.execute(
        "UPDATE eltm_notes SET relationship_id = %(target_id)s WHERE relationship_id = %(source_id)s",
        {"source_id": source_id, "target_id": target_id},
    )
    return cur.rowcount


async def move_entity_notes(conn: AsyncConnection, source_id: int, target_id: int) -> int:
    """Give an entity's own notes, forgotten ones included, to another entity."""
    cur = await conn.execute(
        "UPDATE eltm_notes SET entity_id = %(target_id)s WHERE entity_id = %(source_id)s",
        {"source_id": source_id, "target_id": target_id},
    )
    return cur.rowcount
