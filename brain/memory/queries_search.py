"""SQL of the search: candidates by words, by name and by vector under filters, and what the ranking needs to know of them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg import sql
from psycopg.rows import class_row

from brain.memory.queries_vectors import Near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgvector import HalfVector
    from psycopg import AsyncConnection

    from brain.memory.queries_vectors import Generation


class NoteFilter(msgspec.Struct, frozen=True):
    """What a note must fulfil; ``None`` does not filter. ``category`` is that of an entity subject."""

    entity_id: int | None = None
    relationship_id: int | None = None
    start: date | None = None
    end: date | None = None
    category: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether everything passes."""
        return self == _OPEN


_OPEN = NoteFilter()


class Scored(msgspec.Struct, frozen=True):
    """A row found by its words."""

    id: int
    score: float


class Candidate(msgspec.Struct, frozen=True):
    """A note as the ranking sees it."""

    id: int
    entity_id: int | None
    relationship_id: int | None
    src_id: int | None
    dst_id: int | None
    event_date: date
    terms: list[str]
    word_count: int


async def use_iterative_scans(conn: AsyncConnection, ef_search: int) -> int | None:
    """Let vector scans of this transaction go on until a filter has let enough rows through; return the active generation."""
    cur = await conn.execute(
        """
        SELECT set_config('hnsw.iterative_scan', 'strict_order', true),
               set_config('hnsw.ef_search', %(ef_search)s, true),
               (SELECT active_generation FROM eltm_vector_state)
        """,
        {"ef_search": str(ef_search)},
    )
    row = await cur.fetchone()
    return None if row is None or row[2] is None else int(row[2])


async def find_near_notes_filtered(
    conn: AsyncConnection,
    generation: Generation,
    vector: HalfVector,
    note_filter: NoteFilter,
    limit: int,
    *,
    exact: bool,
) -> list[Near]:
    """Return the notes closest to a vector among those that pass, best first; ``exact`` asks no index of vectors."""
    # Without the cast the order does not match the index.
    cast = sql.SQL("") if exact else sql.SQL("::halfvec({})").format(sql.Literal(generation.dimensions))
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            sql.SQL(
                """
                SELECT v.note_id AS id,
                       1 - (v.embedding{cast} <=> %(vector)s{cast}) AS similarity
                  FROM eltm_note_vectors AS v
                  JOIN eltm_notes AS n ON n.id = v.note_id
                 WHERE v.generation = {generation} AND NOT v.hidden
                   AND (%(entity_id)s::bigint IS NULL OR n.entity_id = %(entity_id)s)
                   AND (%(relationship_id)s::bigint IS NULL OR n.relationship_id = %(relationship_id)s)
                   AND (%(start)s::date IS NULL OR n.event_date >= %(start)s)
                   AND (%(end)s::date IS NULL OR n.event_date <= %(end)s)
                   AND (%(category)s::text IS NULL
                        OR EXISTS (SELECT 1 FROM eltm_entities AS e WHERE e.id = n.entity_id AND e.category = %(category)s))
                 ORDER BY v.embedding{cast} <=> %(vector)s{cast}
                 LIMIT %(limit)s
                """,
            ).format(cast=cast, generation=sql.Literal(generation.id)),
            {**msgspec.structs.asdict(note_filter), "vector": vector, "limit": limit},
        )
        return await cur.fetchall()


async def find_notes_by_terms(
    conn: AsyncConnection,
    terms: Sequence[str],
    note_filter: NoteFilter,
    common: int,
    limit: int,
) -> list[Scored]:
    """Return the notes that share the rarest of the terms, by Okapi BM25 (k1 1.2, b 0.75, every term counted once), best first.

    A term that ``common`` notes or more have picks no candidates unless all terms are such: it says little and costs much.
    """
    async with conn.cursor(row_factory=class_row(Scored)) as cur:
        await cur.execute(
            """
            WITH found AS MATERIALIZED (
                SELECT given.term, note.id, note.word_count
                  FROM unnest(%(terms)s::text[]) AS given (term)
                 CROSS JOIN LATERAL (SELECT n.id, n.word_count
                                       FROM eltm_notes AS n
                                      WHERE n.terms @> ARRAY[given.term] AND n.forget_id IS NULL
                                        AND (%(entity_id)s::bigint IS NULL OR n.entity_id = %(entity_id)s)
                                        AND (%(relationship_id)s::bigint IS NULL OR n.relationship_id = %(relationship_id)s)
                                        AND (%(start)s::date IS NULL OR n.event_date >= %(start)s)
                                        AND (%(end)s::date IS NULL OR n.event_date <= %(end)s)
                                        AND (%(category)s::text IS NULL
                                             OR EXISTS (SELECT 1
                                                          FROM eltm_entities AS e
                                                         WHERE e.id = n.entity_id AND e.category = %(category)s))
                                      LIMIT %(common)s) AS note
            ), frequency AS (
                SELECT term, count(*) AS notes
                  FROM found
                 GROUP BY term
            ), total AS (
                SELECT greatest(max(reltuples)::float8, 1000) AS notes
                  FROM pg_class
                 WHERE oid = 'eltm_notes'::regclass
            )
            SELECT found.id,
                   sum(ln(1 + greatest(total.notes - frequency.notes, 0) / (frequency.notes + 0.5))
                       * 2.2 / (1 + 1.2 * (0.25 + 0.75 * found.word_count / 20.0)))::float8 AS score
              FROM found
              JOIN frequency USING (term)
             CROSS JOIN total
             WHERE frequency.notes < %(common)s
                OR NOT EXISTS (SELECT 1 FROM frequency AS other WHERE other.notes < %(common)s)
             GROUP BY found.id
             ORDER BY score DESC, found.id DESC
             LIMIT %(limit)s
            """,
            {**msgspec.structs.asdict(note_filter), "terms": list(terms), "common": common, "limit": limit},
        )
        return await cur.fetchall()


async def find_entities_by_terms(conn: AsyncConnection, terms: Sequence[str], common: int, limit: int) -> list[Scored]:
    """Return the entities whose names, category or attributes share the rarest of the terms, best first."""
    async with conn.cursor(row_factory=class_row(Scored)) as cur:
        await cur.execute(
            """
            WITH found AS MATERIALIZED (
                SELECT given.term, entity.id, entity.size
                  FROM unnest(%(terms)s::text[]) AS given (term)
                 CROSS JOIN LATERAL (SELECT e.id, cardinality(e.terms) AS size
                                       FROM eltm_entities AS e
                                      WHERE e.terms @> ARRAY[given.term] AND e.forget_id IS NULL
                                      LIMIT %(common)s) AS entity
            ), frequency AS (
                SELECT term, count(*) AS entities
                  FROM found
                 GROUP BY term
            )
            SELECT found.id, sum(ln(1 + 10000.0 / (frequency.entities + 0.5)) / (3 + found.size))::float8 AS score
              FROM found
              JOIN frequency USING (term)
             WHERE frequency.entities < %(common)s
                OR NOT EXISTS (SELECT 1 FROM frequency AS other WHERE other.entities < %(common)s)
             GROUP BY found.id
             ORDER BY score DESC, found.id
             LIMIT %(limit)s
            """,
            {"terms": list(terms), "common": common, "limit": limit},
        )
        return await cur.fetchall()


async def get_candidates(conn: AsyncConnection, note_ids: Sequence[int]) -> dict[int, Candidate]:
    """Return what the ranking needs to know of notes, by id."""
    async with conn.cursor(row_factory=class_row(Candidate), binary=True) as cur:
        await cur.execute(
            """
            SELECT n.id, n.entity_id, n.relationship_id, r.src_id, r.dst_id, n.event_date, n.terms, n.word_count
              FROM eltm_notes AS n
              LEFT JOIN eltm_relationships AS r ON r.id = n.relationship_id
             WHERE n.id = ANY(%(ids)s) AND n.forget_id IS NULL
            """,
            {"ids": list(note_ids)},
        )
        return {candidate.id: candidate for candidate in await cur.fetchall()}
