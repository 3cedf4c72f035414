"""Erasing for good (additions.md section 3): text, vectors, history, sources, queued jobs, dropped text and, if asked, chats.

One transaction. What is left is a keyed hash per statement, so that the writer, a replay or an import cannot bring it back.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from datetime import date
from typing import TYPE_CHECKING, Protocol

import msgspec
import psycopg

from brain.chats import queries_erase as chat_queries
from brain.chats.queries_erase import ErasedChat
from brain.errors import InvalidInputError, NotFoundError
from brain.jobs import queries_erase as job_queries
from brain.memory import queries, queries_forget, queries_history, queries_vectors, queries_views
from brain.memory.embeddings import EmbeddingError
from brain.memory.entities import restate_entity, store_terms
from brain.memory.keep_out import attribute_statement, keep_out, note_statement, relationship_statement
from brain.memory.normalise import check_range
from brain.memory.queries_forget import AttributeText, NoteText, RelationshipText, SourceText

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import VectorSpaces

LEAST_TEXT = 2
"""Characters of a text to erase; one letter would be everything."""
LEAST_EXCERPT = 12
"""Characters from which an excerpt or note is telling enough to look for it in the queue."""


class ChatErasure(Protocol):
    """What the chats have to offer: nobody may answer in a chat while it is erased."""

    def hold(self, chat_id: str) -> AbstractAsyncContextManager[object]:
        """Hold the lock of a chat; raises ``ChatBusyError``."""
        ...

    async def delete(self, conn: AsyncConnection, chat_id: str) -> bool:
        """Delete a chat and its attachments within the transaction."""
        ...


class EraseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What to erase: exactly one of note, entity, relationship, chat, range of event dates, or text."""

    note_id: int | None = None
    entity_id: int | None = None
    relationship_id: int | None = None
    chat_id: str | None = None
    start: date | None = None
    end: date | None = None
    text: str | None = None


class Erasure(msgspec.Struct, frozen=True, rename="camel"):
    """How much was erased; ``chats`` are those that hold it, erased too if that was asked for."""

    notes: int
    attributes: int
    relationships: int
    entities: int
    jobs: int
    sources: int
    chats: list[ErasedChat]


class _Found(msgspec.Struct):
    """What one erasure reaches, collected step by step."""

    notes: list[NoteText] = []
    relationships: list[RelationshipText] = []
    entity_ids: list[int] = []
    attributes: list[AttributeText] = []
    sources: list[SourceText] = []
    job_ids: list[int] = []
    chats: list[ErasedChat] = []


class _Told(msgspec.Struct):
    """What stands on the notes of one chat alone, beside the notes."""

    relationship_ids: list[int] = []
    entity_ids: list[int] = []
    attributes: list[AttributeText] = []


class Eraser:
    """Erases what a person wants gone. ``chats`` is needed only to erase chats along."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        spaces: VectorSpaces,
        chats: ChatErasure | None = None,
    ) -> None:
        self._pool = pool
        self._spaces = spaces
        self._chats = chats

    async def erase(self, target: EraseTarget, *, include_chats: bool = False, dry_run: bool = False) -> Erasure:
        """Erase in one transaction and count; with ``dry_run`` everything is done and taken back.

        Raises:
            InvalidInputError: not exactly one target, a range out of order, a text that is too short.
            NotFoundError: the note, entity or relationship does not exist.
            ChatBusyError: a chat to be erased is being answered.
        """
        _check(target)
        async with self._pool.connection() as conn, conn.transaction():
            affected = await self._find(conn, target)
        async with AsyncExitStack() as held:
            if include_chats and self._chats is not None and not dry_run:
                for chat in affected.chats:
                    await held.enter_async_context(self._chats.hold(chat.id))
            async with self._pool.connection() as conn, conn.transaction() as transaction:
                # Before anything is looked for: what a writer in mid-work has committed is found, and it commits nothing more.
                await queries_history.close_runs(conn, affected.job_ids)
                erasure = await self._erase(conn, target, include_chats=include_chats)
                if dry_run:
                    raise psycopg.Rollback(transaction)
        return erasure

    async def _erase(self, conn: AsyncConnection, target: EraseTarget, *, include_chats: bool) -> Erasure:
        found = await self._find(conn, target)
        await self._spaces.read(conn, hold=True)
        await keep_out(conn, _statements(found))
        await queries_forget.delete_records(
            conn,
            entity_ids=found.entity_ids,
            relationship_ids=[edge.id for edge in found.relationships],
            note_ids=[note.id for note in found.notes],
            source_ids=[source.id for source in found.sources],
        )
        await self._erase_attributes(conn, found, target)
        await job_queries.delete_jobs(conn, found.job_ids)
        await _erase_dropped_text(conn, target, found)
        if include_chats and self._chats is not None:
            for chat in found.chats:
                await self._chats.delete(conn, chat.id)
        await queries.bump_version(conn)
        return Erasure(
            notes=len(found.notes),
            attributes=len(found.attributes),
            relationships=len(found.relationships),
            entities=len(found.entity_ids),
            jobs=len(found.job_ids),
            sources=len(found.sources),
            chats=found.chats,
        )

    async def _find(self, conn: AsyncConnection, target: EraseTarget) -> _Found:
        note_ids, relationship_ids, entity_ids = await _find_roots(conn, target)
        told = await _find_told(conn, target.chat_id, note_ids) if target.chat_id is not None else _Told()
        relationship_ids, entity_ids = [*relationship_ids, *told.relationship_ids], [*entity_ids, *told.entity_ids]
        # Locks in the order of all writers: entities, then relationships, then notes, each by ascending id.
        entities = await queries_forget.lock_entity_text(conn, entity_ids)
        edges = await queries_forget.lock_relationship_text(conn, relationship_ids, entity_ids)
        notes = await queries_forget.lock_note_text(conn, note_ids, entity_ids, [edge.id for edge in edges])
        _require(target, bool(notes), bool(entities), bool(edges))
        found = _Found(notes=notes, relationships=edges, entity_ids=[entity.id for entity in entities])
        text = _needle(target)
        found.attributes = await queries_forget.get_attribute_texts(conn, found.entity_ids)
        if text is not None:
            known = {(attribute.entity_id, attribute.key) for attribute in found.attributes}
            more = await queries_forget.find_attributes_containing(conn, text)
            found.attributes += [attribute for attribute in more if (attribute.entity_id, attribute.key) not in known]
        found.attributes += [attribute for attribute in told.attributes if attribute.entity_id not in found.entity_ids]
        found.sources = await queries_forget.get_source_texts(
            conn,
            note_ids=[note.id for note in notes],
            chat_id=target.chat_id,
            text=text,
        )
        await _find_outside(conn, target, found)
        return found

    async def _erase_attributes(self, conn: AsyncConnection, found: _Found, target: EraseTarget) -> None:
        """Delete attributes and other names of entities that stay, and bring their vectors in line."""
        gone = set(found.entity_ids)
        by_entity: dict[int, list[str]] = {}
        for attribute in found.attributes:
            if attribute.entity_id not in gone:
                by_entity.setdefault(attribute.entity_id, []).append(attribute.key)
        await queries_forget.delete_attribute_history(conn, found.attributes)
        text = _needle(target)
        renamed = await queries_forget.find_alias_owners(conn, text) if text is not None else []
        if text is not None:
            await queries_forget.erase_traces(conn, text)
        locked = await queries.lock_entities(conn, sorted({*by_entity, *renamed} - gone))
        for entity_id, entity in locked.items():
            await queries.delete_attributes(conn, entity_id, by_entity.get(entity_id, []))
            rest = (await queries.get_attributes(conn, [entity_id])).get(entity_id, {})
            if entity_id not in by_entity:
                await store_terms(conn, entity, rest)
                continue
            try:
                await restate_entity(conn, self._spaces, entity, rest)
            except EmbeddingError:
                # Erasing must not wait for an embedder: without a vector the entity is found by name until the next re-embedding.
                spaces = await self._spaces.read(conn, hold=True)
                await queries_vectors.drop_entity_vectors(conn, entity_id, [generation.id for generation in spaces.all])
                await store_terms(conn, entity, rest)


async def _find_roots(conn: AsyncConnection, target: EraseTarget) -> tuple[list[int], list[int], list[int]]:
    """Return the notes, relationships and entities that the target names itself."""
    if target.chat_id is not None:
        return await queries_forget.find_notes_only_from_chat(conn, target.chat_id), [], []
    if target.start is not None and target.end is not None:
        return await queries_forget.find_notes_in_range(conn, target.start, target.end), [], []
    text = _needle(target)
    if text is not None:
        return (
            await queries_forget.find_notes_containing(conn, text),
            await queries_forget.find_relationships_containing(conn, text),
            await queries_forget.find_entities_containing(conn, text),
        )
    return _one(target.note_id), _one(target.relationship_id), _one(target.entity_id)


async def _find_told(conn: AsyncConnection, chat_id: str, note_ids: Sequence[int]) -> _Told:
    """Find what stands only on notes of a chat: edges and entities without any other, attributes that its words set.

    Attributes have no source of their own: one counts as told in the chat if its value stands there and in no other note.
    """
    told = _Told(relationship_ids=await queries_forget.find_relationships_left_bare(conn, note_ids))
    subjects = await queries_forget.find_subjects(conn, note_ids, told.relationship_ids)
    notes = await queries_views.get_notes(conn, note_ids)
    sources = await queries_forget.get_source_texts(conn, note_ids=note_ids, chat_id=chat_id)
    words = "\n".join([*(note.note for note in notes.values()), *(source.excerpt for source in sources)]).lower()
    attributes = await queries_forget.get_attribute_texts(conn, subjects)
    told.attributes = [
        attribute
        for attribute in attributes
        if attribute.value.lower() in words and not await queries_forget.is_said_elsewhere(conn, attribute, note_ids)
    ]
    described = {attribute.entity_id for attribute in attributes if attribute not in told.attributes}
    bare = await queries_forget.find_entities_left_bare(conn, subjects, note_ids, told.relationship_ids)
    told.entity_ids = [entity_id for entity_id in bare if entity_id not in described]
    return told


async def _find_outside(conn: AsyncConnection, target: EraseTarget, found: _Found) -> None:
    """Find the jobs and chats that hold what is being erased."""
    pieces = _pieces(target, found)
    job_ids = set(await job_queries.find_jobs_containing(conn, pieces)) if pieces else set[int]()
    if target.chat_id is not None:
        job_ids.update(await job_queries.find_jobs_of_chat(conn, target.chat_id))
        found.chats = await chat_queries.get_chats(conn, [target.chat_id])
    elif target.text is not None:
        found.chats = await chat_queries.find_chats_containing(conn, pieces)
    else:
        sources = {source.chat_id for source in found.sources if source.chat_id is not None}
        found.chats = await chat_queries.get_chats(conn, sorted(sources))
    found.job_ids = sorted(job_ids)


async def _erase_dropped_text(conn: AsyncConnection, target: EraseTarget, found: _Found) -> None:
    pieces = _pieces(target, found)
    if pieces:
        await chat_queries.delete_drops_containing(conn, pieces)
        await job_queries.end_replays_containing(conn, pieces)
    if target.chat_id is not None:
        await chat_queries.delete_drops_of_chat(conn, target.chat_id)
        await queries_forget.delete_runs_of_chat(conn, target.chat_id)


def _pieces(target: EraseTarget, found: _Found) -> list[str]:
    """Return what to look for in stored JSON: the text itself, or the notes and excerpts that go."""
    text = _needle(target)
    texts = [text] if text is not None else [note.note for note in found.notes] + [source.excerpt for source in found.sources]
    least = LEAST_TEXT if text is not None else LEAST_EXCERPT
    return list(dict.fromkeys(form for piece in texts if len(piece) >= least for form in _stored_forms(piece)))


def _stored_forms(text: str) -> list[str]:
    """Return the forms in which a text may be stored: as it is, and in JSON that escapes little, or all but ASCII."""
    ours = msgspec.json.encode(text).decode()[1:-1]
    return [form.lower() for form in (text, ours, json.dumps(text)[1:-1], json.dumps(text.upper())[1:-1])]


def _statements(found: _Found) -> list[str]:
    return [
        *(note_statement(note.note) for note in found.notes),
        *(attribute_statement(attribute.entity_name, attribute.key, attribute.value) for attribute in found.attributes),
        *(relationship_statement(edge.src_name, edge.verb, edge.dst_name) for edge in found.relationships),
    ]


def _needle(target: EraseTarget) -> str | None:
    return None if target.text is None else target.text.strip().lower()


def _one(found: int | None) -> list[int]:
    return [] if found is None else [found]


def _check(target: EraseTarget) -> None:
    ranged = target.start is not None or target.end is not None
    single = (target.note_id, target.entity_id, target.relationship_id, target.chat_id, target.text)
    if sum(value is not None for value in single) + ranged != 1:
        raise InvalidInputError("say exactly one of: entityId, chatId, from and to, text")
    if ranged and (target.start is None or target.end is None):
        raise InvalidInputError("a range needs both from and to")
    check_range(target.start, target.end)
    text = _needle(target)
    if text is not None and len(text) < LEAST_TEXT:
        raise InvalidInputError(f"the text to erase needs at least {LEAST_TEXT} characters")


def _require(target: EraseTarget, has_notes: bool, has_entities: bool, has_edges: bool) -> None:
    if target.note_id is not None and not has_notes:
        raise NotFoundError("note", target.note_id)
    if target.entity_id is not None and not has_entities:
        raise NotFoundError("entity", target.entity_id)
    if target.relationship_id is not None and not has_edges:
        raise NotFoundError("relationship", target.relationship_id)
