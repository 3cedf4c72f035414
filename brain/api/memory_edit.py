"""Routes under ``/api/eltm`` by which people correct, forget, restore and erase. No model ever reaches them."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import msgspec
from litestar import Controller, Response, delete, patch, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import UNSET, UnsetType

from brain.api.errors import error_answers
from brain.api.memory import ROOT
from brain.errors import InvalidInputError
from brain.memory.assembly import MemoryParts
from brain.memory.erase import EraseTarget, Erasure
from brain.memory.normalise import parse_date
from brain.memory.provenance import NoteDetail
from brain.memory.views import EntityView, Note, RelationshipView

Flag = Literal["true", "false"]
DryRun = Annotated[Flag, QueryParameter(name="dryRun", description="Only count")]
IncludeChats = Annotated[Flag, QueryParameter(name="includeChats", description="Erase the chats that contain it as well")]
_GUARDED = {"maintenance": True}
_ERRORS = error_answers(400, 404, 413, 415, 502, 503)
_REMOVAL_ERRORS = error_answers(400, 404, 409, 503)


class NoteEdit(msgspec.Struct, frozen=True, rename="camel"):
    """At least one of the two."""

    note: str | UnsetType = UNSET
    event_date: str | UnsetType = UNSET


class EntityEdit(msgspec.Struct, frozen=True):
    """At least one of the two."""

    name: str | UnsetType = UNSET
    category: str | UnsetType = UNSET


class AttributeEdit(msgspec.Struct, frozen=True):
    """The new value of an attribute."""

    value: str


class RelationshipEdit(msgspec.Struct, frozen=True):
    """Whether the relationship holds."""

    valid: bool


class MergeRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The entity that is folded into the one in the path."""

    loser_id: int


class EraseRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Exactly one of ``entityId``, ``chatId``, ``from`` with ``to``, or ``text``."""

    entity_id: int | None = None
    chat_id: str | None = None
    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    text: str | None = None
    include_chats: bool = False
    dry_run: bool = False


class MemoryEditing(Controller):
    """The long-term memory, corrected by people."""

    path = ROOT
    tags = ("memory",)

    @patch("/notes/{note_id:str}", operation_id="editNote", opt=_GUARDED, summary="Correct a note", responses=_ERRORS)
    async def edit_note(
        self,
        note_id: FromPath[int],
        data: JSONBody[NoteEdit],
        memory: NamedDependency[MemoryParts],
    ) -> Note:
        """Rewrite a note or move it to another day; its history keeps what it said."""
        text, day = _given(data.note), _given(data.event_date)
        _require_one(text, day, "note or eventDate")
        return await memory.corrections.edit_note(note_id, text, None if day is None else parse_date(day, "eventDate"))

    @patch("/entities/{entity_id:str}", operation_id="editEntity", opt=_GUARDED, summary="Rename an entity", responses=_ERRORS)
    async def edit_entity(
        self,
        entity_id: FromPath[int],
        data: JSONBody[EntityEdit],
        memory: NamedDependency[MemoryParts],
    ) -> EntityView:
        """Rename or recategorise an entity; the old name stays as another name."""
        name, category = _given(data.name), _given(data.category)
        _require_one(name, category, "name or category")
        return await memory.store.entities.refine(entity_id, name, category, author="person")

    @put(
        "/entities/{entity_id:str}/attributes/{key:str}",
        operation_id="setAttribute",
        opt=_GUARDED,
        summary="Set an attribute",
        responses=_ERRORS,
    )
    async def set_attribute(
        self,
        entity_id: FromPath[int],
        key: FromPath[str],
        data: JSONBody[AttributeEdit],
        memory: NamedDependency[MemoryParts],
    ) -> EntityView:
        """Set one attribute of an entity."""
        await memory.store.entities.set_attribute(entity_id, key, data.value, author="person")
        return await memory.store.reads.get_entity(entity_id)

    @delete(
        "/entities/{entity_id:str}/attributes/{key:str}",
        operation_id="deleteAttribute",
        opt=_GUARDED,
        summary="Delete an attribute",
        status_code=200,
        responses=_ERRORS,
    )
    async def delete_attribute(
        self,
        entity_id: FromPath[int],
        key: FromPath[str],
        memory: NamedDependency[MemoryParts],
    ) -> EntityView:
        """Delete one attribute of an entity."""
        await memory.store.entities.delete_attribute(entity_id, key, author="person")
        return await memory.store.reads.get_entity(entity_id)

    @patch(
        "/relationships/{relationship_id:str}",
        operation_id="editRelationship",
        opt=_GUARDED,
        summary="Say whether a relationship holds",
        responses=_ERRORS,
    )
    async def edit_relationship(
        self,
        relationship_id: FromPath[int],
        data: JSONBody[RelationshipEdit],
        memory: NamedDependency[MemoryParts],
    ) -> RelationshipView:
        """End or revive a relationship without a note."""
        await memory.store.relationships.set_valid(relationship_id, valid=data.valid, author="person")
        return await memory.store.reads.get_relationship(relationship_id)

    @post(
        "/entities/{entity_id:str}/merge",
        operation_id="mergeEntities",
        opt=_GUARDED,
        summary="Merge two entities",
        status_code=200,
        responses=_ERRORS,
    )
    async def merge(
        self,
        entity_id: FromPath[int],
        data: JSONBody[MergeRequest],
        memory: NamedDependency[MemoryParts],
    ) -> EntityView:
        """Fold another entity into this one, whose name stays."""
        return (await memory.store.merge(entity_id, data.loser_id, author="person")).view

    @post(
        "/erase",
        operation_id="erase",
        opt=_GUARDED,
        summary="Erase for good",
        status_code=200,
        responses=error_answers(400, 409, 503),
    )
    async def erase(
        self,
        data: JSONBody[EraseRequest],
        memory: NamedDependency[MemoryParts],
        dry_run: DryRun = "false",
        include_chats: IncludeChats = "false",
    ) -> Erasure:
        """Erase text, vectors, history, sources and queued jobs in one transaction.

        Keyed hashes keep the writer, a replay and an import from bringing the same statement back. A paraphrase is a new one.
        """
        target = EraseTarget(
            entity_id=data.entity_id,
            chat_id=data.chat_id,
            start=None if data.start is None else parse_date(data.start, "from"),
            end=None if data.end is None else parse_date(data.end, "to"),
            text=data.text,
        )
        return await memory.eraser.erase(
            target,
            include_chats=data.include_chats or include_chats == "true",
            dry_run=data.dry_run or dry_run == "true",
        )


class Forgetting(Controller):
    """Forgetting, restoring and erasing single records."""

    path = ROOT
    tags = ("memory",)

    @delete(
        "/notes/{note_id:str}",
        operation_id="forgetNote",
        opt=_GUARDED,
        summary="Forget or erase a note",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def forget_note(
        self,
        note_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        erase: FromQuery[Flag] = "false",
        dry_run: DryRun = "false",
    ) -> Response[Any]:
        """Take a note out of everything, reversibly; with ``erase=true`` for good, answered with the counts."""
        if erase == "true":
            return _erased(await memory.eraser.erase(EraseTarget(note_id=note_id), dry_run=dry_run == "true"))
        _refuse_dry_run(dry_run)
        await memory.corrections.forget_note(note_id)
        return _empty()

    @delete(
        "/entities/{entity_id:str}",
        operation_id="forgetEntity",
        opt=_GUARDED,
        summary="Forget or erase an entity",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def forget_entity(
        self,
        entity_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        erase: FromQuery[Flag] = "false",
        dry_run: DryRun = "false",
    ) -> Response[Any]:
        """Take an entity with its notes and relationships out of everything; with ``erase=true`` for good."""
        if erase == "true":
            return _erased(await memory.eraser.erase(EraseTarget(entity_id=entity_id), dry_run=dry_run == "true"))
        _refuse_dry_run(dry_run)
        await memory.corrections.forget_entity(entity_id)
        return _empty()

    @delete(
        "/relationships/{relationship_id:str}",
        operation_id="forgetRelationship",
        opt=_GUARDED,
        summary="Forget or erase a relationship",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def forget_relationship(
        self,
        relationship_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        erase: FromQuery[Flag] = "false",
        dry_run: DryRun = "false",
    ) -> Response[Any]:
        """Take a relationship with its notes out of everything; with ``erase=true`` for good."""
        if erase == "true":
            return _erased(await memory.eraser.erase(EraseTarget(relationship_id=relationship_id), dry_run=dry_run == "true"))
        _refuse_dry_run(dry_run)
        await memory.corrections.forget_relationship(relationship_id)
        return _empty()

    @post(
        "/notes/{note_id:str}/restore",
        operation_id="restoreNote",
        opt=_GUARDED,
        summary="Restore a forgotten note",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def restore_note(self, note_id: FromPath[int], memory: NamedDependency[MemoryParts]) -> NoteDetail:
        """Bring a forgotten note back."""
        await memory.corrections.restore_note(note_id)
        return await memory.provenance.note_detail(note_id)

    @post(
        "/entities/{entity_id:str}/restore",
        operation_id="restoreEntity",
        opt=_GUARDED,
        summary="Restore a forgotten entity",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def restore_entity(self, entity_id: FromPath[int], memory: NamedDependency[MemoryParts]) -> EntityView:
        """Bring a forgotten entity back with what was forgotten together with it."""
        await memory.corrections.restore_entity(entity_id)
        return await memory.store.reads.get_entity(entity_id)

    @post(
        "/relationships/{relationship_id:str}/restore",
        operation_id="restoreRelationship",
        opt=_GUARDED,
        summary="Restore a forgotten relationship",
        status_code=200,
        responses=_REMOVAL_ERRORS,
    )
    async def restore_relationship(
        self,
        relationship_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
    ) -> RelationshipView:
        """Bring a forgotten relationship back with its notes."""
        await memory.corrections.restore_relationship(relationship_id)
        return await memory.store.reads.get_relationship(relationship_id)


def _given(value: str | UnsetType) -> str | None:
    return None if value is UNSET else value


def _require_one(first: str | date | None, second: str | date | None, names: str) -> None:
    if first is None and second is None:
        raise InvalidInputError(f"give {names}")


def _refuse_dry_run(dry_run: Flag) -> None:
    if dry_run == "true":
        raise InvalidInputError("dryRun counts what an erasure would reach: give erase=true with it")


def _erased(erasure: Erasure) -> Response[Any]:
    return Response(erasure, status_code=200, media_type="application/json")


def _empty() -> Response[Any]:
    return Response(None, status_code=204)
