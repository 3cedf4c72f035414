"""Export of the whole memory as one file, and the mechanical merge of such a file (memory.md section 18)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_transfer
from brain.memory.bulk_notes import SubjectNotes, attach_in_bulk
from brain.memory.entities import EntityKey
from brain.memory.forget import find_forgotten
from brain.memory.keep_out import attribute_statement, find_kept_out, note_statement, relationship_statement
from brain.memory.notes import NoteSubject
from brain.memory.queries import Triple
from brain.memory.transfer_file import (
    CheckedEntity,
    CheckedFile,
    CheckedRelationship,
    FileEntity,
    FileNote,
    FileRelationship,
    read_file,
)
from brain.memory.views import NewNote

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from brain.memory.queries_transfer import ExportNote, KnownEdge, KnownNote
    from brain.memory.store import EltmStore

PAGE: Final = 200
"""Entities or relationships of one step of an export."""


class ImportSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What an import did. Created and matched are judged by the snapshot that it started from."""

    entities_created: int
    entities_matched: int
    relationships_created: int
    relationships_matched: int
    notes_inserted: int
    notes_skipped: int
    attributes_written: int
    attributes_kept: int


class _Snapshot(msgspec.Struct, frozen=True):
    """The store as it was before the import, as far as the file touches it."""

    entities: dict[EntityKey, int]
    attributes: dict[int, dict[str, str]]
    edges: dict[Triple, KnownEdge]
    entity_notes: dict[int, set[tuple[date, bytes]]]
    edge_notes: dict[int, set[tuple[date, bytes]]]


class _Barred(msgspec.Struct, frozen=True):
    """What of the file a person erased or forgot."""

    notes: set[str]
    attributes: set[str]
    relationships: set[str]

    def has_note(self, note: NewNote) -> bool:
        return note.note in self.notes

    def has_attribute(self, key: EntityKey, name: str, value: str) -> bool:
        return attribute_statement(key.name, name, value) in self.attributes

    def has_relationship(self, edge: CheckedRelationship) -> bool:
        return relationship_statement(edge.src.name, edge.verb, edge.dst.name) in self.relationships


class Transfer:
    """Exports and imports. An import may run beside other writers; running it again resumes it."""

    def __init__(self, store: EltmStore) -> None:
        self._store = store

    async def export(self) -> AsyncGenerator[bytes]:
        """Yield the file piece by piece, all of one moment."""
        async with self._store.pool.connection() as conn, conn.transaction():
            await queries_transfer.use_one_snapshot(conn)
            uuids: dict[int, str] = {}
            yield b'{"entities":{'
            async for piece in _export_entities(conn, uuids):
                yield piece
            yield b'},"relationships":['
            async for piece in _export_relationships(conn, uuids):
                yield piece
            yield b"]}"

    async def take_in(self, body: bytes | bytearray, *, overwrite_attributes: bool = False) -> ImportSummary:
        """Check the whole file, then merge it in three stages. The first failure ends it; what is written stays.

        Raises:
            InvalidInputError: a mistake in the file, or a record that disappeared meanwhile.
            EmbeddingError: the embedder failed midway.
        """
        file = await asyncio.to_thread(read_file, body)
        snapshot, barred = await self._look(file)
        entities = [entity for entity in file.entities if not _is_barred(entity, file, snapshot, barred)]
        edges = [edge for edge in file.relationships if not barred.has_relationship(edge)]
        try:
            ids = await self._create_entities(entities)
            written, kept = await self._set_attributes(entities, ids, snapshot, barred, overwrite=overwrite_attributes)
            edge_ids = await self._create_edges(edges, ids)
            flips = await self._flip_bare_edges(edges, edge_ids, snapshot)
            subjects = _notes_of_entities(entities, ids, snapshot, barred)
            subjects += _notes_of_edges(edges, edge_ids, snapshot, barred, flips)
            inserted = await attach_in_bulk(self._store.pool, self._store.spaces, subjects)
        except NotFoundError as problem:
            raise InvalidInputError(f"{problem}: it was removed during the import; run the import again") from problem
        total = sum(len(entity.notes) for entity in file.entities) + sum(len(edge.notes) for edge in file.relationships)
        matched = sum(entity.key in snapshot.entities for entity in entities)
        known = [_triple_in(snapshot, edge) for edge in edges]
        edges_matched = sum(triple is not None and triple in snapshot.edges for triple in known)
        return ImportSummary(
            entities_created=len(entities) - matched,
            entities_matched=matched,
            relationships_created=len(edges) - edges_matched,
            relationships_matched=edges_matched,
            notes_inserted=inserted,
            notes_skipped=total - inserted,
            attributes_written=written,
            attributes_kept=kept,
        )

    async def _look(self, file: CheckedFile) -> tuple[_Snapshot, _Barred]:
        async with self._store.pool.connection() as conn, conn.transaction():
            await queries_transfer.use_one_snapshot(conn)
            snapshot = await _read_snapshot(conn, file)
        async with self._store.pool.connection() as conn, conn.transaction():
            return snapshot, await _read_barred(conn, file)

    async def _create_entities(self, entities: Sequence[CheckedEntity]) -> dict[EntityKey, int]:
        ids, _ = await self._store.entities.create_many([entity.key for entity in entities])
        return {entity.key: entity_id for entity, entity_id in zip(entities, ids, strict=True)}

    async def _set_attributes(
        self,
        entities: Sequence[CheckedEntity],
        ids: dict[EntityKey, int],
        snapshot: _Snapshot,
        barred: _Barred,
        *,
        overwrite: bool,
    ) -> tuple[int, int]:
        written = kept = 0
        for entity in entities:
            present = snapshot.attributes.get(snapshot.entities.get(entity.key, -1), {})
            wanted = {
                key: value
                for key, value in entity.attributes.items()
                if (key not in present or (overwrite and present[key] != value))
                and not barred.has_attribute(entity.key, key, value)
            }
            if wanted:
                await self._store.entities.set_attributes(ids[entity.key], wanted, author="import")
            written += len(wanted)
            kept += len(entity.attributes) - len(wanted)
        return written, kept

    async def _create_edges(self, edges: Sequence[CheckedRelationship], ids: dict[EntityKey, int]) -> list[int]:
        triples = [Triple(ids[edge.src], ids[edge.dst], edge.verb) for edge in edges]
        edge_ids, _ = await self._store.relationships.create_many(triples)
        return edge_ids

    async def _flip_bare_edges(
        self,
        edges: Sequence[CheckedRelationship],
        edge_ids: Sequence[int],
        snapshot: _Snapshot,
    ) -> dict[int, bool]:
        """Set at once the validity of new relationships without notes; return the flips that wait for their notes."""
        waiting: dict[int, bool] = {}
        for edge, edge_id in zip(edges, edge_ids, strict=True):
            triple = _triple_in(snapshot, edge)
            known = snapshot.edges.get(triple) if triple else None
            if known is None:
                if edge.notes and not edge.valid:
                    waiting[edge_id] = False
                elif not edge.notes and not edge.valid:
                    await self._store.relationships.set_valid(edge_id, valid=False)
            elif known.valid != edge.valid and _file_wins(edge, known):
                waiting[edge_id] = edge.valid
        return waiting


def _file_wins(edge: CheckedRelationship, known: KnownEdge) -> bool:
    newest = edge.newest
    return newest is not None and (known.newest is None or newest > known.newest)


def _triple_in(snapshot: _Snapshot, edge: CheckedRelationship) -> Triple | None:
    src, dst = snapshot.entities.get(edge.src), snapshot.entities.get(edge.dst)
    return None if src is None or dst is None else Triple(src, dst, edge.verb)


def _is_barred(entity: CheckedEntity, file: CheckedFile, snapshot: _Snapshot, barred: _Barred) -> bool:
    """Whether all that the file says of an unknown entity was erased or forgotten by a person."""
    if entity.key in snapshot.entities or not (barred.notes or barred.attributes or barred.relationships):
        return False
    edges = [edge for edge in file.relationships if entity.key in {edge.src, edge.dst}]
    statements = [
        *(barred.has_note(note) for note in entity.notes),
        *(barred.has_attribute(entity.key, key, value) for key, value in entity.attributes.items()),
        *(barred.has_relationship(edge) for edge in edges),
    ]
    return bool(statements) and all(statements)


def _notes_of_entities(
    entities: Sequence[CheckedEntity],
    ids: dict[EntityKey, int],
    snapshot: _Snapshot,
    barred: _Barred,
) -> list[SubjectNotes]:
    found: list[SubjectNotes] = []
    for entity in entities:
        seen = snapshot.entity_notes.get(snapshot.entities.get(entity.key, -1), set())
        fresh = _fresh(entity.notes, seen, barred)
        if fresh:
            found.append(SubjectNotes(NoteSubject(entity_id=ids[entity.key]), fresh, None))
    return found


def _notes_of_edges(
    edges: Sequence[CheckedRelationship],
    edge_ids: Sequence[int],
    snapshot: _Snapshot,
    barred: _Barred,
    flips: dict[int, bool],
) -> list[SubjectNotes]:
    found: list[SubjectNotes] = []
    for edge, edge_id in zip(edges, edge_ids, strict=True):
        triple = _triple_in(snapshot, edge)
        known = snapshot.edges.get(triple) if triple else None
        seen = snapshot.edge_notes.get(known.id, set()) if known else set[tuple[date, bytes]]()
        fresh = _fresh(edge.notes, seen, barred)
        if fresh or edge_id in flips:
            found.append(SubjectNotes(NoteSubject(relationship_id=edge_id), fresh, flips.get(edge_id)))
    return found


def _fresh(notes: Sequence[NewNote], seen: set[tuple[date, bytes]], barred: _Barred) -> list[NewNote]:
    known = set(seen)
    fresh: list[NewNote] = []
    for note in notes:
        mark = (note.event_date, hashlib.sha256(note.note.encode()).digest())
        if mark not in known and not barred.has_note(note):
            fresh.append(note)
        known.add(mark)
    return fresh


async def _read_snapshot(conn: AsyncConnection, file: CheckedFile) -> _Snapshot:
    keys = [entity.key for entity in file.entities]
    found = await queries.find_entities_by_keys(conn, [key.name for key in keys], [key.category for key in keys])
    entities = {EntityKey(name, category): entity_id for (name, category), entity_id in found.items()}
    ids = list(entities.values())
    edges = await queries_transfer.list_known_edges(conn, ids)
    return _Snapshot(
        entities=entities,
        attributes=await queries.get_attributes(conn, ids),
        edges={Triple(edge.src_id, edge.dst_id, edge.verb): edge for edge in edges},
        entity_notes=_marks(await queries_transfer.list_known_notes_of_entities(conn, ids)),
        edge_notes=_marks(await queries_transfer.list_known_notes_of_edges(conn, [edge.id for edge in edges])),
    )


def _marks(notes: Sequence[KnownNote]) -> dict[int, set[tuple[date, bytes]]]:
    marks: dict[int, set[tuple[date, bytes]]] = {}
    for note in notes:
        marks.setdefault(note.subject_id, set()).add((note.event_date, note.digest))
    return marks


async def _read_barred(conn: AsyncConnection, file: CheckedFile) -> _Barred:
    notes = [note.note for entity in file.entities for note in entity.notes]
    notes += [note.note for edge in file.relationships for note in edge.notes]
    erased = await find_kept_out(conn, (note_statement(note) for note in notes)) if notes else set[str]()
    forgotten = await find_forgotten(conn, notes)
    attributes = (
        attribute_statement(entity.key.name, key, value) for entity in file.entities for key, value in entity.attributes.items()
    )
    edges = (relationship_statement(edge.src.name, edge.verb, edge.dst.name) for edge in file.relationships)
    gone = {note for note in notes if note_statement(note) in erased} if erased else set[str]()
    return _Barred(
        notes=gone | {notes[at] for at in forgotten},
        attributes=await find_kept_out(conn, attributes),
        relationships=await find_kept_out(conn, edges),
    )


async def _export_entities(conn: AsyncConnection, uuids: dict[int, str]) -> AsyncGenerator[bytes]:
    after, first = 0, True
    while page := await queries_transfer.list_entities_after(conn, after, PAGE):
        ids = [entity.id for entity in page]
        attributes = await queries.get_attributes(conn, ids)
        notes = _by_subject(await queries_transfer.list_notes_of_entities(conn, ids))
        pieces: list[bytes] = []
        for entity in page:
            uuid = uuids[entity.id] = str(uuid4())
            record = FileEntity(
                entity.canonical_name,
                entity.category,
                attributes.get(entity.id, {}),
                notes.get(entity.id, []),
            )
            pieces.append(b'"%s":%s' % (uuid.encode(), msgspec.json.encode(record)))
        yield (b"" if first else b",") + b",".join(pieces)
        after, first = ids[-1], False


async def _export_relationships(conn: AsyncConnection, uuids: dict[int, str]) -> AsyncGenerator[bytes]:
    after, first = 0, True
    while page := await queries_transfer.list_edges_after(conn, after, PAGE):
        ids = [edge.id for edge in page]
        notes = _by_subject(await queries_transfer.list_notes_of_edges(conn, ids))
        records = [
            FileRelationship(uuids[edge.src_id], edge.verb, uuids[edge.dst_id], edge.valid, notes.get(edge.id, []))
            for edge in page
        ]
        yield (b"" if first else b",") + b",".join(msgspec.json.encode(record) for record in records)
        after, first = ids[-1], False


def _by_subject(notes: Sequence[ExportNote]) -> dict[int, list[FileNote]]:
    found: dict[int, list[FileNote]] = {}
    for note in notes:
        found.setdefault(note.subject_id, []).append(FileNote(note.event_date.isoformat(), note.note))
    return found
