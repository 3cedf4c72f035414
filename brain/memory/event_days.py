"""The day a statement is about, where its words leave no doubt: dates in full, month and day, yesterday and tomorrow."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final

_ISO: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)
_DENSE: Final = re.compile(r"(?:(\d{4})\s*年\s*)?(\d{1,2})\s*月\s*(\d{1,2})\s*[日号號]", re.ASCII)
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905 - reads better
)
_MONTH: Final = "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS)
_MONTH_FIRST: Final = re.compile(rf"\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}}))?", re.IGNORECASE | re.ASCII)
_DAY_FIRST: Final = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?(?:,?\s+(\d{{4}}))?", re.IGNORECASE | re.ASCII
)
_RELATIVE: Final = (
    (re.compile(r"\bday before yesterday\b|前天|一昨日|おととい", re.IGNORECASE), -2),
    (re.compile(r"\byesterday\b|\blast night\b|昨天|昨晚|昨日|昨夜", re.IGNORECASE), -1),
    (re.compile(r"\bday after tomorrow\b|后天|後天|明後日", re.IGNORECASE), 2),
    (re.compile(r"\btomorrow\b|明天|明日", re.IGNORECASE), 1),
    (re.compile(r"\b(?:today|tonight|this morning)\b|今天|今日|今朝", re.IGNORECASE), 0),
)


def find_event_day(text: str, said_on: date | None) -> date | None:
    """Return the one day a text names; ``None`` when it names none or several.

    A day without a year is the one nearest to ``said_on``; relative words count from it.
    """
    found = set(_absolute(text, said_on))
    if not found and said_on is not None:
        for pattern, days in _RELATIVE:
            if pattern.search(text):
                return said_on + timedelta(days=days)
    return found.pop() if len(found) == 1 else None


def find_iso_days(text: str) -> list[date]:
    """Return the real days that a text writes as ``YYYY-MM-DD``, in order, each once."""
    days = [_day(int(year), int(month), int(day)) for year, month, day in _ISO.findall(text)]
    return list(dict.fromkeys(day for day in days if day is not None))


def _absolute(text: str, said_on: date | None) -> list[date]:
    found = find_iso_days(text)
    named: list[tuple[str, int, int]] = [(year, int(month), int(day)) for year, month, day in _DENSE.findall(text)]
    named.extend((year, _month(month), int(day)) for month, day, year in _MONTH_FIRST.findall(text))
    named.extend((year, _month(month), int(day)) for day, month, year in _DAY_FIRST.findall(text))
    for year, month, day in named:
        exact = _day(int(year), month, day) if year else _nearest(month, day, said_on)
        if exact is not None:
            found.append(exact)
    return found


def _nearest(month: int, day: int, said_on: date | None) -> date | None:
    if said_on is None:
        return None
    candidates = [_day(said_on.year + offset, month, day) for offset in (-1, 0, 1)]
    real = [candidate for candidate in candidates if candidate is not None]
    return min(real, key=lambda candidate: abs((candidate - said_on).days), default=None)


def _month(word: str) -> int:
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(word.lower()[:3]))


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
