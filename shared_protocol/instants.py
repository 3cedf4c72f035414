"""Instants as they travel: UTC text with up to nine fractional digits, which no datetime type keeps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

Instant = NewType("Instant", str)
"""Canonical form: ``2026-03-01T08:00:00Z``, fraction of 3, 6 or 9 digits only if it is not zero."""

_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|z|[+-]\d{2}:\d{2}(?::\d{2})?)",
    re.ASCII,
)


def parse_instant(text: str) -> Instant:
    """Return the canonical form of an ISO-8601 instant, its nanoseconds untouched.

    A numeric offset is normalised to ``Z``.

    Raises:
        ValueError: the text is no instant with seconds and a zone, or no real date.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO-8601 instant such as 2026-03-01T08:00:00Z")
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
        # The usual case, for every user message of every history: nothing to compute. (Midnight may be written 24:00.)
        if zone == "Z" and not clock.startswith("24"):
            return Instant(f"{day}T{clock}{_fraction(fraction or '')}Z")
        if zone not in {"Z", "z"}:
            moment -= _offset(zone)
    except (ValueError, OverflowError) as problem:
        raise ValueError(f"{text!r} is not a real date and time: {problem}") from problem
    return Instant(f"{moment:%Y-%m-%dT%H:%M:%S}".zfill(19) + _fraction(fraction or "") + "Z")


def instant_from_datetime(moment: datetime) -> Instant:
    """Return the canonical text of an aware datetime.

    Raises:
        ValueError: the datetime has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError("an instant needs a datetime with a zone")
    # A list of chats has two for each row: converting to a zone costs more than all the rest when it is UTC already.
    text = (moment.astimezone(UTC) if moment.utcoffset() else moment).isoformat(timespec="microseconds")
    if not text.endswith("000+00:00"):
        return Instant(text[:26] + "Z")
    return Instant(text[:19] + _fraction(text[20:26]) + "Z")


def datetime_from_instant(instant: Instant) -> datetime:
    """Return the instant as an aware datetime, cut to microseconds."""
    head, _, fraction = instant.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(head).replace(tzinfo=UTC)
    return moment + timedelta(microseconds=int((fraction + "000000")[:6])) if fraction else moment


def now_instant() -> Instant:
    """Return the present moment, to the microsecond."""
    return instant_from_datetime(datetime.now(UTC))


def _offset(zone: str) -> timedelta:
    sign = -1 if zone[0] == "-" else 1
    hours, minutes, *seconds = (int(piece) for piece in zone[1:].split(":"))
    if hours > 18 or minutes > 59:
        raise ValueError(f"{zone!r} is no offset")
    return sign * timedelta(hours=hours, minutes=minutes, seconds=seconds[0] if seconds else 0)


def _fraction(digits: str) -> str:
    significant = digits.rstrip("0")
    if not significant:
        return ""
    width = 3 * -(-len(significant) // 3)
    return "." + significant.ljust(width, "0")
