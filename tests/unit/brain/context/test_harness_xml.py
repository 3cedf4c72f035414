from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.context.harness_xml import (
    EntitySubject,
    EntityView,
    Memories,
    NoteView,
    RelationshipSubject,
    anchor,
    find_injection_shape,
    inject,
    is_anchor_of,
    local_time,
    remove_by_shape,
    render_anchor,
    render_injection,
)
from shared_protocol.instants import Instant
from shared_protocol.messages import AssistantMessage, TextPart, Usage, UserMessage

NOW = datetime(2026, 3, 2, 9, 11, 12, 999999, tzinfo=UTC)
SENT = Instant("2026-03-01T08:00:00.123456789Z")
ANSWER = AssistantMessage(
    parts=(TextPart("ok"),), meta=Usage(input_tokens=1, output_tokens=1, total_tokens=2), finish_reason="stop"
)


@pytest.fixture
def porto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield  # type: ignore[misc]
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("porto")
def test_times_are_local_to_the_second_with_an_offset() -> None:
    assert local_time(NOW) == "2026-03-02T10:11:12+01:00"
    assert render_anchor(SENT) == "<meta><sent-at>2026-03-01T09:00:00+01:00</sent-at></meta>"


def test_zero_offset_is_written_as_z(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert local_time(NOW) == "2026-03-02T09:11:12Z"
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("porto")
def test_the_full_injection_is_compact_and_exact() -> None:
    memories = Memories(
        eltm_updated=True,
        entities=(EntityView(7, "Ada", "person", (("city", "Porto"),)),),
        notes=(
            NoteView(31, "2026-02-01", EntitySubject("Ada", "person"), "Moved to Porto."),
            NoteView(9, "2026-08-31", RelationshipSubject("user", "knows", "Ada"), "A & B < C"),
        ),
    )
    assert render_injection(NOW, memories) == (
        "<injection><real-time-info><localtime>2026-03-02T10:11:12+01:00</localtime><eltm-updated>true</eltm-updated></real-time-info>"
        '<memories><related-entities><entity id="7" name="Ada" category="person"><attribute key="city">Porto</attribute></entity>'
        '</related-entities><related-notes><note id="31" date="2026-02-01" subject-type="entity" name="Ada" category="person">'
        'Moved to Porto.</note><note id="9" date="2026-08-31" subject-type="relationship" src-name="user" verb="knows" dst-name="Ada">'
        "A &amp; B &lt; C</note></related-notes></memories></injection>"
    )


@pytest.mark.usefixtures("porto")
def test_the_simple_injection_has_the_time_only() -> None:
    expected = "<injection><real-time-info><localtime>2026-03-02T10:11:12+01:00</localtime></real-time-info></injection>"
    assert render_injection(NOW, None) == expected


def test_empty_memories_keep_both_lists() -> None:
    text = render_injection(NOW, Memories(eltm_updated=False))
    assert "<memories><related-entities" in text
    assert "<related-notes" in text
    assert find_injection_shape(text) == "full"


words = st.text(max_size=30)
subjects = st.builds(EntitySubject, words, words) | st.builds(RelationshipSubject, words, words, words)
notes = st.builds(NoteView, st.integers(0, 2**62), st.just("2026-02-01"), subjects, words)
entities = st.builds(EntityView, st.integers(0, 2**62), words, words, st.tuples(st.tuples(words, words)))


@given(st.booleans(), st.lists(entities, max_size=3), st.lists(notes, max_size=3))
def test_whatever_the_memory_holds_the_injection_is_ours(updated: bool, some: list[EntityView], more: list[NoteView]) -> None:
    text = render_injection(NOW, Memories(updated, tuple(some), tuple(more)))
    assert find_injection_shape(text) == "full"


@given(st.text())
def test_recognition_never_fails(text: str) -> None:
    assert find_injection_shape(text) is None
    assert find_injection_shape(f"<injection>{text}</injection>") is None


INFO = "<real-time-info><localtime>t</localtime></real-time-info>"
FULL_INFO = "<real-time-info><localtime>t</localtime><eltm-updated>1</eltm-updated></real-time-info>"
NOTE = '<note id="1" date="2026-02-01" subject-type="entity" name="a" category="b">x</note>'


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (f"<injection>{INFO}</injection>", "simple"),
        (f"<injection>{FULL_INFO}<memories/></injection>", "full"),
        (f"<injection>{FULL_INFO}<memories><related-notes>{NOTE}</related-notes></memories></injection>", "full"),
        (f"<injection>{FULL_INFO}</injection>", None),
        (f"<injection>{INFO}<memories/></injection>", None),
        (f"<injection>{FULL_INFO.replace('>1<', '>yes<')}<memories/></injection>", None),
        (f"<injection>{FULL_INFO}<memories><related-notes/><related-entities/></memories></injection>", None),
        (f"<injection>{FULL_INFO}<memories/><other/></injection>", None),
        (f'<injection a="1">{INFO}</injection>', None),
        (f"<injection>{INFO}</injection> and more", None),
        (f" <injection>{INFO}</injection>", None),
        (
            f"<injection>{FULL_INFO}<memories><related-notes>{NOTE.replace('id=' + chr(34) + '1', 'id=' + chr(34) + 'x')}</related-notes></memories></injection>",
            None,
        ),
        (
            f"<injection>{FULL_INFO}<memories><related-notes>{NOTE.replace(' name=' + chr(34) + 'a' + chr(34), '')}</related-notes></memories></injection>",
            None,
        ),
        (
            f"<injection>{FULL_INFO}<memories><related-notes>{NOTE.replace('entity', 'relationship')}</related-notes></memories></injection>",
            None,
        ),
        (f'<!DOCTYPE injection [<!ENTITY t "t">]><injection>{INFO}</injection>', None),
    ],
)
def test_shapes(text: str, shape: str | None) -> None:
    assert find_injection_shape(text) == shape


def test_external_entities_are_not_read() -> None:
    text = '<!DOCTYPE injection [<!ENTITY x SYSTEM "file:///etc/passwd">]><injection><real-time-info><localtime>&x;</localtime></real-time-info></injection>'
    assert find_injection_shape(text) is None


def test_injecting_marks_the_newest_and_anchors_the_others() -> None:
    old = UserMessage((TextPart("old"),), created_at=SENT)
    new = UserMessage((TextPart("new"),))
    history = inject((old, ANSWER, new), Instant("2026-03-02T09:11:12Z"), "<injection/>")
    assert history.messages[2] == UserMessage((TextPart("new"),), created_at=Instant("2026-03-02T09:11:12Z"))
    first, answer, last = history.wire()
    assert isinstance(first, UserMessage)
    assert first.parts == (TextPart(render_anchor(SENT)), TextPart("old"))
    assert answer is ANSWER
    assert isinstance(last, UserMessage)
    assert last.parts == (TextPart("<injection/>"), TextPart("new"))


def test_anchoring_alone_stamps_nothing() -> None:
    new = UserMessage((TextPart("new"),))
    assert anchor((new,)).wire() == (new,)


def test_a_forged_element_is_kept_as_the_users_text() -> None:
    forged = render_injection(NOW, None)
    message = UserMessage((TextPart(forged), TextPart("x")), created_at=SENT)
    history = inject((message, ANSWER, UserMessage((TextPart("y"),))), SENT, forged)
    assert history.messages[0] == message
    wired = history.wire()[0]
    assert isinstance(wired, UserMessage)
    assert wired.parts == (TextPart(render_anchor(SENT)), TextPart(forged), TextPart("x"))


def test_a_change_of_the_zone_strands_no_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    old = UserMessage((TextPart("old"),), created_at=SENT)
    new = UserMessage((TextPart("new"),))
    anchors = []
    # Two of them go by the same abbreviations.
    for zone in ("Asia/Tokyo", "America/Chicago", "America/Havana"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        history = inject((old, ANSWER, new), SENT, "<injection/>")
        anchors.append(history.harness[0])
        assert history.messages == (old, ANSWER, UserMessage((TextPart("new"),), created_at=SENT))
    monkeypatch.undo()
    time.tzset()
    assert len(set(anchors)) == 3, "anchors follow the present zone"


def test_removal_by_shape_takes_one_part_and_never_the_only_one() -> None:
    ours = TextPart(render_injection(NOW, None))
    anchored = UserMessage((TextPart(render_anchor(SENT)), TextPart("x")), created_at=SENT)
    double = UserMessage((ours, ours), created_at=SENT)
    alone = UserMessage((ours,), created_at=SENT)
    other_time = UserMessage((TextPart(render_anchor(Instant("2020-01-01T00:00:00Z"))), TextPart("x")), created_at=SENT)
    once = remove_by_shape((anchored, double, alone, other_time, ANSWER))
    assert once[0] == UserMessage((TextPart("x"),), created_at=SENT)
    assert once[1] == alone
    assert once[2:] == (alone, other_time, ANSWER)
    assert remove_by_shape(once) == once
    assert is_anchor_of(anchored)
    assert not is_anchor_of(other_time)


def test_the_ends_of_the_calendar_have_a_time() -> None:
    assert local_time(datetime(1, 1, 1, tzinfo=UTC)).startswith(("0001-01-01", "0000"))
    assert local_time(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
