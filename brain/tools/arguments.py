"""Reading of tool arguments: lenient for the memory's tools, strict for ``fs`` and ``bash`` (chat-domain 14.7).

In both modes ``null`` and blank strings count as absent, strings are trimmed, blank array entries are dropped and an array with
nothing left counts as absent.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final

import msgspec
from msgspec import Raw

_object_decoder: Final = msgspec.json.Decoder(dict[str, Raw])
_array_decoder: Final = msgspec.json.Decoder(list[Raw])
_value_decoder: Final = msgspec.json.Decoder()
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")
_WHOLE_FLOAT: Final = re.compile(r"([+-]?\d{1,18})\.0+")


class ArgumentError(Exception):
    """An argument is missing or wrong; the message is meant for the model."""


class Arguments(ABC):
    """The arguments of one call, read by name."""

    def __init__(self, args: Raw) -> None:
        """Take the JSON object of a call.

        Raises:
            ArgumentError: it is no JSON object.
        """
        try:
            self._values = _object_decoder.decode(args)
            _value_decoder.decode(args)  # what stays raw above is checked here: broken escapes, numbers out of range
        except (msgspec.DecodeError, ValueError) as problem:
            raise ArgumentError(f"the arguments are not a JSON object: {problem}") from problem

    def text(self, name: str) -> str | None:
        """Return a trimmed string, ``None`` if absent or blank."""
        value = self._value(name)
        return None if value is None else (self._read_text(name, value) or "").strip() or None

    def required_text(self, name: str) -> str:
        """Return a trimmed string.

        Raises:
            ArgumentError: it is absent or blank.
        """
        value = self.text(name)
        if value is None:
            raise ArgumentError(f"the argument '{name}' is required and must not be blank")
        return value

    def integer(self, name: str, *, minimum: int | None = None) -> int | None:
        """Return a whole number, ``None`` if absent.

        Raises:
            ArgumentError: it is below ``minimum``.
        """
        value = self._value(name)
        number = None if value is None else self._read_integer(name, value)
        if number is not None and minimum is not None and number < minimum:
            raise ArgumentError(f"the argument '{name}' must be at least {minimum}")
        return number

    def boolean(self, name: str) -> bool | None:
        """Return a truth value, ``None`` if absent."""
        value = self._value(name)
        return None if value is None else self._read_boolean(name, value)

    def texts(self, name: str) -> list[str] | None:
        """Return an array of trimmed strings without blank entries, ``None`` if absent or nothing is left."""
        value = self._value(name)
        if value is None:
            return None
        entries = (self._read_text(f"{name}[{index}]", entry) for index, entry in enumerate(self._read_entries(name, value)))
        return [trimmed for entry in entries if (trimmed := (entry or "").strip())] or None

    def required_texts(self, name: str) -> list[str]:
        """Return a non-empty array of strings.

        Raises:
            ArgumentError: it is absent or nothing but blanks.
        """
        value = self.texts(name)
        if value is None:
            raise ArgumentError(f"the argument '{name}' is required and must be an array with at least one non-blank string")
        return value

    def _value(self, name: str) -> Raw | None:
        value = self._values.get(name)
        return None if value is None or bytes(value) == b"null" else value

    @abstractmethod
    def _read_text(self, name: str, value: Raw) -> str | None: ...

    @abstractmethod
    def _read_integer(self, name: str, value: Raw) -> int | None: ...

    @abstractmethod
    def _read_boolean(self, name: str, value: Raw) -> bool | None: ...

    @abstractmethod
    def _read_entries(self, name: str, value: Raw) -> list[Raw]: ...


class StrictArguments(Arguments):
    """A present value of the wrong JSON type is an error that names the argument."""

    def _read_text(self, name: str, value: Raw) -> str | None:
        decoded = _value_decoder.decode(value)
        if not isinstance(decoded, str):
            raise ArgumentError(f"the argument '{name}' must be a string")
        return decoded

    def _read_integer(self, name: str, value: Raw) -> int | None:
        decoded = _value_decoder.decode(value)
        if not isinstance(decoded, int) or isinstance(decoded, bool):
            raise ArgumentError(f"the argument '{name}' must be an integer")
        return decoded

    def _read_boolean(self, name: str, value: Raw) -> bool | None:
        decoded = _value_decoder.decode(value)
        if not isinstance(decoded, bool):
            raise ArgumentError(f"the argument '{name}' must be true or false")
        return decoded

    def _read_entries(self, name: str, value: Raw) -> list[Raw]:
        if not bytes(value).startswith(b"["):
            raise ArgumentError(f"the argument '{name}' must be an array of strings")
        return _array_decoder.decode(value)


class LenientArguments(Arguments):
    """Other primitives are read as text; what cannot be read as the wanted type counts as absent."""

    def _read_text(self, name: str, value: Raw) -> str | None:  # noqa: ARG002 - the interface
        literal = bytes(value).decode()
        if literal.startswith('"'):
            return str(_value_decoder.decode(value))
        return None if literal.startswith(("{", "[")) or literal == "null" else literal

    def _read_integer(self, name: str, value: Raw) -> int | None:
        text = (self._read_text(name, value) or "").strip()
        if whole := _WHOLE_FLOAT.fullmatch(text):
            text = whole[1]
        return int(text) if _INTEGER.fullmatch(text) else None

    def _read_boolean(self, name: str, value: Raw) -> bool | None:
        return {"true": True, "false": False}.get((self._read_text(name, value) or "").strip().lower())

    def _read_entries(self, name: str, value: Raw) -> list[Raw]:  # noqa: ARG002 - the interface
        # Small models often send one string where an array of one is asked for.
        return _array_decoder.decode(value) if bytes(value).startswith(b"[") else [value]
