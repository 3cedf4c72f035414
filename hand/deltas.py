"""JSON documents of a stream to the channels of one round: thought, answer, tool calls, usage, finish reason (section 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from hand.assembly import Call, CallAssembler, Fragment
from hand.failures import failure_of_error_field, find_failure
from hand.jsonvalues import as_list, as_object, as_text
from hand.quirks import NO_FINISH_REASONS, REASONING_FIELDS
from hand.thoughts import Channel, CharacterFilter, ThoughtFilter
from hand.usage import TokenUsage, find_usage


class _UsualDelta(msgspec.Struct, frozen=True, gc=False):
    """A delta that carries nothing but text; any other key with a value does not fit and takes the general way."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: None = None
    reasoning_text: None = None
    thinking: None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _UsualChoice(msgspec.Struct, frozen=True, gc=False):
    delta: _UsualDelta
    index: int = 0
    finish_reason: None = None
    error: None = None
    usage: None = None


class _UsualChunk(msgspec.Struct, frozen=True, gc=False):
    choices: tuple[_UsualChoice]
    usage: None = None
    error: None = None
    x_groq: None = None
    object: Literal["chat.completion.chunk"] | None = None


_usual_decoder = msgspec.json.Decoder(list[_UsualChunk])

DeltaListener = Callable[[Channel, str], None]


class RoundCollector:
    """Everything one LLM call has said so far; text goes to the listener as soon as its channel is certain."""

    def __init__(self, listener: DeltaListener) -> None:
        self._listener = listener
        self._characters: dict[Channel, CharacterFilter] = {"text": CharacterFilter(), "reasoning": CharacterFilter()}
        self._thoughts = ThoughtFilter()
        self._followed: int | None = None
        self._waiting: list[str] = []
        self._waiting_channel: Channel = "text"
        self._texts: dict[Channel, list[str]] = {"text": [], "reasoning": []}
        self.order: list[Channel | Call] = []
        """Channels and calls by first appearance."""
        self.calls = CallAssembler()
        self.usage = TokenUsage()
        self.finish_reason: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether finish reason and usage have both been seen."""
        return self.finish_reason is not None and self.usage.is_reported

    def text_of(self, channel: Channel) -> str:
        """Return everything a channel has brought."""
        return "".join(self._texts[channel])

    def take_usual(self, chunks: bytes, count: int) -> bool:
        """Take plain text chunks, a JSON array of ``count`` of them, in one step.

        ``False`` if any of them is something else; nothing has been taken then, and the general way reads them one by one.
        """
        try:
            found = _usual_decoder.decode(chunks)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if len(found) != count:
            return False
        for chunk in found:
            choice = chunk.choices[0]
            if choice.index != self._followed:
                if self._followed is not None:
                    continue
                self._followed = choice.index
            delta = choice.delta
            if delta.reasoning_content:
                self._collect("reasoning", delta.reasoning_content)
            if delta.content:
                self._collect("text", delta.content)
        return True

    def _collect(self, channel: Channel, text: str) -> None:
        """Put a piece beside its neighbours of the same channel, so that the filters run once per read."""
        if channel != self._waiting_channel:
            self.flush()
            self._waiting_channel = channel
        self._waiting.append(text)

    def flush(self) -> None:
        """Let go of the pieces that wait for their neighbours; call at the end of each read."""
        if not self._waiting:
            return
        text = self._waiting[0] if len(self._waiting) == 1 else "".join(self._waiting)
        self._waiting.clear()
        if self._waiting_channel == "text":
            self._add_content(text)
        else:
            self._add_reasoning(text)

    def take_document(self, document: object, event: str) -> None:
        """Take any JSON document.

        Raises:
            InBandFailure: it reports a failure.
        """
        self.flush()
        chunk = as_object(document)
        if chunk is None:
            return
        failure = find_failure(chunk, event)
        if failure is not None:
            raise failure
        choice = self._followed_choice(chunk)
        usage = find_usage(chunk, choice)
        if usage is not None:
            self.usage = usage
        if choice is not None:
            self._take_choice(choice)

    def take_error_field(self, document: object) -> None:
        """Take an SSE field called ``error``, as llama.cpp once wrote it.

        Raises:
            InBandFailure: always, unless the field is empty.
        """
        failure = failure_of_error_field(document)
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """Let go of what the filters still hold; call once, at the end of the body."""
        self.flush()
        channel, held = self._thoughts.finish()
        self._emit(channel, held)

    def _followed_choice(self, chunk: Mapping[str, object]) -> Mapping[str, object] | None:
        for entry in as_list(chunk.get("choices")):
            choice = as_object(entry)
            if choice is None:
                continue
            index = choice.get("index")
            number = index if isinstance(index, int) else 0
            if self._followed is None:
                self._followed = number
            if number == self._followed:
                return choice
        return None

    def _take_choice(self, choice: Mapping[str, object]) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason.strip().lower() not in NO_FINISH_REASONS:
            self.finish_reason = reason.strip()
        delta = as_object(choice.get("delta"))
        if delta is not None:
            self._take_delta(delta)
            return
        message = as_object(choice.get("message"))
        if message is not None:
            if not self.order:
                self._take_delta(message)
        elif "delta" not in choice and isinstance(text := choice.get("text"), str):
            self._add_content(text)

    def _take_delta(self, delta: Mapping[str, object]) -> None:
        for piece in _reasoning_of(delta):
            self._add_reasoning(piece)
        for channel, piece in _content_of(delta.get("content")):
            if channel == "text":
                self._add_content(piece)
            else:
                self._add_reasoning(piece)
        refusal = as_text(delta.get("refusal"))
        if refusal:
            self._settle_thoughts()
            self._emit("text", self._characters["text"].clean(refusal))
        self._take_calls(delta)

    def _take_calls(self, delta: Mapping[str, object]) -> None:
        fragments = [Fragment.read(entry) for entry in map(as_object, as_list(delta.get("tool_calls"))) if entry is not None]
        legacy = as_object(delta.get("function_call"))
        if legacy is not None:
            fragments.append(Fragment.read_legacy(legacy))
        if fragments:
            known = len(self.calls.calls)
            self.calls.take(fragments)
            self.order.extend(self.calls.calls[known:])

    def _add_reasoning(self, text: str) -> None:
        self._emit("reasoning", self._characters["reasoning"].clean(text))

    def _add_content(self, text: str) -> None:
        text = self._characters["text"].clean(text)
        if self._thoughts.is_settled:
            self._emit("text", text)
            return
        for channel, piece in self._thoughts.feed(text):
            self._emit(channel, piece)

    def _settle_thoughts(self) -> None:
        if not self._thoughts.is_settled:
            channel, held = self._thoughts.finish()
            self._emit(channel, held)

    def _emit(self, channel: Channel, text: str) -> None:
        if not text:
            return
        pieces = self._texts[channel]
        if not pieces:
            self.order.append(channel)
        pieces.append(text)
        self._listener(channel, text)


def _reasoning_of(delta: Mapping[str, object]) -> Iterator[str]:
    for field in REASONING_FIELDS:
        value = delta.get(field)
        nested = as_object(value)
        text = as_text(value) if nested is None else as_text(nested.get("text")) or as_text(nested.get("content"))
        if text:
            yield text
            return
    for entry in map(as_object, as_list(delta.get("reasoning_details"))):
        if entry is None:
            continue
        if entry.get("type") == "reasoning.text":
            yield as_text(entry.get("text"))
        elif entry.get("type") == "reasoning.summary":
            yield as_text(entry.get("summary"))


def _content_of(content: object) -> Iterator[tuple[Channel, str]]:
    if isinstance(content, str):
        yield "text", content
        return
    single = as_object(content)
    for part in as_list(content) if single is None else [single]:
        if isinstance(part, str):
            yield "text", part
            continue
        entry = as_object(part)
        if entry is None:
            continue
        kind = entry.get("type")
        if kind in ("thinking", "reasoning"):
            yield "reasoning", _nested_text(entry)
        elif kind in (None, "text", "output_text"):
            yield "text", as_text(entry.get("text"))


def _nested_text(part: Mapping[str, object]) -> str:
    value = part.get("thinking") or part.get("text")
    if isinstance(value, str):
        return value
    pieces = map(as_object, as_list(value))
    return "".join(as_text(piece.get("text")) for piece in pieces if piece is not None)
