"""Reading the memory: views, pages, the lexical list, subjects of notes (memory.md sections 5.9, 6 and 13.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Final

import msgspec
import psycopg
from psycopg.errors import QueryCanceled

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_views
from brain.memory.normalise import check_range
from brain.memory.views import EntitySubject, EntityView, Note, RelationshipView, Subject

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

PATTERN_TIMEOUT_MS: Final = 2_000
"""Patterns are written by models; one that backtracks for ever must not hold a connection."""


class EntityPatterns(msgspec.Struct, frozen=True):
    """Case-insensitive regular expressions, all of which have to match; ``None`` does not filter."""

    name: str | None = None
    category: str | None = None
    attribute: str | None = None
    """Matched against lines ``key=value``; any attribute will do."""


class EltmReads:
    """Answers what is in the memory. Never writes."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def version(self) -> str:
        """Return the counter of visible changes, as decimal digits."""
        async with self._pool.connection() as conn:
            return str(await queries.get_meta_number(conn, "eltm_version"))

    async def get_entity(self, entity_id: int) -> EntityView:
        """Return an entity.

        Raises:
            NotFoundError: it does not exist.
        """
        async with self._pool.connection() as conn:
            view = (await queries_views.get_entity_views(conn, [entity_id])).get(entity_id)
        if view is None:
            raise NotFoundError("entity", entity_id)
        return view

    async def get_entities(self, entity_ids: Sequence[int]) -> dict[int, EntityView]:
        """Return the entities that exist among the given, by id."""
        async with self._pool.connection() as conn:
            return await queries_views.get_entity_views(conn, entity_ids)

    async def list_entities(self, limit: int, offset: int = 0) -> list[EntityView]:
        """Return a page of all entities, by id.

        Raises:
            InvalidInputError: paging out of bounds.
        """
        check_paging(limit, offset)
        async with self._pool.connection() as conn:
            return await queries_views.list_entity_views(conn, limit, offset)

    async def match_entities(self, patterns: EntityPatterns, limit: int, offset: int = 0) -> list[EntityView]:
        """Return a page of the entities that match, by id.

        Raises:
            InvalidInputError: paging out of bounds, a pattern that the database refuses or that takes too long.
        """
        check_paging(limit, offset)
        try:
            async with self._pool.connection() as conn, conn.transaction():
                await queries.limit_statement_time(conn, PATTERN_TIMEOUT_MS)
                return await queries_views.match_entity_views(
                    conn,
                    patterns.name,
                    patterns.category,
                    patterns.attribute,
                    limit,
                    offset,
                )
        except psycopg.errors.InvalidRegularExpression as problem:
            raise InvalidInputError(str(problem.diag.message_primary)) from problem
        except QueryCanceled as problem:
            raise InvalidInputError("the pattern takes too long to match: simplify it") from problem

    async def check_pattern(self, pattern: str) -> None:
        """Have the database read a regular expression.

        Raises:
            InvalidInputError: with its complaint.
        """
        try:
            async with self._pool.connection() as conn, conn.transaction():
                await queries.limit_statement_time(conn, PATTERN_TIMEOUT_MS)
                await queries.compile_pattern(conn, pattern)
        except psycopg.errors.InvalidRegularExpression as problem:
            raise InvalidInputError(str(problem.diag.message_primary)) from problem
        except QueryCanceled as problem:
            raise InvalidInputError("the pattern takes too long to match: simplify it") from problem

    async def get_relationship(self, relationship_id: int) -> RelationshipView:
        """Return a relationship.

        Raises:
            NotFoundError: it does not exist.
        """
        async with self._pool.connection() as conn:
            view = (await queries_views.get_relationship_views(conn, [relationship_id])).get(relationship_id)
        if view is None:
            raise NotFoundError("relationship", relationship_id)
        return view

    async def list_relationships(self, limit: int, offset: int = 0) -> list[RelationshipView]:
        """Return a page of all relationships, valid or not, by id.

        Raises:
            InvalidInputError: paging out of bounds.
        """
        check_paging(limit, offset)
        async with self._pool.connection() as conn:
            return await queries_views.list_relationship_views(conn, limit, offset)

    async def list_relationships_of(self, entity_id: int, *, include_invalid: bool = False) -> list[RelationshipView]:
        """Return the relationships of an entity in both directions, newest id first.

        Raises:
            NotFoundError: the entity does not exist.
        """
        async with self._pool.connection() as conn:
            if not await queries_views.entity_exists(conn, entity_id):
                raise NotFoundError("entity", entity_id)
            return await queries_views.list_relationship_views_of(conn, entity_id, include_invalid=include_invalid)

    async def list_entity_notes(
        self,
        entity_id: int,
        start: date | None = None,
        end: date | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Note]:
        """Return an entity's own notes, newest first; ``start`` and ``end`` are inclusive.

        Raises:
            InvalidInputError: paging or range out of order.
            NotFoundError: the entity does not exist.
        """
        check_paging(limit, offset)
        check_range(start, end)
        async with self._pool.connection() as conn:
            if not await queries_views.entity_exists(conn, entity_id):
                raise NotFoundError("entity", entity_id)
            return await queries_views.list_entity_notes(conn, entity_id, start, end, limit, offset)

    async def list_relationship_notes(
        self,
        relationship_id: int,
        start: date | None = None,
        end: date | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Note]:
        """Return a relationship's notes, newest first; ``start`` and ``end`` are inclusive.

        Raises:
            InvalidInputError: paging or range out of order.
            NotFoundError: the relationship does not exist.
        """
        check_paging(limit, offset)
        check_range(start, end)
        async with self._pool.connection() as conn:
            if not await queries_views.relationship_exists(conn, relationship_id):
                raise NotFoundError("relationship", relationship_id)
            return await queries_views.list_relationship_notes(conn, relationship_id, start, end, limit, offset)

    async def get_note(self, note_id: int) -> Note:
        """Return a note.

        Raises:
            NotFoundError: it does not exist.
        """
        async with self._pool.connection() as conn:
            note = (await queries_views.get_notes(conn, [note_id])).get(note_id)
        if note is None:
            raise NotFoundError("note", note_id)
        return note

    async def get_subjects(self, notes: Sequence[Note]) -> dict[int, Subject]:
        """Return what notes are about, by note id; a note whose subject is gone is missing."""
        async with self._pool.connection() as conn:
            return await subjects_of(conn, notes)


async def subjects_of(conn: AsyncConnection, notes: Sequence[Note]) -> dict[int, Subject]:
    """Return what notes are about, by note id, in two batched look-ups at most."""
    entity_ids = {note.entity_id for note in notes if note.entity_id is not None}
    relationship_ids = {note.relationship_id for note in notes if note.relationship_id is not None}
    entities = await queries.get_entities(conn, sorted(entity_ids)) if entity_ids else {}
    relationships = await queries.get_relationship_subjects(conn, sorted(relationship_ids)) if relationship_ids else {}
    found: dict[int, Subject] = {}
    for note in notes:
        if note.entity_id is not None and (entity := entities.get(note.entity_id)) is not None:
            found[note.id] = EntitySubject(entity.id, entity.canonical_name, entity.category)
        elif note.relationship_id is not None and (subject := relationships.get(note.relationship_id)) is not None:
            found[note.id] = subject
    return found


def check_paging(limit: int, offset: int) -> None:
    """Refuse a page that cannot be.

    Raises:
        InvalidInputError: ``limit`` below 1 or ``offset`` below 0.
    """
    if limit < 1:
        raise InvalidInputError("limit must be at least 1")
    if offset < 0:
        raise InvalidInputError("offset must be at least 0")
