"""Figures about the memory: how much, how well supported, how much of it twice; and the pairs a person may merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from psycopg.errors import QueryCanceled

from brain.jobs import queries as job_queries
from brain.memory import queries, queries_health, queries_views
from brain.memory.reads import subjects_of
from brain.memory.views import EntityView, Note, Subject

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import VectorSpaces

NEWEST: Final = 2_000
"""Records that are compared with the rest: duplicates arise at the new end."""
NAME_FLOOR: Final = 0.6
TIMEOUT_MS: Final = 5_000


class ExtractionOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """How often extractions ended in one way on one rung of the ladder."""

    outcome: str
    rung: str | None
    runs: int


class MemoryHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of the memory page."""

    entities: int
    relationships: int
    notes: int
    unsourced: int
    duplicates: int
    facts: int
    dropped_facts: int
    extractions: list[ExtractionOutcome]
    queue_depth: int
    queue_parked: int
    queue_oldest_seconds: float
    embedding_model: str | None
    filling_model: str | None
    floor: float | None


class EntityPair(msgspec.Struct, frozen=True, rename="camel", tag="entity", tag_field="kind"):
    """Two entities that may be the same."""

    first: EntityView
    second: EntityView
    similarity: float


class NotePair(msgspec.Struct, frozen=True, rename="camel", tag="note", tag_field="kind"):
    """Two notes of one subject and day that say nearly the same."""

    first: Note
    second: Note
    subject: Subject
    similarity: float


DuplicateKind = Literal["entity", "note"]


class HealthFigures:
    """Reads figures and pairs. Bounded in time: a large store gives fewer pairs, never a stuck page."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], spaces: VectorSpaces) -> None:
        self._pool = pool
        self._spaces = spaces

    async def read(self) -> MemoryHealth:
        """Return the figures."""
        async with self._pool.connection() as conn:
            spaces = await self._spaces.read(conn)
            figures = await queries_health.read_figures(conn)
            outcomes = await queries_health.list_outcomes(conn)
            queue = await job_queries.read_figures(conn)
        return MemoryHealth(
            entities=figures.entities,
            relationships=figures.relationships,
            notes=figures.notes,
            unsourced=figures.unsourced,
            duplicates=figures.duplicates,
            facts=figures.facts,
            dropped_facts=figures.facts_dropped,
            extractions=[ExtractionOutcome(row.outcome, row.rung, row.runs) for row in outcomes],
            queue_depth=queue.waiting + queue.running + queue.retrying + queue.parked,
            queue_parked=queue.parked,
            queue_oldest_seconds=queue.oldest_age_seconds,
            embedding_model=spaces.active.model_id if spaces.active else None,
            filling_model=spaces.filling.model_id if spaces.filling else None,
            floor=spaces.active.floor if spaces.active else None,
        )

    async def find_duplicates(self, limit: int) -> list[EntityPair | NotePair]:
        """Return pairs that are likely the same, entities first, the closest of each kind first."""
        async with self._pool.connection() as conn:
            spaces = await self._spaces.read(conn)
        entities = await self._entity_pairs(limit)
        if spaces.active is None or len(entities) >= limit:
            return list(entities)
        try:
            async with self._pool.connection() as conn, conn.transaction():
                await queries.limit_statement_time(conn, TIMEOUT_MS)
                pairs = await queries_health.list_note_pairs(conn, spaces.active, NEWEST, limit - len(entities))
                notes = await queries_views.get_notes(conn, [each for pair in pairs for each in (pair.first, pair.second)])
                subjects = await subjects_of(conn, list(notes.values()))
        except QueryCanceled:
            return list(entities)
        found = [
            NotePair(notes[pair.first], notes[pair.second], subjects[pair.first], pair.similarity)
            for pair in pairs
            if pair.first in subjects and pair.second in notes
        ]
        return [*entities, *found]

    async def _entity_pairs(self, limit: int) -> list[EntityPair]:
        try:
            async with self._pool.connection() as conn, conn.transaction():
                await queries.limit_statement_time(conn, TIMEOUT_MS)
                pairs = await queries_health.list_entity_pairs(conn, NAME_FLOOR, NEWEST, limit)
                views = await queries_views.get_entity_views(conn, [each for pair in pairs for each in (pair.first, pair.second)])
        except QueryCanceled:
            return []
        return [
            EntityPair(views[pair.first], views[pair.second], pair.similarity)
            for pair in pairs
            if pair.first in views and pair.second in views
        ]
