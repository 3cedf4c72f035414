"""SQL of finding entities by their names and other names: exactly and by spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


async def find_same_names(conn: AsyncConnection, entity_id: int, name: str, floor: float, limit: int) -> list[int]:
    """Return other entities of the same, or nearly the same, name or other name; the closest first."""
    async with conn.transaction():
        await conn.execute("SELECT set_config('pg_trgm.similarity_threshold', %(floor)s, true)", {"floor": str(floor)})
        cur = await conn.execute(
            """
            SELECT found.id
              FROM (SELECT e.id, similarity(e.canonical_name, %(name)s) AS closeness
                      FROM eltm_entities AS e
                     WHERE (e.canonical_name = %(name)s OR e.canonical_name %% %(name)s)
                       AND e.id <> %(entity_id)s AND e.forget_id IS NULL
                    UNION ALL
                    SELECT e.id, similarity(a.alias, %(name)s)
                      FROM eltm_aliases AS a
                      JOIN eltm_entities AS e ON e.id = a.entity_id
                     WHERE (a.alias = %(name)s OR a.alias %% %(name)s)
                       AND e.id <> %(entity_id)s AND e.forget_id IS NULL) AS found
             GROUP BY found.id
             ORDER BY max(found.closeness) DESC, found.id
             LIMIT %(limit)s
            """,
            {"entity_id": entity_id, "name": name, "limit": limit},
        )
        return [int(row[0]) for row in await cur.fetchall()]


async def find_named(conn: AsyncConnection, candidates: Sequence[str], limit: int) -> list[tuple[int, str]]:
    """Return the entities that one of the candidates names exactly, with the candidate, longest candidate first."""
    cur = await conn.execute(
        """
        SELECT found.id, found.name
          FROM (SELECT id, canonical_name AS name
                  FROM eltm_entities
                 WHERE canonical_name = ANY(%(candidates)s) AND forget_id IS NULL
                UNION
                SELECT e.id, a.alias
                  FROM eltm_aliases AS a
                  JOIN eltm_entities AS e ON e.id = a.entity_id
                 WHERE a.alias = ANY(%(candidates)s) AND e.forget_id IS NULL) AS found
         ORDER BY char_length(found.name) DESC, found.id
         LIMIT %(limit)s
        """,
        {"candidates": list(candidates), "limit": limit},
    )
    return [(int(entity_id), str(name)) for entity_id, name in await cur.fetchall()]


async def find_spelled(conn: AsyncConnection, words: Sequence[str], floor: float, limit: int) -> list[tuple[int, float]]:
    """Return the entities whose name, or another name, is spelled like one of the words, with the closeness, closest first."""
    async with conn.transaction():
        await conn.execute("SELECT set_config('pg_trgm.similarity_threshold', %(floor)s, true)", {"floor": str(floor)})
        cur = await conn.execute(
            """
            SELECT found.id, max(found.closeness) AS closeness
              FROM unnest(%(words)s::text[]) AS given (word)
             CROSS JOIN LATERAL (SELECT e.id, similarity(e.canonical_name, given.word) AS closeness
                                   FROM eltm_entities AS e
                                  WHERE e.canonical_name %% given.word AND e.forget_id IS NULL
                                 UNION ALL
                                 SELECT e.id, similarity(a.alias, given.word)
                                   FROM eltm_aliases AS a
                                   JOIN eltm_entities AS e ON e.id = a.entity_id
                                  WHERE a.alias %% given.word AND e.forget_id IS NULL) AS found
             GROUP BY found.id
             ORDER BY closeness DESC, found.id
             LIMIT %(limit)s
            """,
            {"words": list(words), "limit": limit},
        )
        return [(int(entity_id), float(closeness)) for entity_id, closeness in await cur.fetchall()]
