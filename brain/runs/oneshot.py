"""Collected runs: one call of the hand whose outcome is wanted as a whole, with or without tools."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import structlog

from brain.errors import BrainError, HandRunError, HandUnavailableError, StageError
from shared_protocol.messages import AssistantMessage, Message, TextPart, ToolResultMessage, ToolResultPart
from shared_protocol.run import AssistantMessageEvent, ErrorEvent, ResponseFormat, RunRequest, ToolResultEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel
    from brain.config.models import HandConfig
    from brain.runs.client import HandClient
    from brain.runs.registry import RunRegistry
    from brain.runs.trace import RunTrace
    from brain.tools.provider import ToolProvider

logger = structlog.get_logger(__name__)


class CollectedRun(msgspec.Struct, frozen=True):
    """What a run produced, in order, and the error that ended it, if one did."""

    messages: tuple[Message, ...]
    error: ErrorEvent | None

    def answer(self) -> str | None:
        """Return the text of a clean end: last message from the assistant, ``finishReason`` exactly ``stop``, not blank."""
        last = self.messages[-1] if self.messages else None
        if self.error is not None or not isinstance(last, AssistantMessage) or last.finish_reason != "stop":
            return None
        text = "\n".join(part.text for part in last.parts if isinstance(part, TextPart)).strip()
        return text or None


class RunCollector:
    """Performs whole runs with the shared policy of ``hand``: retries, idle timeout, callback addresses."""

    def __init__(self, client: HandClient, registry: RunRegistry, config: HandConfig, trace: RunTrace) -> None:
        self._client = client
        self._registry = registry
        self._config = config
        self._trace = trace

    async def collect(
        self,
        *,
        stage: str,
        model: ChatModel,
        system_prompt: str,
        messages: Sequence[Message],
        tools: ToolProvider | None = None,
        max_rounds: int = 0,
        response_format: ResponseFormat | None = None,
        model_overrides: dict[str, msgspec.Raw] | None = None,
    ) -> CollectedRun:
        """Perform one run and return everything it produced; an ``error`` event is part of the result.

        ``model_overrides`` are merged into the request's root at the gateway, over those of the catalog.

        Raises:
            HandRunError: the hand refused the request.
            HandUnavailableError: the hand could not be reached, dropped the stream, or took longer than
                ``hand.runTimeoutMinutes``.
        """
        if tools is None:
            request = self._request(str(uuid4()), model, system_prompt, messages, max_rounds, response_format, model_overrides)
            return await self._perform(stage, request)
        with self._registry.register(tools, model) as run_id:
            request = self._request(run_id, model, system_prompt, messages, max_rounds, response_format, model_overrides)
            request = msgspec.structs.replace(
                request,
                tool_list_url=f"{self._config.self_base_url}/api/hand/tools",
                tool_callback_url=f"{self._config.self_base_url}/api/hand/tool",
            )
            return await self._perform(stage, request)

    async def text(
        self,
        *,
        stage: str,
        model: ChatModel,
        system_prompt: str,
        messages: Sequence[Message],
        response_format: ResponseFormat | None = None,
        model_overrides: dict[str, msgspec.Raw] | None = None,
    ) -> str:
        """Perform one run without tools and return its answer.

        Raises:
            StageError: the run did not end with ``stop`` and text; the cause is chained.
        """
        try:
            run = await self.collect(
                stage=stage,
                model=model,
                system_prompt=system_prompt,
                messages=messages,
                response_format=response_format,
                model_overrides=model_overrides,
            )
            if run.error is not None:
                raise HandRunError(run.error.type, run.error.message)
        except BrainError as problem:
            raise StageError(stage, "the model call failed") from problem
        answer = run.answer()
        if answer is None:
            raise StageError(stage, "the model did not end with a complete text answer")
        return answer

    def _request(
        self,
        run_id: str,
        model: ChatModel,
        system_prompt: str,
        messages: Sequence[Message],
        max_rounds: int,
        response_format: ResponseFormat | None,
        model_overrides: dict[str, msgspec.Raw] | None,
    ) -> RunRequest:
        run_model = model.run_model()
        if model_overrides:
            merged = {**(run_model.additional_properties or {}), **model_overrides}
            run_model = msgspec.structs.replace(run_model, additional_properties=merged)
        return RunRequest(
            model=run_model,
            messages=tuple(messages),
            system_prompt=system_prompt,
            max_tokens=model.max_output_tokens,
            run_id=run_id,
            max_rounds=max_rounds,
            max_retries=self._config.max_retries,
            stream_idle_timeout_ms=self._config.stream_idle_timeout_ms,
            response_format=response_format,
        )

    async def _perform(self, stage: str, request: RunRequest) -> CollectedRun:
        collected: list[Message] = []
        error: ErrorEvent | None = None
        failure: BaseException | None = None
        minutes = self._config.run_timeout_minutes
        limit = asyncio.timeout(minutes * 60 if minutes else None)
        try:
            async with limit:
                error = await self._follow(request, collected)
        except BaseException as problem:
            failure = problem
            if limit.expired() and isinstance(problem, TimeoutError):
                message = f"the run took longer than {minutes} minutes (hand.runTimeoutMinutes) and was ended"
                raise HandUnavailableError(message) from problem
            raise
        finally:
            self._trace.record(stage, request, collected, failure or error)
        return CollectedRun(tuple(collected), error)

    async def _follow(self, request: RunRequest, collected: list[Message]) -> ErrorEvent | None:
        error: ErrorEvent | None = None
        async with aclosing(self._client.run(request)) as events:
            async for event in events:
                match event:
                    case AssistantMessageEvent(message):
                        collected.append(message)
                    case ToolResultEvent(id=call_id, name=name, parts=parts, is_error=is_error):
                        collected.append(ToolResultMessage((ToolResultPart(call_id, name, parts, is_error),)))
                    case ErrorEvent():
                        error = event
                    case _:  # deltas, calls, retries and done carry nothing that the messages do not hold
                        continue
        return error
