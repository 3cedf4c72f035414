"""Fusion of ranked lists into one order: weighted reciprocal ranks, and the parts of a score that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

RANK_CONSTANT: Final = 60
"""The usual constant of reciprocal rank fusion: how little the first places of one list weigh against agreement."""


class Ranks(msgspec.Struct, frozen=True):
    """The place in each list, counted from 1; ``None`` where the list does not have it."""

    semantic: int | None = None
    lexical: int | None = None
    name: int | None = None


class Ranked(msgspec.Struct, frozen=True):
    """An id with its fused score and the places it comes from."""

    id: int
    score: float
    ranks: Ranks


def fuse(
    semantic: Sequence[int],
    lexical: Sequence[int],
    name: Sequence[int],
    weights: Mapping[str, float] | None = None,
) -> list[Ranked]:
    """Return all ids of the three lists, best first. Score: sum of ``weight / (60 + rank)``; ties go to the higher id."""
    places: dict[int, dict[str, int]] = {}
    for label, ids in (("semantic", semantic), ("lexical", lexical), ("name", name)):
        for place, found in enumerate(ids, 1):
            places.setdefault(found, {}).setdefault(label, place)
    fused = [
        Ranked(
            found,
            sum((weights or {}).get(label, 1.0) / (RANK_CONSTANT + place) for label, place in own.items()),
            Ranks(own.get("semantic"), own.get("lexical"), own.get("name")),
        )
        for found, own in places.items()
    ]
    return sorted(fused, key=lambda ranked: (-ranked.score, -ranked.id))
