"""Re-embedding without a pause: a new generation is filled while the old one serves, then one transaction switches (decision 5).

The state is a row in the database: any brain may take the work up, a killed one loses its lease, nothing is embedded twice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import msgspec
import psycopg
import structlog
from psycopg_pool import PoolTimeout

from brain.errors import ConflictError
from brain.memory import queries, queries_reembed, queries_vectors
from brain.memory.embeddings import EmbeddingError
from brain.memory.normalise import entity_text
from brain.memory.queries_reembed import ReembedState

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import VectorSpaces
    from brain.memory.maintenance import Maintenance
    from brain.memory.queries_vectors import Generation

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

CHUNK: Final = 64
"""Texts of one embedding call and one transaction."""
LEASE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 10.0
MAX_PASSES: Final = 50
"""Writes may go on meanwhile; a store that outruns this many passes is broken, not busy."""


class ReembedStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The wire form; the counts are 0 unless finished."""

    state: ReembedState
    entities: int
    notes: int
    error: str | None


class LostLeaseError(Exception):
    """Another brain has the work by now."""


class Reembedding:
    """Starts, reports and does the re-embedding. ``run`` is the worker: one per brain, in a task of the server."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        spaces: VectorSpaces,
        maintenance: Maintenance,
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._pool = pool
        self._spaces = spaces
        self._maintenance = maintenance
        self._lease_seconds = lease_seconds
        self._wake = asyncio.Event()

    async def status(self) -> ReembedStatus:
        """Return the state of the work that runs or ran last."""
        async with self._pool.connection() as conn:
            row = await queries_reembed.read_state(conn)
        done = row.state == "finished"
        return ReembedStatus(row.state, row.entities if done else 0, row.notes if done else 0, row.error)

    async def start(self) -> ReembedStatus:
        """Ask for the work.

        Raises:
            ConflictError: maintenance mode is off, or it runs already.
        """
        if not await self._maintenance.is_enabled():
            raise ConflictError("switch maintenance mode on first")
        async with self._pool.connection() as conn:
            if not await queries_reembed.start(conn):
                raise ConflictError("a re-embedding is running already")
        self._wake.set()
        return ReembedStatus("running", 0, 0, None)

    async def run(self) -> None:
        """Prepare the generations, then do the work whenever it is asked for, here or by another brain, until cancelled."""
        prepared = False
        while True:
            try:
                if not prepared:
                    await self._spaces.prepare()
                    prepared = True
                await self.run_once()
            except (psycopg.Error, PoolTimeout) as problem:
                log.warning("memory_reembed_poll_failed", reason=str(problem))
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()

    async def run_once(self) -> bool:
        """Take the work up if it waits for somebody, and finish it; whether there was any."""
        token = uuid4()
        async with self._pool.connection() as conn:
            if not await queries_reembed.claim(conn, token, self._lease_seconds):
                return False
        try:
            await self._work_under_lease(token)
        except asyncio.CancelledError:
            await asyncio.shield(self._release(token))
            raise
        return True

    async def _work_under_lease(self, token: UUID) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                beat = group.create_task(self._keep_lease(token))
                await self._work(token)
                beat.cancel()
        except* LostLeaseError:
            log.warning("memory_reembed_lost")
        except* EmbeddingError as problems:
            await self._fail(token, str(problems.exceptions[0]))
        except* Exception as problems:
            # The edge of the job: whatever happened, the page must not show it as running for ever.
            log.exception("memory_reembed_failed", exc_info=problems)
            await self._fail(token, f"{type(problems.exceptions[0]).__name__}: {problems.exceptions[0]}")

    async def _work(self, token: UUID) -> None:
        async with self._pool.connection() as conn, conn.transaction():
            await queries_vectors.lock_state(conn)
            generation = await self._spaces.start_filling(conn)
            if not await queries_reembed.set_generation(conn, token, generation.id):
                raise LostLeaseError
        async with self._pool.connection() as conn:
            spaces = await self._spaces.read(conn)
        await self._spaces.measure_floors(spaces)
        for _ in range(MAX_PASSES):
            await self._fill_entities(generation)
            await self._fill_notes(generation)
            if await self._switch(token, generation):
                await self._drop_retired()
                return
        raise RuntimeError(f"the generation was still incomplete after {MAX_PASSES} passes")

    async def _fill_entities(self, generation: Generation) -> None:
        after = 0
        while True:
            async with self._pool.connection() as conn:
                ids = await queries_reembed.list_entities_without_vector(conn, generation.id, after, CHUNK)
                texts = await _entity_texts(conn, ids)
            if not ids:
                return
            vectors = dict(zip(texts, await self._spaces.embed_for(generation, list(texts.values())), strict=True))
            async with self._pool.connection() as conn, conn.transaction():
                # Locked while the text is read again: nobody can change it between that and the vector.
                await queries_vectors.lock_entities_in_order(conn, ids)
                for entity_id, text in (await _entity_texts(conn, ids)).items():
                    vector = vectors[entity_id] if text == texts.get(entity_id) else None
                    if vector is None:
                        vector = (await self._spaces.embed_for(generation, [text]))[0]
                    await queries_vectors.put_entity_vector(conn, entity_id, generation.id, vector)
            after = ids[-1]

    async def _fill_notes(self, generation: Generation) -> None:
        after = 0
        while True:
            async with self._pool.connection() as conn:
                rows = await queries_reembed.list_notes_without_vector(conn, generation.id, after, CHUNK)
            if not rows:
                return
            vectors = await self._spaces.embed_for(generation, [row.text for row in rows])
            async with self._pool.connection() as conn, conn.transaction():
                await queries_reembed.fill_notes(conn, generation.id, rows, vectors)
            after = rows[-1].id

    async def _switch(self, token: UUID, generation: Generation) -> bool:
        """Make the generation the active one, if nothing is missing in it; all writers wait for this moment."""
        async with self._pool.connection() as conn, conn.transaction():
            await queries_vectors.lock_state(conn)
            if await queries_reembed.list_entities_without_vector(conn, generation.id, 0, 1):
                return False
            if await queries_reembed.list_notes_without_vector(conn, generation.id, 0, 1):
                return False
            entities, notes = await queries_reembed.count_vectors(conn, generation.id)
            if not await queries_reembed.finish(conn, token, entities, notes):
                raise LostLeaseError
            for other in await queries_vectors.list_generations(conn):
                if other.state == "active":
                    await queries_vectors.set_generation_state(conn, other.id, "retired")
            await queries_vectors.set_generation_state(conn, generation.id, "active")
            await queries_vectors.set_active_generation(conn, generation.id)
            if entities or notes:
                await queries.bump_version(conn)
        return True

    async def _drop_retired(self) -> None:
        async with self._pool.connection() as conn, conn.transaction():
            await queries_vectors.lock_state(conn)
            for other in await queries_vectors.list_generations(conn):
                if other.state == "retired":
                    await queries_vectors.drop_generation(conn, other.id)

    async def _keep_lease(self, token: UUID) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            async with self._pool.connection() as conn:
                if not await queries_reembed.keep(conn, token, self._lease_seconds):
                    raise LostLeaseError

    async def _fail(self, token: UUID, reason: str) -> None:
        async with self._pool.connection() as conn:
            await queries_reembed.fail(conn, token, reason)

    async def _release(self, token: UUID) -> None:
        async with self._pool.connection() as conn:
            await queries_reembed.release(conn, token)


async def _entity_texts(conn: AsyncConnection, entity_ids: list[int]) -> dict[int, str]:
    entities = await queries_vectors.get_entities_to_embed(conn, entity_ids)
    attributes = await queries.get_attributes(conn, list(entities))
    return {
        entity_id: entity_text(entity.canonical_name, entity.category, attributes.get(entity_id, {}))
        for entity_id, entity in entities.items()
    }
