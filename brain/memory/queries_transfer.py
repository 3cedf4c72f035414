"""SQL of export and import: the whole store page by page, and what a file is compared with."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

from brain.memory.views import Entity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


class ExportEdge(msgspec.Struct, frozen=True):
    """A relationship as it is exported."""

    id: int
    src_id: int
    dst_id: int
    verb: str
    valid: bool


class ExportNote(msgspec.Struct, frozen=True):
    """A note as it is exported."""

    subject_id: int
    event_date: date
    note: str


class KnownEdge(msgspec.Struct, frozen=True):
    """A relationship of the snapshot with the date of its newest note."""

    id: int
    src_id: int
    dst_id: int
    verb: str
    valid: bool
    newest: date | None


class KnownNote(msgspec.Struct, frozen=True):
    """A note of the snapshot by its day and the SHA-256 of its text."""

    subject_id: int
    event_date: date
    digest: bytes


async def use_one_snapshot(conn: AsyncConnection) -> None:
    """Let all reads of this transaction see one moment; its first statement."""
    await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


async def list_entities_after(conn: AsyncConnection, after: int, limit: int) -> list[Entity]:
    """Return the next entities by id."""
    async with conn.cursor(row_factory=class_row(Entity)) as cur:
        await cur.execute(
            """
            SELECT id, canonical_name, category
              FROM eltm_entities
             WHERE id > %(after)s AND forget_id IS NULL
             ORDER BY id
             LIMIT %(limit)s
            """,
            {"after": after, "limit": limit},
        )
        return await cur.fetchall()


async def list_edges_after(conn: AsyncConnection, after: int, limit: int) -> list[ExportEdge]:
    """Return the next relationships by id."""
    async with conn.cursor(row_factory=class_row(ExportEdge)) as cur:
        await cur.execute(
            """
            SELECT id, src_id, dst_id, verb, valid
              FROM eltm_relationships
             WHERE id > %(after)s AND forget_id IS NULL
             ORDER BY id
             LIMIT %(limit)s
            """,
            {"after": after, "limit": limit},
        )
        return await cur.fetchall()


async def list_notes_of_entities(conn: AsyncConnection, entity_ids: Sequence[int]) -> list[ExportNote]:
    """Return the notes of entities, each entity's oldest first."""
    async with conn.cursor(row_factory=class_row(ExportNote)) as cur:
        await cur.execute(
            """
            SELECT entity_id AS subject_id, event_date, note
              FROM eltm_notes
             WHERE entity_id = ANY(%(ids)s) AND forget_id IS NULL
             ORDER BY entity_id, event_date, id
            """,
            {"ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def list_notes_of_edges(conn: AsyncConnection, relationship_ids: Sequence[int]) -> list[ExportNote]:
    """Return the notes of relationships, each relationship's oldest first."""
    async with conn.cursor(row_factory=class_row(ExportNote)) as cur:
        await cur.execute(
            """
            SELECT relationship_id AS subject_id, event_date, note
              FROM eltm_notes
             WHERE relationship_id = ANY(%(ids)s) AND forget_id IS NULL
             ORDER BY relationship_id, event_date, id
            """,
            {"ids": list(relationship_ids)},
        )
        return await cur.fetchall()


async def list_known_edges(conn: AsyncConnection, entity_ids: Sequence[int]) -> list[KnownEdge]:
    """Return the relationships that start from the given entities."""
    async with conn.cursor(row_factory=class_row(KnownEdge)) as cur:
        await cur.execute(
            """
            SELECT r.id, r.src_id, r.dst_id, r.verb, r.valid,
                   (SELECT max(n.event_date)
                      FROM eltm_notes AS n
                     WHERE n.relationship_id = r.id AND n.forget_id IS NULL) AS newest
              FROM eltm_relationships AS r
             WHERE r.src_id = ANY(%(ids)s) AND r.forget_id IS NULL
             ORDER BY r.id
            """,
            {"ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def list_known_notes_of_entities(conn: AsyncConnection, entity_ids: Sequence[int]) -> list[KnownNote]:
    """Return day and digest of every note of the given entities."""
    async with conn.cursor(row_factory=class_row(KnownNote), binary=True) as cur:
        await cur.execute(
            """
            SELECT entity_id AS subject_id, event_date, sha256(convert_to(note, 'UTF8')) AS digest
              FROM eltm_notes
             WHERE entity_id = ANY(%(ids)s) AND forget_id IS NULL
            """,
            {"ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def list_known_notes_of_edges(conn: AsyncConnection, relationship_ids: Sequence[int]) -> list[KnownNote]:
    """Return day and digest of every note of the given relationships."""
    async with conn.cursor(row_factory=class_row(KnownNote), binary=True) as cur:
        await cur.execute(
            """
            SELECT relationship_id AS subject_id, event_date, sha256(convert_to(note, 'UTF8')) AS digest
              FROM eltm_notes
             WHERE relationship_id = ANY(%(ids)s) AND forget_id IS NULL
            """,
            {"ids": list(relationship_ids)},
        )
        return await cur.fetchall()
