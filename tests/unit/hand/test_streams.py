"""Section 10: the decoder as a whole. However a body is cut into reads, the outcome is the same; no bytes at all break it."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hand.assembly import finish_calls
from hand.deltas import RoundCollector
from hand.errors import TransientError
from hand.failures import InBandFailure
from hand.frames import FrameDecoder
from hand.rounds import _inflater_for

FIXTURES = Path(__file__).parents[2] / "fixtures"
CORPUS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FIXTURES.glob("*dialects/*.json"))}


def body_of(case: dict[str, Any]) -> bytes:
    pieces: list[bytes] = []
    for piece in case["body_chunks"]:
        if isinstance(piece, str):
            pieces.append(piece.encode())
        elif "b64" in piece:
            pieces.append(base64.b64decode(piece["b64"]))
        elif "repeat" in piece:
            pieces.append((piece["repeat"] * piece["times"]).encode())
        elif "drip" in piece:
            pieces.append(piece["drip"].encode())
    body = b"".join(pieces)
    headers = {name.lower(): value for name, value in case["http"].get("headers", {}).items()}
    inflater = _inflater_for(headers.get("content-encoding", ""))
    return body if inflater is None else inflater.feed(body)


def read(pieces: list[bytes]) -> dict[str, object]:
    """Feed a body in pieces and return everything that it amounts to."""
    deltas: list[tuple[str, str]] = []

    def listen(channel: str, text: str) -> None:
        assert text, "a delta is never empty"
        text.encode()
        if deltas and deltas[-1][0] == channel:
            deltas[-1] = (channel, deltas[-1][1] + text)
        else:
            deltas.append((channel, text))

    collector = RoundCollector(listen)
    decoder = FrameDecoder(collector)
    problem = ""
    try:
        for piece in pieces:
            decoder.feed(piece)
            collector.flush()
            if decoder.done:
                break
        else:
            decoder.finish()
    except (TransientError, InBandFailure) as failure:
        problem = f"{type(failure).__name__}: {failure.message}"
    collector.finish()
    calls = [(call.id, call.name, call.arguments) for call in collector.calls.calls]
    finish_calls(collector.calls.calls, (), only_complete=False)
    return {
        "deltas": deltas,
        "order": [place if isinstance(place, str) else "call" for place in collector.order],
        "calls": calls,
        "usage": collector.usage,
        "finish": collector.finish_reason,
        "documents": decoder.documents,
        "problem": problem,
    }


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(edges)]


BODIES = {name: body_of(case) for name, case in CORPUS.items() if case["http"]["status"] == 200}
SMALL = {name: body for name, body in BODIES.items() if len(body) < 20_000}


@pytest.mark.parametrize("name", SMALL)
def test_corpus_body_byte_by_byte_is_the_same_as_at_once(name: str) -> None:
    body = SMALL[name]
    whole = read([body])
    assert read([body[place : place + 1] for place in range(len(body))]) == whole
    for size in (2, 3, 7, 64):
        assert read([body[place : place + size] for place in range(0, len(body), size)]) == whole


@pytest.mark.parametrize("name", BODIES)
@given(places=st.lists(st.integers(0, 1 << 30), max_size=6))
@settings(max_examples=15, deadline=None)
def test_any_split_of_a_corpus_body_gives_the_same_events(name: str, places: list[int]) -> None:
    assert read(cut(BODIES[name], places)) == read([BODIES[name]])


CHUNKS = st.sampled_from(
    [
        b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"<think>"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"</think>"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"r"}}]}\r\n\r\n',
        b'data: {"choices":[{"index":1,"delta":{"content":"other"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":"2"}}\n\n',
        b'data:{"choices":[{"delta":{},"finish_reason":"stop"}]}\r\r',
        b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"t","arguments":"{"}}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}\n\n',
        b'{"choices":[{"text":"raw"}]}\n',
        b'{"choices":[\n{"text":"raw"}]}\n',
        b'data: {"choices":[{"delta":\ndata: {"content":"y"}}]}\n\n',
        b'data: {"a":1},{"b":2}\n\n',
        b'data: {"a":"1\n\ndata: 2"}\n\n',
        b": comment\n\n",
        b"event: ping\n\n",
        b"event: error\n",
        b"error: {}\n",
        b"data: ping\n\n",
        b"data: [DONE]\n\n",
        b"data: {\n\n",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n",
        b"\xff\xfe",
    ]
)


@given(st.lists(CHUNKS | st.binary(max_size=6), max_size=12).map(b"".join), st.lists(st.integers(0, 1 << 30), max_size=6))
@settings(max_examples=400, deadline=None)
@example(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: {"a":1},{"b":2}\n\n', [])
def test_any_split_of_any_mixture_gives_the_same_events(body: bytes, places: list[int]) -> None:
    assert read(cut(body, places)) == read([body]) == read([body[place : place + 1] for place in range(len(body))])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thinking",
        "refusal",
        "tool_calls",
        "function_call",
        "function",
        "name",
        "arguments",
        "id",
        "index",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "error",
        "code",
        "object",
        "x_groq",
        "text",
        "type",
        "status",
        "metadata",
        "raw",
    ]
)
SHAPES = st.recursive(JSON, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=2), max_leaves=20)


@given(st.lists(SHAPES, max_size=5))
@settings(max_examples=400, deadline=None)
def test_any_json_in_the_places_of_a_chunk_never_crashes(documents: list[object]) -> None:
    body = b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents)
    read([body])


@given(
    st.dictionaries(
        st.sampled_from(["content", "reasoning_content", "tool_calls", "refusal", "function_call", "reasoning"]), JSON
    )
)
@settings(max_examples=300, deadline=None)
def test_any_delta_never_crashes(delta: dict[str, object]) -> None:
    read([b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"])


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_at_all_never_crash(body: bytes) -> None:
    read([body])


def test_a_long_line_in_small_reads_takes_linear_time() -> None:
    import time

    line = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 4_000_000 + b'"}}]}\n\n'
    started = time.process_time()
    outcome = read([line[place : place + 100] for place in range(0, len(line), 100)])
    assert outcome["deltas"] == [("text", "x" * 4_000_000)]
    assert time.process_time() - started < 3


def test_work_per_token_does_not_grow_with_the_answer() -> None:
    import time

    def seconds(count: int) -> float:
        collector = RoundCollector(lambda _channel, _text: None)
        decoder = FrameDecoder(collector)
        event = b'data: {"choices":[{"index":0,"delta":{"content":"a word "}}]}\n\n'
        started = time.process_time()
        for _ in range(count):
            decoder.feed(event)
            collector.flush()
        return time.process_time() - started

    seconds(2000)
    assert seconds(80_000) < 20 * max(seconds(8_000), 0.02)


LINES: list[tuple[bytes, str]] = [
    (b"data: D\n\n", "hi"),
    (b"data:D\n\n", "hi"),
    (b"data:   D\n\n", "hi"),
    (b"\xef\xbb\xbfdata: D\n\n", "hi"),
    (b"data: D\r\n\r\n", "hi"),
    (b"data: D\r\r", "hi"),
    (b"data: D\n", "hi"),
    (b"data: D", "hi"),
    (b"id: 1\nevent: x\nretry: 5\nfoo: bar\ndata: D\n\n", "hi"),
    (b"data: [D]\n\n", "hi"),
    (b"data: [D, 3, null, D]\n\n", "hihi"),
    (b"data: D\ndata: D\n\n", "hihi"),
    (b"data: D\ndata: [DONE]\n\n", "hi"),
    (b"D\n", "hi"),
    (b"[D]\n", "hi"),
    (b"data: D\n\nD\ndata: D\n\n", "hihihi"),
    (b"data: [DONE] \n\ndata: D\n\n", ""),
    (b"data:  [DONE]trailing\n\ndata: D\n\n", ""),
    (b"data\ndata: D\n\n", "hi"),
    (b"event: D\n\n", ""),
    (b": D\n\n", ""),
]


@pytest.mark.parametrize(("template", "expected"), LINES)
def test_lines_and_events(template: bytes, expected: str) -> None:
    body = (
        template.replace(b"DONE", b"~")
        .replace(b"D", b'{"choices":[{"index":0,"delta":{"content":"hi"}}]}')
        .replace(b"~", b"DONE")
    )
    outcome = read([body])
    assert outcome["problem"] == ""
    assert outcome["deltas"] == ([("text", expected)] if expected else [])


@pytest.mark.parametrize("text", ["{", '{"a":', "[1", '{"a":1}}', '{"a":1},{"b":2}', "{'a': 1}"])
def test_a_corrupt_chunk_is_a_transient_failure(text: str) -> None:
    assert str(read([f"data: {text}\n\n".encode()])["problem"]).startswith("TransientError")


@pytest.mark.parametrize("text", ["ping", "heartbeat 3", "<html>", "OK", "-", "'x'"])
def test_other_words_are_somebodys_heartbeat(text: str) -> None:
    outcome = read([f"data: {text}\n\n".encode()])
    assert (outcome["problem"], outcome["documents"]) == ("", 0)
