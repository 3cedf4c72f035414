"""Finding notes: candidates by meaning, words and days, told to the ranking. One transaction, no state beyond word counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from pgvector import HalfVector

from brain.memory import queries_search, queries_vectors
from brain.memory.queries_search import Candidate, NoteFilter
from brain.memory.queries_vectors import Generation
from brain.memory.query_dates import Span, year_ranges
from brain.memory.ranking import NoteFeatures, Question, Ranked, rank_notes
from brain.memory.term_weights import COMMON, TermTable, TermWeights

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CANDIDATES: Final = 100
"""Rows that each list contributes at least."""
DAY_CANDIDATES: Final = 30
MAX_QUERY_TERMS: Final = 32
EXACT_ROWS: Final = 4_000
"""Up to this many vectors are compared one by one: as quick as the index, which may miss rows of a small or lopsided store."""
EF_SEARCH: Final = 100
MAX_EF_SEARCH: Final = 1_000


class MeaningQuery(msgspec.Struct, frozen=True):
    """A question in the space of the active generation, in one or two forms; hits below ``floor`` mean nothing."""

    generation: Generation
    vectors: list[HalfVector]
    floor: float


class NoteQuery(msgspec.Struct, frozen=True):
    """A question as the candidates are looked for: its meaning, its words, the words of the names in it, and what it names."""

    meaning: MeaningQuery | None
    terms: Sequence[str]
    name_terms: Sequence[str]
    subjects: Sequence[int]
    spans: Sequence[Span]


class FoundNotes(msgspec.Struct, frozen=True):
    """Ranked notes, and the similarity of those that lie above the floor."""

    ranked: list[Ranked]
    similarities: Mapping[int, float]


class NoteSearch:
    """Finds and ranks notes within a transaction of the caller, who has set how index scans behave."""

    def __init__(self, weights: TermWeights | None = None) -> None:
        self._weights = weights or TermWeights()
        self._large: set[int] = set()

    async def find(self, conn: AsyncConnection, query: NoteQuery, note_filter: NoteFilter, limit: int) -> FoundNotes:
        """Return the notes that pass the filter, best first, at most ``limit``."""
        wanted = max(CANDIDATES, limit)
        near = await self._by_meaning(conn, query, note_filter, wanted)
        asked = [*query.terms, *query.name_terms][:MAX_QUERY_TERMS]
        table = await self._weights.weigh(conn, asked, faint=query.name_terms)
        worded: list[int] = []
        if picking := table.picking():
            worded = await queries_search.find_notes_by_terms(conn, picking, note_filter, COMMON, wanted)
        pool = list(dict.fromkeys([*near, *worded]))
        meaning = query.meaning
        candidates = await queries_search.get_candidates(
            conn,
            pool,
            meaning.generation.id if meaning else None,
            meaning.vectors if meaning else [],
        )
        features = [_features(candidate, meaning, table) for candidate in candidates]
        # Below the floor and without a shared word there is no reason to show a note.
        kept = [each for each in features if each.meaning or each.words > 0]
        ranked = rank_notes(kept, Question(frozenset(query.subjects), query.spans))
        return FoundNotes(ranked[:limit], {each.id: max(each.meaning) for each in kept if each.meaning})

    async def _by_meaning(
        self,
        conn: AsyncConnection,
        query: NoteQuery,
        note_filter: NoteFilter,
        limit: int,
    ) -> list[int]:
        meaning = query.meaning
        if meaning is None:
            return []
        found: dict[int, None] = {}
        for vector in meaning.vectors:
            found.update(dict.fromkeys(await self._nearest(conn, meaning.generation, vector, note_filter, limit)))
        for narrowed in await _day_filters(conn, query, note_filter):
            near = await self._nearest(conn, meaning.generation, meaning.vectors[-1], narrowed, DAY_CANDIDATES)
            found.update(dict.fromkeys(near))
        return list(found)

    async def _nearest(
        self,
        conn: AsyncConnection,
        generation: Generation,
        vector: HalfVector,
        note_filter: NoteFilter,
        limit: int,
    ) -> list[int]:
        exact = await self._is_small(conn, generation.id)
        if note_filter.is_open:
            hits = await queries_vectors.find_near_notes(conn, generation, vector, limit, exact=exact)
        else:
            hits = await queries_search.find_near_notes_filtered(conn, generation, vector, note_filter, limit, exact=exact)
        return [hit.id for hit in hits]

    async def _is_small(self, conn: AsyncConnection, generation: int) -> bool:
        if generation in self._large:
            return False
        if await queries_vectors.has_more_note_vectors(conn, generation, EXACT_ROWS):
            # A hint, not state: only spares the count from now on.
            self._large.add(generation)
            return False
        return True


async def _day_filters(conn: AsyncConnection, query: NoteQuery, note_filter: NoteFilter) -> list[NoteFilter]:
    if not query.spans or note_filter.start is not None or note_filter.end is not None:
        return []
    newest = await queries_search.find_newest_day(conn)
    if newest is None:
        return []
    ranges = year_ranges(list(query.spans), newest)[:4]
    return [msgspec.structs.replace(note_filter, start=first, end=last) for first, last in ranges]


def _features(candidate: Candidate, meaning: MeaningQuery | None, table: TermTable) -> NoteFeatures:
    similarities: tuple[float, ...] = ()
    if meaning is not None and candidate.first is not None and candidate.second is not None:
        both = (candidate.first, candidate.second)[: len(meaning.vectors)]
        similarities = both if max(both) >= meaning.floor else ()
    return NoteFeatures(
        id=candidate.id,
        event_date=candidate.event_date,
        subjects=candidate.subjects,
        meaning=similarities,
        words=table.score(candidate.terms, candidate.word_count),
    )
