"""The events of a turn as structs, and their bytes (brain-api §6.3, additions §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Raw

from shared_protocol.messages import AttachmentPart, ContentPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brain.turns.run_log import RunLog

CONNECTED: Final = b"event: comment\ndata: connected\n\n"
"""Sent before any work; an event named comment, not a comment line."""
IMAGE_PLACEHOLDER: Final = "[An image is attached; it will appear when the round ends.]"
OTHER_PLACEHOLDER: Final = "[An attachment of kind {kind} is not displayed.]"

_encoder = msgspec.json.Encoder()


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    pass


class ToolCalled(_Event, frozen=True):
    """The model asked for a tool; sent before it runs."""

    id: str
    name: str
    args: Raw


class ToolFinished(_Event, frozen=True):
    """A tool answered; ``content`` is its text, with placeholders for attachments."""

    id: str
    name: str
    content: str
    is_error: bool


class Retry(_Event, frozen=True):
    """The present round starts again: clients drop what it has streamed so far."""

    message: str


class UsageReported(_Event, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of one assembled round; ``round`` counts from 1 within the turn."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    model_id: str
    round: int


class ContextMeasured(_Event, frozen=True):
    """Where the window goes, in tokens."""

    context_length: int
    persona: int
    tools: int
    memory: int
    history: int
    answer: int
    free: int
    estimated: bool = True


class MemoryGiven(_Event, frozen=True):
    """Ids of what the injection holds; ``degraded`` says why a part was left out."""

    notes: tuple[int, ...]
    entities: tuple[int, ...]
    degraded: str | None


class Compacted(_Event, frozen=True):
    """A compaction took place; ``rounds`` is how many were dropped."""

    dropped_messages: int
    rounds: int
    summary_chars: int
    reason: Literal["proactive", "reactive"]


class Stopped(_Event, frozen=True):
    """A person stopped the turn; ``done`` or ``error`` follows."""

    by: Literal["user"] = "user"


class Done(_Event, frozen=True):
    """Terminal: the answer is stored."""


class Failed(_Event, frozen=True):
    """Terminal: nothing was stored."""

    message: str
    type: str


EVENT_NAMES: Final[dict[type[msgspec.Struct], str]] = {
    ToolCalled: "tool_call",
    ToolFinished: "tool_result",
    Retry: "retry",
    UsageReported: "usage",
    ContextMeasured: "context",
    MemoryGiven: "memory",
    Compacted: "compaction",
    Stopped: "stopped",
}


def publish(log: RunLog, event: msgspec.Struct) -> None:
    """Append a struct of this module to a turn's log."""
    log.publish(EVENT_NAMES[type(event)], _encoder.encode(event))


def publish_as(log: RunLog, name: str, event: msgspec.Struct) -> None:
    """Append a struct of another module under a name."""
    log.publish(name, _encoder.encode(event))


def finish(log: RunLog, event: Done | Failed) -> None:
    """Append the terminal event."""
    log.close("done" if isinstance(event, Done) else "error", _encoder.encode(event))


def shown_content(parts: Iterable[ContentPart]) -> str:
    """Return what a client shows of a tool's answer while the turn runs."""
    return "\n".join(_shown(part) for part in parts)


def _shown(part: ContentPart) -> str:
    match part:
        case TextPart(text):
            return text
        case AttachmentPart(kind="image"):
            return IMAGE_PLACEHOLDER
        case AttachmentPart(kind=kind):
            return OTHER_PLACEHOLDER.format(kind=kind)
