"""Which history a replaced message leaves: the rules of truncation, before anything is changed (brain-api §5.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.errors import InvalidInputError
from shared_protocol.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence


def history_before(messages: Sequence[Message], index: int) -> tuple[Message, ...]:
    """Return the messages before a user message that may be replaced.

    Raises:
        InvalidInputError: no such message, not a user message, or it does not follow an answer.
    """
    if not 0 <= index < len(messages):
        raise InvalidInputError(f"there is no message {index}: the chat has {len(messages)}")
    if not isinstance(messages[index], UserMessage):
        raise InvalidInputError(f"message {index} is not a user message")
    if index > 0 and not isinstance(messages[index - 1], AssistantMessage):
        raise InvalidInputError(f"message {index} does not follow an answer, so the chat cannot be cut there")
    return tuple(messages[:index])
