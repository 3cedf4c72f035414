"""The one search of the memory: by meaning, words and names, fused. The tools, the injection and the page all ask here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import structlog

from brain.errors import InvalidInputError
from brain.memory import queries_names, queries_search, queries_vectors, queries_views
from brain.memory.embeddings import EmbeddingError
from brain.memory.generations import UNCALIBRATED_FLOOR
from brain.memory.normalise import check_range
from brain.memory.queries_search import NoteFilter
from brain.memory.ranking import Ranked, Ranks, fuse
from brain.memory.reads import subjects_of
from brain.memory.tokens import name_candidates, query_terms
from brain.memory.views import EntityView, Note, Subject

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import QueryVector, VectorSpaces
    from brain.memory.queries_vectors import Near

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

DEGRADED: Final = "embedding unavailable"
CANDIDATES: Final = 60
"""Rows that each list contributes at least."""
MAX_QUERY_TERMS: Final = 32
COMMON_NOTES: Final = 4_000
NAMED_LIMIT: Final = 20
SPELLING_FLOOR: Final = 0.5

EXACT_ROWS: Final = 4_000
"""Up to this many vectors are compared one by one."""
EF_SEARCH: Final = 100
MAX_EF_SEARCH: Final = 1_000

EntityId: TypeAlias = int
HasMore: TypeAlias = Callable[["AsyncConnection", int, int], Awaitable[bool]]
Similarities: TypeAlias = dict[int, float]


class NoteHit(msgspec.Struct, frozen=True, rename="camel"):
    """A note that was found; ``similarity`` is ``None`` when it was not found by meaning."""

    note: Note
    subject: Subject
    score: float
    ranks: Ranks
    similarity: float | None


class EntityHit(msgspec.Struct, frozen=True, rename="camel"):
    """An entity that was found; ``similarity`` is ``None`` when it was not found by meaning."""

    view: EntityView
    score: float
    ranks: Ranks
    similarity: float | None


class SearchResult(msgspec.Struct, frozen=True, rename="camel"):
    """Hits, best first; ``degraded`` says why a part of the search was left out."""

    notes: list[NoteHit]
    entities: list[EntityHit]
    degraded: str | None = None


class EltmSearch:
    """Finds notes and entities for a text. Keeps nothing in the process: what was written is found at once, by every brain.

    The thresholds are floors of the list by meaning; ``None`` uses the measured floor of the active generation. Without an embedder
    the words and names still answer, and the result says so.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        spaces: VectorSpaces,
        entity_threshold: float | None = None,
        note_threshold: float | None = None,
    ) -> None:
        self._pool = pool
        self._spaces = spaces
        self._entity_threshold = entity_threshold
        self._note_threshold = note_threshold
        self._large: set[tuple[int, HasMore]] = set()

    async def search(
        self,
        text: str,
        *,
        note_limit: int,
        entity_limit: int,
        note_filter: NoteFilter | None = None,
    ) -> SearchResult:
        """Return the best notes and entities over one embedded text; a limit of 0 skips that half, both 0 do nothing at all.

        Raises:
            InvalidInputError: a blank text, a negative limit, a range out of order.
        """
        chosen = note_filter or NoteFilter()
        query = _check(text, note_limit, entity_limit, chosen)
        if not note_limit and not entity_limit:
            return SearchResult([], [])
        vector, degraded = await self._embed(query)
        async with self._pool.connection() as conn, conn.transaction():
            entities = await self._rank_entities(conn, query, vector, entity_limit)
            notes = await self._rank_notes(conn, query, vector, chosen, note_limit) if note_limit else []
        return SearchResult(notes, entities[:entity_limit], degraded)

    async def search_notes(self, text: str, limit: int, note_filter: NoteFilter | None = None) -> SearchResult:
        """Return the best notes.

        Raises:
            InvalidInputError: a blank text, a limit below 1, a range out of order.
        """
        if limit < 1:
            raise InvalidInputError("limit must be at least 1")
        return await self.search(text, note_limit=limit, entity_limit=0, note_filter=note_filter)

    async def search_entities(self, text: str, limit: int) -> SearchResult:
        """Return the best entities.

        Raises:
            InvalidInputError: a blank text, a limit below 1.
        """
        if limit < 1:
            raise InvalidInputError("limit must be at least 1")
        return await self.search(text, note_limit=0, entity_limit=limit)

    async def _embed(self, query: str) -> tuple[QueryVector | None, str | None]:
        try:
            return await self._spaces.embed_query(query), None
        except EmbeddingError as problem:
            log.warning("memory_search_degraded", reason=str(problem))
            return None, DEGRADED

    async def _rank_entities(
        self,
        conn: AsyncConnection,
        query: str,
        vector: QueryVector | None,
        limit: int,
    ) -> list[EntityHit]:
        if not limit:
            return []
        wanted = max(CANDIDATES, limit)
        similar: Similarities = {}
        if vector is not None:
            floor = self._floor(vector, self._entity_threshold)
            hits = await self._near_entities(conn, vector, wanted)
            similar = {hit.id: hit.similarity for hit in hits if hit.similarity >= floor}
        worded = await queries_search.find_entities_by_terms(conn, query_terms(query)[:MAX_QUERY_TERMS], COMMON_NOTES, wanted)
        named = await _find_named(conn, query)
        ranked = fuse(list(similar), [hit.id for hit in worded], list(named))[:limit]
        views = await queries_views.get_entity_views(conn, [hit.id for hit in ranked])
        return [EntityHit(views[hit.id], hit.score, hit.ranks, similar.get(hit.id)) for hit in ranked if hit.id in views]

    async def _rank_notes(
        self,
        conn: AsyncConnection,
        query: str,
        vector: QueryVector | None,
        note_filter: NoteFilter,
        limit: int,
    ) -> list[NoteHit]:
        wanted = max(CANDIDATES, limit * 2)
        similar: Similarities = {}
        if vector is not None:
            floor = self._floor(vector, self._note_threshold)
            hits = await self._near_notes(conn, vector, note_filter, wanted)
            similar = {hit.id: hit.similarity for hit in hits if hit.similarity >= floor}
        terms = query_terms(query)[:MAX_QUERY_TERMS]
        worded = await queries_search.find_notes_by_terms(conn, terms, note_filter, COMMON_NOTES, wanted)
        ranked = fuse(list(similar), [hit.id for hit in worded], [])
        return await _note_hits(conn, ranked[:limit], similar)

    async def _near_notes(
        self,
        conn: AsyncConnection,
        vector: QueryVector,
        note_filter: NoteFilter,
        limit: int,
    ) -> list[Near]:
        generation = vector.generation
        await queries_search.use_iterative_scans(conn, min(max(EF_SEARCH, limit), MAX_EF_SEARCH))
        exact = await self._is_small(conn, generation.id, queries_vectors.has_more_note_vectors)
        if note_filter.is_open:
            return await queries_vectors.find_near_notes(conn, generation, vector.vector, limit, exact=exact)
        return await queries_search.find_near_notes_filtered(
            conn,
            generation,
            vector.vector,
            note_filter,
            limit,
            exact=exact,
        )

    async def _near_entities(self, conn: AsyncConnection, vector: QueryVector, limit: int) -> list[Near]:
        generation = vector.generation
        exact = await self._is_small(conn, generation.id, queries_vectors.has_more_entity_vectors)
        return await queries_vectors.find_near_entities(conn, generation, vector.vector, limit, exact=exact)

    async def _is_small(self, conn: AsyncConnection, generation: int, has_more: HasMore) -> bool:
        """Whether comparing with every row is as quick as the index, which may miss rows of a small or lopsided store."""
        if (generation, has_more) in self._large:
            return False
        if await has_more(conn, generation, EXACT_ROWS):
            # A hint, not state: only spares the count from now on.
            self._large.add((generation, has_more))
            return False
        return True

    @staticmethod
    def _floor(vector: QueryVector, threshold: float | None) -> float:
        if threshold is not None:
            return threshold
        return vector.generation.floor if vector.generation.floor is not None else UNCALIBRATED_FLOOR


async def _find_named(conn: AsyncConnection, query: str) -> dict[EntityId, str]:
    """Return the entities that the text names, exactly or nearly, the surest first."""
    candidates = name_candidates(query)
    exact = await queries_names.find_named(conn, candidates, NAMED_LIMIT)
    named: dict[EntityId, str] = {}
    for entity_id, name in exact:
        named.setdefault(entity_id, name)
    words = [word for word in candidates if len(word) >= 4][:MAX_QUERY_TERMS]
    for entity_id, _ in await queries_names.find_spelled(conn, words, SPELLING_FLOOR, NAMED_LIMIT):
        named.setdefault(entity_id, "")
    return named


async def _note_hits(conn: AsyncConnection, ranked: list[Ranked], similar: Similarities) -> list[NoteHit]:
    notes = await queries_views.get_notes(conn, [hit.id for hit in ranked])
    subjects = await subjects_of(conn, list(notes.values()))
    return [
        NoteHit(notes[hit.id], subjects[hit.id], hit.score, hit.ranks, similar.get(hit.id))
        for hit in ranked
        if hit.id in notes and hit.id in subjects
    ]


def _check(text: str, note_limit: int, entity_limit: int, note_filter: NoteFilter) -> str:
    if note_limit < 0 or entity_limit < 0:
        raise InvalidInputError("limit must not be negative")
    if note_filter.entity_id is not None and note_filter.relationship_id is not None:
        raise InvalidInputError("filter by an entity or by a relationship, not by both")
    check_range(note_filter.start, note_filter.end)
    query = text.replace("\x00", "").strip()
    if not query and (note_limit or entity_limit):
        raise InvalidInputError("the text to search for must not be blank")
    return query
