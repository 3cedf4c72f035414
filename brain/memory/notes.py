"""Attaching notes (memory.md section 5.7), with the repetition check of the server (idea H) and the links to their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from psycopg.errors import ForeignKeyViolation

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_history, queries_notes, queries_vectors, queries_views
from brain.memory.forget import find_forgotten
from brain.memory.generations import UNCALIBRATED_NEAR_FLOOR
from brain.memory.keep_out import find_kept_out, note_statement, same_text_hash
from brain.memory.normalise import normalise_note
from brain.memory.queries_notes import NoteRow
from brain.memory.tokens import terms_of, words_of
from brain.memory.views import AttachedNotes, Author, NearNote, NewNote, NoteSource

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import Spaces, Vectors, VectorSpaces
    from brain.memory.views import Note


class NoteSubject(msgspec.Struct, frozen=True):
    """What notes are about: exactly one of the two."""

    entity_id: int | None = None
    relationship_id: int | None = None

    def missing(self) -> NotFoundError:
        """Return the error for a subject that is not there."""
        if self.entity_id is not None:
            return NotFoundError("entity", self.entity_id)
        return NotFoundError("relationship", self.relationship_id)


class NoteRules(msgspec.Struct, frozen=True):
    """How notes are attached.

    ``skip_same``: a note that the subject has on that day already is not written again. ``refuse_near``: nothing is written while
    the subject has a note of that day that says nearly the same; the caller is shown it and may insist.
    """

    author: Author = "writer"
    skip_same: bool = False
    refuse_near: bool = False
    sources: tuple[NoteSource, ...] = ()


class _Batch(msgspec.Struct, frozen=True):
    subject: NoteSubject
    notes: list[NewNote]
    rules: NoteRules
    valid: bool | None

    @property
    def texts(self) -> list[str]:
        return [note.note for note in self.notes]


class NoteStore:
    """Adds notes to entities and relationships. Safe under concurrent callers; nothing is retried that might insert twice."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], spaces: VectorSpaces) -> None:
        self._pool = pool
        self._spaces = spaces

    async def attach_to_entity(
        self,
        entity_id: int,
        notes: Sequence[NewNote],
        rules: NoteRules | None = None,
    ) -> AttachedNotes:
        """Add notes to an entity in one transaction with one bump; no notes, nothing happens.

        Raises:
            InvalidInputError: a blank note.
            NotFoundError: the entity does not exist (any more).
            EmbeddingError: nothing was written.
        """
        trimmed = _trim(notes)
        if not trimmed:
            return AttachedNotes([], [])
        return await self._attach(_Batch(NoteSubject(entity_id=entity_id), trimmed, rules or NoteRules(), None))

    async def attach_to_relationship(
        self,
        relationship_id: int,
        notes: Sequence[NewNote],
        valid: bool | None = None,
        rules: NoteRules | None = None,
    ) -> AttachedNotes:
        """Add notes to a relationship and, with ``valid``, say whether it holds since; one transaction, one bump.

        Raises:
            InvalidInputError: a blank note, or ``valid`` without a note.
            NotFoundError: the relationship does not exist (any more).
            EmbeddingError: nothing was written.
        """
        trimmed = _trim(notes)
        subject = NoteSubject(relationship_id=relationship_id)
        if trimmed:
            return await self._attach(_Batch(subject, trimmed, rules or NoteRules(), valid))
        if valid is not None:
            raise InvalidInputError("valid needs a note that says what happened")
        async with self._pool.connection() as conn:
            views = await queries_views.get_relationship_views(conn, [relationship_id])
        if relationship_id not in views:
            raise subject.missing()
        return AttachedNotes([], [], valid=views[relationship_id].relationship.valid)

    async def _attach(self, batch: _Batch) -> AttachedNotes:
        async with self._pool.connection() as conn:
            if not await _exists(conn, batch.subject):
                raise batch.subject.missing()
            spaces = await self._spaces.read(conn)
        vectors = await self._spaces.embed_passages(spaces, batch.texts)
        try:
            async with self._pool.connection() as conn, conn.transaction():
                return await self._write(conn, batch, vectors)
        except ForeignKeyViolation as problem:
            if problem.diag.constraint_name not in {queries_notes.ENTITY_FK, queries_notes.RELATIONSHIP_FK}:
                raise
            raise batch.subject.missing() from problem

    async def _write(self, conn: AsyncConnection, batch: _Batch, vectors: Vectors) -> AttachedNotes:
        await hold_runs(conn, batch.rules.sources)
        valid = await _hold(conn, batch)
        spaces = await self._spaces.read(conn, hold=True)
        vectors = await self._spaces.embed_passages(spaces, batch.texts, vectors)
        recorded = await _find_recorded(conn, batch)
        erased = await _find_erased(conn, batch)
        fresh = [at for at in range(len(batch.notes)) if at not in recorded and at not in erased]
        if batch.rules.refuse_near:
            near = await _find_near(conn, batch, spaces, vectors, fresh)
            if near:
                return AttachedNotes([], [], near=near, valid=valid)
        ids = await _insert(conn, batch, spaces, vectors, fresh)
        # A note that repeats another one of the same batch refers to its place, not to a stored row.
        by_place = {**dict(zip(fresh, ids, strict=True)), **{at: found for at, found in recorded.items() if found > 0}}
        by_place.update({at: by_place[-found - 1] for at, found in recorded.items() if found < 0})
        # An erased statement does not come back through the flag that it set.
        wanted = batch.valid if by_place else None
        changed = wanted is not None and wanted != valid
        if changed and wanted is not None and batch.subject.relationship_id is not None:
            await queries.set_valid(conn, batch.subject.relationship_id, valid=wanted)
        if batch.rules.sources:
            await queries_history.insert_sources(conn, list(dict.fromkeys(by_place.values())), batch.rules.sources)
        if ids or changed:
            await queries.bump_version(conn)
        stored = await queries_views.get_notes(conn, list(by_place.values()))
        kept = [at for at in range(len(batch.notes)) if at in by_place]
        return AttachedNotes(
            notes=[stored[by_place[at]] for at in kept],
            written=[at not in recorded for at in kept],
            kept_out=len(erased),
            valid=valid if wanted is None else wanted,
        )


async def hold_runs(conn: AsyncConnection, sources: Sequence[NoteSource]) -> None:
    """Keep the runs that notes rest on from being closed until the transaction ends.

    Raises:
        InvalidInputError: a person erased meanwhile what the run is reading.
    """
    for run_id in dict.fromkeys(source.run_id for source in sources):
        if not await queries_history.hold_run(conn, run_id):
            raise InvalidInputError("what this rests on was erased by a person and must not be recorded: skip it")


def note_row(subject: NoteSubject, note: NewNote, author: Author) -> NoteRow:
    """Return a note as it is inserted; its text is normalised already."""
    terms, count = terms_of(note.note)
    return NoteRow(
        entity_id=subject.entity_id,
        relationship_id=subject.relationship_id,
        event_date=note.event_date,
        note=note.note,
        terms=terms,
        word_count=count,
        text_hash=same_text_hash(note.note),
        created_by=author,
    )


def _trim(notes: Sequence[NewNote]) -> list[NewNote]:
    return [NewNote(note.event_date, normalise_note(note.note)) for note in notes]


async def _exists(conn: AsyncConnection, subject: NoteSubject) -> bool:
    if subject.entity_id is not None:
        return await queries_views.entity_exists(conn, subject.entity_id)
    assert subject.relationship_id is not None
    return await queries_views.relationship_exists(conn, subject.relationship_id)


async def _hold(conn: AsyncConnection, batch: _Batch) -> bool | None:
    """Keep the subject in place; return the validity of a relationship before the operation."""
    subject = batch.subject
    if batch.rules.skip_same or batch.rules.refuse_near:
        await queries_notes.lock_subject_notes(conn, subject.entity_id, subject.relationship_id)
    if subject.entity_id is not None:
        if subject.entity_id not in await queries.hold_entities(conn, [subject.entity_id]):
            raise subject.missing()
        return None
    assert subject.relationship_id is not None
    held = await queries.hold_relationship(conn, subject.relationship_id)
    if held is None:
        raise subject.missing()
    return held.valid


async def _find_recorded(conn: AsyncConnection, batch: _Batch) -> dict[int, int]:
    """Return by place in the batch the stored note that says the same; or ``-place - 1`` of an earlier one of the batch."""
    if not batch.rules.skip_same:
        return {}
    days = {note.event_date for note in batch.notes}
    subject = batch.subject
    stored = await queries_notes.find_repetitions(conn, subject.entity_id, subject.relationship_id, list(days))
    known: dict[tuple[object, bytes], int] = {}
    for row in stored:
        known.setdefault((row.event_date, row.text_hash), row.id)
    recorded: dict[int, int] = {}
    for at, note in enumerate(batch.notes):
        key = (note.event_date, same_text_hash(note.note))
        if key in known:
            recorded[at] = known[key]
        else:
            known[key] = -at - 1
    return recorded


async def _find_erased(conn: AsyncConnection, batch: _Batch) -> set[int]:
    if batch.rules.author == "person":
        return set()
    statements = [note_statement(note.note) for note in batch.notes]
    erased = await find_kept_out(conn, statements)
    forgotten = await find_forgotten(conn, batch.texts)
    return forgotten | {at for at, statement in enumerate(statements) if statement in erased}


async def _find_near(
    conn: AsyncConnection,
    batch: _Batch,
    spaces: Spaces,
    vectors: Vectors,
    fresh: Sequence[int],
) -> list[NearNote]:
    """Return stored notes of the same subject and day that say nearly the same as one of the fresh ones."""
    generation = spaces.active
    if generation is None or generation.id not in vectors:
        return []
    floor = generation.near_floor or UNCALIBRATED_NEAR_FLOOR
    subject = batch.subject
    best: dict[int, NearNote] = {}
    for at in fresh:
        days = [batch.notes[at].event_date]
        same_day = await queries_notes.find_repetitions(conn, subject.entity_id, subject.relationship_id, days)
        ids = [row.id for row in same_day]
        hits = await queries_vectors.find_near_subject_notes(conn, generation, vectors[generation.id][at], ids)
        near = {hit.id: hit.similarity for hit in hits if hit.similarity >= floor}
        for found, note in (await queries_views.get_notes(conn, list(near))).items():
            # Vectors hardly see figures: "at 3 pm" and "at 4 pm" are two statements.
            if _figures(batch.notes[at].note) <= _figures(note.note):
                best[found] = NearNote(note, max(near[found], best[found].similarity if found in best else 0.0))
    return sorted(best.values(), key=lambda each: (-each.similarity, each.note.id))


def _figures(text: str) -> set[str]:
    return {word for word in words_of(text) if any(character.isdigit() for character in word)}


async def _insert(
    conn: AsyncConnection,
    batch: _Batch,
    spaces: Spaces,
    vectors: Vectors,
    places: Sequence[int],
) -> list[int]:
    if not places:
        return []
    rows = [note_row(batch.subject, batch.notes[at], batch.rules.author) for at in places]
    ids = await queries_notes.insert_notes(conn, rows)
    for generation in spaces.all:
        if generation.id in vectors:
            own = [vectors[generation.id][at] for at in places]
            await queries_vectors.copy_note_vectors(conn, generation.id, list(zip(ids, own, strict=True)))
    return ids


def as_note(attached: AttachedNotes) -> Note | None:
    """Return the first note of an outcome."""
    return attached.notes[0] if attached.notes else None
