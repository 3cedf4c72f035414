"""Rounds of a history: a user message and everything up to the next one (chat-domain §1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_protocol.messages import Message, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence


def round_starts(messages: Sequence[Message]) -> list[int]:
    """Return the index of every user message; what lies before the first is the prologue."""
    return [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]


def count_rounds(messages: Sequence[Message]) -> int:
    """Return the number of user messages; a compaction summary counts."""
    return sum(isinstance(message, UserMessage) for message in messages)


def last_rounds(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """Return the last ``count`` rounds, clamped to what there is; empty for ``count`` <= 0 or without a user message."""
    starts = round_starts(messages)
    if count <= 0 or not starts:
        return ()
    return tuple(messages[starts[-min(count, len(starts))] :])


def split_for_compaction(messages: Sequence[Message], keep_rounds: int) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return (dropped, preserved): at least the oldest round is dropped, the prologue with it (chat-domain §12.1)."""
    preserved = last_rounds(messages, min(keep_rounds, count_rounds(messages) - 1))
    return tuple(messages[: len(messages) - len(preserved)]), preserved
