"""Question to search text: the newest message of a chat, rewritten so that it can be understood, and searched for, on its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from brain.context.harness_xml import inject, remove_by_shape, render_injection
from brain.context.rounds import last_rounds
from brain.errors import StageError
from brain.memory.sentinel import is_nothing_to_query
from brain.prompts import read_prompt
from brain.runs.ladder import ask_text
from shared_protocol.instants import Instant, datetime_from_instant
from shared_protocol.messages import Message, TextPart, UserMessage, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel
    from brain.runs.ladder import TextAsker

STAGE: Final = "query rewrite"
MAX_QUERY_CHARS: Final = 2000
TIMEOUT_SECONDS: Final = 60.0
"""A chat waits for this call: a gateway that hangs must not hold it for ever."""

_PACKAGE: Final = "brain.memory"


class Rewriter:
    """Rewrites with one model. The bundled demonstration model cannot: its chats are searched with the message as it is."""

    def __init__(self, asker: TextAsker, model: ChatModel, rounds: int, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._asker = asker
        self._model = model
        self._rounds = rounds
        self._timeout_seconds = timeout_seconds

    async def rewrite(self, messages: Sequence[Message], now: Instant) -> str | None:
        """Return the query for the newest user message; ``None`` when there is nothing to look up.

        Raises:
            StageError: the call failed or took too long.
        """
        recent = last_rounds(remove_by_shape(messages), self._rounds)
        if not recent:
            return None
        if self._model.config.demo:
            return newest_text(recent)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await ask_text(
                    self._asker,
                    stage=STAGE,
                    model=self._model,
                    system_prompt=read_prompt(_PACKAGE, "rewrite").text,
                    messages=inject(_with_request(recent), now, render_injection(datetime_from_instant(now), None)).wire(),
                )
        except TimeoutError as problem:
            raise StageError(STAGE, f"no answer within {self._timeout_seconds:g} s") from problem
        query = answer.strip()
        return None if is_nothing_to_query(query) else query[:MAX_QUERY_CHARS]


def newest_text(messages: Sequence[Message]) -> str | None:
    """Return the text of the newest user message; ``None`` without one."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return text_of(message.parts).strip()[:MAX_QUERY_CHARS] or None
    return None


def _with_request(messages: Sequence[Message]) -> list[Message]:
    """Put the request behind the newest message itself: after a question alone, small models answer instead of rewriting."""
    changed = list(messages)
    for index in range(len(changed) - 1, -1, -1):
        message = changed[index]
        if isinstance(message, UserMessage):
            request = TextPart(read_prompt(_PACKAGE, "rewrite_request").text)
            changed[index] = msgspec.structs.replace(message, parts=(*message.parts, request))
            break
    return changed
