"""The days that a question speaks of: ISO dates, months and seasons in English words, years, and 年月日 forms.

They only push notes of those days forward; a wrong guess must not hide the answer. What is said on a day is often written a
little later, so the days after a range count too, but less.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from typing import Final

import msgspec
import regex

from brain.memory.event_days import NUMERAL, read_numeral

MONTHS: Final = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_SHORT: Final = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_SEASONS: Final = {"winter": (12, 2), "spring": (3, 5), "summer": (6, 8), "fall": (9, 11), "autumn": (9, 11)}

_MONTH_NAMES: Final = "|".join([*MONTHS, *(short for short in _SHORT if short not in MONTHS)])
_IN_WORDS: Final = regex.compile(
    rf"\b(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH_NAMES})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?(?:,?\s+(?:of\s+)?(?P<year>\d{4})\b)?",
)
# Not by word boundaries: there is none between a figure and a Chinese or Japanese character.
_ISO: Final = regex.compile(r"(?<![0-9a-z_])(?P<year>\d{4})-(?P<month>\d{2})(?:-(?P<day>\d{2}))?(?![0-9a-z_])")
_CJK: Final = regex.compile(
    rf"(?:(?P<year>\d{{4}})\s*[年년]\s*)?(?P<month>{NUMERAL})\s*[月월](?:\s*(?P<day>{NUMERAL})\s*[日号號일])?"
)
_YEAR: Final = regex.compile(r"(?<![0-9a-z_])(?P<year>(?:19|20)\d{2})(?![0-9a-z_])")
_SEASON: Final = regex.compile(rf"\b(?P<season>{'|'.join(_SEASONS)})\b(?:\s+(?:of\s+)?(?P<year>\d{{4}})\b)?")
_AMBIGUOUS: Final = frozenset({"may", "march", "mar", "sun"})
_LEADS_IN: Final = regex.compile(
    r"\b(?:in|of|early|late|mid|by|during|since|on|around|until|before|after|last|this|next)\s*(?:the\s+)?$",
)

WRITTEN_LATER: Final = timedelta(days=10)
FULL, NEAR_DAY, NEAR_RANGE = 1.0, 0.8, 0.6


class Span(msgspec.Struct, frozen=True):
    """Days that are meant; without ``year`` those of every year. ``is_day``: one day, not a month or more."""

    first: tuple[int, int]
    last: tuple[int, int]
    year: int | None
    is_day: bool


def find_spans(text: str) -> list[Span]:
    """Return the days a text speaks of; years and seasons only when it names no month."""
    folded = text.lower()
    spans = [_month_span(int(m["month"]), _number(m["day"]), int(m["year"])) for m in _ISO.finditer(folded)]
    spans += [_month_span(read_numeral(m["month"]), _dense_day(m["day"]), _number(m["year"])) for m in _CJK.finditer(folded)]
    spans += [_words_span(m) for m in _IN_WORDS.finditer(folded) if _is_month(m, folded)]
    found = [span for span in spans if span is not None]
    if found:
        return found
    found = [_season_span(m["season"], _number(m["year"])) for m in _SEASON.finditer(folded) if m["year"]]
    return found or [Span((1, 1), (12, 31), int(m["year"]), is_day=False) for m in _YEAR.finditer(folded)]


def fitness(spans: list[Span], day: date) -> float:
    """Return how well a day fits: 1 within, less a few days after, 0 elsewhere."""
    best = 0.0
    for span in spans:
        for year in (span.year,) if span.year is not None else (day.year - 1, day.year):
            first, last = _in_year(span, year)
            if first <= day <= last:
                best = FULL
            elif last < day <= last + WRITTEN_LATER:
                best = max(best, NEAR_DAY if span.is_day else NEAR_RANGE)
    return best


def year_ranges(spans: list[Span], newest: date) -> list[tuple[date, date]]:
    """Return the ranges to look through; a span without a year means its latest two occurrences up to ``newest``."""
    ranges: list[tuple[date, date]] = []
    for span in spans:
        for year in (span.year,) if span.year is not None else (newest.year, newest.year - 1):
            first, last = _in_year(span, year)
            ranges.append((first, last + WRITTEN_LATER))
    return ranges


def _in_year(span: Span, year: int) -> tuple[date, date]:
    year = min(max(year, 1), 9998)
    end_year = year + (span.last < span.first)
    return _day(year, *span.first), _day(end_year, *span.last)


def _day(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, calendar.monthrange(year, month)[1]))


def _month_span(month: int | None, day: int | None, year: int | None) -> Span | None:
    if month is None or not 1 <= month <= 12 or (day is not None and not 1 <= day <= 31):
        return None
    return Span((month, day or 1), (month, day or 31), year, is_day=day is not None)


def _words_span(match: regex.Match[str]) -> Span | None:
    name = match["month"]
    month = MONTHS.get(name) or _SHORT[name]
    return _month_span(month, _number(match["before"] or match["after"]), _number(match["year"]))


def _is_month(match: regex.Match[str], text: str) -> bool:
    # "May I" and "march on" are no months; with a number beside them or a preposition before them they are.
    if match["month"] not in _AMBIGUOUS or match["before"] or match["after"] or match["year"]:
        return True
    return _LEADS_IN.search(text[: match.start("month")]) is not None


def _season_span(season: str, year: int | None) -> Span:
    first, last = _SEASONS[season]
    return Span((first, 1), (last, 31), year, is_day=False)


def _dense_day(text: str | None) -> int | None:
    return read_numeral(text) if text else None


def _number(text: str | None) -> int | None:
    return int(text) if text else None
