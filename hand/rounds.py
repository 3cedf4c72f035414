"""One attempt at one LLM call: from the request to an accepted round or a classified failure (sections 8.2, 10, 13)."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Literal

import msgspec

from hand.assembly import Call, FinishedCall, assemble_message, finish_calls
from hand.classify import FinishClass, class_of_reason, judge_in_band_failure
from hand.deltas import RoundCollector
from hand.errors import RunError, TransientError
from hand.events import EventStream
from hand.failures import InBandFailure
from hand.frames import FrameDecoder
from hand.gateway import Gateway, GatewayStream
from hand.textio import without_secrets
from hand.usage import TokenUsage
from hand.validation import RunOrder
from shared_protocol.messages import AssistantMessage

_GZIP_MEMBER = b"\x1f"
IDLE_MESSAGE = "stream idle timeout, retrying"
COMPLETE_WAIT_SECONDS = 5.0
"""How long a complete round may keep its connection open after the last data event."""


class Round(msgspec.Struct, frozen=True):
    """What an accepted attempt brought; ``is_cut`` for a ``length`` stop, whose message is partial or missing."""

    message: AssistantMessage | None
    calls: list[FinishedCall]
    usage: TokenUsage
    is_cut: bool = False


class StreamReader:
    """Takes the bytes of one answer; everything happens inside the call that brings them."""

    def __init__(self, out: EventStream, idle_seconds: float) -> None:
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = idle_seconds
        self.collector = RoundCollector(out.add_delta)
        self._decoder = FrameDecoder(self.collector)
        self._inflate: _Inflater | None = None
        self._progress_at = self._loop.time()
        self._documents = 0
        self._timer: asyncio.TimerHandle | None = None
        self._settled = False
        self._paused = False
        self._problem: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self, stream: GatewayStream) -> None:
        """Read the answer to its end.

        Raises:
            RunError: it reports a failure for good.
            TransientError: it fails in a way worth another attempt.
        """
        try:
            self._inflate = _inflater_for(stream.content_encoding)
            self._arm()
            stream.connection.attach(self)
            while not self._settled:
                self._waiter = self._loop.create_future()
                await self._waiter
                if self._paused and not self._settled:
                    await self._let_the_brain_catch_up(stream)
        finally:
            self._settled = True
            if self._timer is not None:
                self._timer.cancel()
            stream.connection.release(at_end_marker=self._decoder.done)
        if self._problem is not None:
            raise self._problem

    def feed(self, data: bytes) -> None:
        """Take body bytes (``hand.sockets.Sink``)."""
        if self._settled:
            return
        try:
            if self._inflate is not None:
                data = self._inflate.feed(data)
            self._decoder.feed(data)
            self.collector.flush()
        except Exception as problem:  # noqa: BLE001  # handed to the waiting attempt, which judges it
            self._fail(_judgeable(problem))
            return
        self._out.flush()
        if self._decoder.documents != self._documents:
            self._documents = self._decoder.documents
            self._progress_at = self._loop.time()
            if self.collector.is_complete:
                self._arm()
        if self._decoder.done:
            self._end()
        elif self._out.is_congested:
            self._paused = True
            self._wake()

    def end(self, problem: Exception | None) -> None:
        """The body is over (``hand.sockets.Sink``)."""
        if self._settled:
            return
        if problem is not None:
            self._fail(TransientError("connection", f"the stream of the gateway broke off: {problem}"))
            return
        try:
            self._decoder.finish()
        except Exception as failure:  # noqa: BLE001  # handed to the waiting attempt, which judges it
            self._fail(_judgeable(failure))
            return
        self._end()

    async def _let_the_brain_catch_up(self, stream: GatewayStream) -> None:
        stream.connection.pause_reading()
        await self._out.drained()
        # The gateway was kept waiting by us; that silence is not its own.
        self._paused, self._progress_at = False, self._loop.time()
        stream.connection.resume_reading()

    def _end(self) -> None:
        self.collector.finish()
        self._out.flush()
        self._settle()

    def _fail(self, problem: Exception) -> None:
        if isinstance(problem, TransientError) and self.collector.is_complete:
            self._end()
            return
        # What came before the failure is shown; what a filter still holds back is void with the attempt.
        self.collector.flush()
        self._out.flush()
        self._problem = problem
        self._settle()

    def _settle(self) -> None:
        self._settled = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _limit(self) -> float:
        """Seconds of silence that end the wait; 0 for none."""
        if not self.collector.is_complete:
            return self._idle_seconds
        return min(COMPLETE_WAIT_SECONDS, self._idle_seconds or COMPLETE_WAIT_SECONDS)

    def _arm(self) -> None:
        """Set the one timer of this stream; it is not touched per event, but looks back when it fires."""
        limit = self._limit()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if limit and not self._settled:
            self._timer = self._loop.call_at(self._progress_at + limit, self._check_idle)

    def _check_idle(self) -> None:
        if self._paused:
            self._progress_at = self._loop.time()
        if self._loop.time() < self._progress_at + self._limit() - 0.001:
            self._arm()
            return
        self._fail(TransientError("idle", IDLE_MESSAGE))


def _judgeable(problem: Exception) -> Exception:
    """Return the failure of an attempt for what only a hostile stream provokes, anything else as it is."""
    if isinstance(problem, RecursionError):
        return TransientError("corrupt", "the gateway's stream holds a chunk that is nested too deeply")
    if isinstance(problem, zlib.error):
        return TransientError("corrupt", "the gateway's answer cannot be decompressed")
    return problem


class _Inflater:
    """Undoes a content encoding piece by piece."""

    def __init__(self, window_bits: int, *, may_be_raw: bool = False) -> None:
        self._window_bits = window_bits
        self._object = zlib.decompressobj(window_bits)
        self._may_be_raw = may_be_raw

    def feed(self, data: bytes) -> bytes:
        if self._may_be_raw and data:
            self._may_be_raw = False
            if data[0] & 0x0F != 8:
                # "deflate" should mean a zlib wrapper; some servers leave it out.
                self._object = zlib.decompressobj(-zlib.MAX_WBITS)
        payload = self._object.decompress(data)
        while self._object.eof and self._object.unused_data.startswith(_GZIP_MEMBER):
            # Relays that compress every event for itself send one member behind the other.
            data = self._object.unused_data
            self._object = zlib.decompressobj(self._window_bits)
            payload += self._object.decompress(data)
        return payload


def _inflater_for(encoding: str) -> _Inflater | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Inflater(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Inflater(zlib.MAX_WBITS, may_be_raw=True)
        case other:
            raise TransientError("corrupt", f"the gateway's answer has the content encoding {other!r}, which was not asked for")


async def run_attempt(
    gateway: Gateway, order: RunOrder, build: Callable[[], bytes], out: EventStream, used_ids: set[str]
) -> Round:
    """Make one LLM call; ``build`` makes the request body, which lives only until the head of the answer has come.

    Raises:
        RunError: the run ends.
        TransientError: the call may be repeated.
    """
    idle_seconds = order.stream_idle_timeout_ms / 1000
    # Loading the SDK, right after the start, is no silence of the gateway.
    await gateway.ready()
    try:
        async with asyncio.timeout(idle_seconds or None):
            stream = await gateway.open_chat(order.model.base_url, order.model.api_key, build())
    except TimeoutError as problem:
        raise TransientError("idle", IDLE_MESSAGE) from problem
    reader = StreamReader(out, idle_seconds)
    try:
        await reader.read(stream)
    except InBandFailure as failure:
        failure.message = without_secrets(failure.message, order.model.api_key)
        raise judge_in_band_failure(failure) from failure
    return judge_round(reader.collector, order, used_ids)


def judge_round(collected: RoundCollector, order: RunOrder, used_ids: set[str]) -> Round:
    """Decide what a stream amounts to that ended in peace (13.1).

    Raises:
        RunError: the run ends.
        TransientError: the call may be repeated.
    """
    reason = collected.finish_reason
    if reason is None:
        raise TransientError("truncated", "the gateway's stream ended without a finish reason")
    calls = [call for call in collected.calls.calls if call.name or call.arguments.strip()]
    kind = class_of_reason(reason)
    message = f"Provider finish_reason: {reason}"
    if kind is FinishClass.FILTER:
        raise RunError("content_filter", message)
    if kind is FinishClass.CONTEXT:
        raise RunError("context_exhausted", message)
    if kind is FinishClass.BROKEN:
        raise TransientError("finish_reason", message)
    is_cut = kind is FinishClass.LENGTH or (kind is not FinishClass.UNKNOWN and _was_cut(calls, collected.usage, order))
    if is_cut:
        return _cut_round(collected, calls, order, used_ids)
    if kind is FinishClass.UNKNOWN and not calls and not collected.text_of("text").strip():
        raise TransientError("finish_reason", message)
    if any(not call.name for call in calls):
        raise TransientError("malformed_call", "the gateway sent a tool call with arguments but without a name")
    if not calls and not collected.text_of("text").strip():
        raise RunError("empty_response", "the model ended its answer with neither text nor a tool call")
    if not collected.usage.is_reported:
        raise RunError(
            "internal",
            "the gateway reported no token usage: it must honour stream_options.include_usage (the answer has been streamed)",
        )
    finished = finish_calls(calls, used_ids, only_complete=False)
    return _round_of(collected, finished, order, "tool_calls" if finished else "stop")


def _was_cut(calls: list[Call], usage: TokenUsage, order: RunOrder) -> bool:
    """Whether the budget ended inside the arguments of the last call, which vLLM reports as an ordinary end."""
    return bool(calls) and not calls[-1].has_complete_arguments and usage.output >= order.max_tokens


def _cut_round(collected: RoundCollector, calls: list[Call], order: RunOrder, used_ids: set[str]) -> Round:
    finished = finish_calls(calls, used_ids, only_complete=True)
    partial = _round_of(collected, finished, order, "length")
    has_parts = partial.message is not None and bool(partial.message.parts)
    keeps = collected.usage.is_reported and has_parts
    return Round(partial.message if keeps else None, finished, collected.usage, is_cut=True)


def _round_of(
    collected: RoundCollector, calls: list[FinishedCall], order: RunOrder, finish_reason: Literal["stop", "tool_calls", "length"]
) -> Round:
    texts = {"text": collected.text_of("text"), "reasoning": collected.text_of("reasoning")}
    message = assemble_message(collected.order, texts, calls, collected.usage, order.model.model_id, finish_reason)
    return Round(message, calls, collected.usage)
