"""Narrowing of decoded JSON whose shape nobody promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard, cast

_MOST_TOKENS = 2**53


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def as_object(value: object) -> Mapping[str, object] | None:
    """Return the object, or ``None`` for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object]:
    """Return the array, or an empty one for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return a number of tokens: numeric strings and floats are accepted and cut, everything else is 0."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            return 0
    # Sums of three of them must still be whole numbers of 64 bits; beyond that nobody counts tokens.
    if isinstance(value, int | float) and 0 < value < _MOST_TOKENS:
        return int(value)
    return 0
