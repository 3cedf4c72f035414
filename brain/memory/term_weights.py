"""How telling a word is: the rarer among the notes, the more. Counts are kept for some minutes, as weights only.

Which notes have a word is always asked of the database, so a stale count can shift an order a little but never hide a note.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from brain.memory import queries_search as queries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from psycopg import AsyncConnection

COMMON: Final = 1_500
"""A word of so many notes picks no candidates, unless the question has no rarer one: it says little and costs much."""
FAINT_SHARE: Final = 0.05
"""Of its weight, for a word of a name: enough to find a note by it alone, too little to outshine what is asked of the name."""
KEEP_SECONDS: Final = 300.0
KEEP_TERMS: Final = 20_000
SATURATION, LENGTH_SHARE, USUAL_WORDS = 1.2, 0.75, 16.0
"""k1 and b of Okapi BM25, and the usual number of words of a note. A word counts once: notes are short."""


class TermWeights:
    """Weights of terms over the notes of one database."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}
        self._total: tuple[int, float] = (0, -math.inf)

    async def weigh(self, conn: AsyncConnection, terms: Sequence[str], *, faint: Collection[str] = ()) -> TermTable:
        """Return the weights of terms, next to nothing for the faint ones; those not counted lately are counted now."""
        now = self._clock()
        if self._total[1] < now:
            self._total = (await queries.find_highest_note_id(conn), now + KEEP_SECONDS)
        unknown = [term for term in terms if term not in self._counts or self._counts[term][1] < now]
        if unknown:
            if len(self._counts) > KEEP_TERMS:
                self._counts.clear()
            counted = await queries.count_term_notes(conn, unknown, COMMON)
            # A word that nobody has yet is asked again: the next note may bring it.
            self._counts.update({term: (count, now + (KEEP_SECONDS if count else 0)) for term, count in counted.items()})
            counts = {**{term: self._counts[term][0] for term in terms if term in self._counts}, **counted}
        else:
            counts = {term: self._counts[term][0] for term in terms}
        total = max(self._total[0], *counts.values(), 1) if counts else 1
        weights = {term: _weight(count, total) * (FAINT_SHARE if term in faint else 1) for term, count in counts.items()}
        return TermTable(weights, counts)


class TermTable:
    """Weights of the terms of one question."""

    def __init__(self, weights: Mapping[str, float], counts: Mapping[str, int]) -> None:
        self._weights = weights
        self._counts = counts

    def picking(self) -> dict[str, float]:
        """Return the weights of the terms that pick candidates: the rarer ones, or all if all are common."""
        present = {term: weight for term, weight in self._weights.items() if self._counts[term] > 0}
        rare = {term: weight for term, weight in present.items() if self._counts[term] < COMMON}
        return rare or present

    def score(self, terms: Sequence[str], word_count: int) -> float:
        """Return the score of a note for the question; 0 if it has none of the terms."""
        shared = math.fsum(self._weights[term] for term in set(terms) if term in self._weights)
        length = 1 - LENGTH_SHARE + LENGTH_SHARE * word_count / USUAL_WORDS
        return shared * (SATURATION + 1) / (1 + SATURATION * length)


def _weight(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5)) if count <= total else 0.0
