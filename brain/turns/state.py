"""The conversation of a running turn: the clean history as it grows, what was dropped from it, and how far the counts hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shared_protocol.codec import encode_messages
from shared_protocol.messages import AssistantMessage, Message, ToolCallPart, ToolResultMessage, UserMessage

if TYPE_CHECKING:
    from brain.context.compaction import Compaction
    from brain.context.harness_xml import HarnessedHistory
    from shared_protocol.instants import Instant
    from shared_protocol.messages import ContentPart


class Conversation:
    """Messages without harness parts. The newest user message is the turn's own once ``ask`` was called."""

    def __init__(self, messages: tuple[Message, ...], input_parts: tuple[ContentPart, ...]) -> None:
        self.messages: list[Message] = list(messages)
        self.dropped: list[tuple[Message, ...]] = []
        self.counts_hold = True
        self.attempt_start = 0
        self._input_parts = input_parts
        self._has_asked = False

    def ask(self) -> None:
        """Append the turn's input, unless the newest user message is it."""
        newest = self.newest_user_message()
        if not self._has_asked or newest is None or newest.parts != self._input_parts:
            self.messages.append(UserMessage(self._input_parts))
            self._has_asked = True

    def stamp(self, now: Instant) -> None:
        """Give the newest user message a time if it has none: what is stored needs one, injected or not."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if isinstance(message, UserMessage):
                if message.created_at is None:
                    self.messages[index] = msgspec.structs.replace(message, created_at=now)
                return

    def newest_user_message(self) -> UserMessage | None:
        """Return the last user message."""
        return next((message for message in reversed(self.messages) if isinstance(message, UserMessage)), None)

    def take_over(self, history: HarnessedHistory) -> None:
        """Use the stamped messages of an injected history, and start an attempt behind them."""
        self.messages = list(history.messages)
        self.attempt_start = len(self.messages)

    def accept(self, compaction: Compaction) -> None:
        """Replace the history by a compacted one and remember what it dropped."""
        self.messages = list(compaction.messages)
        self.dropped.append(compaction.dropped)
        self.counts_hold = False

    def keep_completed_rounds(self) -> int:
        """Cut what a failed attempt left unfinished and return how many messages of it stay: whole tool rounds."""
        produced = self.messages[self.attempt_start :]
        whole = count_completed(produced)
        del self.messages[self.attempt_start + whole :]
        return whole

    def size(self) -> int:
        """Return the size of the history as it is sent, in bytes."""
        return len(encode_messages(self.messages))


def count_completed(produced: list[Message]) -> int:
    """Return how many leading messages form whole tool rounds: an assistant message with calls and the results of all of them."""
    end = 0
    index = 0
    while index < len(produced):
        message = produced[index]
        if not isinstance(message, AssistantMessage):
            break
        calls = {part.id for part in message.parts if isinstance(part, ToolCallPart)}
        index += 1
        while index < len(produced) and isinstance(result := produced[index], ToolResultMessage):
            calls.discard(result.result.id)
            index += 1
        has_calls = any(isinstance(part, ToolCallPart) for part in message.parts)
        if calls or not has_calls:
            break
        end = index
    return end
