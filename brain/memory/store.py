"""The long-term memory as one object: what may be written, noun by noun, and what may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.memory.entities import EntityStore
from brain.memory.generations import VectorSpaces
from brain.memory.merge import merge_entities
from brain.memory.notes import NoteStore
from brain.memory.reads import EltmReads
from brain.memory.relationships import RelationshipStore

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.embeddings import Embedder
    from brain.memory.views import Author, MergedEntities


class EltmStore:
    """Every operation of memory.md section 5, safe under concurrent callers and several brains.

    ``embedder`` is the configured model, or the ``VectorSpaces`` that knows older ones as well. ``match_threshold`` is the floor
    of near matches; ``None`` uses the measured floor of the active generation.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        embedder: Embedder | VectorSpaces,
        match_threshold: float | None = None,
    ) -> None:
        self.pool = pool
        self.spaces = embedder if isinstance(embedder, VectorSpaces) else VectorSpaces(pool, embedder)
        self.entities = EntityStore(pool, self.spaces, match_threshold)
        self.relationships = RelationshipStore(pool)
        self.notes = NoteStore(pool, self.spaces)
        self.reads = EltmReads(pool)

    async def merge(self, winner_id: int, loser_id: int, *, author: Author = "writer") -> MergedEntities:
        """Fold one entity into another; see ``brain.memory.merge``.

        Raises:
            InvalidInputError: both ids are the same.
            NotFoundError: one of them does not exist.
            EmbeddingError: nothing was changed.
        """
        return await merge_entities(self.pool, self.spaces, winner_id, loser_id, author=author)
