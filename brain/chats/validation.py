"""The rules that a list of messages must keep (chat-domain.md section 2); the rules within one message are in its type."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from shared_protocol.messages import (
    AssistantMessage,
    AttachmentPart,
    ContentPart,
    Message,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STOP = "stop"


class InvalidHistoryError(ValueError):
    """A list of messages breaks a rule; the message names the place and the rule."""


def check_stored_chat(messages: Sequence[Message]) -> None:
    """Check what holds for every stored chat: anchors, completeness, pairing. An empty list is valid.

    Raises:
        InvalidHistoryError: naming the first broken rule.
    """
    check_snapshot(messages)
    if not messages:
        return
    last = messages[-1]
    if not isinstance(last, AssistantMessage) or last.finish_reason.lower() != STOP:
        raise InvalidHistoryError("a chat must end with an assistant message whose finishReason is 'stop'")


def check_snapshot(messages: Sequence[Message]) -> None:
    """Check what holds for every region of a chat: anchors and pairing. It may end in the middle of a turn.

    Raises:
        InvalidHistoryError: naming the first broken rule.
    """
    calls: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        match message:
            case UserMessage(created_at=None):
                raise InvalidHistoryError(f"message {index}: a user message needs createdAt")
            case UserMessage():
                continue
            case AssistantMessage():
                for call in calls_of(message):
                    if call.id in calls:
                        raise InvalidHistoryError(f"message {index}: the tool call id {call.id!r} is used twice")
                    calls.add(call.id)
            case ToolResultMessage():
                result_id = message.result.id
                if result_id in answered:
                    raise InvalidHistoryError(f"message {index}: the tool call {result_id!r} has two results")
                answered.add(result_id)
    if calls != answered:
        raise InvalidHistoryError(_unpaired(calls, answered))


def check_import(messages: Sequence[Message]) -> None:
    """Check a chat that comes from outside: a stored chat whose calls are answered at once, with content a provider accepts.

    Raises:
        InvalidHistoryError: naming the first broken rule.
    """
    check_stored_chat(messages)
    check_round_locality(messages)
    open_calls: dict[str, str] = {}
    for index, message in enumerate(messages):
        if not message.parts:
            raise InvalidHistoryError(f"message {index}: parts must not be empty")
        match message:
            case UserMessage():
                _check_attachments(index, message.parts)
            case AssistantMessage():
                open_calls = {call.id: call.tool for call in calls_of(message)}
            case ToolResultMessage():
                _check_result(index, message, open_calls)


def check_round_locality(messages: Sequence[Message]) -> None:
    """Check that each call and its result lie in the same round; what comes before the first user message is one segment.

    Raises:
        InvalidHistoryError: a pair straddles a user message.
    """
    segment = 0
    segment_of_call: dict[str, int] = {}
    segment_of_result: dict[str, tuple[int, int]] = {}
    for index, message in enumerate(messages):
        match message:
            case UserMessage():
                segment += 1
            case AssistantMessage():
                segment_of_call.update((call.id, segment) for call in calls_of(message))
            case ToolResultMessage():
                segment_of_result[message.result.id] = (segment, index)
    for call_id, (segment, index) in segment_of_result.items():
        if segment_of_call.get(call_id, segment) != segment:
            raise InvalidHistoryError(f"message {index}: the tool call {call_id!r} and its result lie in different rounds")


def calls_of(message: AssistantMessage) -> Iterator[ToolCallPart]:
    """Yield the tool calls of a message."""
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            yield part


def strip_white_space(text: str) -> str:
    """Return the text without any white space, as base64 is stored."""
    return "".join(text.split())


def decode_base64(text: str) -> bytes:
    """Return the bytes of standard-alphabet base64 with padding.

    Raises:
        ValueError: it is something else.
    """
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as problem:
        raise ValueError(f"the base64 text does not decode: {problem}") from problem


def _check_result(index: int, message: ToolResultMessage, open_calls: dict[str, str]) -> None:
    result = message.result
    if result.id not in open_calls:
        raise InvalidHistoryError(
            f"message {index}: the result of {result.id!r} does not directly follow the message with its call",
        )
    if open_calls[result.id] != result.tool:
        raise InvalidHistoryError(
            f"message {index}: the result of {result.id!r} names the tool {result.tool!r}, its call {open_calls[result.id]!r}",
        )
    if not result.parts:
        raise InvalidHistoryError(f"message {index}: the parts of the result of {result.id!r} must not be empty")
    _check_attachments(index, result.parts)


def _check_attachments(index: int, parts: Sequence[ContentPart]) -> None:
    for part in parts:
        if isinstance(part, AttachmentPart):
            try:
                decode_base64(strip_white_space(part.content.base64))
            except ValueError as problem:
                raise InvalidHistoryError(f"message {index}: {problem}") from problem


def _unpaired(calls: set[str], answered: set[str]) -> str:
    if missing := calls - answered:
        return f"the tool call {min(missing)!r} has no result"
    return f"the tool result {min(answered - calls)!r} has no call"
