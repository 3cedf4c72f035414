"""Where the window of a model goes, in estimated tokens; exact counts of the last answer are used where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.turns.events import ContextMeasured
from brain.turns.tokens import IMAGE_TOKENS, count_tokens, count_tokens_cached
from shared_protocol.codec import encode_json
from shared_protocol.messages import (
    AssistantMessage,
    AttachmentPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brain.catalog import ChatModel
    from shared_protocol.tools import ToolSpec

_PER_MESSAGE = 4
"""Role and separators."""


def find_last_answer(messages: Sequence[Message]) -> AssistantMessage | None:
    """Return the last assistant message, whose counts describe the prompt before it."""
    return next((message for message in reversed(messages) if isinstance(message, AssistantMessage)), None)


def estimate_parts(parts: Iterable[object]) -> int:
    """Return the tokens of parts."""
    return sum(map(_estimate_part, parts))


def estimate_messages(messages: Iterable[Message]) -> int:
    """Return the tokens of messages, counted piece by piece."""
    return sum(_PER_MESSAGE + estimate_parts(message.parts) for message in messages)


def estimate_tools(specs: Sequence[ToolSpec]) -> int:
    """Return the tokens of a tool list."""
    return sum(count_tokens_cached(encode_json(spec).decode()) for spec in specs)


def estimate_prompt(messages: Sequence[Message]) -> int:
    """Return the tokens of the next prompt: the counts of the last answer, and an estimate of what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.meta.input_tokens > 0:
            return message.meta.input_tokens + message.meta.output_tokens + estimate_messages(messages[index + 1 :])
    return estimate_messages(messages)


def measure_context(
    model: ChatModel,
    *,
    system_prompt: str,
    tool_tokens: int,
    injection: str | None,
    messages: Sequence[Message],
    counts_hold: bool,
) -> ContextMeasured:
    """Return the event ``context``. ``counts_hold``: the last answer's counts describe these messages (no compaction since)."""
    persona = count_tokens_cached(system_prompt)
    memory = 0 if injection is None else count_tokens(injection)
    if counts_hold and find_last_answer(messages) is not None:
        history = max(estimate_prompt(messages) - persona - tool_tokens, 0)
    else:
        history = estimate_messages(messages)
    answer = min(model.max_output_tokens, model.context_length)
    used = persona + tool_tokens + memory + history + answer
    return ContextMeasured(
        context_length=model.context_length,
        persona=persona,
        tools=tool_tokens,
        memory=memory,
        history=history,
        answer=answer,
        free=max(model.context_length - used, 0),
    )


def _estimate_part(part: object) -> int:
    match part:
        case TextPart(text):
            return count_tokens(text)
        case ReasoningPart(content):
            return count_tokens(content)
        case ToolCallPart(tool=tool, args=args):
            return count_tokens(tool) + count_tokens(bytes(args).decode())
        case ToolResultPart(parts=parts):
            return estimate_parts(parts)
        case AttachmentPart():
            return IMAGE_TOKENS
        case _:
            raise TypeError(f"{type(part).__name__} is no part of a message")
