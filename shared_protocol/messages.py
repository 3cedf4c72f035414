"""The neutral message format: one schema for the database, the API, the brain and the hand.

A conversation is a list of messages without a system role; the system prompt travels apart. What each role may hold is in the
types, so that a message which breaks the rules cannot be decoded. Rules over a whole list are in ``brain.chats.validation``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from shared_protocol.instants import Instant, parse_instant

NonBlank: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
TokenCount: TypeAlias = Annotated[int, Meta(ge=0)]
AttachmentKind: TypeAlias = Literal["image", "video", "audio", "file"]

EMPTY_ARGS = Raw(b"{}")


class Base64Content(msgspec.Struct, frozen=True, tag="base64", tag_field="type"):
    """The bytes of an attachment as standard base64 without white space; URLs are deliberately unsupported."""

    base64: str


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """A piece of plain text."""

    text: str


class ReasoningPart(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type"):
    """What the model thought before it answered."""

    content: str


class ToolCallPart(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A tool the model asked for. ``args`` keeps the JSON object verbatim: key order and number literals included."""

    id: NonBlank
    tool: str
    args: Raw

    def __post_init__(self) -> None:
        """Compact ``args`` and detach it from the buffer it was decoded from.

        Raises:
            ValueError: ``args`` is no JSON object, or no UTF-8.
        """
        text = bytes(self.args)
        if not text.lstrip().startswith(b"{"):
            raise ValueError("args must be a JSON object")
        text.decode()  # what is taken over verbatim was not looked at by the decoder
        msgspec.structs.force_setattr(self, "args", Raw(msgspec.json.format(text, indent=-1)))


class AttachmentPart(msgspec.Struct, frozen=True, tag="attachment", tag_field="type", rename="camel"):
    """A file by value."""

    kind: AttachmentKind
    content: Base64Content
    mime_type: str


ContentPart: TypeAlias = TextPart | AttachmentPart
"""What a person or a tool can say."""


class ToolResultPart(msgspec.Struct, frozen=True, tag="tool_result", tag_field="type", rename="camel"):
    """The answer to one tool call. ``isError`` is always written."""

    id: NonBlank
    tool: str
    parts: tuple[ContentPart, ...]
    is_error: bool = False


AssistantPart: TypeAlias = TextPart | ReasoningPart | ToolCallPart


class Usage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Tokens of one LLM call, and the provider's model id. ``inputTokens`` is the full prompt, cached part included."""

    input_tokens: TokenCount
    output_tokens: TokenCount
    total_tokens: TokenCount
    model_id: str | None = None
    cached_tokens: TokenCount | None = None


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role", rename="camel", omit_defaults=True):
    """What a person said, or a compaction summary. ``createdAt`` is present in every stored chat."""

    parts: tuple[ContentPart, ...]
    created_at: Instant | None = None
    # Present only so that a value here is refused: these belong to assistant messages.
    meta: None = None
    finish_reason: None = None

    def __post_init__(self) -> None:
        """Bring ``createdAt`` into its canonical form.

        Raises:
            ValueError: it is no instant.
        """
        _canonical_created_at(self)


class AssistantMessage(
    msgspec.Struct,
    frozen=True,
    tag="assistant",
    tag_field="role",
    rename="camel",
    omit_defaults=True,
    kw_only=True,
):
    """One answer of a model. ``interrupted`` marks an answer that a person stopped and kept."""

    parts: tuple[AssistantPart, ...]
    created_at: Instant | None = None
    meta: Usage
    finish_reason: NonBlank
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Bring ``createdAt`` into its canonical form.

        Raises:
            ValueError: it is no instant.
        """
        _canonical_created_at(self)


class ToolResultMessage(msgspec.Struct, frozen=True, tag="tool_result", tag_field="role", rename="camel", omit_defaults=True):
    """Exactly one tool result: a round with three calls has three of these messages."""

    parts: Annotated[tuple[ToolResultPart, ...], Meta(min_length=1, max_length=1)]
    # Present only so that a value here is refused.
    created_at: None = None
    meta: None = None
    finish_reason: None = None

    @property
    def result(self) -> ToolResultPart:
        """The one part."""
        return self.parts[0]


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


def _canonical_created_at(message: UserMessage | AssistantMessage) -> None:
    if message.created_at is not None:
        canonical = parse_instant(message.created_at)
        if canonical != message.created_at:
            msgspec.structs.force_setattr(message, "created_at", canonical)


def text_of(parts: tuple[AssistantPart, ...] | tuple[ContentPart, ...], separator: str = "\n") -> str:
    """Return the text parts joined by ``separator``; other parts are left out."""
    return separator.join(part.text for part in parts if isinstance(part, TextPart))
