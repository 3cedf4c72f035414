"""Merging two entities that are the same (memory.md section 5.6): nothing that was noted is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_history, queries_notes, queries_views
from brain.memory.entities import restate_entity, store_terms
from brain.memory.normalise import is_placeholder
from brain.memory.queries_history import NewRevision
from brain.memory.views import Author, MergedEntities

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import VectorSpaces
    from brain.memory.views import Entity, Relationship


async def merge_entities(
    pool: AsyncConnectionPool[AsyncConnection],
    spaces: VectorSpaces,
    winner_id: int,
    loser_id: int,
    *,
    author: Author = "writer",
) -> MergedEntities:
    """Fold the loser into the winner, whose name and category stay; the loser's names become other names of the winner.

    One transaction, the embedding included, and one bump. Both rows are locked in ascending order of id.

    Raises:
        InvalidInputError: both ids are the same.
        NotFoundError: one of them does not exist.
        EmbeddingError: nothing was changed.
    """
    if winner_id == loser_id:
        raise InvalidInputError("winner and loser are the same entity")
    async with pool.connection() as conn, conn.transaction():
        locked = await queries.lock_entities(conn, [winner_id, loser_id])
        for entity_id in (winner_id, loser_id):
            if entity_id not in locked:
                raise NotFoundError("entity", entity_id)
        winner, loser = locked[winner_id], locked[loser_id]
        for relationship in await queries.list_relationships_touching(conn, loser_id):
            await _move_relationship(conn, relationship, winner_id, loser_id)
        await queries.repoint_forgotten_relationships(conn, loser_id, winner_id)
        await queries_notes.move_entity_notes(conn, loser_id, winner_id)
        folded = await _fold_attributes(conn, spaces, winner, loser)
        await queries_history.move_revisions(conn, "entity", loser_id, winner_id)
        before = f"{loser.canonical_name} ({loser.category})"
        after = f"{winner.canonical_name} ({winner.category})"
        await queries_history.insert_revisions(conn, [NewRevision("entity", winner_id, author, "moved", before, after)])
        await queries.delete_entity(conn, loser_id)
        view = (await queries_views.get_entity_views(conn, [winner_id]))[winner_id]
        await queries.bump_version(conn)
    return MergedEntities(view, folded)


async def _move_relationship(conn: AsyncConnection, relationship: Relationship, winner_id: int, loser_id: int) -> None:
    # One at a time: an earlier row may have become the survivor that a later one has to find.
    src_id = winner_id if relationship.src_id == loser_id else relationship.src_id
    dst_id = winner_id if relationship.dst_id == loser_id else relationship.dst_id
    survivor = await queries.find_relationship(conn, src_id, dst_id, relationship.verb)
    is_self_loop = src_id == dst_id
    if survivor is None or survivor.id == relationship.id:
        valid = relationship.valid and not is_self_loop
        await queries.repoint_relationship(conn, relationship.id, src_id, dst_id, valid=valid)
        return
    # Notes first: the foreign key would take them along.
    await queries_notes.move_notes(conn, relationship.id, survivor.id)
    if not is_self_loop and relationship.valid and not survivor.valid:
        await queries.set_valid(conn, survivor.id, valid=True)
    await queries_history.move_revisions(conn, "relationship", relationship.id, survivor.id)
    await queries.delete_relationship(conn, relationship.id)


async def _fold_attributes(conn: AsyncConnection, spaces: VectorSpaces, winner: Entity, loser: Entity) -> list[str]:
    attributes = await queries.get_attributes(conn, [winner.id, loser.id])
    own, other = attributes.get(winner.id, {}), attributes.get(loser.id, {})
    folded = {key: value for key, value in other.items() if key not in own}
    names = [loser.canonical_name, *await queries.get_aliases(conn, loser.id)]
    kept = [name for name in names if name != winner.canonical_name and not is_placeholder(name)]
    await queries.add_aliases(conn, winner.id, kept)
    if folded:
        await queries.upsert_attributes(conn, winner.id, folded)
        await restate_entity(conn, spaces, winner, {**own, **folded})
    else:
        await store_terms(conn, winner, own)
    return sorted(folded)
