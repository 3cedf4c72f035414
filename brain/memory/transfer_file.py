"""The transfer file (memory.md section 18): its shape, and the check of the whole of it before anything is written."""

from __future__ import annotations

from datetime import date
from typing import Final

import msgspec
from msgspec import Raw

from brain.errors import InvalidInputError
from brain.memory.entities import EntityKey
from brain.memory.normalise import (
    normalise_category,
    normalise_key,
    normalise_name,
    normalise_note,
    normalise_value,
    normalise_verb,
    parse_date,
)
from brain.memory.views import NewNote


class FileNote(msgspec.Struct, frozen=True):
    """A note in the file."""

    date: str
    note: str


class FileEntity(msgspec.Struct, frozen=True):
    """An entity in the file."""

    name: str
    category: str
    attributes: dict[str, str]
    notes: list[FileNote]


class FileRelationship(msgspec.Struct, frozen=True, rename="camel"):
    """A relationship in the file; its ends are keys of the entities."""

    src_uuid: str
    verb: str
    dst_uuid: str
    valid: bool
    notes: list[FileNote]


class _File(msgspec.Struct, frozen=True):
    entities: dict[str, Raw]
    relationships: list[Raw]


class CheckedEntity(msgspec.Struct, frozen=True):
    """An entity of the file, normalised."""

    key: EntityKey
    attributes: dict[str, str]
    notes: list[NewNote]


class CheckedRelationship(msgspec.Struct, frozen=True):
    """A relationship of the file, normalised; ``newest`` is the date of its newest note."""

    src: EntityKey
    dst: EntityKey
    verb: str
    valid: bool
    notes: list[NewNote]

    @property
    def newest(self) -> date | None:
        """Date of the newest note."""
        return max((note.event_date for note in self.notes), default=None)


class CheckedFile(msgspec.Struct, frozen=True):
    """A file without a mistake."""

    entities: list[CheckedEntity]
    relationships: list[CheckedRelationship]


_file_decoder: Final = msgspec.json.Decoder(_File)
_entity_decoder: Final = msgspec.json.Decoder(FileEntity)
_relationship_decoder: Final = msgspec.json.Decoder(FileRelationship)


def read_file(body: bytes | bytearray) -> CheckedFile:
    """Read and check a transfer file; blocking, seconds for hundreds of megabytes.

    Raises:
        InvalidInputError: naming the path of the first mistake, as in ``entities[<uuid>].notes[3].date``.
    """
    try:
        parsed = _file_decoder.decode(body)
    except msgspec.DecodeError as problem:
        raise InvalidInputError(f"the file cannot be read: {problem}") from problem
    except RecursionError as problem:
        raise InvalidInputError("the file is nested too deeply") from problem
    entities: dict[str, CheckedEntity] = {}
    taken: dict[EntityKey, str] = {}
    for uuid, raw in parsed.entities.items():
        path = f"entities[{uuid}]"
        entity = _check_entity(path, _decode_entity(path, raw))
        if (other := taken.setdefault(entity.key, uuid)) != uuid:
            raise InvalidInputError(f"{path}.name: the same name and category as entities[{other}]")
        entities[uuid] = entity
    relationships: list[CheckedRelationship] = []
    triples: set[tuple[str, str, str]] = set()
    for index, raw in enumerate(parsed.relationships):
        path = f"relationships[{index}]"
        relationship = _decode_relationship(path, raw)
        checked = _check_relationship(path, relationship, entities)
        triple = (relationship.src_uuid, relationship.dst_uuid, checked.verb)
        if triple in triples:
            raise InvalidInputError(f"{path}: the same relationship is in the file twice")
        triples.add(triple)
        relationships.append(checked)
    return CheckedFile(list(entities.values()), relationships)


def _decode_entity(path: str, raw: Raw) -> FileEntity:
    try:
        return _entity_decoder.decode(raw)
    except msgspec.DecodeError as problem:
        raise InvalidInputError(_at(path, problem)) from problem


def _decode_relationship(path: str, raw: Raw) -> FileRelationship:
    try:
        return _relationship_decoder.decode(raw)
    except msgspec.DecodeError as problem:
        raise InvalidInputError(_at(path, problem)) from problem


def _at(path: str, problem: msgspec.DecodeError) -> str:
    message, _, inner = str(problem).partition(" - at `$")
    return f"{path}{inner.removesuffix('`')}: {message}"


def _check_entity(path: str, entity: FileEntity) -> CheckedEntity:
    try:
        name = normalise_name(entity.name)
    except InvalidInputError as problem:
        raise InvalidInputError(f"{path}.name: {problem}") from problem
    try:
        category = normalise_category(entity.category)
    except InvalidInputError as problem:
        raise InvalidInputError(f"{path}.category: {problem}") from problem
    attributes: dict[str, str] = {}
    for raw_key, raw_value in entity.attributes.items():
        place = f"{path}.attributes[{raw_key}]"
        try:
            key = normalise_key(raw_key)
            value = _single_line(raw_value)
        except InvalidInputError as problem:
            raise InvalidInputError(f"{place}: {problem}") from problem
        if key in attributes:
            raise InvalidInputError(f"{place}: the key {key!r} is there twice")
        attributes[key] = value
    return CheckedEntity(EntityKey(name, category), attributes, _check_notes(path, entity.notes))


def _single_line(raw_value: str) -> str:
    # On the raw value: a trailing newline is a mistake in a file, though a tool would trim it.
    if "\n" in raw_value or "\r" in raw_value:
        raise InvalidInputError("an attribute value must be a single line")
    return normalise_value(raw_value)


def _check_relationship(
    path: str,
    relationship: FileRelationship,
    entities: dict[str, CheckedEntity],
) -> CheckedRelationship:
    try:
        verb = normalise_verb(relationship.verb)
    except InvalidInputError as problem:
        raise InvalidInputError(f"{path}.verb: {problem}") from problem
    for field, uuid in (("srcUuid", relationship.src_uuid), ("dstUuid", relationship.dst_uuid)):
        if uuid not in entities:
            raise InvalidInputError(f"{path}.{field}: there is no entity {uuid!r} in the file")
    return CheckedRelationship(
        src=entities[relationship.src_uuid].key,
        dst=entities[relationship.dst_uuid].key,
        verb=verb,
        valid=relationship.valid,
        notes=_check_notes(path, relationship.notes),
    )


def _check_notes(path: str, notes: list[FileNote]) -> list[NewNote]:
    checked: list[NewNote] = []
    for index, note in enumerate(notes):
        place = f"{path}.notes[{index}]"
        try:
            day = parse_date(note.date)
        except InvalidInputError as problem:
            raise InvalidInputError(f"{place}.date: {problem}") from problem
        try:
            checked.append(NewNote(day, normalise_note(note.note)))
        except InvalidInputError as problem:
            raise InvalidInputError(f"{place}.note: {problem}") from problem
    return checked
