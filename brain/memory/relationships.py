"""Writing relationships (memory.md sections 5.5 and 5.8): one row per triple, only its validity ever changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_history, queries_views
from brain.memory.entities import LOOKUP_CHUNK
from brain.memory.keep_out import find_kept_out, relationship_statement
from brain.memory.normalise import normalise_verb
from brain.memory.queries import Triple
from brain.memory.queries_history import NewRevision
from brain.memory.views import Author, RelationshipView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.views import Entity


class RelationshipStore:
    """Creates relationships and sets whether they hold. Safe under concurrent callers."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def create(self, src_id: int, dst_id: int, verb: str, *, author: Author = "writer") -> RelationshipView:
        """Return the relationship of a triple, made if need be. An ended one is returned as it is: only a note revives it.

        Raises:
            InvalidInputError: the verb is blank, or a person erased exactly this statement.
            NotFoundError: an end does not exist.
        """
        stored = normalise_verb(verb)
        async with self._pool.connection() as conn, conn.transaction():
            ends = await _hold_ends(conn, [(src_id, dst_id)])
            found = await queries.find_relationship(conn, src_id, dst_id, stored)
            relationship_id = found.id if found else None
            if relationship_id is None:
                await _refuse_erased(conn, ends[src_id], stored, ends[dst_id], author)
                relationship_id, created = await _insert(conn, Triple(src_id, dst_id, stored))
                if created:
                    await queries.bump_version(conn)
            return await _view(conn, relationship_id)

    async def create_many(self, triples: Sequence[Triple]) -> tuple[list[int], int]:
        """Return the ids of relationships in input order and how many had to be made; verbs are normalised already.

        Raises:
            NotFoundError: an end does not exist; nothing was written.
        """
        distinct = list(dict.fromkeys(triples))
        if not distinct:
            return [], 0
        inserted = 0
        async with self._pool.connection() as conn, conn.transaction():
            await _hold_ends(conn, [(triple.src_id, triple.dst_id) for triple in distinct])
            known: dict[Triple, int] = {}
            for start in range(0, len(distinct), LOOKUP_CHUNK):
                chunk = distinct[start : start + LOOKUP_CHUNK]
                known.update(await queries.find_relationships_by_triples(conn, chunk))
            for triple in distinct:
                if triple not in known:
                    known[triple], created = await _insert(conn, triple)
                    inserted += created
            if inserted:
                await queries.bump_version(conn)
        return [known[triple] for triple in triples], inserted

    async def set_valid(self, relationship_id: int, *, valid: bool, author: Author = "import") -> bool:
        """Set whether a relationship holds, without a note; whether that changed anything.

        Raises:
            NotFoundError: it does not exist.
        """
        async with self._pool.connection() as conn, conn.transaction():
            held = await queries.hold_relationship(conn, relationship_id)
            if held is None:
                raise NotFoundError("relationship", relationship_id)
            if held.valid == valid:
                return False
            await queries.set_valid(conn, relationship_id, valid=valid)
            if author != "import":
                change = NewRevision("relationship", relationship_id, author, "edited", state_word(held.valid), state_word(valid))
                await queries_history.insert_revisions(conn, [change])
            await queries.bump_version(conn)
        return True


def state_word(valid: bool) -> str:
    """Return the word for whether a relationship holds, as the tools print it."""
    return "active" if valid else "invalidated"


async def _insert(conn: AsyncConnection, triple: Triple) -> tuple[int, bool]:
    relationship_id = await queries.insert_relationship(conn, triple.src_id, triple.dst_id, triple.verb)
    if relationship_id is not None:
        return relationship_id, True
    winner = await queries.find_relationship(conn, triple.src_id, triple.dst_id, triple.verb)
    if winner is None:
        raise InvalidInputError("the relationship was removed meanwhile: try again")
    return winner.id, False


async def _hold_ends(conn: AsyncConnection, pairs: Iterable[tuple[int, int]]) -> dict[int, Entity]:
    wanted = dict.fromkeys(end for pair in pairs for end in pair)
    held = await queries.hold_entities(conn, list(wanted))
    for end in wanted:
        if end not in held:
            raise NotFoundError("entity", end)
    return held


async def _refuse_erased(conn: AsyncConnection, src: Entity, verb: str, dst: Entity, author: Author) -> None:
    if author == "person":
        return
    if await find_kept_out(conn, [relationship_statement(src.canonical_name, verb, dst.canonical_name)]):
        raise InvalidInputError("this relationship was erased by a person and must not be recorded again: skip it")


async def _view(conn: AsyncConnection, relationship_id: int) -> RelationshipView:
    view = (await queries_views.get_relationship_views(conn, [relationship_id])).get(relationship_id)
    if view is None:
        raise InvalidInputError(f"relationship {relationship_id} was removed meanwhile: try again")
    return view
