"""Forgetting and correcting by people (additions.md section 3): all of it can be taken back, all of it keeps a revision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from psycopg.errors import UniqueViolation

from brain.errors import ConflictError, NotFoundError
from brain.memory import queries, queries_forget, queries_history, queries_vectors, queries_views
from brain.memory.keep_out import same_text_hash
from brain.memory.normalise import normalise_note
from brain.memory.queries_history import Change, NewRevision, SubjectType
from brain.memory.tokens import terms_of
from brain.memory.views import Note

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import VectorSpaces
    from brain.memory.queries_forget import EntityText, NoteText, RelationshipText


class Corrections:
    """What a person may do to the memory and take back again. Never offered to a model."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], spaces: VectorSpaces) -> None:
        self._pool = pool
        self._spaces = spaces

    async def edit_note(self, note_id: int, text: str | None = None, event_date: date | None = None) -> Note:
        """Rewrite a note or move it to another day; ``None`` keeps.

        Raises:
            InvalidInputError: the text is blank.
            NotFoundError: the note does not exist.
            EmbeddingError: nothing was changed.
        """
        wanted = None if text is None else normalise_note(text)
        async with self._pool.connection() as conn:
            spaces = await self._spaces.read(conn)
        vectors = await self._spaces.embed_passages(spaces, [wanted]) if wanted is not None else {}
        async with self._pool.connection() as conn, conn.transaction():
            old = await _lock_visible_note(conn, note_id)
            new_text, new_date = wanted or old.note, event_date or old.event_date
            if (new_text, new_date) != (old.note, old.event_date):
                spaces = await self._spaces.read(conn, hold=True)
                if new_text != old.note:
                    vectors = await self._spaces.embed_passages(spaces, [new_text], vectors)
                    stale = [generation.id for generation in spaces.all if generation.id not in vectors]
                    await queries_vectors.drop_note_vectors(conn, note_id, stale)
                await _rewrite(conn, note_id, new_text, new_date)
                if new_text != old.note:
                    for generation in spaces.all:
                        if generation.id in vectors:
                            row = (note_id, vectors[generation.id][0])
                            await queries_vectors.put_note_vectors(conn, generation.id, [row])
                await _record(conn, "note", note_id, "edited", note_line(old), f"{new_date}: {new_text}")
                await queries.bump_version(conn)
            return (await queries_views.get_notes(conn, [note_id]))[note_id]

    async def forget_note(self, note_id: int) -> None:
        """Take a note out of search, injection, browsing and export.

        Raises:
            NotFoundError: it does not exist, or is forgotten already.
        """
        async with self._pool.connection() as conn, conn.transaction():
            note = await _lock_visible_note(conn, note_id)
            await self._spaces.read(conn, hold=True)
            await queries_forget.mark_forgotten(conn, await queries_forget.add_forget(conn), note_ids=[note_id])
            await _record(conn, "note", note_id, "forgotten", note_line(note), None)
            await queries.bump_version(conn)

    async def forget_entity(self, entity_id: int) -> None:
        """Forget an entity, its notes, its relationships and their notes.

        Raises:
            NotFoundError: it does not exist, or is forgotten already.
        """
        async with self._pool.connection() as conn, conn.transaction():
            entities = await queries_forget.lock_entity_text(conn, [entity_id])
            if not entities or entities[0].forget_id is not None:
                raise NotFoundError("entity", entity_id)
            relationships = await queries_forget.lock_relationship_text(conn, [], [entity_id])
            ids = [edge.id for edge in relationships]
            notes = await queries_forget.lock_note_text(conn, [], [entity_id], ids)
            await self._spaces.read(conn, hold=True)
            await queries_forget.mark_forgotten(
                conn,
                await queries_forget.add_forget(conn),
                entity_ids=[entity_id],
                relationship_ids=ids,
                note_ids=[note.id for note in notes],
            )
            await _record(conn, "entity", entity_id, "forgotten", entity_line(entities[0]), None)
            await queries.bump_version(conn)

    async def forget_relationship(self, relationship_id: int) -> None:
        """Forget a relationship and its notes.

        Raises:
            NotFoundError: it does not exist, or is forgotten already.
        """
        async with self._pool.connection() as conn, conn.transaction():
            found = await queries_forget.lock_relationship_text(conn, [relationship_id])
            if not found or found[0].forget_id is not None:
                raise NotFoundError("relationship", relationship_id)
            notes = await queries_forget.lock_note_text(conn, [], [], [relationship_id])
            await self._spaces.read(conn, hold=True)
            await queries_forget.mark_forgotten(
                conn,
                await queries_forget.add_forget(conn),
                relationship_ids=[relationship_id],
                note_ids=[note.id for note in notes],
            )
            await _record(conn, "relationship", relationship_id, "forgotten", relationship_line(found[0]), None)
            await queries.bump_version(conn)

    async def restore_note(self, note_id: int) -> None:
        """Bring a forgotten note back; one that is not forgotten stays as it is.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: its subject is forgotten.
        """
        async with self._pool.connection() as conn, conn.transaction():
            notes = await queries_forget.lock_note_text(conn, [note_id])
            if not notes:
                raise NotFoundError("note", note_id)
            note = notes[0]
            if note.forget_id is None:
                return
            if not await _subject_is_visible(conn, note):
                raise ConflictError(f"note {note_id} belongs to something forgotten: restore that first")
            await self._undo(conn, note.forget_id)
            await _record(conn, "note", note_id, "restored", None, note_line(note))
            await queries.bump_version(conn)

    async def restore_entity(self, entity_id: int) -> None:
        """Bring a forgotten entity back, with what was forgotten together with it.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: another entity has its name and category by now.
        """
        try:
            async with self._pool.connection() as conn, conn.transaction():
                entities = await queries_forget.lock_entity_text(conn, [entity_id])
                if not entities:
                    raise NotFoundError("entity", entity_id)
                entity = entities[0]
                if entity.forget_id is None:
                    return
                await self._undo(conn, entity.forget_id)
                await _record(conn, "entity", entity_id, "restored", None, entity_line(entity))
                await queries.bump_version(conn)
        except UniqueViolation as problem:
            raise _taken(problem) from problem

    async def restore_relationship(self, relationship_id: int) -> None:
        """Bring a forgotten relationship back, with its notes.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: an end of it is forgotten, or the same relationship exists again.
        """
        try:
            async with self._pool.connection() as conn, conn.transaction():
                found = await queries_forget.lock_relationship_text(conn, [relationship_id])
                if not found:
                    raise NotFoundError("relationship", relationship_id)
                edge = found[0]
                if edge.forget_id is None:
                    return
                if not await queries_forget.ends_are_visible(conn, relationship_id):
                    raise ConflictError(f"an end of relationship {relationship_id} is forgotten: restore that first")
                await self._undo(conn, edge.forget_id)
                await _record(conn, "relationship", relationship_id, "restored", None, relationship_line(edge))
                await queries.bump_version(conn)
        except UniqueViolation as problem:
            raise _taken(problem) from problem

    async def _undo(self, conn: AsyncConnection, forget_id: int) -> None:
        await self._spaces.read(conn, hold=True)
        await queries_forget.undo_forget(conn, forget_id)


def note_line(note: NoteText) -> str:
    """Return a note as its history shows it."""
    return f"{note.event_date}: {note.note}"


def entity_line(entity: EntityText) -> str:
    """Return an entity as its history shows it."""
    return f"{entity.canonical_name} ({entity.category})"


def relationship_line(edge: RelationshipText) -> str:
    """Return a relationship as its history shows it."""
    return f"{edge.src_name} {edge.verb} {edge.dst_name}"


async def find_forgotten(conn: AsyncConnection, texts: Sequence[str]) -> set[int]:
    """Return the places of those texts that a forgotten note has: the writer must not bring back what a person took out."""
    hashes = [same_text_hash(text) for text in texts]
    forgotten = await queries_forget.find_forgotten_hashes(conn, hashes)
    return {at for at, digest in enumerate(hashes) if digest in forgotten}


async def _lock_visible_note(conn: AsyncConnection, note_id: int) -> NoteText:
    notes = await queries_forget.lock_note_text(conn, [note_id])
    if not notes or notes[0].forget_id is not None:
        raise NotFoundError("note", note_id)
    return notes[0]


async def _subject_is_visible(conn: AsyncConnection, note: NoteText) -> bool:
    if note.entity_id is not None:
        return await queries_views.entity_exists(conn, note.entity_id)
    assert note.relationship_id is not None
    return await queries_views.relationship_exists(conn, note.relationship_id)


async def _rewrite(conn: AsyncConnection, note_id: int, text: str, day: date) -> None:
    terms, count = terms_of(text)
    await queries_forget.update_note(
        conn,
        note_id,
        event_date=day,
        note=text,
        terms=terms,
        word_count=count,
        text_hash=same_text_hash(text),
    )


async def _record(
    conn: AsyncConnection,
    subject_type: SubjectType,
    subject_id: int,
    change: Change,
    before: str | None,
    after: str | None,
) -> None:
    revision = NewRevision(subject_type, subject_id, "person", change, before, after)
    await queries_history.insert_revisions(conn, [revision])


def _taken(problem: UniqueViolation) -> ConflictError:
    if problem.diag.constraint_name == queries.ENTITY_KEY:
        return ConflictError("another entity has this name and category by now: rename that one first")
    if problem.diag.constraint_name == queries.RELATIONSHIP_KEY:
        return ConflictError("the same relationship exists again: forget that one first")
    raise problem
