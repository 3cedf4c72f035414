"""The queue as people see it: list, retry, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brain.errors import InvalidInputError, NotFoundError
from brain.jobs import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.jobs.queries import JobState, JobSummaryRow, QueueFigures

MAX_LIMIT: Final = 500
MAX_ID: Final = 2**63 - 1


def _nobody() -> None:
    """Wake no worker: there is none in this process."""


class JobService:
    """What may be done with queued jobs. ``wake`` tells the workers of this process that there may be work."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], wake: Callable[[], None] = _nobody) -> None:
        self._pool = pool
        self._wake = wake

    async def list_page(self, state: JobState | None, *, limit: int, offset: int) -> list[JobSummaryRow]:
        """Return jobs without their content, oldest first.

        Raises:
            InvalidInputError: ``limit`` is not in 1..500, or ``offset`` is negative.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidInputError(f"limit must be between 1 and {MAX_LIMIT}")
        if not 0 <= offset <= MAX_ID:
            raise InvalidInputError("offset must not be negative")
        async with self._pool.connection() as conn:
            return await queries.list_jobs(conn, state=state, limit=limit, offset=offset)

    async def retry(self, job_id: int) -> None:
        """Make a job claimable at once, its failures forgotten; a running one just goes on.

        Raises:
            NotFoundError: there is no such job.
        """
        async with self._pool.connection() as conn:
            if not await queries.retry_job(conn, job_id):
                raise NotFoundError("job", job_id)
        self._wake()

    async def drop(self, job_id: int) -> None:
        """Delete a job in whatever state, with its content.

        Raises:
            NotFoundError: there is no such job.
        """
        async with self._pool.connection() as conn:
            if not await queries.delete_job(conn, job_id):
                raise NotFoundError("job", job_id)

    async def figures(self) -> QueueFigures:
        """Return the depth of the queue and the age of its oldest job."""
        async with self._pool.connection() as conn:
            return await queries.read_figures(conn)
