"""Generations of vectors: one space per embedding model, one of them active, at most one being filled (README decision 5).

Writes go to both; questions are embedded by the model of the active one. Which is which lives in the database, so that
every brain agrees.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from pgvector import HalfVector

from brain.memory import queries_vectors as queries
from brain.memory.calibration import calibrate_floors
from brain.memory.embeddings import EmbeddingError
from brain.memory.queries_vectors import Generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.embeddings import Embedder, TextKind

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

UNCALIBRATED_FLOOR: Final = 0.1
UNCALIBRATED_NEAR_FLOOR: Final = 0.95
"""Until a model could be measured: keep nearly everything, take nearly nothing for a repetition."""


class Spaces(msgspec.Struct, frozen=True):
    """The generations in use."""

    active: Generation | None
    filling: Generation | None

    @property
    def all(self) -> list[Generation]:
        """Active first."""
        return [generation for generation in (self.active, self.filling) if generation is not None]


class QueryVectors(msgspec.Struct, frozen=True):
    """Forms of a question in the space of the active generation."""

    generation: Generation
    vectors: list[HalfVector]


Vectors = dict[int, list[HalfVector]]
"""Vectors of a list of texts, by generation id."""


class VectorSpaces:
    """Embeds for whatever generations are in use.

    ``current`` is the configured model; ``others`` are the embedding models still in the catalog, by id: while the active
    generation belongs to one of them it keeps serving until the new generation is filled.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        current: Embedder,
        others: Mapping[str, Embedder] | None = None,
    ) -> None:
        self._pool = pool
        self._current = current
        self._embedders: dict[str, Embedder] = {**(others or {}), current.model_id: current}

    @property
    def current(self) -> Embedder:
        """The configured model."""
        return self._current

    async def prepare(self) -> Spaces:
        """Make sure that a generation of the configured model exists, and measure floors that are missing.

        Called at start-up. An embedder that is down does not stop the start: floors are measured at the next occasion.
        """
        async with self._pool.connection() as conn, conn.transaction():
            await queries.lock_state(conn)
            spaces = _spaces(await queries.list_generations(conn))
            if spaces.active is None or not self._fits(spaces.active):
                await self._add_generation(conn, spaces)
            spaces = _spaces(await queries.list_generations(conn))
        if spaces.filling is not None:
            log.warning("memory_reembed_needed", active=spaces.active and spaces.active.model_id, model=spaces.filling.model_id)
        await self.measure_floors(spaces)
        return spaces

    async def start_filling(self, conn: AsyncConnection) -> Generation:
        """Return the generation to fill with the configured model; the caller holds the state lock of its transaction."""
        spaces = _spaces(await queries.list_generations(conn))
        if spaces.filling is not None:
            if self._fits(spaces.filling):
                return spaces.filling
            await queries.drop_generation(conn, spaces.filling.id)
        await queries.insert_generation(conn, self._current.model_id, self._current.dimensions, "filling")
        added = _spaces(await queries.list_generations(conn)).filling
        assert added is not None
        return added

    async def read(self, conn: AsyncConnection, *, hold: bool = False) -> Spaces:
        """Return the generations in use; with ``hold`` they stay the same until the caller's transaction ends."""
        if hold:
            await queries.share_state(conn)
        spaces = _spaces(await queries.list_generations(conn))
        if spaces.active is None and not hold:
            return await self.prepare()
        return spaces

    async def embed_passages(self, spaces: Spaces, texts: Sequence[str], known: Vectors | None = None) -> Vectors:
        """Return the vectors of texts for every generation in use, keeping those in ``known``.

        A generation whose model is gone from the catalog, or that is only being filled and whose model fails, is left out: the
        re-embedding finds what is missing. The active one must succeed.

        Raises:
            EmbeddingError: the model of the active generation failed; or nothing could be embedded at all.
        """
        vectors: Vectors = dict(known or {})
        if not texts:
            return {generation.id: [] for generation in spaces.all}
        for generation in spaces.all:
            if generation.id in vectors:
                continue
            embedder = self._embedders.get(generation.model_id)
            if embedder is None:
                log.warning("memory_embedding_model_gone", model=generation.model_id)
                continue
            try:
                vectors[generation.id] = await self._embed(embedder, generation, texts, "passage")
            except EmbeddingError as problem:
                if generation is spaces.active:
                    raise
                log.warning("memory_filling_skipped", model=generation.model_id, reason=str(problem))
        return vectors

    async def embed_queries(self, texts: Sequence[str], spaces: Spaces | None = None) -> QueryVectors:
        """Return forms of a question in the active space, in one call; ``spaces`` if they were read already.

        Raises:
            EmbeddingError: its model failed or is gone from the catalog.
        """
        if spaces is None:
            async with self._pool.connection() as conn:
                spaces = await self.read(conn)
        active = spaces.active
        if active is None or (embedder := self._embedders.get(active.model_id)) is None:
            model = active.model_id if active else "none"
            raise EmbeddingError("internal", f"the model of the stored vectors ({model}) is not configured any more")
        return QueryVectors(active, await self._embed(embedder, active, texts, "query"))

    async def embed_for(self, generation: Generation, texts: Sequence[str]) -> list[HalfVector]:
        """Return passages in the space of one generation.

        Raises:
            EmbeddingError: its model failed or is gone from the catalog.
        """
        embedder = self._embedders.get(generation.model_id)
        if embedder is None:
            raise EmbeddingError("internal", f"embedding model {generation.model_id} is not configured any more")
        return await self._embed(embedder, generation, texts, "passage")

    async def measure_floors(self, spaces: Spaces) -> None:
        """Measure and store floors that are missing; a model that cannot be asked now is asked another time."""
        for generation in spaces.all:
            embedder = self._embedders.get(generation.model_id)
            if generation.floor is not None or embedder is None:
                continue
            try:
                floors = await calibrate_floors(embedder)
            except EmbeddingError as problem:
                log.warning("memory_floors_not_measured", model=generation.model_id, reason=str(problem))
                continue
            async with self._pool.connection() as conn:
                await queries.set_floors(conn, generation.id, floors.floor, floors.near_floor)

    def _fits(self, generation: Generation) -> bool:
        return generation.model_id == self._current.model_id and generation.dimensions == self._current.dimensions

    async def _add_generation(self, conn: AsyncConnection, spaces: Spaces) -> None:
        if spaces.active is not None and await queries.has_vectors(conn):
            await self.start_filling(conn)
            return
        for generation in spaces.all:
            await queries.set_generation_state(conn, generation.id, "retired")
        added = await queries.insert_generation(conn, self._current.model_id, self._current.dimensions, "active")
        await queries.set_active_generation(conn, added)
        for generation in spaces.all:
            await queries.drop_generation(conn, generation.id)

    @staticmethod
    async def _embed(
        embedder: Embedder,
        generation: Generation,
        texts: Sequence[str],
        kind: TextKind,
    ) -> list[HalfVector]:
        vectors = await embedder.embed_texts(texts, kind)
        if len(vectors) != len(texts):
            raise EmbeddingError("upstream", f"{len(texts)} texts gave {len(vectors)} vectors")
        return [_half(vector, generation.dimensions) for vector in vectors]


def _spaces(generations: Iterable[Generation]) -> Spaces:
    by_state = {generation.state: generation for generation in generations}
    return Spaces(by_state.get("active"), by_state.get("filling"))


def _half(vector: Sequence[float], dimensions: int) -> HalfVector:
    # Unit length: cosine does not change, and no value can leave the range of a half float.
    norm = math.sqrt(math.fsum(value * value for value in vector))
    if len(vector) != dimensions or not math.isfinite(norm) or norm == 0:
        raise EmbeddingError("upstream", f"a vector of {len(vector)} dimensions (expected {dimensions}) with length {norm}")
    return HalfVector([value / norm for value in vector])
