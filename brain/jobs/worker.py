"""The loop that works the queue: claim, keep the lease alive, do the work it was handed, finish or give back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

import psycopg
import structlog
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from brain.errors import BrainError, failure_chain
from brain.runs.failures import is_outage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from brain.jobs.queries import JobRow
    from brain.jobs.queue import Job, JobQueue

logger = structlog.get_logger(__name__)

IDLE_SECONDS: Final = 10.0
"""Pause when there is nothing to do (memory §10.2)."""

LEASES_UNTIL_GIVEN_UP: Final = 8
"""Heartbeats keep a slow job alive, but not a hung one: after this many lease lengths the attempt ends."""

MAX_HEARTBEAT_SECONDS: Final = 15.0
"""However long the lease is: a job that a person drops or erases has to stop soon."""

SHUTDOWN_SECONDS: Final = 5.0

_DATABASE_TROUBLE = (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests, OSError)


class JobWork(Protocol):
    """What is done with a job. Doing it twice must be harmless: a killed worker's job runs again."""

    async def __call__(self, job: JobRow) -> None:
        """Do the work; any exception gives the job back."""
        ...


class LeaseLostError(BrainError):
    """The lease ran out and someone else may have the job: our attempt ends and writes nothing more."""


class JobWorker:
    """``workers`` identical loops over one queue. Any number of processes may run them on one database."""

    def __init__(
        self,
        queue: JobQueue,
        work: JobWork,
        *,
        is_paused: Callable[[], Awaitable[bool]],
        workers: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._queue = queue
        self._work = work
        self._is_paused = is_paused
        self._workers = workers
        self._idle_seconds = idle_seconds
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; a job in hand is then given back at once."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._loop())

    def wake(self) -> None:
        """Look at the queue now instead of after the pause: something was queued in this process."""
        self._wake.set()

    async def _loop(self) -> None:
        while True:
            try:
                worked = await self.work_one()
            except _DATABASE_TROUBLE as problem:
                logger.warning("the queue cannot be read", error=str(problem))
                worked = False
            if not worked:
                await self._idle()

    async def _idle(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._idle_seconds):
                await self._wake.wait()
        self._wake.clear()

    async def work_one(self) -> bool:
        """Claim and work on one job; false when there is none or the queue is paused."""
        if await self._is_paused():
            return False
        job = await self._queue.claim()
        if job is None:
            return False
        log = logger.bind(job_id=job.id, chat_id=job.row.chat_id, attempt=job.row.attempts)
        try:
            await self._work_under_lease(job)
        except asyncio.CancelledError:
            await self._release(job)
            raise
        except LeaseLostError:
            log.warning("the lease of a job was lost, its attempt ends")
        except Exception as problem:  # the edge of a job: whatever it is, the job goes back
            outage = is_outage(problem)
            log.warning("a job failed", error=failure_chain(problem), outage=outage, exc_info=not isinstance(problem, BrainError))
            await self._queue.fail(job, failure_chain(problem), content=not outage)
        else:
            if not await self._queue.complete(job):
                log.warning("a finished job had lost its lease; whoever has it now will find its work done")
        return True

    async def _work_under_lease(self, job: Job) -> None:
        """Do the work while a second task keeps the lease; the first of the two to end decides."""
        limit = self._queue.policy.lease_seconds * LEASES_UNTIL_GIVEN_UP
        work = asyncio.ensure_future(self._work(job.row))
        lease = asyncio.ensure_future(self._keep_lease(job))
        try:
            async with asyncio.timeout(limit):
                await asyncio.wait({work, lease}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                lease.result()  # raises what ended it
            work.result()
        finally:
            work.cancel()
            lease.cancel()
            await asyncio.gather(work, lease, return_exceptions=True)

    async def _keep_lease(self, job: Job) -> None:
        """Prolong the lease three times in its length or oftener; a database that is away is forgiven until it has run out."""
        length = self._queue.policy.lease_seconds
        loop = asyncio.get_running_loop()
        kept_at = loop.time()
        while True:
            await asyncio.sleep(min(length / 3, MAX_HEARTBEAT_SECONDS))
            try:
                if not await self._queue.heartbeat(job):
                    raise LeaseLostError(f"job {job.id!r} is gone, or someone else has it")
                kept_at = loop.time()
            except _DATABASE_TROUBLE as problem:
                if loop.time() - kept_at >= length:
                    raise LeaseLostError(f"the lease of job {job.id!r} ran out while the database was away") from problem

    async def _release(self, job: Job) -> None:
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self._queue.release(job)
        except (*_DATABASE_TROUBLE, TimeoutError) as problem:
            logger.warning("a job could not be given back; it returns when its lease ends", job_id=job.id, error=str(problem))
