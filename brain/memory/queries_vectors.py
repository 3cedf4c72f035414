"""SQL of the vectors: generations, their indexes, what is stored in them, and the nearest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

import msgspec
from psycopg import sql
from psycopg.rows import class_row

from brain.memory.views import Entity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgvector import HalfVector
    from psycopg import AsyncConnection


class Generation(msgspec.Struct, frozen=True):
    """One embedding model's space; the floors are ``None`` until they could be measured."""

    id: int
    model_id: str
    dimensions: int
    state: str
    floor: float | None
    near_floor: float | None


class Near(msgspec.Struct, frozen=True):
    """A row found by its vector."""

    id: int
    similarity: float


async def list_generations(conn: AsyncConnection) -> list[Generation]:
    """Return all generations, the active one first."""
    async with conn.cursor(row_factory=class_row(Generation)) as cur:
        await cur.execute(
            """
            SELECT id, model_id, dimensions, state, floor, near_floor
              FROM eltm_vector_generations
             ORDER BY state, id
            """,
        )
        return await cur.fetchall()


async def lock_state(conn: AsyncConnection) -> None:
    """Make every writer and every other switch wait until this transaction ends."""
    await conn.execute("SELECT active_generation FROM eltm_vector_state FOR UPDATE")


async def share_state(conn: AsyncConnection) -> None:
    """Keep the set of generations as it is until this transaction ends."""
    await conn.execute("SELECT active_generation FROM eltm_vector_state FOR SHARE")


async def insert_generation(conn: AsyncConnection, model_id: str, dimensions: int, state: str) -> int:
    """Add a generation with its two indexes and return its id."""
    cur = await conn.execute(
        """
        INSERT INTO eltm_vector_generations (model_id, dimensions, state)
        VALUES (%(model_id)s, %(dimensions)s, %(state)s)
        RETURNING id
        """,
        {"model_id": model_id, "dimensions": dimensions, "state": state},
    )
    row = await cur.fetchone()
    assert row is not None
    generation = int(row[0])
    # DDL takes no parameters; the condition has to be the literal that the searches repeat.
    for table in ("eltm_note_vectors", "eltm_entity_vectors"):
        await conn.execute(
            sql.SQL(
                """
                CREATE INDEX {name} ON {table}
                 USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops)
                 WHERE generation = {generation} AND NOT hidden
                """,
            ).format(
                name=sql.Identifier(f"{table}_g{generation}"),
                table=sql.Identifier(table),
                dimensions=sql.Literal(dimensions),
                generation=sql.Literal(generation),
            ),
        )
    return generation


async def drop_generation(conn: AsyncConnection, generation: int) -> None:
    """Remove a generation, its indexes and its vectors."""
    for table in ("eltm_note_vectors", "eltm_entity_vectors"):
        await conn.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(f"{table}_g{generation}")))
    parameters = {"generation": generation}
    await conn.execute("DELETE FROM eltm_note_vectors WHERE generation = %(generation)s", parameters)
    await conn.execute("DELETE FROM eltm_entity_vectors WHERE generation = %(generation)s", parameters)
    await conn.execute("DELETE FROM eltm_vector_generations WHERE id = %(generation)s", parameters)


async def set_generation_state(conn: AsyncConnection, generation: int, state: str) -> None:
    """Set what a generation is used for."""
    await conn.execute(
        "UPDATE eltm_vector_generations SET state = %(state)s WHERE id = %(generation)s",
        {"generation": generation, "state": state},
    )


async def set_active_generation(conn: AsyncConnection, generation: int) -> None:
    """Name the generation that serves."""
    await conn.execute(
        "UPDATE eltm_vector_state SET active_generation = %(generation)s",
        {"generation": generation},
    )


async def set_floors(conn: AsyncConnection, generation: int, floor: float, near_floor: float) -> None:
    """Store the measured floors of a generation."""
    await conn.execute(
        """
        UPDATE eltm_vector_generations
           SET floor = %(floor)s, near_floor = %(near_floor)s
         WHERE id = %(generation)s
        """,
        {"generation": generation, "floor": floor, "near_floor": near_floor},
    )


async def has_vectors(conn: AsyncConnection) -> bool:
    """Whether anything is stored in any generation."""
    cur = await conn.execute(
        """
        SELECT EXISTS (SELECT 1 FROM eltm_note_vectors)
            OR EXISTS (SELECT 1 FROM eltm_entity_vectors)
        """,
    )
    row = await cur.fetchone()
    return row is not None and bool(row[0])


async def put_note_vectors(conn: AsyncConnection, generation: int, rows: Sequence[tuple[int, HalfVector]]) -> None:
    """Store vectors of notes; a note that is gone by now is passed over."""
    async with conn.cursor() as cur:
        await cur.executemany(
            """
            INSERT INTO eltm_note_vectors (note_id, generation, embedding, hidden)
            SELECT id, %(generation)s, %(embedding)s, forget_id IS NOT NULL
              FROM eltm_notes
             WHERE id = %(id)s
                ON CONFLICT (note_id, generation) DO UPDATE SET embedding = excluded.embedding
            """,
            [{"id": note_id, "generation": generation, "embedding": vector} for note_id, vector in rows],
        )


async def copy_note_vectors(conn: AsyncConnection, generation: int, rows: Sequence[tuple[int, HalfVector]]) -> None:
    """Store vectors of notes that were inserted by this transaction, in bulk."""
    async with (
        conn.cursor() as cur,
        cur.copy("COPY eltm_note_vectors (note_id, generation, embedding) FROM STDIN (FORMAT binary)") as copy,
    ):
        copy.set_types(["int8", "int4", "halfvec"])
        for note_id, vector in rows:
            await copy.write_row((note_id, generation, vector))


async def put_entity_vector(conn: AsyncConnection, entity_id: int, generation: int, vector: HalfVector) -> None:
    """Store the vector of an entity."""
    await conn.execute(
        """
        INSERT INTO eltm_entity_vectors (entity_id, generation, embedding, hidden)
        SELECT id, %(generation)s, %(embedding)s, forget_id IS NOT NULL
          FROM eltm_entities
         WHERE id = %(entity_id)s
            ON CONFLICT (entity_id, generation) DO UPDATE SET embedding = excluded.embedding
        """,
        {"entity_id": entity_id, "generation": generation, "embedding": vector},
    )


async def drop_entity_vectors(conn: AsyncConnection, entity_id: int, generations: Sequence[int]) -> None:
    """Remove an entity's vectors of the given generations: its text has changed and they no longer stand for it."""
    await conn.execute(
        "DELETE FROM eltm_entity_vectors WHERE entity_id = %(entity_id)s AND generation = ANY(%(generations)s)",
        {"entity_id": entity_id, "generations": list(generations)},
    )


async def drop_note_vectors(conn: AsyncConnection, note_id: int, generations: Sequence[int]) -> None:
    """Remove a note's vectors of the given generations."""
    await conn.execute(
        "DELETE FROM eltm_note_vectors WHERE note_id = %(note_id)s AND generation = ANY(%(generations)s)",
        {"note_id": note_id, "generations": list(generations)},
    )


async def find_near_entities(
    conn: AsyncConnection,
    generation: Generation,
    vector: HalfVector,
    limit: int,
    *,
    exact: bool,
) -> list[Near]:
    """Return the entities closest to a vector, best first; ``exact`` compares with every row instead of asking the index."""
    statement = _EXACT_ENTITIES if exact else _NEAREST_ENTITIES
    return await _nearest(conn, statement, generation, vector, limit)


async def find_near_notes(
    conn: AsyncConnection,
    generation: Generation,
    vector: HalfVector,
    limit: int,
    *,
    exact: bool,
) -> list[Near]:
    """Return the notes closest to a vector, best first; ``exact`` compares with every row instead of asking the index."""
    statement = _EXACT_NOTES if exact else _NEAREST_NOTES
    return await _nearest(conn, statement, generation, vector, limit)


async def has_more_note_vectors(conn: AsyncConnection, generation: int, count: int) -> bool:
    """Whether a generation holds more notes than ``count``."""
    cur = await conn.execute(
        "SELECT count(*) FROM (SELECT 1 FROM eltm_note_vectors WHERE generation = %(generation)s LIMIT %(count)s + 1) AS seen",
        {"generation": generation, "count": count},
    )
    row = await cur.fetchone()
    return row is not None and int(row[0]) > count


async def has_more_entity_vectors(conn: AsyncConnection, generation: int, count: int) -> bool:
    """Whether a generation holds more entities than ``count``."""
    cur = await conn.execute(
        "SELECT count(*) FROM (SELECT 1 FROM eltm_entity_vectors WHERE generation = %(generation)s LIMIT %(count)s + 1) AS seen",
        {"generation": generation, "count": count},
    )
    row = await cur.fetchone()
    return row is not None and int(row[0]) > count


async def find_entities_near_entity(
    conn: AsyncConnection,
    generation: Generation,
    entity_id: int,
    floor: float,
    limit: int,
) -> list[Near]:
    """Return the entities closest to a stored one, itself left out, from ``floor`` on."""
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            sql.SQL(
                """
                WITH own AS MATERIALIZED (
                    SELECT embedding::halfvec({dimensions}) AS embedding
                      FROM eltm_entity_vectors
                     WHERE entity_id = %(entity_id)s AND generation = {generation} AND NOT hidden
                ), nearest AS MATERIALIZED (
                    SELECT other.entity_id AS id,
                           1 - (other.embedding::halfvec({dimensions}) <=> (SELECT embedding FROM own)) AS similarity
                      FROM eltm_entity_vectors AS other
                     WHERE other.generation = {generation} AND NOT other.hidden
                     ORDER BY other.embedding::halfvec({dimensions}) <=> (SELECT embedding FROM own)
                     LIMIT %(limit)s
                )
                SELECT id, similarity
                  FROM nearest
                 WHERE id <> %(entity_id)s AND similarity >= %(floor)s
                 ORDER BY similarity DESC, id
                """,
            ).format(dimensions=sql.Literal(generation.dimensions), generation=sql.Literal(generation.id)),
            {"entity_id": entity_id, "floor": floor, "limit": limit + 1},
        )
        return (await cur.fetchall())[:limit]


async def find_near_subject_notes(
    conn: AsyncConnection,
    generation: Generation,
    vector: HalfVector,
    note_ids: Sequence[int],
) -> list[Near]:
    """Return the similarity of the given notes to a vector, best first. Exact: no index is asked."""
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            """
            SELECT note_id AS id, 1 - (embedding <=> %(vector)s) AS similarity
              FROM eltm_note_vectors
             WHERE note_id = ANY(%(note_ids)s) AND generation = %(generation)s
             ORDER BY similarity DESC, note_id
            """,
            {"vector": vector, "note_ids": list(note_ids), "generation": generation.id},
        )
        return await cur.fetchall()


_NEAREST_NOTES: LiteralString = """
SELECT note_id AS id, 1 - (embedding::halfvec({dimensions}) <=> %(vector)s::halfvec({dimensions})) AS similarity
  FROM eltm_note_vectors
 WHERE generation = {generation} AND NOT hidden
 ORDER BY embedding::halfvec({dimensions}) <=> %(vector)s::halfvec({dimensions})
 LIMIT %(limit)s
"""
_NEAREST_ENTITIES: LiteralString = """
SELECT entity_id AS id, 1 - (embedding::halfvec({dimensions}) <=> %(vector)s::halfvec({dimensions})) AS similarity
  FROM eltm_entity_vectors
 WHERE generation = {generation} AND NOT hidden
 ORDER BY embedding::halfvec({dimensions}) <=> %(vector)s::halfvec({dimensions})
 LIMIT %(limit)s
"""
# Without the cast the order does not match the index.
_EXACT_NOTES: LiteralString = """
SELECT note_id AS id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM eltm_note_vectors
 WHERE generation = {generation} AND NOT hidden
 ORDER BY embedding <=> %(vector)s
 LIMIT %(limit)s
"""
_EXACT_ENTITIES: LiteralString = """
SELECT entity_id AS id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM eltm_entity_vectors
 WHERE generation = {generation} AND NOT hidden
 ORDER BY embedding <=> %(vector)s
 LIMIT %(limit)s
"""


async def _nearest(
    conn: AsyncConnection,
    statement: LiteralString,
    generation: Generation,
    vector: HalfVector,
    limit: int,
) -> list[Near]:
    async with conn.cursor(row_factory=class_row(Near)) as cur:
        await cur.execute(
            sql.SQL(statement).format(dimensions=sql.Literal(generation.dimensions), generation=sql.Literal(generation.id)),
            {"vector": vector, "limit": limit},
        )
        return await cur.fetchall()


async def get_entities_to_embed(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, Entity]:
    """Return entities, forgotten ones included, by id in ascending order."""
    async with conn.cursor(row_factory=class_row(Entity)) as cur:
        await cur.execute(
            "SELECT id, canonical_name, category FROM eltm_entities WHERE id = ANY(%(ids)s) ORDER BY id",
            {"ids": list(entity_ids)},
        )
        return {entity.id: entity for entity in await cur.fetchall()}


async def lock_entities_in_order(conn: AsyncConnection, entity_ids: Sequence[int]) -> None:
    """Lock entities, forgotten ones included, in ascending order of id."""
    await conn.execute(
        "SELECT id FROM eltm_entities WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE",
        {"ids": list(entity_ids)},
    )
