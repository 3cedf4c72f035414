"""The round loop of one run (section 5): attempts, tool rounds, the one terminal event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec
from msgspec import Raw

from hand.assembly import FinishedCall
from hand.callbacks import Callbacks, ToolResult
from hand.errors import HandError, RunError, TransientError
from hand.events import EventStream
from hand.gateway import Gateway
from hand.logs import Log
from hand.metrics import Metrics
from hand.outbound import Conversation, build_body
from hand.retry import with_retries
from hand.rounds import Round, run_attempt
from hand.textio import without_secrets
from hand.validation import RunOrder
from shared_protocol.codec import encode_json
from shared_protocol.run import AssistantMessageEvent, DoneEvent, ErrorEvent, RetryEvent, ToolCallEvent
from shared_protocol.sse import encode_event

SHUTDOWN_MESSAGE = "the hand is shutting down"


class RunServices(msgspec.Struct, frozen=True):
    """What every run needs from the process."""

    gateway: Gateway
    session: aiohttp.ClientSession
    token: str
    log: Log
    metrics: Metrics


class Run:
    """One run, from valid request to terminal event."""

    def __init__(self, services: RunServices, order: RunOrder, out: EventStream) -> None:
        self._services = services
        self._order = order
        self._out = out
        self._callbacks: Callbacks | None = None
        if order.tools is not None:
            self._callbacks = Callbacks(services.session, services.token, order.tools, order.run_id)
        self._conversation = Conversation(order.model, order.system_prompt)
        self._rounds = 0
        self._outcome = "aborted"
        self._input_tokens = 0
        self._output_tokens = 0
        self._task: asyncio.Task[object] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the run with an error event, because the process ends."""
        if self._task is not None and not self._is_stopped:
            self._is_stopped = True
            _ = self._task.cancel()

    async def execute(self) -> None:
        """Run to the terminal event; cancelled when the brain goes away."""
        self._task = asyncio.current_task()
        model_id = self._order.model.model_id
        self._services.log.run_started(self._order.run_id, model_id)
        self._services.metrics.run_opened()
        try:
            await self._execute_guarded()
        finally:
            self._out.stop_heartbeat()
            first = self._out.first_delta_at
            self._services.metrics.run_closed(
                self._outcome,
                self._input_tokens,
                self._output_tokens,
                None if first is None else first - self._out.opened_at,
            )
            self._services.log.run_ended(
                self._order.run_id, model_id, self._rounds, self._outcome, self._input_tokens, self._output_tokens
            )

    async def _execute_guarded(self) -> None:
        try:
            await self._loop()
        except asyncio.CancelledError:
            if not self._is_stopped or self._task is None:
                raise
            _ = self._task.uncancel()
            self._end(RunError("internal", SHUTDOWN_MESSAGE))
        except HandError as problem:
            self._end(problem)
        except Exception as problem:  # noqa: BLE001  # the edge of a run: the brain gets its terminal event
            self._services.log.unexpected(self._order.run_id, problem)
            self._end(RunError("internal", f"unexpected {type(problem).__name__} in the hand"))

    def _end(self, problem: HandError) -> None:
        self._outcome = f"error:{problem.type}"
        self._out.send(ErrorEvent(problem.type, self._without_secrets(problem.message)))

    async def _loop(self) -> None:
        self._conversation.add_all(self._order.messages)
        self._order.messages.clear()
        while True:
            self._rounds += 1
            current = await with_retries(self._attempt, self._order.max_retries, self._announce_retry)
            self._input_tokens += current.usage.input
            self._output_tokens += current.usage.output
            if current.is_cut:
                self._end_cut_round(current)
                return
            assert current.message is not None
            encoded = encode_json(current.message)
            self._conversation.add_encoded(encoded)
            self._out.send(AssistantMessageEvent(current.message))
            if not current.calls:
                self._outcome = "done"
                self._out.send(DoneEvent())
                return
            await self._run_tools(current.calls)

    async def _attempt(self) -> Round:
        tools = None if self._callbacks is None else await self._callbacks.list_tools()
        messages = self._conversation.closed()
        return await run_attempt(
            self._services.gateway,
            self._order,
            lambda: build_body(self._order, messages, tools),
            self._out,
            self._conversation.call_ids,
        )

    def _announce_retry(self, attempt: int, delay_ms: int, failure: TransientError) -> None:
        self._services.metrics.retried(failure.cause)
        self._out.send(RetryEvent(attempt, delay_ms, self._without_secrets(failure.message)))

    def _end_cut_round(self, current: Round) -> None:
        """End the run after a ``length`` stop (13.2)."""
        if current.message is not None:
            self._out.send(AssistantMessageEvent(current.message))
        order = self._order
        if current.usage.is_reported and current.usage.input > order.model.context_window - order.max_tokens:
            raise RunError("context_exhausted", "the answer was cut: the prompt leaves no room in the context window")
        raise RunError("output_budget_exhausted", f"the answer was cut at its budget of {order.max_tokens} tokens")

    async def _run_tools(self, calls: Sequence[FinishedCall]) -> None:
        cap = self._order.max_rounds
        if cap and self._rounds >= cap:
            raise RunError("round_limit", f"the round limit is used up: maxRounds is {cap}, this was round {self._rounds}")
        if self._callbacks is None:
            raise RunError("internal", "the model called tools although the request has no toolCallbackUrl")
        for call in calls:
            self._out.send(ToolCallEvent(call.id, call.name, Raw(call.args)))
        results = await self._callbacks.execute(calls)
        # All events first: a part that cannot be converted is the next request's trouble.
        for call, result in zip(calls, results, strict=True):
            self._out.send_raw(_result_event(call, result))
        for call, result in zip(calls, results, strict=True):
            self._conversation.add_tool_result(call.id, result.parts)

    def _without_secrets(self, message: str) -> str:
        """Return a message without the keys that some gateways repeat in their refusals."""
        return without_secrets(message, self._order.model.api_key, self._services.token)


class _ResultEvent(msgspec.Struct, rename="camel"):
    id: str
    name: str
    parts: Raw
    is_error: bool


def _result_event(call: FinishedCall, result: ToolResult) -> bytes:
    event = _ResultEvent(call.id, call.name, Raw(result.parts), result.is_error)
    return encode_event("tool_result", encode_json(event))
