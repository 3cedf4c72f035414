"""The days that a question speaks of."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.query_dates import find_spans, fitness, year_ranges


@pytest.mark.parametrize(
    ("text", "day", "fits"),
    [
        ("What happened on 3 May, 2026?", date(2026, 5, 3), 1.0),
        ("What happened on May 3rd 2026?", date(2026, 5, 3), 1.0),
        ("What happened on the 3rd of May 2026?", date(2026, 5, 10), 0.8),
        ("What happened on 2026-05-03?", date(2026, 5, 3), 1.0),
        ("2026年5月3日に何があった", date(2026, 5, 3), 1.0),
        ("五月三日发生了什么?", date(2026, 5, 3), 1.0),
        ("在2026-05-03发生了什么?", date(2026, 5, 3), 1.0),
        ("我在2026年做了什么?", date(2026, 7, 3), 1.0),
        ("五一去哪里?", date(2026, 5, 1), 0.0),
        ("5月に何があった", date(2024, 5, 20), 1.0),
        ("in May", date(2024, 5, 20), 1.0),
        ("in May", date(2024, 6, 5), 0.6),
        ("in May", date(2024, 7, 5), 0.0),
        ("in 2024", date(2024, 7, 5), 1.0),
        ("in the winter of 2024", date(2025, 1, 5), 1.0),
        ("last summer", date(2025, 7, 5), 0.0),
        ("May I ask?", date(2025, 5, 5), 0.0),
        ("We march on", date(2025, 3, 5), 0.0),
        ("on 31 February 2025", date(2025, 2, 28), 1.0),
        ("room 404", date(2025, 2, 28), 0.0),
    ],
)
def test_days(text: str, day: date, fits: float) -> None:
    assert fitness(find_spans(text), day) == fits


@given(st.text(), st.dates())
def test_any_text_and_day_give_a_share(text: str, day: date) -> None:
    for candidate in (text, f"{text} 2025-13-40 99月 0月 feb 31 9999"):
        spans = find_spans(candidate)
        assert 0 <= fitness(spans, day) <= 1
        assert all(first <= last for first, last in year_ranges(spans, day))
