"""SQL of the read views: entities and relationships with their counts and newest note, notes by subject and date."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg import sql
from psycopg.rows import class_row

from brain.memory.views import Entity, EntityView, Note, Relationship, RelationshipView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


class _EntityRow(msgspec.Struct, frozen=True):
    id: int
    canonical_name: str
    category: str
    note_count: int
    relationship_count: int
    attributes: dict[str, str]
    note_id: int | None
    event_date: date | None
    note: str | None
    edited: bool | None
    sources: int | None


class _RelationshipRow(msgspec.Struct, frozen=True):
    id: int
    src_id: int
    dst_id: int
    verb: str
    valid: bool
    src_name: str
    dst_name: str
    note_count: int
    note_id: int | None
    event_date: date | None
    note: str | None
    edited: bool | None
    sources: int | None


async def list_entity_views(conn: AsyncConnection, limit: int, offset: int) -> list[EntityView]:
    """Return a page of all entities, by id."""
    return await _entity_views(
        conn,
        _ENTITY_VIEW
        + sql.SQL(
            """
         WHERE e.id IN (SELECT id
                          FROM eltm_entities
                         WHERE forget_id IS NULL
                         ORDER BY id
                         LIMIT %(limit)s OFFSET %(offset)s)
         ORDER BY e.id
        """,
        ),
        {"limit": limit, "offset": offset},
    )


async def match_entity_views(
    conn: AsyncConnection,
    name: str | None,
    category: str | None,
    attribute: str | None,
    limit: int,
    offset: int,
) -> list[EntityView]:
    """Return a page of the entities whose name, category and any attribute line match the given patterns, by id."""
    return await _entity_views(
        conn,
        _ENTITY_VIEW
        + sql.SQL(
            """
         WHERE e.id IN (SELECT m.id
                          FROM eltm_entities AS m
                         WHERE m.forget_id IS NULL
                           AND (%(name)s::text IS NULL OR m.canonical_name ~* %(name)s)
                           AND (%(category)s::text IS NULL OR m.category ~* %(category)s)
                           AND (%(attribute)s::text IS NULL
                                OR EXISTS (SELECT 1
                                             FROM eltm_entity_attributes AS a
                                            WHERE a.entity_id = m.id AND a.key || '=' || a.value ~* %(attribute)s))
                         ORDER BY m.id
                         LIMIT %(limit)s OFFSET %(offset)s)
         ORDER BY e.id
        """,
        ),
        {"name": name, "category": category, "attribute": attribute, "limit": limit, "offset": offset},
    )


async def get_entity_views(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, EntityView]:
    """Return the entities that exist among the given, by id."""
    views = await _entity_views(
        conn,
        _ENTITY_VIEW + sql.SQL(" WHERE e.id = ANY(%(ids)s) AND e.forget_id IS NULL ORDER BY e.id"),
        {"ids": list(entity_ids)},
    )
    return {view.entity.id: view for view in views}


async def list_relationship_views(conn: AsyncConnection, limit: int, offset: int) -> list[RelationshipView]:
    """Return a page of all relationships, by id."""
    return await _relationship_views(
        conn,
        _RELATIONSHIP_VIEW
        + sql.SQL(
            """
         WHERE r.id IN (SELECT id
                          FROM eltm_relationships
                         WHERE forget_id IS NULL
                         ORDER BY id
                         LIMIT %(limit)s OFFSET %(offset)s)
         ORDER BY r.id
        """,
        ),
        {"limit": limit, "offset": offset},
    )


async def list_relationship_views_of(
    conn: AsyncConnection,
    entity_id: int,
    *,
    include_invalid: bool,
) -> list[RelationshipView]:
    """Return the relationships of an entity in both directions, newest id first."""
    return await _relationship_views(
        conn,
        _RELATIONSHIP_VIEW
        + sql.SQL(
            """
         WHERE (r.src_id = %(entity_id)s OR r.dst_id = %(entity_id)s)
           AND r.forget_id IS NULL
           AND (r.valid OR %(include_invalid)s)
         ORDER BY r.id DESC
        """,
        ),
        {"entity_id": entity_id, "include_invalid": include_invalid},
    )


async def get_relationship_views(conn: AsyncConnection, relationship_ids: Sequence[int]) -> dict[int, RelationshipView]:
    """Return the relationships that exist among the given, by id."""
    views = await _relationship_views(
        conn,
        _RELATIONSHIP_VIEW + sql.SQL(" WHERE r.id = ANY(%(ids)s) AND r.forget_id IS NULL ORDER BY r.id"),
        {"ids": list(relationship_ids)},
    )
    return {view.relationship.id: view for view in views}


async def list_entity_notes(
    conn: AsyncConnection,
    entity_id: int,
    start: date | None,
    end: date | None,
    limit: int,
    offset: int,
) -> list[Note]:
    """Return an entity's own notes, newest first."""
    return await _notes(
        conn,
        _NOTE
        + sql.SQL(
            """
         WHERE n.entity_id = %(subject_id)s
           AND n.forget_id IS NULL
           AND (%(start)s::date IS NULL OR n.event_date >= %(start)s)
           AND (%(end)s::date IS NULL OR n.event_date <= %(end)s)
         ORDER BY n.event_date DESC, n.id DESC
         LIMIT %(limit)s OFFSET %(offset)s
        """,
        ),
        {"subject_id": entity_id, "start": start, "end": end, "limit": limit, "offset": offset},
    )


async def list_relationship_notes(
    conn: AsyncConnection,
    relationship_id: int,
    start: date | None,
    end: date | None,
    limit: int,
    offset: int,
) -> list[Note]:
    """Return a relationship's notes, newest first."""
    return await _notes(
        conn,
        _NOTE
        + sql.SQL(
            """
         WHERE n.relationship_id = %(subject_id)s
           AND n.forget_id IS NULL
           AND (%(start)s::date IS NULL OR n.event_date >= %(start)s)
           AND (%(end)s::date IS NULL OR n.event_date <= %(end)s)
         ORDER BY n.event_date DESC, n.id DESC
         LIMIT %(limit)s OFFSET %(offset)s
        """,
        ),
        {"subject_id": relationship_id, "start": start, "end": end, "limit": limit, "offset": offset},
    )


async def get_notes(conn: AsyncConnection, note_ids: Sequence[int]) -> dict[int, Note]:
    """Return the notes that exist among the given, by id."""
    notes = await _notes(
        conn,
        _NOTE + sql.SQL(" WHERE n.id = ANY(%(ids)s) AND n.forget_id IS NULL ORDER BY n.id"),
        {"ids": list(note_ids)},
    )
    return {note.id: note for note in notes}


async def entity_exists(conn: AsyncConnection, entity_id: int) -> bool:
    """Whether the entity is there and not forgotten."""
    cur = await conn.execute(
        "SELECT 1 FROM eltm_entities WHERE id = %(id)s AND forget_id IS NULL",
        {"id": entity_id},
    )
    return await cur.fetchone() is not None


async def relationship_exists(conn: AsyncConnection, relationship_id: int) -> bool:
    """Whether the relationship is there and not forgotten."""
    cur = await conn.execute(
        "SELECT 1 FROM eltm_relationships WHERE id = %(id)s AND forget_id IS NULL",
        {"id": relationship_id},
    )
    return await cur.fetchone() is not None


# Counts and newest notes are index-bound sub-selects of the page's rows: one statement, so one snapshot, and no torn view.
_ENTITY_VIEW = sql.SQL("""
SELECT e.id, e.canonical_name, e.category,
       (SELECT count(*) FROM eltm_notes AS n WHERE n.entity_id = e.id AND n.forget_id IS NULL) AS note_count,
       (SELECT count(*)
          FROM eltm_relationships AS r
         WHERE (r.src_id = e.id OR r.dst_id = e.id) AND r.forget_id IS NULL) AS relationship_count,
       (SELECT coalesce(jsonb_object_agg(a.key, a.value), '{}')
          FROM eltm_entity_attributes AS a
         WHERE a.entity_id = e.id) AS attributes,
       latest.id AS note_id, latest.event_date, latest.note, latest.edited,
       (SELECT count(*) FROM eltm_note_sources AS s WHERE s.note_id = latest.id) AS sources
  FROM eltm_entities AS e
  LEFT JOIN LATERAL (SELECT n.id, n.event_date, n.note, n.edited
                       FROM eltm_notes AS n
                      WHERE n.entity_id = e.id AND n.forget_id IS NULL
                      ORDER BY n.event_date DESC, n.id DESC
                      LIMIT 1) AS latest ON true
""")
_RELATIONSHIP_VIEW = sql.SQL("""
SELECT r.id, r.src_id, r.dst_id, r.verb, r.valid, src.canonical_name AS src_name, dst.canonical_name AS dst_name,
       (SELECT count(*) FROM eltm_notes AS n WHERE n.relationship_id = r.id AND n.forget_id IS NULL) AS note_count,
       latest.id AS note_id, latest.event_date, latest.note, latest.edited,
       (SELECT count(*) FROM eltm_note_sources AS s WHERE s.note_id = latest.id) AS sources
  FROM eltm_relationships AS r
  JOIN eltm_entities AS src ON src.id = r.src_id
  JOIN eltm_entities AS dst ON dst.id = r.dst_id
  LEFT JOIN LATERAL (SELECT n.id, n.event_date, n.note, n.edited
                       FROM eltm_notes AS n
                      WHERE n.relationship_id = r.id AND n.forget_id IS NULL
                      ORDER BY n.event_date DESC, n.id DESC
                      LIMIT 1) AS latest ON true
""")
_NOTE = sql.SQL("""
SELECT n.id, n.entity_id, n.relationship_id, n.event_date, n.note, n.edited,
       (SELECT count(*) FROM eltm_note_sources AS s WHERE s.note_id = n.id) AS sources
  FROM eltm_notes AS n
""")


async def _entity_views(conn: AsyncConnection, statement: sql.Composed, parameters: dict[str, object]) -> list[EntityView]:
    async with conn.cursor(row_factory=class_row(_EntityRow)) as cur:
        await cur.execute(statement, parameters)
        return [_entity_view(row) for row in await cur.fetchall()]


async def _relationship_views(
    conn: AsyncConnection,
    statement: sql.Composed,
    parameters: dict[str, object],
) -> list[RelationshipView]:
    async with conn.cursor(row_factory=class_row(_RelationshipRow)) as cur:
        await cur.execute(statement, parameters)
        return [_relationship_view(row) for row in await cur.fetchall()]


async def _notes(conn: AsyncConnection, statement: sql.Composed, parameters: dict[str, object]) -> list[Note]:
    async with conn.cursor(row_factory=class_row(Note)) as cur:
        await cur.execute(statement, parameters)
        return await cur.fetchall()


def _entity_view(row: _EntityRow) -> EntityView:
    return EntityView(
        entity=Entity(row.id, row.canonical_name, row.category),
        note_count=row.note_count,
        relationship_count=row.relationship_count,
        latest_note=_latest(row, entity_id=row.id),
        attributes={key: row.attributes[key] for key in sorted(row.attributes)},
    )


def _relationship_view(row: _RelationshipRow) -> RelationshipView:
    return RelationshipView(
        relationship=Relationship(row.id, row.src_id, row.dst_id, row.verb, row.valid),
        src_name=row.src_name,
        dst_name=row.dst_name,
        note_count=row.note_count,
        latest_note=_latest(row, relationship_id=row.id),
    )


def _latest(
    row: _EntityRow | _RelationshipRow,
    *,
    entity_id: int | None = None,
    relationship_id: int | None = None,
) -> Note | None:
    if row.note_id is None or row.event_date is None or row.note is None:
        return None
    return Note(row.note_id, entity_id, relationship_id, row.event_date, row.note, row.sources or 0, bool(row.edited))
