"""One run of the hand within a turn: its events become events for clients and messages of the conversation."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from brain.tools.provider import split_name
from brain.turns.events import Retry, ToolCalled, ToolFinished, UsageReported, publish, shown_content
from shared_protocol.instants import now_instant
from shared_protocol.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolResultMessage,
    ToolResultPart,
)
from shared_protocol.run import (
    AssistantMessageEvent,
    DoneEvent,
    ErrorEvent,
    ReasoningDelta,
    RetryEvent,
    RunEvent,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.observability.metrics import Metrics
    from brain.runs.client import HandClient
    from brain.turns.live import LiveTurn

_encode = msgspec.json.Encoder().encode


class Attempt:
    """Follows one run. What was streamed since the last finished message is kept, for a person who stops and wants it."""

    def __init__(
        self, turn: LiveTurn, messages: list[Message], rounds: int, metrics: Metrics, namespaces: Sequence[str] = ()
    ) -> None:
        self._turn = turn
        self._log = log = turn.log
        self._messages = messages
        self._metrics = metrics
        self._namespaces = frozenset(namespaces)
        self._partial_from = log.last_number
        self.rounds = rounds

    async def follow(self, client: HandClient, body: bytes, request_id: str) -> ErrorEvent | None:
        """Perform the run; return the error that ended it, if one did.

        Raises:
            HandRunError: the hand refused the request.
            HandUnavailableError: it could not be reached, or dropped the stream.
        """
        async with aclosing(client.run_batches(body, request_id=request_id)) as batches:
            async for batch in batches:
                error = self._take(batch)
                if error is not None:
                    return error
        return None

    def partial_parts(self) -> tuple[AssistantPart, ...]:
        """Return what was streamed of the message that is not finished."""
        reasoning = self._log.text_since(self._partial_from, "reasoning")
        text = self._log.text_since(self._partial_from, "text")
        parts: list[AssistantPart] = []
        if reasoning.strip():
            parts.append(ReasoningPart(reasoning))
        if text.strip():
            parts.append(TextPart(text))
        return tuple(parts)

    def drop_partial(self) -> None:
        """Forget what was streamed of the message that is not finished: clients have been told to."""
        self._partial_from = self._log.last_number

    def _take(self, batch: Sequence[RunEvent]) -> ErrorEvent | None:
        # All deltas of one kind that arrived together travel on as one event.
        pending: list[str] = []
        kind: type[RunEvent] | None = None
        for event in batch:
            if isinstance(event, TextDelta | ReasoningDelta):
                if type(event) is not kind:
                    self._flush(kind, pending)
                    kind = type(event)
                pending.append(event.text)
                continue
            self._flush(kind, pending)
            kind = None
            if isinstance(event, ErrorEvent):
                return event
            self._take_whole(event)
        self._flush(kind, pending)
        return None

    def _flush(self, kind: type[RunEvent] | None, pending: list[str]) -> None:
        if pending:
            if not self._turn.has_spoken:
                self._turn.has_spoken = True
                self._metrics.first_token.observe(time.monotonic() - self._turn.begun)
            text = pending[0] if len(pending) == 1 else "".join(pending)
            self._log.publish_delta("text" if kind is TextDelta else "reasoning", _encode(text)[1:-1])
            pending.clear()

    def _take_whole(self, event: RunEvent) -> None:
        match event:
            case AssistantMessageEvent(message):
                self._take_message(message)
            case ToolCallEvent(id=call_id, name=name, args=args):
                publish(self._log, ToolCalled(call_id, name, args))
                self._partial_from = self._log.last_number
            case ToolResultEvent(id=call_id, name=name, parts=parts, is_error=is_error):
                self._messages.append(ToolResultMessage((ToolResultPart(call_id, name, parts, is_error),)))
                publish(self._log, ToolFinished(call_id, name, shown_content(parts), is_error))
                self._partial_from = self._log.last_number
                self._count_call(name, is_error=is_error)
            case RetryEvent(message=message):
                publish(self._log, Retry(message))
                self.drop_partial()
            case DoneEvent() | TextDelta() | ReasoningDelta() | ErrorEvent():
                return

    def _count_call(self, name: str, *, is_error: bool) -> None:
        # Names are the model's: what it makes up must not make labels.
        split = split_name(name)
        namespace = split[0] if split is not None and split[0] in self._namespaces else "unknown"
        self._metrics.tool_calls.labels(namespace, "error" if is_error else "ok").inc()

    def _take_message(self, message: AssistantMessage) -> None:
        if message.created_at is None:
            message = msgspec.structs.replace(message, created_at=now_instant())
        self._messages.append(message)
        self.rounds += 1
        meta = message.meta
        cached = meta.cached_tokens or 0
        self._metrics.prompt_tokens.labels("cached").inc(cached)
        self._metrics.prompt_tokens.labels("new").inc(max(meta.input_tokens - cached, 0))
        self._metrics.answer_tokens.inc(meta.output_tokens)
        publish(
            self._log,
            UsageReported(
                input_tokens=meta.input_tokens,
                output_tokens=meta.output_tokens,
                cached_tokens=meta.cached_tokens,
                model_id=meta.model_id or self._turn.request.model.config.model_id,
                round=self.rounds,
            ),
        )
        self._partial_from = self._log.last_number
