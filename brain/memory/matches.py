"""Near matches: entities that may be the same as a given one, by another category, another name, spelling, or meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brain.memory import queries_names, queries_vectors, queries_views
from brain.memory.generations import UNCALIBRATED_FLOOR
from brain.memory.views import EntityMatch

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from brain.memory.queries_vectors import Generation
    from brain.memory.views import Entity

MATCH_LIMIT: Final = 5
SPELLING_FLOOR: Final = 0.45
"""Trigram similarity from which a name counts as a spelling of another: `ada lovelace` and `ada lovelance` have 0.73."""


async def find_near_matches(
    conn: AsyncConnection,
    generation: Generation | None,
    entity: Entity,
    threshold: float | None,
) -> list[EntityMatch]:
    """Return at most five, those of the same or nearly the same name first, then by similarity of the stored vectors.

    The vector of an entity absorbs its attributes and drifts away from its name, so the name is asked for itself.
    """
    named = await queries_names.find_same_names(conn, entity.id, entity.canonical_name, SPELLING_FLOOR, MATCH_LIMIT)
    similar: dict[int, float] = {}
    if generation is not None:
        floor = threshold if threshold is not None else generation.floor or UNCALIBRATED_FLOOR
        near = await queries_vectors.find_entities_near_entity(conn, generation, entity.id, floor, MATCH_LIMIT)
        similar = {hit.id: hit.similarity for hit in near}
    order = list(dict.fromkeys([*named, *similar]))[:MATCH_LIMIT]
    views = await queries_views.get_entity_views(conn, order)
    return [EntityMatch(views[found], similar.get(found)) for found in order if found in views]
