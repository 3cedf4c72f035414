"""Health and figures: ``/api/health/live``, ``/api/health/ready``, ``/metrics``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import psycopg
from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from msgspec import Struct
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from brain.db.migrate import pending_migrations
from brain.jobs.service import JobService
from brain.observability.metrics import CONTENT_TYPE, Metrics
from brain.runs.client import HandClient

CHECK_TIMEOUT_S: Final = 3.0

EmbeddingCheck: TypeAlias = Callable[[], Awaitable[bool]]


class Alive(Struct, frozen=True):
    """The process answers."""

    ok: bool = True


class Checks(Struct, frozen=True):
    """What was found; ``embedding`` is null where no memory is wired."""

    database: bool
    migrations: bool
    hand: bool
    embedding: bool | None


class Readiness(Struct, frozen=True):
    """Whether chats can be answered. Without embeddings they can, with less memory."""

    ok: bool
    checks: Checks


class HealthChecks:
    """Asks the parts that a chat needs."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        database_url: str,
        hand: HandClient,
        embedding: EmbeddingCheck | None = None,
    ) -> None:
        self._pool = pool
        self._database_url = database_url
        self._hand = hand
        self._embedding = embedding
        self._migrated = False

    async def run(self) -> Readiness:
        """Return what works now; takes at most a few seconds."""
        database, hand, embedding = await asyncio.gather(self._database(), self._hand.is_healthy(), self._check_embedding())
        migrations = database and await self._migrations()
        return Readiness(database and migrations and hand, Checks(database, migrations, hand, embedding))

    async def _database(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S), self._pool.connection(timeout=CHECK_TIMEOUT_S) as conn:
                await conn.execute("SELECT 1")
        except (psycopg.Error, PoolTimeout, PoolClosed, TimeoutError):
            return False
        return True

    async def _migrations(self) -> bool:
        # Once they are all applied they stay applied: the files are asked only until then.
        if not self._migrated:
            try:
                self._migrated = not await asyncio.to_thread(pending_migrations, self._database_url)
            except psycopg.Error:
                return False
        return self._migrated

    async def _check_embedding(self) -> bool | None:
        return None if self._embedding is None else await self._embedding()


class HealthController(Controller):
    """Health."""

    path = "/api/health"
    tags = ("health",)

    @get("/live", operation_id="isAlive", summary="Say that the process answers")
    async def live(self) -> Alive:
        """Answer without asking anything else."""
        return Alive()

    @get(
        "/ready",
        operation_id="isReady",
        summary="Say whether chats can be answered",
        responses={503: ResponseSpec(Readiness, generate_examples=False, description="Something is missing")},
    )
    async def ready(self, health: NamedDependency[HealthChecks]) -> Response[Readiness]:
        """Check database, migrations, hand and embedding."""
        found = await health.run()
        return Response(found, status_code=200 if found.ok else 503)


class MetricsController(Controller):
    """Figures for Prometheus."""

    path = "/metrics"
    include_in_schema = False

    @get("/")
    async def read(
        self,
        metrics: NamedDependency[Metrics],
        pool: NamedDependency[AsyncConnectionPool[AsyncConnection]],
        jobs: NamedDependency[JobService],
    ) -> Response[bytes]:
        """Return all figures; those of the queue stay as they were while the database does not answer."""
        metrics.observe_pool(pool)
        with suppress(psycopg.Error, PoolTimeout, PoolClosed):
            queue = await jobs.figures()
            metrics.observe_queue(
                {"waiting": queue.waiting, "running": queue.running, "retrying": queue.retrying, "parked": queue.parked},
                queue.oldest_age_seconds,
            )
        return Response(metrics.render(), media_type=CONTENT_TYPE)
