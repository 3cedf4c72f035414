"""Harness XML: what the brain puts in front of user messages for one request, and how it is recognised (chat-domain §10).

Inside a run the harness parts are carried beside the clean messages (``HarnessedHistory``), so taking them off again needs no
guess. Recognition by shape is only for text of unknown origin.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec
from lxml import etree

from shared_protocol.instants import Instant, datetime_from_instant
from shared_protocol.messages import ContentPart, Message, TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, lone surrogates included."""
_OUR_START = ("<injection>", "<meta>")


class EntityView(msgspec.Struct, frozen=True):
    """An entity as the model sees it in an injection."""

    id: int
    name: str
    category: str
    attributes: tuple[tuple[str, str], ...] = ()


class EntitySubject(msgspec.Struct, frozen=True):
    """A note's subject: an entity."""

    name: str
    category: str


class RelationshipSubject(msgspec.Struct, frozen=True):
    """A note's subject: a relationship."""

    src_name: str
    verb: str
    dst_name: str


class NoteView(msgspec.Struct, frozen=True):
    """A note as the model sees it in an injection; ``date`` is ``YYYY-MM-DD``."""

    id: int
    date: str
    subject: EntitySubject | RelationshipSubject
    note: str


class Memories(msgspec.Struct, frozen=True):
    """The memory part of a full injection: all of it or nothing."""

    eltm_updated: bool
    entities: tuple[EntityView, ...] = ()
    notes: tuple[NoteView, ...] = ()


class HarnessedHistory(msgspec.Struct, frozen=True):
    """A clean history with the harness part of each message beside it (``None``: it has none)."""

    messages: tuple[Message, ...]
    harness: tuple[TextPart | None, ...]

    def wire(self) -> tuple[Message, ...]:
        """Return the messages as the model gets them: every harness part in front of its message."""
        return tuple(
            message if part is None or not isinstance(message, UserMessage) else _with_first(message, part)
            for message, part in zip(self.messages, self.harness, strict=True)
        )


def local_time(moment: datetime) -> str:
    """Return a moment in the server's present zone, to the second, with offset (``Z`` for zero)."""
    try:
        local = moment.astimezone()
    except (OverflowError, ValueError, OSError):  # the first and last hours of the calendar have no local form
        local = moment.astimezone(UTC)
    text = local.replace(microsecond=0).isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def render_anchor(created_at: Instant) -> str:
    """Return the element that tells when a historical message was sent."""
    return _render_anchor(created_at, time.tzname)


@lru_cache(4096)
def _render_anchor(created_at: Instant, _zone: tuple[str, str]) -> str:
    # A long history has one per message in every round; the zone is part of the key, because it decides the text.
    return f"<meta><sent-at>{local_time(datetime_from_instant(created_at))}</sent-at></meta>"


def render_injection(now: datetime, memories: Memories | None) -> str:
    """Return the element for the newest user message: full with ``memories``, else the time only."""
    root = etree.Element("injection")
    info = etree.SubElement(root, "real-time-info")
    etree.SubElement(info, "localtime").text = local_time(now)
    if memories is not None:
        etree.SubElement(info, "eltm-updated").text = "true" if memories.eltm_updated else "false"
        _append_memories(root, memories)
    return etree.tostring(root, encoding="unicode")


def anchor(messages: Sequence[Message]) -> HarnessedHistory:
    """Give every user message with ``createdAt`` its anchor; nothing is stamped (one-shot pipelines)."""
    return HarnessedHistory(tuple(messages), tuple(_anchor_of(message) for message in messages))


def inject(messages: Sequence[Message], now: Instant, injection: str) -> HarnessedHistory:
    """Give the newest user message the injection and the others their anchors; the newest is stamped if it has no time."""
    stamped = list(messages)
    harness = [_anchor_of(message) for message in messages]
    for index in range(len(stamped) - 1, -1, -1):
        message = stamped[index]
        if isinstance(message, UserMessage):
            if message.created_at is None:
                stamped[index] = msgspec.structs.replace(message, created_at=now)
            harness[index] = TextPart(injection) if message.parts else None
            break
    return HarnessedHistory(tuple(stamped), tuple(harness))


def find_injection_shape(text: str) -> Literal["full", "simple"] | None:
    """Return which of the two injections a text is as a whole, or ``None``: then it is somebody's own words."""
    if not text.startswith("<injection>"):
        return None
    root = _parse(text)
    if root is None:
        return None
    if _schema("simple").validate(root):
        return "simple"
    return "full" if _schema("full").validate(root) and all(map(_has_subject, root.iter("note"))) else None


def is_anchor_of(message: UserMessage) -> bool:
    """Whether the first part is, byte for byte, the anchor of the message's own time."""
    first = message.parts[0] if message.parts else None
    return isinstance(first, TextPart) and message.created_at is not None and first.text == render_anchor(message.created_at)


def remove_by_shape(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Drop leading parts that look like ours from messages that have more parts: for histories of unknown origin only."""
    return tuple(_without_harness(message) for message in messages)


def _without_harness(message: Message) -> Message:
    if not isinstance(message, UserMessage) or len(message.parts) < 2:
        return message
    first = message.parts[0]
    if not isinstance(first, TextPart) or not first.text.startswith(_OUR_START):
        return message
    if is_anchor_of(message) or find_injection_shape(first.text):
        return msgspec.structs.replace(message, parts=message.parts[1:])
    return message


def _anchor_of(message: Message) -> TextPart | None:
    if isinstance(message, UserMessage) and message.parts and message.created_at is not None:
        return TextPart(render_anchor(message.created_at))
    return None


def _with_first(message: UserMessage, part: ContentPart) -> UserMessage:
    return msgspec.structs.replace(message, parts=(part, *message.parts))


def _append_memories(root: etree.ElementBase, memories: Memories) -> None:
    holder = etree.SubElement(root, "memories")
    entities = etree.SubElement(holder, "related-entities")
    for entity in memories.entities:
        element = etree.SubElement(entities, "entity", _attributes(id=str(entity.id), name=entity.name, category=entity.category))
        for key, value in entity.attributes:
            etree.SubElement(element, "attribute", _attributes(key=key)).text = _clean(value)
    notes = etree.SubElement(holder, "related-notes")
    for note in memories.notes:
        etree.SubElement(notes, "note", _note_attributes(note)).text = _clean(note.note)


def _note_attributes(note: NoteView) -> dict[str, str]:
    head = {"id": str(note.id), "date": note.date}
    match note.subject:
        case EntitySubject(name, category):
            own = {"subject-type": "entity", "name": name, "category": category}
        case RelationshipSubject(src_name, verb, dst_name):
            own = {"subject-type": "relationship", "src-name": src_name, "verb": verb, "dst-name": dst_name}
    return _attributes(**head, **own)


def _attributes(**values: str) -> dict[str, str]:
    return {name: _clean(value) for name, value in values.items()}


def _clean(text: str) -> str:
    return _ILLEGAL.sub("", text)


def _has_subject(note: etree.ElementBase) -> bool:
    names = set(note.attrib) - {"id", "date", "subject-type"}
    if note.get("subject-type") == "entity":
        return names == {"name", "category"}
    return names == {"src-name", "verb", "dst-name"}


def _parse(text: str) -> etree.ElementBase | None:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "surrogatepass"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    tree = root.getroottree()
    has_dtd = tree.docinfo.internalDTD is not None or bool(tree.docinfo.doctype)
    return None if has_dtd else root


@cache
def _schema(name: Literal["full", "simple"]) -> etree.XMLSchema:
    source = files("brain.context").joinpath("schemas", f"{name}.xsd").read_bytes()
    return etree.XMLSchema(etree.fromstring(source))
