"""Request of ``POST /v1/run`` and the events of its stream.

Order of events: deltas; then, after each accepted round, one ``assistant_message``; in a tool round all ``tool_call`` in call
order, then all ``tool_result`` in call order, then the next round. ``retry`` voids every delta since the last
``assistant_message`` or ``tool_result``. Exactly one ``done`` or ``error`` ends the stream. Receivers ignore events they do
not know.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from shared_protocol.errors import ErrorType
from shared_protocol.messages import AssistantMessage, ContentPart, Message, NonBlank

Positive: TypeAlias = Annotated[int, Meta(gt=0)]
NotNegative: TypeAlias = Annotated[int, Meta(ge=0)]
InputKind: TypeAlias = Literal["text", "image"]
MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]


class RunModel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which model at which gateway; the address is used as is and already contains ``/v1``."""

    base_url: NonBlank
    api_key: NonBlank
    model_id: NonBlank
    context_window: Positive
    max_output_tokens: Positive
    reasoning: bool
    reasoning_effort: NonBlank | None = None
    input: tuple[InputKind, ...]
    max_tokens_field: MaxTokensField | None = None
    additional_properties: dict[str, Raw] | None = None


class JsonSchemaFormat(msgspec.Struct, frozen=True, tag="json_schema", tag_field="type"):
    """The answer must be JSON that fits ``schema``; sent to the gateway with ``strict: true``."""

    name: NonBlank
    schema: Raw


class JsonObjectFormat(msgspec.Struct, frozen=True, tag="json_object", tag_field="type"):
    """The answer must be a JSON object."""


ResponseFormat: TypeAlias = JsonSchemaFormat | JsonObjectFormat


class RunRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One run: several rounds of LLM call and tool calls. 0 means: no limit for rounds and attempts, off for the timeout."""

    model: RunModel
    messages: tuple[Message, ...]
    system_prompt: NonBlank | None = None
    max_tokens: Positive
    run_id: NonBlank
    tool_list_url: str | None = None
    tool_callback_url: str | None = None
    max_rounds: NotNegative
    max_retries: NotNegative
    stream_idle_timeout_ms: NotNegative
    response_format: ResponseFormat | None = None


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of the thought channel, never empty."""

    text: str


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer, never empty."""

    text: str


class AssistantMessageEvent(msgspec.Struct, frozen=True):
    """The authoritative message of a finished round, or the partial one of a ``length`` stop."""

    message: AssistantMessage


class ToolCallEvent(msgspec.Struct, frozen=True):
    """A call that is about to be executed; ``args`` is an object."""

    id: str
    name: str
    args: Raw


class ToolResultEvent(msgspec.Struct, frozen=True, rename="camel"):
    """The brain's answer to a call, echoed; ``isError`` is always present."""

    id: str
    name: str
    parts: tuple[ContentPart, ...]
    is_error: bool


class RetryEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Attempt number ``attempt`` (from 1) failed and is redone after ``delayMs``."""

    attempt: int
    delay_ms: int
    message: str


class DoneEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Terminal: the run ended with an answer."""

    finish_reason: Literal["stop"] = "stop"


class ErrorEvent(msgspec.Struct, frozen=True):
    """Terminal: the run failed."""

    type: ErrorType
    message: str


RunEvent: TypeAlias = (
    ReasoningDelta | TextDelta | AssistantMessageEvent | ToolCallEvent | ToolResultEvent | RetryEvent | DoneEvent | ErrorEvent
)

EVENT_TYPES: dict[str, type[RunEvent]] = {
    "reasoning_delta": ReasoningDelta,
    "text_delta": TextDelta,
    "assistant_message": AssistantMessageEvent,
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
    "retry": RetryEvent,
    "done": DoneEvent,
    "error": ErrorEvent,
}
"""Event name on the wire to struct of its data."""

EVENT_NAMES: dict[type[RunEvent], str] = {struct: name for name, struct in EVENT_TYPES.items()}
