"""The one form in which names, keys and dates are stored."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.errors import InvalidInputError
from brain.memory.normalise import (
    check_range,
    entity_text,
    normalise_category,
    normalise_key,
    normalise_name,
    normalise_note,
    normalise_value,
    normalise_verb,
    parse_date,
)


def test_the_examples_of_the_specification() -> None:
    assert normalise_name("  Ada   Lovelace ") == "ada lovelace"
    assert normalise_category(" Tech  Company ") == "tech  company"
    assert normalise_verb("Works at") == "works_at"
    assert normalise_key("Real Name") == "real_name"


def test_a_full_width_space_stays_inside_and_goes_at_the_ends() -> None:
    assert normalise_name("\u3000山田\u3000太郎\u00a0") == "山田\u3000太郎"


def test_ascii_whitespace_of_any_kind_collapses() -> None:
    assert normalise_name("a \t\n\v\f\r b") == "a b"


def test_hyphens_and_punctuation_are_left_alone() -> None:
    assert normalise_verb("Co-founded, with:") == "co-founded,_with:"


@pytest.mark.parametrize("blank", ["", " ", "\u3000", "\x00", " \x00 "])
def test_blank_is_refused_everywhere(blank: str) -> None:
    for normalise in (normalise_name, normalise_category, normalise_verb, normalise_key, normalise_value, normalise_note):
        with pytest.raises(InvalidInputError):
            normalise(blank)


@pytest.mark.parametrize("value", ["a\nb", "a\rb"])
def test_a_value_has_one_line(value: str) -> None:
    with pytest.raises(InvalidInputError):
        normalise_value(value)
    assert normalise_value(" a \n") == "a"
    assert normalise_note(f" {value} ") == value


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    for normalise in (normalise_name, normalise_category, normalise_verb, normalise_key, normalise_note):
        try:
            once = normalise(text)
        except InvalidInputError:
            continue
        assert "\x00" not in once
        assert normalise(once) == once


@pytest.mark.parametrize(
    "text", ["20260830", "2026-8-30", "2026-W35-7", "2026-02-30", "2026-08-30T00:00", "٢٠٢٦-٠٨-٣٠", " 2026-08-30", ""]
)
def test_only_calendar_days_in_iso_form_are_dates(text: str) -> None:
    with pytest.raises(InvalidInputError, match="from"):
        parse_date(text, "from")


@given(st.dates())
def test_every_day_is_read_back(day: date) -> None:
    assert parse_date(day.isoformat()) == day


def test_a_range_must_not_end_before_it_starts() -> None:
    check_range(date(2026, 1, 1), date(2026, 1, 1))
    check_range(None, date(2026, 1, 1))
    with pytest.raises(InvalidInputError):
        check_range(date(2026, 1, 2), date(2026, 1, 1))


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1)))
def test_the_text_of_an_entity_does_not_depend_on_the_order_of_its_attributes(attributes: dict[str, str]) -> None:
    backwards = dict(reversed(attributes.items()))
    assert entity_text("ada", "person", attributes) == entity_text("ada", "person", backwards)


def test_the_text_of_an_entity() -> None:
    assert entity_text("ada", "person", {"b": "2", "a": "1"}) == "ada person\na: 1\nb: 2"
    assert entity_text("ada", "person", {}) == "ada person"
