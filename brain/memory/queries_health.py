"""SQL of the figures about the memory, and of pairs that are likely the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg import sql
from psycopg.rows import class_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from brain.memory.queries_vectors import Generation


class Figures(msgspec.Struct, frozen=True):
    """Counts over the whole memory, forgotten records left out."""

    entities: int
    relationships: int
    notes: int
    unsourced: int
    duplicates: int
    facts: int
    facts_dropped: int


class OutcomeRow(msgspec.Struct, frozen=True):
    """How often an outcome came from a rung."""

    outcome: str
    rung: str | None
    runs: int


class Pair(msgspec.Struct, frozen=True):
    """Two records that are likely the same; the lower id first."""

    first: int
    second: int
    similarity: float


async def read_figures(conn: AsyncConnection) -> Figures:
    """Return the counts. ``duplicates``: notes that repeat the text of an older note of the same subject and day."""
    async with conn.cursor(row_factory=class_row(Figures)) as cur:
        await cur.execute(
            """
            SELECT (SELECT count(*) FROM eltm_entities WHERE forget_id IS NULL) AS entities,
                   (SELECT count(*) FROM eltm_relationships WHERE forget_id IS NULL) AS relationships,
                   (SELECT count(*) FROM eltm_notes WHERE forget_id IS NULL) AS notes,
                   (SELECT count(*)
                      FROM eltm_notes AS n
                     WHERE n.forget_id IS NULL
                       AND NOT EXISTS (SELECT 1 FROM eltm_note_sources AS s WHERE s.note_id = n.id)) AS unsourced,
                   (SELECT coalesce(sum(repeated.copies - 1), 0)::bigint
                      FROM (SELECT count(*) AS copies
                              FROM eltm_notes
                             WHERE forget_id IS NULL
                             GROUP BY entity_id, relationship_id, event_date, text_hash
                            HAVING count(*) > 1) AS repeated) AS duplicates,
                   (SELECT coalesce(sum(facts), 0)::bigint FROM eltm_extraction_runs) AS facts,
                   (SELECT coalesce(sum(facts_dropped), 0)::bigint FROM eltm_extraction_runs) AS facts_dropped
            """,
        )
        row = await cur.fetchone()
        assert row is not None
        return row


async def list_outcomes(conn: AsyncConnection) -> list[OutcomeRow]:
    """Return how the extractions ended, by outcome and rung."""
    async with conn.cursor(row_factory=class_row(OutcomeRow)) as cur:
        await cur.execute(
            """
            SELECT coalesce(outcome, 'running') AS outcome, rung, count(*) AS runs
              FROM eltm_extraction_runs
             GROUP BY 1, 2
             ORDER BY 1, 2
            """,
        )
        return await cur.fetchall()


async def list_entity_pairs(conn: AsyncConnection, floor: float, newest: int, limit: int) -> list[Pair]:
    """Return pairs of entities with nearly the same name, one of them among the newest, the closest first."""
    await conn.execute("SELECT set_config('pg_trgm.similarity_threshold', %(floor)s, true)", {"floor": str(floor)})
    async with conn.cursor(row_factory=class_row(Pair)) as cur:
        await cur.execute(
            """
            WITH recent AS MATERIALIZED (
                SELECT id, canonical_name
                  FROM eltm_entities
                 WHERE forget_id IS NULL
                 ORDER BY id DESC
                 LIMIT %(newest)s
            )
            SELECT least(recent.id, other.id) AS first, greatest(recent.id, other.id) AS second,
                   max(similarity(other.canonical_name, recent.canonical_name))::float8 AS similarity
              FROM recent
              JOIN eltm_entities AS other ON other.canonical_name %% recent.canonical_name
             WHERE other.id <> recent.id AND other.forget_id IS NULL
             GROUP BY 1, 2
             ORDER BY 3 DESC, 1, 2
             LIMIT %(limit)s
            """,
            {"newest": newest, "limit": limit},
        )
        return await cur.fetchall()


async def list_note_pairs(conn: AsyncConnection, generation: Generation, newest: int, limit: int) -> list[Pair]:
    """Return pairs of notes of one subject and day that say nearly the same, one of them among the newest, the closest first."""
    async with conn.cursor(row_factory=class_row(Pair)) as cur:
        await cur.execute(
            sql.SQL(
                """
                WITH recent AS MATERIALIZED (
                    SELECT id, entity_id, relationship_id, event_date
                      FROM eltm_notes
                     WHERE forget_id IS NULL
                     ORDER BY id DESC
                     LIMIT %(newest)s
                ), close AS (
                    SELECT other.id AS first, recent.id AS second, 1 - (a.embedding <=> b.embedding) AS similarity
                      FROM recent
                      JOIN eltm_notes AS other
                        ON (other.entity_id = recent.entity_id OR other.relationship_id = recent.relationship_id)
                       AND other.event_date = recent.event_date AND other.id < recent.id AND other.forget_id IS NULL
                      JOIN eltm_note_vectors AS a ON a.note_id = other.id AND a.generation = {generation}
                      JOIN eltm_note_vectors AS b ON b.note_id = recent.id AND b.generation = {generation}
                )
                SELECT first, second, similarity
                  FROM close
                 WHERE similarity >= %(floor)s
                 ORDER BY similarity DESC, first, second
                 LIMIT %(limit)s
                """,
            ).format(generation=sql.Literal(generation.id)),
            {"newest": newest, "limit": limit, "floor": generation.near_floor if generation.near_floor is not None else 0.95},
        )
        return await cur.fetchall()
