"""Brings names, categories, verbs, keys, values, notes and dates into the one form in which they are stored and compared."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from brain.errors import InvalidInputError

# Only ASCII whitespace collapses (memory.md section 3): a full-width space inside a name is part of it.
_ASCII_SPACE_RUN: Final = re.compile(r"[ \t\n\v\f\r]+")
_DATE_FORM: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_NUL: Final = "\x00"
_PLACEHOLDER: Final = re.compile(r"\b(?:unknown|unspecified)\b")


def normalise_name(raw: str, what: str = "name") -> str:
    """Return an entity name: trimmed, ASCII whitespace runs as one space, lowercase.

    Raises:
        InvalidInputError: nothing is left.
    """
    return _not_blank(_ASCII_SPACE_RUN.sub(" ", _plain(raw)).lower(), what)


def normalise_category(raw: str) -> str:
    """Return a category: trimmed and lowercase; inner whitespace stays as it is.

    Raises:
        InvalidInputError: nothing is left.
    """
    return _not_blank(_plain(raw).lower(), "category")


def normalise_verb(raw: str) -> str:
    """Return a verb: the name rule, then an underscore for each space.

    Raises:
        InvalidInputError: nothing is left.
    """
    return normalise_name(raw, "verb").replace(" ", "_")


def normalise_key(raw: str) -> str:
    """Return an attribute key, by the rule of verbs.

    Raises:
        InvalidInputError: nothing is left.
    """
    return normalise_name(raw, "attribute key").replace(" ", "_")


def normalise_value(raw: str) -> str:
    """Return an attribute value, trimmed.

    Raises:
        InvalidInputError: it is blank or has more than one line.
    """
    value = _not_blank(_plain(raw), "attribute value")
    if "\n" in value or "\r" in value:
        raise InvalidInputError("an attribute value must be a single line")
    return value


def normalise_note(raw: str) -> str:
    """Return a note, trimmed; inner newlines stay.

    Raises:
        InvalidInputError: nothing is left.
    """
    return _not_blank(_plain(raw), "note")


def is_placeholder(name: str) -> bool:
    """Whether a name only stands for one that is not known, as in `unknown dentist`: many things may be called that."""
    return _PLACEHOLDER.search(name) is not None


def parse_date(raw: str, what: str = "date") -> date:
    """Read a calendar day of the form ``YYYY-MM-DD``.

    Raises:
        InvalidInputError: another form, or no such day.
    """
    if _DATE_FORM.fullmatch(raw) is None:
        raise InvalidInputError(f"{what} must have the form YYYY-MM-DD, not {raw!r}")
    try:
        return date.fromisoformat(raw)
    except ValueError as problem:
        raise InvalidInputError(f"{what} {raw!r} is no day of the calendar") from problem


def check_range(start: date | None, end: date | None) -> None:
    """Refuse a range that ends before it starts.

    Raises:
        InvalidInputError: ``start`` is after ``end``.
    """
    if start is not None and end is not None and start > end:
        raise InvalidInputError(f"from ({start}) must not be after to ({end})")


def entity_text(name: str, category: str, attributes: dict[str, str]) -> str:
    """Return the text that an entity's vector stands for; the order of ``attributes`` does not matter."""
    return "\n".join([f"{name} {category}", *(f"{key}: {attributes[key]}" for key in sorted(attributes))])


def _plain(raw: str) -> str:
    # PostgreSQL text cannot hold U+0000, and no reader would miss it.
    return raw.replace(_NUL, "").strip()


def _not_blank(text: str, what: str) -> str:
    if not text:
        raise InvalidInputError(f"{what} must not be blank")
    return text
