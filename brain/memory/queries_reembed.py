"""SQL of the re-embedding: its one state row, and what a generation still lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

import msgspec
from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgvector import HalfVector
    from psycopg import AsyncConnection

ReembedState: TypeAlias = Literal["idle", "running", "finished", "failed"]


class ReembedRow(msgspec.Struct, frozen=True):
    """The state row."""

    state: ReembedState
    generation: int | None
    entities: int
    notes: int
    error: str | None


class TextRow(msgspec.Struct, frozen=True):
    """A text that has no vector yet."""

    id: int
    text: str


async def read_state(conn: AsyncConnection) -> ReembedRow:
    """Return the state row."""
    async with conn.cursor(row_factory=class_row(ReembedRow)) as cur:
        await cur.execute("SELECT state, generation, entities, notes, error FROM eltm_reembed")
        row = await cur.fetchone()
        assert row is not None
        return row


async def start(conn: AsyncConnection) -> bool:
    """Ask for a re-embedding; ``False`` while one runs."""
    cur = await conn.execute(
        """
        UPDATE eltm_reembed
           SET state = 'running', generation = NULL, entities = 0, notes = 0, error = NULL, token = NULL, lease_until = NULL
         WHERE state <> 'running'
        """,
    )
    return cur.rowcount == 1


async def claim(conn: AsyncConnection, token: UUID, lease_seconds: float) -> bool:
    """Take the running work if nobody holds it."""
    cur = await conn.execute(
        """
        UPDATE eltm_reembed
           SET token = %(token)s, lease_until = now() + make_interval(secs => %(seconds)s)
         WHERE state = 'running' AND (lease_until IS NULL OR lease_until < now())
        """,
        {"token": token, "seconds": lease_seconds},
    )
    return cur.rowcount == 1


async def keep(conn: AsyncConnection, token: UUID, lease_seconds: float) -> bool:
    """Prolong the lease; ``False`` if the work is somebody else's by now."""
    cur = await conn.execute(
        """
        UPDATE eltm_reembed
           SET lease_until = now() + make_interval(secs => %(seconds)s)
         WHERE state = 'running' AND token = %(token)s
        """,
        {"token": token, "seconds": lease_seconds},
    )
    return cur.rowcount == 1


async def set_generation(conn: AsyncConnection, token: UUID, generation: int) -> bool:
    """Record which generation is being filled."""
    cur = await conn.execute(
        "UPDATE eltm_reembed SET generation = %(generation)s WHERE state = 'running' AND token = %(token)s",
        {"token": token, "generation": generation},
    )
    return cur.rowcount == 1


async def finish(conn: AsyncConnection, token: UUID, entities: int, notes: int) -> bool:
    """Record success with what the generation holds."""
    cur = await conn.execute(
        """
        UPDATE eltm_reembed
           SET state = 'finished', entities = %(entities)s, notes = %(notes)s, token = NULL, lease_until = NULL
         WHERE state = 'running' AND token = %(token)s
        """,
        {"token": token, "entities": entities, "notes": notes},
    )
    return cur.rowcount == 1


async def fail(conn: AsyncConnection, token: UUID, error: str) -> None:
    """Record failure; what is filled stays, and the next start goes on from there."""
    await conn.execute(
        """
        UPDATE eltm_reembed
           SET state = 'failed', error = %(error)s, token = NULL, lease_until = NULL
         WHERE state = 'running' AND token = %(token)s
        """,
        {"token": token, "error": error},
    )


async def release(conn: AsyncConnection, token: UUID) -> None:
    """Give the work back unfinished, for whoever comes next."""
    await conn.execute(
        "UPDATE eltm_reembed SET lease_until = NULL WHERE state = 'running' AND token = %(token)s",
        {"token": token},
    )


async def list_entities_without_vector(conn: AsyncConnection, generation: int, after: int, limit: int) -> list[int]:
    """Return the next entities, forgotten ones included, that a generation lacks."""
    cur = await conn.execute(
        """
        SELECT e.id
          FROM eltm_entities AS e
         WHERE e.id > %(after)s
           AND NOT EXISTS (SELECT 1
                             FROM eltm_entity_vectors AS v
                            WHERE v.entity_id = e.id AND v.generation = %(generation)s)
         ORDER BY e.id
         LIMIT %(limit)s
        """,
        {"generation": generation, "after": after, "limit": limit},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def list_notes_without_vector(conn: AsyncConnection, generation: int, after: int, limit: int) -> list[TextRow]:
    """Return the next notes, forgotten ones included, that a generation lacks."""
    async with conn.cursor(row_factory=class_row(TextRow)) as cur:
        await cur.execute(
            """
            SELECT n.id, n.note AS text
              FROM eltm_notes AS n
             WHERE n.id > %(after)s
               AND NOT EXISTS (SELECT 1
                                 FROM eltm_note_vectors AS v
                                WHERE v.note_id = n.id AND v.generation = %(generation)s)
             ORDER BY n.id
             LIMIT %(limit)s
            """,
            {"generation": generation, "after": after, "limit": limit},
        )
        return await cur.fetchall()


async def fill_notes(
    conn: AsyncConnection,
    generation: int,
    rows: Sequence[TextRow],
    vectors: Sequence[HalfVector],
) -> None:
    """Store vectors of notes that still have the text that was embedded and no vector by now."""
    async with conn.cursor() as cur:
        await cur.executemany(
            """
            INSERT INTO eltm_note_vectors (note_id, generation, embedding, hidden)
            SELECT id, %(generation)s, %(embedding)s, forget_id IS NOT NULL
              FROM eltm_notes
             WHERE id = %(id)s AND note = %(text)s
               FOR KEY SHARE
                ON CONFLICT (note_id, generation) DO NOTHING
            """,
            [
                {"id": row.id, "text": row.text, "generation": generation, "embedding": vector}
                for row, vector in zip(rows, vectors, strict=True)
            ],
        )


async def count_vectors(conn: AsyncConnection, generation: int) -> tuple[int, int]:
    """Return how many entities and notes have a vector of the generation."""
    cur = await conn.execute(
        """
        SELECT (SELECT count(*) FROM eltm_entity_vectors WHERE generation = %(generation)s),
               (SELECT count(*) FROM eltm_note_vectors WHERE generation = %(generation)s)
        """,
        {"generation": generation},
    )
    row = await cur.fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
