"""What the long-term memory hands out: records and their read views, in the shape of the wire (memory.md sections 5.9 and 19)."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

Author: TypeAlias = Literal["person", "writer", "import"]
"""Who changed a record."""


class Entity(msgspec.Struct, frozen=True, rename="camel"):
    """An entity without its surroundings."""

    id: int
    canonical_name: str
    category: str


class Relationship(msgspec.Struct, frozen=True, rename="camel"):
    """A directed, named edge; ``valid`` says whether it holds now."""

    id: int
    src_id: int
    dst_id: int
    verb: str
    valid: bool


class Note(msgspec.Struct, frozen=True, rename="camel"):
    """A diary entry of one subject; ``sources`` counts the places in chats it rests on."""

    id: int
    entity_id: int | None
    relationship_id: int | None
    event_date: date
    note: str
    sources: int = 0
    edited: bool = False


class EntityView(msgspec.Struct, frozen=True, rename="camel"):
    """An entity with its counts, newest note and attributes (keys ascending)."""

    entity: Entity
    note_count: int
    relationship_count: int
    latest_note: Note | None
    attributes: dict[str, str]


class RelationshipView(msgspec.Struct, frozen=True, rename="camel"):
    """A relationship with the names of both ends, its note count and newest note."""

    relationship: Relationship
    src_name: str
    dst_name: str
    note_count: int
    latest_note: Note | None


class EntityMatch(msgspec.Struct, frozen=True, rename="camel"):
    """An entity that is close to another; ``similarity`` is ``None`` when only the name matched."""

    view: EntityView
    similarity: float | None


class EntitySubject(msgspec.Struct, frozen=True, rename="camel", tag="entity", tag_field="type"):
    """The entity a note is about."""

    id: int
    name: str
    category: str


class RelationshipSubject(msgspec.Struct, frozen=True, rename="camel", tag="relationship", tag_field="type"):
    """The relationship a note is about."""

    id: int
    src_name: str
    verb: str
    dst_name: str
    valid: bool


Subject: TypeAlias = EntitySubject | RelationshipSubject


class NewNote(msgspec.Struct, frozen=True):
    """A note to be written: the day it happened and its text."""

    event_date: date
    note: str


class NoteSource(msgspec.Struct, frozen=True):
    """Where a note comes from: the extraction run, and the message within the chat of that run."""

    run_id: UUID
    fact: int | None = None
    message_index: int | None = None
    message_created_at: datetime | None = None
    excerpt: str = ""


class CreatedEntity(msgspec.Struct, frozen=True):
    """Outcome of a creation: the row (new or found), whether it is new, and what is close to it."""

    view: EntityView
    created: bool
    near_matches: list[EntityMatch]


class NearNote(msgspec.Struct, frozen=True):
    """A recorded note that says nearly the same as a new one."""

    note: Note
    similarity: float


class AttachedNotes(msgspec.Struct, frozen=True):
    """Outcome of attaching notes, in input order.

    ``notes`` holds the written note, or the recorded one that says the same; ``written`` tells which. With ``near`` filled,
    nothing was written. ``valid`` is the validity of a relationship afterwards.
    """

    notes: list[Note]
    written: list[bool]
    near: list[NearNote] = []
    kept_out: int = 0
    valid: bool | None = None


class MergedEntities(msgspec.Struct, frozen=True):
    """Outcome of a merge: the winner afterwards."""

    view: EntityView
    folded_keys: list[str]
