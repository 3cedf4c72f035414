from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.turns.run_log import RunLog, Subscription, number_of_event
from shared_protocol.sse import EventReader, ServerSentEvent


def read(data: bytes) -> list[ServerSentEvent]:
    return list(EventReader().feed(data))


def delta(log: RunLog, text: str, kind: str = "text") -> None:
    log.publish_delta(kind, msgspec.json.encode(text)[1:-1])  # type: ignore[arg-type]


def text_of(events: list[ServerSentEvent], kind: str = "text") -> str:
    return "".join(msgspec.json.decode(event.data)["delta"] for event in events if event.name == kind)


steps = st.lists(st.tuples(st.sampled_from(["text", "reasoning", "usage"]), st.text(max_size=10)), max_size=30)


@given(steps, st.integers(0, 40), st.booleans())
def test_a_reader_that_starts_anywhere_gets_the_rest(script: list[tuple[str, str]], after: int, with_ids: bool) -> None:
    log = RunLog("t")
    for kind, text in script:
        if kind == "usage":
            log.publish("usage", msgspec.json.encode(text))
        else:
            delta(log, text, kind)
    events = read(log.read_after(after, with_ids=with_ids))
    rest = script[after:]
    for kind in ("text", "reasoning"):
        assert text_of(events, kind) == "".join(text for name, text in rest if name == kind)
    assert [msgspec.json.decode(event.data) for event in events if event.name == "usage"] == [
        t for name, t in rest if name == "usage"
    ]
    if rest and with_ids:
        assert events[-1].id == f"t-{len(script)}"
        assert all(event.id for event in events)
    if not with_ids:
        assert not any(event.id for event in events)
    assert log.text_since(after, "text") == "".join(text for name, text in rest if name == "text")


@given(steps, st.lists(st.integers(1, 5), max_size=20))
def test_reading_in_steps_is_reading_at_once(script: list[tuple[str, str]], strides: list[int]) -> None:
    log = RunLog("t")
    seen = b""
    number = 0
    stride = iter(strides)
    countdown = next(stride, 1)
    for kind, text in script:
        delta(log, text, "text" if kind == "usage" else kind)
        countdown -= 1
        if countdown <= 0:
            seen += log.read_after(number, with_ids=True)
            number = log.last_number
            countdown = next(stride, 1)
    seen += log.read_after(number, with_ids=True)
    whole = read(log.read_after(0, with_ids=True))
    for kind in ("text", "reasoning"):
        assert text_of(read(seen), kind) == text_of(whole, kind)


async def test_subscribers_wait_follow_and_end() -> None:
    log = RunLog("t")
    readers = [asyncio.create_task(collect(log, after)) for after in (0, 0, 2)]
    for piece in ("a", "b", "c"):
        delta(log, piece)
        await asyncio.sleep(0)
    log.close("done", b"{}")
    first, second, third = await asyncio.gather(*readers)
    assert text_of(first) == text_of(second) == "abc"
    assert text_of(third) == "c"
    assert {events[-1].name for events in (first, second, third)} == {"done"}


async def collect(log: RunLog, after: int) -> list[ServerSentEvent]:
    subscription = Subscription(log, after=after)
    return read(b"".join([block async for block in subscription]))


def test_nothing_follows_the_terminal_event() -> None:
    log = RunLog("t")
    log.close("done", b"{}")
    for attempt in (lambda: log.close("error", b"{}"), lambda: log.publish("usage", b"{}"), lambda: delta(log, "x")):
        with pytest.raises(RuntimeError):
            attempt()
    assert [event.name for event in read(log.read_after(0, with_ids=False))] == ["done"]


async def test_a_late_reader_of_a_closed_log_gets_everything_once() -> None:
    log = RunLog("t")
    delta(log, "x")
    log.close("done", b"{}")
    assert [event.name for event in await collect(log, 0)] == ["text", "done"]
    assert await collect(log, 2) == []


@pytest.mark.parametrize(
    ("event_id", "number"),
    [
        ("t-2", 2),
        ("t-3", 3),
        ("t-4", 0),
        ("t-999999999999999999999", 0),
        ("t-" + "9" * 5000, 0),
        ("t--1", 0),
        ("other-2", 0),
        ("t-", 0),
        ("t-x", 0),
        ("t-²", 0),
        (None, 0),
        ("", 0),
        ("2", 0),
    ],
)
def test_event_ids_that_no_event_of_the_turn_has_mean_the_start(event_id: str | None, number: int) -> None:
    log = RunLog("t")
    for piece in ("a", "b", "c"):
        delta(log, piece)
    assert number_of_event(log, event_id) == number


def test_a_long_answer_costs_its_text_and_little_more() -> None:
    log = RunLog("t")
    for _ in range(10_000):
        delta(log, "token ")
    (segment,) = log._segments
    assert len(segment.content) == 60_000  # type: ignore[union-attr]
    assert log.read_after(0, with_ids=False).count(b"event: text") == 1
