"""The one search of the memory: by meaning, words and names, fused. The tools, the injection and the page all ask here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import regex
import structlog

from brain.errors import InvalidInputError
from brain.memory import queries_names, queries_search, queries_vectors, queries_views
from brain.memory.embeddings import EmbeddingError
from brain.memory.generations import UNCALIBRATED_FLOOR
from brain.memory.normalise import check_range
from brain.memory.note_search import (
    EF_SEARCH,
    EXACT_ROWS,
    MAX_EF_SEARCH,
    MAX_QUERY_TERMS,
    MeaningQuery,
    NoteQuery,
    NoteSearch,
)
from brain.memory.queries_search import NoteFilter
from brain.memory.query_dates import find_spans
from brain.memory.ranking import Ranked, Ranks, fuse
from brain.memory.reads import subjects_of
from brain.memory.term_weights import COMMON
from brain.memory.tokens import STOPWORDS, name_candidates, query_terms, words_of
from brain.memory.views import EntityView, Note, Subject

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import QueryVectors, Spaces, VectorSpaces
    from brain.memory.queries_vectors import Near

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

DEGRADED: Final = "embedding unavailable"
EMBED_SECONDS: Final = 20.0
"""A chat waits for the search: an embedder that takes longer is left out, words and names still answer."""
ENTITY_CANDIDATES: Final = 60
NAMED_LIMIT: Final = 20
MAX_ID: Final = 2**63 - 1
LEAST_SPELLED: Final = 4
"""Letters from which a word may be a misspelt name."""
SPELLING_FLOOR: Final = 0.5


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

    The thresholds are floors of the list by meaning; ``None`` uses the measured floor of the active generation. Without an
    embedder the words and names still answer, and the result says so.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        spaces: VectorSpaces,
        entity_threshold: float | None = None,
        note_threshold: float | None = None,
        *,
        embed_seconds: float = EMBED_SECONDS,
    ) -> None:
        self._pool = pool
        self._embed_seconds = embed_seconds
        self._spaces = spaces
        self._entity_threshold = entity_threshold
        self._note_threshold = note_threshold
        self._notes = NoteSearch()
        self._large: set[int] = set()

    async def search(
        self,
        text: str,
        *,
        note_limit: int,
        entity_limit: int,
        note_filter: NoteFilter | None = None,
    ) -> SearchResult:
        """Return the best notes and entities over one embedding call; a limit of 0 skips that half, both 0 do nothing at all.

        Raises:
            InvalidInputError: a blank text, a negative limit, a range out of order.
        """
        chosen = note_filter or NoteFilter()
        query = _check(text, note_limit, entity_limit, chosen)
        if not note_limit and not entity_limit:
            return SearchResult([], [])
        async with self._pool.connection() as conn:
            named = await queries_names.find_named(conn, name_candidates(query), NAMED_LIMIT)
            spaces = await self._spaces.read(conn)
        bare = _without_names(query, [name for _, name in named])
        forms = [query, bare] if bare != query and note_limit else [query]
        vectors, degraded = await self._embed(forms, spaces)
        async with self._pool.connection() as conn, conn.transaction():
            active = await queries_search.use_iterative_scans(conn, min(max(EF_SEARCH, note_limit), MAX_EF_SEARCH))
            if vectors and vectors.generation.id != active:
                # The generation was switched in between: its vectors may be gone already.
                vectors, degraded = await self._embed(forms, await self._spaces.read(conn))
            entities = await self._rank_entities(conn, query, vectors, named, entity_limit)
            subjects = list(dict.fromkeys(entity_id for entity_id, _ in named))
            terms = query_terms(bare)
            name_terms = [term for term in query_terms(query) if term not in terms]
            asked = NoteQuery(self._meaning(vectors), terms, name_terms, subjects, find_spans(query))
            found = await self._notes.find(conn, asked, chosen, note_limit) if note_limit else None
            notes = await _note_hits(conn, found.ranked, found.similarities) if found else []
        return SearchResult(notes, entities, degraded)

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

    async def _embed(self, texts: list[str], spaces: Spaces) -> tuple[QueryVectors | None, str | None]:
        try:
            async with asyncio.timeout(self._embed_seconds):
                return await self._spaces.embed_queries(texts, spaces), None
        except (EmbeddingError, TimeoutError) as problem:
            log.warning("memory_search_degraded", reason=str(problem) or f"no answer within {self._embed_seconds:g} s")
            return None, DEGRADED

    def _meaning(self, query: QueryVectors | None) -> MeaningQuery | None:
        return None if query is None else MeaningQuery(query.generation, query.vectors, _floor(query, self._note_threshold))

    async def _rank_entities(
        self,
        conn: AsyncConnection,
        query: str,
        vectors: QueryVectors | None,
        named: Sequence[tuple[int, str]],
        limit: int,
    ) -> list[EntityHit]:
        if not limit:
            return []
        wanted = max(ENTITY_CANDIDATES, limit)
        similar: dict[int, float] = {}
        if vectors is not None:
            floor = _floor(vectors, self._entity_threshold)
            near = await self._near_entities(conn, vectors, wanted)
            similar = {hit.id: hit.similarity for hit in near if hit.similarity >= floor}
        worded = await queries_search.find_entities_by_terms(conn, query_terms(query)[:MAX_QUERY_TERMS], COMMON, wanted)
        names = list(dict.fromkeys([*(entity_id for entity_id, _ in named), *await _find_spelled(conn, query)]))
        ranked = fuse(list(similar), [hit.id for hit in worded], names)[:limit]
        views = await queries_views.get_entity_views(conn, [hit.id for hit in ranked])
        return [EntityHit(views[hit.id], hit.score, hit.ranks, similar.get(hit.id)) for hit in ranked if hit.id in views]

    async def _near_entities(self, conn: AsyncConnection, query: QueryVectors, limit: int) -> list[Near]:
        generation = query.generation
        exact = generation.id not in self._large
        if exact and await queries_vectors.has_more_entity_vectors(conn, generation.id, EXACT_ROWS):
            # A hint, not state: only spares the count from now on.
            self._large.add(generation.id)
            exact = False
        return await queries_vectors.find_near_entities(conn, generation, query.vectors[0], limit, exact=exact)


def _floor(query: QueryVectors, threshold: float | None) -> float:
    if threshold is not None:
        return threshold
    return query.generation.floor if query.generation.floor is not None else UNCALIBRATED_FLOOR


async def _find_spelled(conn: AsyncConnection, query: str) -> list[int]:
    """Return the entities whose name is nearly a word of the text, the surest first."""
    words = [word for word in name_candidates(query, max_words=2) if len(word) >= LEAST_SPELLED][:MAX_QUERY_TERMS]
    return [entity_id for entity_id, _ in await queries_names.find_spelled(conn, words, SPELLING_FLOOR, NAMED_LIMIT)]


def _without_names(query: str, names: Sequence[str]) -> str:
    """Return the question without the names it names, if anything telling is left: names outshine what is asked of them."""
    bare = query
    for name in sorted(set(names), key=len, reverse=True):
        bare = regex.sub(rf"(?<![\p{{L}}\p{{N}}]){regex.escape(name)}(?:['’]s)?(?![\p{{L}}\p{{N}}])", " ", bare, flags=regex.I)
    bare = " ".join(bare.split())
    return bare if any(word not in STOPWORDS for word in words_of(bare)) else query


async def _note_hits(conn: AsyncConnection, ranked: Sequence[Ranked], similar: Mapping[int, float]) -> list[NoteHit]:
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
    if any(abs(number) > MAX_ID for number in (note_filter.entity_id, note_filter.relationship_id) if number is not None):
        raise InvalidInputError("an id has at most 63 bits")
    check_range(note_filter.start, note_filter.end)
    query = text.replace("\x00", "").strip()
    if not query and (note_limit or entity_limit):
        raise InvalidInputError("the text to search for must not be blank")
    return query
