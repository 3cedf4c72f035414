"""Attaching the notes of many subjects at once, for imports: few embedding calls, few transactions, the same outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from brain.memory import queries, queries_notes, queries_vectors
from brain.memory.embeddings import BATCH_SIZE, EmbeddingError
from brain.memory.generations import Vectors
from brain.memory.notes import NoteSubject, note_row
from brain.memory.views import NewNote

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import Spaces, VectorSpaces

GROUP_NOTES: Final = 1024
"""Notes written in one transaction, unless one subject alone has more."""


class SubjectNotes(msgspec.Struct, frozen=True):
    """Notes of one subject, and the validity that a relationship has with them."""

    subject: NoteSubject
    notes: list[NewNote]
    valid: bool | None


async def attach_in_bulk(
    pool: AsyncConnectionPool[AsyncConnection],
    spaces: VectorSpaces,
    subjects: Sequence[SubjectNotes],
) -> int:
    """Write all notes and return how many; a subject is written wholly or not at all.

    Raises:
        NotFoundError: a subject disappeared meanwhile.
        EmbeddingError: the embedder failed; subjects whose notes were embedded before that are written.
    """
    inserted = 0
    for group in _groups(subjects):
        async with pool.connection() as conn:
            current = await spaces.read(conn)
        vectors, failure = await _embed(spaces, current, group)
        complete = _complete(group, min((len(rows) for rows in vectors.values()), default=0), bool(failure))
        if complete:
            async with pool.connection() as conn, conn.transaction():
                inserted += await _write(conn, spaces, complete, vectors)
        if failure is not None:
            raise failure
    return inserted


async def _embed(
    spaces: VectorSpaces,
    current: Spaces,
    group: Sequence[SubjectNotes],
) -> tuple[Vectors, EmbeddingError | None]:
    """Embed batch by batch. A batch that fails is tried again subject by subject, so that only the guilty one is left out."""
    texts = [note.note for subject in group for note in subject.notes]
    ends = list(accumulate(len(subject.notes) for subject in group))
    vectors: Vectors = {generation.id: [] for generation in current.all}
    for start in range(0, len(texts), BATCH_SIZE):
        stop = min(start + BATCH_SIZE, len(texts))
        try:
            _extend(vectors, await spaces.embed_passages(current, texts[start:stop]))
        except EmbeddingError:
            cuts = [start, *(end for end in ends if start < end < stop), stop]
            for left, right in pairwise(cuts):
                try:
                    _extend(vectors, await spaces.embed_passages(current, texts[left:right]))
                except EmbeddingError as problem:
                    return vectors, problem
    return vectors, None


def _extend(vectors: Vectors, batch: Vectors) -> None:
    for generation in list(vectors):
        if generation in batch:
            vectors[generation].extend(batch[generation])
        else:
            # Left out of one batch, it would have holes: the re-embedding fills all of it.
            del vectors[generation]


def _complete(group: Sequence[SubjectNotes], embedded: int, failed: bool) -> list[SubjectNotes]:
    if not failed:
        return list(group)
    complete: list[SubjectNotes] = []
    used = 0
    for subject in group:
        used += len(subject.notes)
        if used > embedded:
            break
        complete.append(subject)
    return complete


async def _write(conn: AsyncConnection, spaces: VectorSpaces, group: Sequence[SubjectNotes], vectors: Vectors) -> int:
    await _hold(conn, group)
    current = await spaces.read(conn, hold=True)
    texts = [note.note for subject in group for note in subject.notes]
    known = {generation: rows[: len(texts)] for generation, rows in vectors.items()}
    complete = await spaces.embed_passages(current, texts, known)
    rows = [note_row(subject.subject, note, "import") for subject in group for note in subject.notes]
    ids = await queries_notes.insert_notes(conn, rows) if rows else []
    for generation in current.all:
        if ids and generation.id in complete:
            await queries_vectors.copy_note_vectors(conn, generation.id, list(zip(ids, complete[generation.id], strict=True)))
    for subject in group:
        if subject.valid is not None and subject.subject.relationship_id is not None:
            await queries.set_valid(conn, subject.subject.relationship_id, valid=subject.valid)
    await queries.bump_version(conn)
    return len(ids)


async def _hold(conn: AsyncConnection, group: Sequence[SubjectNotes]) -> None:
    entity_ids = [subject.subject.entity_id for subject in group if subject.subject.entity_id is not None]
    held = await queries.hold_entities(conn, entity_ids)
    for subject in group:
        if subject.subject.entity_id is not None and subject.subject.entity_id not in held:
            raise subject.subject.missing()
    for subject in sorted(group, key=lambda each: each.subject.relationship_id or 0):
        relationship_id = subject.subject.relationship_id
        if relationship_id is not None and await queries.hold_relationship(conn, relationship_id) is None:
            raise subject.subject.missing()


def _groups(subjects: Sequence[SubjectNotes]) -> Iterator[list[SubjectNotes]]:
    group: list[SubjectNotes] = []
    size = 0
    for subject in subjects:
        if group and size + len(subject.notes) > GROUP_NOTES:
            yield group
            group, size = [], 0
        group.append(subject)
        size += len(subject.notes)
    if group:
        yield group
