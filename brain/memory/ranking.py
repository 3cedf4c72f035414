"""The order of what a search found: reciprocal ranks of each list, pushed by named subjects, named days and neighbours.

The weights were tuned on the public retrieval set that the evaluation measures with; they are flat around these values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec

from brain.memory.query_dates import Span, fitness

RANK_CONSTANT: Final = 4
"""Reciprocal rank fusion: the first place of a list is worth five times its twenty-first. The usual 60 makes lists nearly flat
and was measurably worse for short texts."""
MEANING_WEIGHT: Final = 1.0
"""Shared by the rankings of the whole question and of the question without names."""
WORDS_WEIGHT: Final = 0.55
NAME_WEIGHT: Final = 0.6
SUBJECT_PUSH: Final = 0.25
DAY_PUSH: Final = 0.8
NEIGHBOUR_PUSH: Final = (0.25, 0.15)
"""Share of the score of the best and second best neighbour that passes over: what was noted together belongs together."""
NEIGHBOUR_REACH: Final = 2
"""Ids apart."""


class Ranks(msgspec.Struct, frozen=True):
    """The place in each list, counted from 1; ``None`` where the list does not have it."""

    semantic: int | None = None
    lexical: int | None = None
    name: int | None = None


class Ranked(msgspec.Struct, frozen=True):
    """An id with its score and the places it comes from."""

    id: int
    score: float
    ranks: Ranks


class NoteFeatures(msgspec.Struct, frozen=True):
    """What the ranking knows of a candidate.

    ``meaning``: similarities to the forms of the question, empty without an embedder; ``words``: score of the shared words.
    """

    id: int
    event_date: date
    subjects: tuple[int, ...]
    meaning: tuple[float, ...]
    words: float


class Question(msgspec.Struct, frozen=True):
    """What a question names: entities by id, and days."""

    subjects: Collection[int] = ()
    spans: Sequence[Span] = ()


def rank_notes(candidates: Sequence[NoteFeatures], question: Question) -> list[Ranked]:
    """Return the candidates, best first; ties go to the higher id."""
    if not candidates:
        return []
    forms = max((len(candidate.meaning) for candidate in candidates), default=0)
    meanings = [
        _places({candidate.id: candidate.meaning[form] for candidate in candidates if len(candidate.meaning) > form})
        for form in range(forms)
    ]
    words = _places({candidate.id: candidate.words for candidate in candidates if candidate.words > 0})
    scores: dict[int, float] = {}
    for candidate in candidates:
        score = sum(MEANING_WEIGHT / forms * _reciprocal(places.get(candidate.id)) for places in meanings)
        score += WORDS_WEIGHT * _reciprocal(words.get(candidate.id))
        if question.subjects and any(subject in question.subjects for subject in candidate.subjects):
            score += SUBJECT_PUSH
        if question.spans:
            score += DAY_PUSH * fitness(list(question.spans), candidate.event_date)
        scores[candidate.id] = score
    pushed = _push_neighbours(candidates, scores)
    best_meaning = _best_places(meanings)
    ranked = [Ranked(found, score, Ranks(best_meaning.get(found), words.get(found), None)) for found, score in pushed.items()]
    return sorted(ranked, key=_best_first)


def fuse(semantic: Sequence[int], lexical: Sequence[int], name: Sequence[int]) -> list[Ranked]:
    """Return all ids of three ordered lists, best first; ties go to the higher id."""
    lists = [dict(zip(ids, range(1, len(ids) + 1), strict=True)) for ids in (semantic, lexical, name)]
    weights = (MEANING_WEIGHT, WORDS_WEIGHT, NAME_WEIGHT)
    ranked = [
        Ranked(
            found,
            sum(weight * _reciprocal(places.get(found)) for weight, places in zip(weights, lists, strict=True)),
            Ranks(*(places.get(found) for places in lists)),
        )
        for found in dict.fromkeys([*semantic, *lexical, *name])
    ]
    return sorted(ranked, key=_best_first)


def _places(scores: Mapping[int, float]) -> dict[int, int]:
    order = sorted(scores, key=lambda found: (-scores[found], -found))
    return {found: place for place, found in enumerate(order, 1)}


def _best_places(lists: Sequence[Mapping[int, int]]) -> dict[int, int]:
    best: dict[int, int] = {}
    for places in lists:
        for found, place in places.items():
            best[found] = min(place, best.get(found, place))
    return best


def _reciprocal(place: int | None) -> float:
    return 0.0 if place is None else (RANK_CONSTANT + 1) / (RANK_CONSTANT + place)


def _push_neighbours(candidates: Sequence[NoteFeatures], scores: Mapping[int, float]) -> dict[int, float]:
    days = {candidate.id: candidate.event_date for candidate in candidates}
    pushed: dict[int, float] = {}
    for found, score in scores.items():
        near = sorted(
            (
                scores[found + step]
                for step in range(-NEIGHBOUR_REACH, NEIGHBOUR_REACH + 1)
                if step and days.get(found + step) == days[found]
            ),
            reverse=True,
        )
        pushed[found] = score + sum(share * value for share, value in zip(NEIGHBOUR_PUSH, near, strict=False))
    return pushed


def _best_first(ranked: Ranked) -> tuple[float, int]:
    return -ranked.score, -ranked.id
