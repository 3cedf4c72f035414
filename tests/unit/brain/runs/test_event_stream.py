from __future__ import annotations

import time
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.runs.event_stream import RunEventReader
from shared_protocol.codec import encode_run_event
from shared_protocol.run import DoneEvent, ReasoningDelta, RetryEvent, RunEvent, TextDelta

texts = st.text(min_size=1, max_size=20)
events = st.lists(
    st.builds(TextDelta, texts) | st.builds(ReasoningDelta, texts) | st.builds(RetryEvent, st.just(1), st.just(5), texts),
    max_size=12,
)


def feed_all(pieces: list[bytes]) -> list[RunEvent]:
    reader = RunEventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@given(events, st.lists(st.integers(0, 400), max_size=10), st.booleans())
def test_any_cut_gives_the_same_events(sent: list[RunEvent], cuts: list[int], crlf: bool) -> None:
    data = b": connected\n\n" + b": ping\n\n".join(encode_run_event(event) for event in [*sent, DoneEvent()])
    if crlf:
        data = data.replace(b"\n", b"\r\n")
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[begin:end] for begin, end in pairwise(borders)]
    assert feed_all(pieces) == [*sent, DoneEvent()]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_long_event_in_small_reads_takes_linear_time(line_end: bytes) -> None:
    data = encode_run_event(TextDelta("x" * 6_000_000)).replace(b"\n", line_end)
    started = time.process_time()
    assert feed_all([data[place : place + 500] for place in range(0, len(data), 500)]) == [TextDelta("x" * 6_000_000)]
    assert time.process_time() - started < 2


def test_unknown_events_and_fields_are_skipped() -> None:
    data = b'event: novelty\ndata: {"x":1}\n\nid: 7\nevent: text_delta\ndata: {"text":"a"}\n\nevent: text_delta\ndata: {"text":"b"}\nid: 8\n\n'
    assert feed_all([data]) == [TextDelta("a"), TextDelta("b")]


def test_data_over_several_lines_is_joined() -> None:
    assert feed_all([b'event: text_delta\ndata: {"text":\ndata: "a"}\n\n']) == [TextDelta("a")]


def test_nonsense_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        feed_all([b"event: text_delta\ndata: {}\n\n"])
