"""SQL of the search: candidates by words, by name and by vector under filters, and what the ranking needs to know of them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg import sql
from psycopg.rows import class_row

from brain.memory.queries_vectors import Near

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    src_id: int | None
    dst_id: int | None
    event_date: date
    terms: list[str]
    word_count: int
    first: float | None
    second: float | None

    @property
    def subjects(self) -> tuple[int, ...]:
        """The entities that the note is about."""
        return tuple(each for each in (self.entity_id, self.src_id, self.dst_id) if each is not None)


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


async def count_term_notes(conn: AsyncConnection, terms: Sequence[str], most: int) -> dict[str, int]:
    """Return how many notes have each term, counted up to ``most``."""
    cur = await conn.execute(
        """
        SELECT given.term, (SELECT count(*)
                              FROM (SELECT 1
                                      FROM eltm_notes AS n
                                     WHERE n.terms @> ARRAY[given.term]
                                     LIMIT %(most)s) AS seen)
          FROM unnest(%(terms)s::text[]) AS given (term)
        """,
        {"terms": list(terms), "most": most},
    )
    return {str(term): int(notes) for term, notes in await cur.fetchall()}


async def find_highest_note_id(conn: AsyncConnection) -> int:
    """Return the highest id of a note: how many there are, near enough for weights."""
    cur = await conn.execute("SELECT coalesce(max(id), 0) FROM eltm_notes")
    row = await cur.fetchone()
    return int(row[0]) if row else 0


async def find_notes_by_terms(
    conn: AsyncConnection,
    weights: Mapping[str, float],
    note_filter: NoteFilter,
    each: int,
    limit: int,
) -> list[int]:
    """Return the notes with the highest sum of the weights of the terms they have; at most ``each`` per term are looked at."""
    cur = await conn.execute(
        """
        SELECT note.id
          FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS given (term, weight)
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
                              LIMIT %(each)s) AS note
         GROUP BY note.id
         ORDER BY sum(given.weight) / (1 + 1.2 * (0.25 + 0.75 * max(note.word_count) / 16.0)) DESC, note.id DESC
         LIMIT %(limit)s
        """,
        {
            **msgspec.structs.asdict(note_filter),
            "terms": list(weights),
            "weights": list(weights.values()),
            "each": each,
            "limit": limit,
        },
    )
    return [int(row[0]) for row in await cur.fetchall()]


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


async def get_candidates(
    conn: AsyncConnection,
    note_ids: Sequence[int],
    generation: int | None,
    vectors: Sequence[HalfVector],
) -> list[Candidate]:
    """Return what the ranking needs to know of notes; ``first`` and ``second`` are the similarities to one or two vectors."""
    first = vectors[0] if vectors else None
    second = vectors[1] if len(vectors) > 1 else first
    async with conn.cursor(row_factory=class_row(Candidate), binary=True) as cur:
        await cur.execute(
            """
            SELECT n.id, n.entity_id, r.src_id, r.dst_id, n.event_date, n.terms, n.word_count,
                   1 - (v.embedding <=> %(first)s::halfvec) AS first,
                   1 - (v.embedding <=> %(second)s::halfvec) AS second
              FROM eltm_notes AS n
              LEFT JOIN eltm_relationships AS r ON r.id = n.relationship_id
              LEFT JOIN eltm_note_vectors AS v ON v.note_id = n.id AND v.generation = %(generation)s
             WHERE n.id = ANY(%(ids)s) AND n.forget_id IS NULL
            """,
            {"ids": list(note_ids), "generation": generation, "first": first, "second": second},
        )
        return await cur.fetchall()


async def find_newest_day(conn: AsyncConnection) -> date | None:
    """Return the latest event date."""
    cur = await conn.execute(
        """
        SELECT event_date
          FROM eltm_notes
         WHERE forget_id IS NULL
         ORDER BY event_date DESC, id DESC
         LIMIT 1
        """,
    )
    row = await cur.fetchone()
    return None if row is None else row[0]
