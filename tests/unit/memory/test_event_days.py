"""Days in statements."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.event_days import find_event_day, find_iso_days

SAID = date(2026, 2, 10)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The user moved on 2026-01-09.", date(2026, 1, 9)),
        ("I moved yesterday", date(2026, 2, 9)),
        ("the day before yesterday we left", date(2026, 2, 8)),
        ("we leave tomorrow", date(2026, 2, 11)),
        ("The work starts on April 7", date(2026, 4, 7)),
        ("on Dec. 24th we met", date(2025, 12, 24)),
        ("on 3 May 2027", date(2027, 5, 3)),
        ("on the 3rd of May", date(2026, 5, 3)),
        ("昨天上线了", date(2026, 2, 9)),
        ("4月15日上线", date(2026, 4, 15)),
        ("2027年4月15号", date(2027, 4, 15)),
        ("三月末で退職します", None),
        ("from May 4 until August 30", None),
        ("on 2026-02-30", None),
        ("I may be late, around 5", None),
        ("nothing here", None),
        ("It happened on 2026-01-09, that is January 9.", date(2026, 1, 9)),
    ],
)
def test_day_of_a_statement(text, day):
    assert find_event_day(text, SAID) == day


def test_without_a_day_of_its_own_nothing_relative_is_known():
    assert find_event_day("I moved yesterday", None) is None
    assert find_event_day("on April 7", None) is None
    assert find_event_day("on 2026-04-07", None) == date(2026, 4, 7)


def test_iso_days_are_listed_once_and_only_if_real():
    assert find_iso_days("2026-01-02, 2026-13-01, 2026-01-02, 2026-03-04") == [date(2026, 1, 2), date(2026, 3, 4)]


@given(st.text(max_size=300))
def test_no_text_breaks_it(text):
    find_event_day(text, SAID)
