"""Reads the arguments of the memory's tools (memory.md section 7.1): lenient text and ids, strict paging and dates."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

import msgspec
from msgspec import Raw

from brain.errors import InvalidInputError
from brain.memory.normalise import check_range, parse_date

_decoder: Final = msgspec.json.Decoder(dict[str, Raw])
_values: Final = msgspec.json.Decoder()
_WHOLE: Final = re.compile(r"([+-]?\d{1,19})(?:\.0+)?", re.ASCII)
MAX_ID: Final = 2**63 - 1
ANY_PATTERN: Final = "*"


class ToolArguments:
    """The arguments of one call; every method says in its error which argument is wrong."""

    def __init__(self, args: Raw) -> None:
        try:
            self._raw = _decoder.decode(args)
        except msgspec.DecodeError as problem:
            raise InvalidInputError(f"the arguments are not a JSON object: {problem}") from problem

    def has(self, name: str) -> bool:
        """Whether the key is there at all, with any value."""
        return name in self._raw

    def text(self, name: str) -> str | None:
        """Return the content of any JSON primitive, trimmed; blank counts as absent."""
        literal = self._literal(name)
        return (literal or "").strip() or None

    def required_text(self, name: str) -> str:
        """Return a text.

        Raises:
            InvalidInputError: it is absent or blank.
        """
        text = self.text(name)
        if text is None:
            raise InvalidInputError(f"{name} is required and must not be blank")
        return text

    def required_id(self, name: str) -> int:
        """Return an id.

        Raises:
            InvalidInputError: it is absent or no number.
        """
        found = _whole(self._literal(name))
        if found is None:
            raise InvalidInputError(f"{name} is required and must be a number")
        return found

    def optional_id(self, name: str) -> int | None:
        """Return an id; absent, null and blank are none. What cannot be read is refused, or a filter would vanish silently.

        Raises:
            InvalidInputError: it is there and no number.
        """
        if not self.has(name) or bytes(self._raw[name]) == b"null":
            return None
        literal = self._literal(name)
        if literal is not None and not literal.strip():
            return None
        found = _whole(literal)
        if found is None:
            raise InvalidInputError(f"{name} must be a number")
        return found

    def flag(self, name: str) -> bool | None:
        """Return a truth value; anything but true and false counts as absent."""
        return {"true": True, "false": False}.get((self._literal(name) or "").strip().lower())

    def number(self, name: str, default: int, minimum: int) -> int:
        """Return a whole number.

        Raises:
            InvalidInputError: it is there and no whole number, or below ``minimum``.
        """
        if not self.has(name) or bytes(self._raw[name]) == b"null":
            return default
        found = _whole(self._literal(name))
        if found is None:
            raise InvalidInputError(f"{name} must be a whole number")
        if found < minimum:
            raise InvalidInputError(f"{name} must be at least {minimum}")
        return found

    def day(self, name: str) -> date | None:
        """Return a date; absent and null are none.

        Raises:
            InvalidInputError: it is there and no date.
        """
        if not self.has(name) or bytes(self._raw[name]) == b"null":
            return None
        return parse_date((self._literal(name) or "").strip(), name)

    def required_day(self, name: str) -> date:
        """Return a date.

        Raises:
            InvalidInputError: it is absent or no date.
        """
        day = self.day(name)
        if day is None:
            raise InvalidInputError(f"{name} is required: the day it happened, as YYYY-MM-DD")
        return day

    def days(self) -> tuple[date | None, date | None]:
        """Return ``from`` and ``to``.

        Raises:
            InvalidInputError: one is no date, or they are out of order.
        """
        start, end = self.day("from"), self.day("to")
        check_range(start, end)
        return start, end

    def pattern(self, name: str) -> str | None:
        """Return a regular expression; absent, blank and ``*`` do not filter."""
        text = self.text(name)
        return None if text == ANY_PATTERN else text

    def _literal(self, name: str) -> str | None:
        """Return the content of a primitive; ``None`` for absent, null, arrays and objects."""
        raw = self._raw.get(name)
        if raw is None:
            return None
        literal = bytes(raw).decode()
        if literal.startswith('"'):
            return str(_values.decode(raw))
        return None if literal == "null" or literal[0] in "[{" else literal


def _whole(literal: str | None) -> int | None:
    match = _WHOLE.fullmatch((literal or "").strip())
    number = int(match[1]) if match else None
    return number if number is not None and abs(number) <= MAX_ID else None
