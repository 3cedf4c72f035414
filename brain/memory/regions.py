"""A region of a chat as the extraction sees it: numbered, anchored, without echoes of memory, in pieces that fit the model."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

import msgspec

from brain.context.harness_xml import anchor, remove_by_shape
from shared_protocol.codec import encode_messages
from shared_protocol.instants import datetime_from_instant
from shared_protocol.messages import (
    AssistantMessage,
    AttachmentPart,
    ContentPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel

Speaker: TypeAlias = Literal["user", "assistant", "tool"]

MEMORY_TOOL: Final = "gsg__investigate"
PLACEHOLDER: Final = "[A report out of the assistant's own memory stood here. It is already remembered.]"

BYTES_PER_TOKEN: Final = 3
"""Low on purpose: four in English prose, three per character and token in Chinese and Japanese."""
PROMPT_TOKENS: Final = 1500
"""Room for the instructions and the request."""
SHARE_FOR_OUTPUT: Final = 0.25
ATTACHMENT_TOKENS: Final = 1500
SMALLEST_BUDGET_BYTES: Final = 600


class Source(msgspec.Struct, frozen=True):
    """A message that facts may cite. ``number`` counts from 1 within the region, ``index`` is its position in the chat.

    ``sent_at`` is its own time, or that of the user message it follows. ``recalled``: it may repeat memory.
    """

    number: int
    index: int
    speaker: Speaker
    text: str
    sent_at: datetime | None
    recalled: bool = False
    has_attachment: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A part of a region that goes to the model in one call: each message with the number of the message it is from."""

    messages: tuple[tuple[int, Message], ...]

    def wire(self, *, native_tools: bool) -> tuple[Message, ...]:
        """Return the messages for the model: number first, times in front of that."""
        shown = [
            _numbered(number, message if native_tools else _without_tool_roles(message)) for number, message in self.messages
        ]
        return anchor(shown).wire()


def clean_region(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the region without injected parts, thoughts and reports out of memory (idea J)."""
    return tuple(_without_echo(message) for message in remove_by_shape(messages))


def sources_of(messages: Sequence[Message], first_index: int = 0) -> list[Source]:
    """Return what can be cited of a cleaned region, in order."""
    sources: list[Source] = []
    sent_at: datetime | None = None
    recalled = False
    for offset, message in enumerate(messages):
        if isinstance(message, UserMessage):
            recalled = False
        if isinstance(message, UserMessage | AssistantMessage) and message.created_at is not None:
            sent_at = datetime_from_instant(message.created_at)
        is_report = isinstance(message, ToolResultMessage) and message.result.tool == MEMORY_TOOL
        recalled = recalled or is_report
        sources.append(
            Source(
                number=offset + 1,
                index=first_index + offset,
                speaker=_speaker(message),
                text=_text(message),
                sent_at=sent_at,
                recalled=is_report or (recalled and isinstance(message, AssistantMessage)),
                has_attachment=any(isinstance(part, AttachmentPart) for part in _content(message)),
            )
        )
    return sources


def budget_bytes(model: ChatModel) -> int:
    """Return how much of a region one call of the model can take, in bytes of message text."""
    output = min(model.max_output_tokens, int(model.context_length * SHARE_FOR_OUTPUT))
    return max((model.context_length - output - PROMPT_TOKENS) * BYTES_PER_TOKEN, SMALLEST_BUDGET_BYTES)


def split_region(messages: Sequence[Message], budget: int) -> list[Piece]:
    """Cut a cleaned region into pieces of at most ``budget`` bytes, at messages where possible; pairs of tools stay together."""
    pieces: list[Piece] = []
    current: list[tuple[int, Message]] = []
    used = 0
    for group in _groups(messages):
        for part in _fit(group, budget):
            size = sum(_size(message) for _, message in part)
            if current and used + size > budget:
                pieces.append(Piece(tuple(current)))
                current, used = [], 0
            current.extend(part)
            used += size
    if current:
        pieces.append(Piece(tuple(current)))
    return pieces


def _groups(messages: Sequence[Message]) -> list[list[tuple[int, Message]]]:
    """Return messages that must not be parted: an assistant message with calls, and the results of these."""
    groups: list[list[tuple[int, Message]]] = []
    for offset, message in enumerate(messages):
        if groups and isinstance(message, ToolResultMessage):
            groups[-1].append((offset + 1, message))
        else:
            groups.append([(offset + 1, message)])
    return groups


def _fit(group: list[tuple[int, Message]], budget: int) -> list[list[tuple[int, Message]]]:
    if sum(_size(message) for _, message in group) <= budget:
        return [group]
    pieces: list[list[tuple[int, Message]]] = []
    for number, message in group:
        pieces.extend([[(number, part)] for part in _slices(_without_tool_roles(message), budget)])
    return pieces


def _slices(message: Message, budget: int) -> list[Message]:
    if _size(message) <= budget or isinstance(message, ToolResultMessage):
        return [message]
    text = text_of(message.parts)
    room = max(budget // 4, 200)  # a character has up to four bytes
    slices: list[Message] = []
    for start in range(0, len(text), room):
        # A little overlap, so that no sentence is seen only in halves.
        part = TextPart(text[max(0, start - 100) : start + room])
        slices.append(msgspec.structs.replace(message, parts=(part,)))
    others = [part for part in message.parts if isinstance(part, AttachmentPart)]
    if others:
        slices.append(msgspec.structs.replace(message, parts=tuple(others)))
    return slices or [message]


def _size(message: Message) -> int:
    attachments = [part for part in _content(message) if isinstance(part, AttachmentPart)]
    embedded = sum(len(part.content.base64) for part in attachments)
    return len(encode_messages((message,))) - embedded + len(attachments) * ATTACHMENT_TOKENS * BYTES_PER_TOKEN


def _without_echo(message: Message) -> Message:
    match message:
        case ToolResultMessage() if message.result.tool == MEMORY_TOOL:
            result = msgspec.structs.replace(message.result, parts=(TextPart(PLACEHOLDER),))
            return msgspec.structs.replace(message, parts=(result,))
        case AssistantMessage():
            kept = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
            return msgspec.structs.replace(message, parts=kept or (TextPart(""),))
        case _:
            return message


def _without_tool_roles(message: Message) -> Message:
    """Return a message in words only: gateways refuse tool messages of models that have no tools."""
    match message:
        case ToolResultMessage():
            head = TextPart(f"[Result of the tool {message.result.tool}]")
            return UserMessage((head, *message.result.parts))
        case AssistantMessage():
            parts = tuple(
                TextPart(f"[Called the tool {part.tool} with {bytes(part.args).decode()}]")
                if isinstance(part, ToolCallPart)
                else part
                for part in message.parts
            )
            return msgspec.structs.replace(message, parts=parts)
        case UserMessage():
            return message
        case _:
            assert_never(message)


def _numbered(number: int, message: Message) -> Message:
    label = TextPart(f"[message {number}]")
    match message:
        case ToolResultMessage():
            result = msgspec.structs.replace(message.result, parts=(label, *message.result.parts))
            return msgspec.structs.replace(message, parts=(result,))
        case UserMessage():
            return msgspec.structs.replace(message, parts=(label, *message.parts))
        case AssistantMessage():
            return msgspec.structs.replace(message, parts=(label, *message.parts))
        case _:
            assert_never(message)


def _speaker(message: Message) -> Speaker:
    match message:
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolResultMessage():
            return "tool"
        case _:
            assert_never(message)


def _content(message: Message) -> Sequence[ContentPart]:
    match message:
        case UserMessage():
            return message.parts
        case ToolResultMessage():
            return message.result.parts
        case AssistantMessage():
            return ()
        case _:
            assert_never(message)


def _text(message: Message) -> str:
    match message:
        case ToolResultMessage():
            return text_of(message.result.parts)
        case UserMessage():
            return text_of(message.parts)
        case AssistantMessage():
            return text_of(message.parts)
        case _:
            assert_never(message)
