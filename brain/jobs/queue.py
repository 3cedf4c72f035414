"""The extraction queue as its users see it: put a region in, claim one under a lease, give it back or finish it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import msgspec
from psycopg.errors import UniqueViolation

from brain.jobs import queries
from brain.jobs.queries import JobRow
from shared_protocol.codec import encode_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.config.models import EltmConfig
    from shared_protocol.messages import Message

MAX_DELAY_SECONDS: Final = 2 * 60 * 60.0
CONTENT_FAILURES_UNTIL_PARKED: Final = 5
MAX_ERROR_CHARS: Final = 2000
CLAIM_ATTEMPTS: Final = 5
"""Each lost race means that another brain has claimed a job; five in a row and the next poll may try again."""


async def enqueue_snapshot(
    conn: AsyncConnection,
    messages: Sequence[Message],
    *,
    chat_id: str | None,
    chat_title: str,
    first_index: int = 0,
    serial_key: str | None = None,
) -> int:
    """Queue a region of a chat for extraction, in the caller's transaction, and return the job's id.

    ``first_index`` is the position of the first message in the chat: the source of what is remembered names positions.
    Jobs with the same ``serial_key`` (default: the chat) run one after the other. Callers skip chats and personas with
    ``remember`` off, and empty regions.
    """
    return await enqueue_encoded(
        conn,
        encode_messages(messages).decode(),
        message_count=len(messages),
        chat_id=chat_id,
        chat_title=chat_title,
        first_index=first_index,
        serial_key=serial_key,
    )


async def enqueue_encoded(
    conn: AsyncConnection,
    chat_json: str | None,
    *,
    message_count: int,
    chat_id: str | None,
    chat_title: str,
    first_index: int = 0,
    serial_key: str | None = None,
) -> int:
    """Queue a region that is already JSON.

    ``None`` stands for the whole stored text of the chat: the database copies it, compressed as it is, however long it is.
    """
    return await queries.insert_job(
        conn,
        chat_json=chat_json,
        chat_id=chat_id,
        chat_title=chat_title,
        first_index=first_index,
        message_count=message_count,
        serial_key=serial_key if serial_key is not None else chat_id,
    )


class QueuePolicy(msgspec.Struct, frozen=True):
    """How long a lease lasts and how long a failed job waits, in seconds."""

    lease_seconds: float
    first_delay_seconds: float

    def delay_seconds(self, attempts: int) -> float:
        """Return the pause after the given attempt (from 1): doubling from the first delay up to two hours."""
        return min(self.first_delay_seconds * 2.0 ** min(attempts - 1, 30), max(MAX_DELAY_SECONDS, self.first_delay_seconds))


def queue_policy(config: EltmConfig) -> QueuePolicy:
    """Return the policy of a configuration."""
    return QueuePolicy(config.job_timeout_minutes * 60.0, config.retry_delay_minutes * 60.0)


class Job(msgspec.Struct, frozen=True):
    """A claimed job: it is ours as long as ``lease`` is the one in the database."""

    row: JobRow
    lease: UUID

    @property
    def id(self) -> int:
        """Row id."""
        return self.row.id


class JobQueue:
    """The queue of one database. Every method is one short transaction; none is held while a job is worked on."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], policy: QueuePolicy) -> None:
        self._pool = pool
        self.policy = policy

    async def claim(self) -> Job | None:
        """Claim the oldest visible job of a chat that has none running, under a lease of our own."""
        for _ in range(CLAIM_ATTEMPTS):
            lease = uuid4()
            try:
                async with self._pool.connection() as conn, conn.transaction():
                    await queries.release_expired_leases(conn)
                    row = await queries.claim_job(conn, lease=lease, lease_seconds=self.policy.lease_seconds)
            except UniqueViolation:
                continue  # another brain has just claimed a job of the same chat: look again
            return None if row is None else Job(row, lease)
        return None

    async def heartbeat(self, job: Job) -> bool:
        """Prolong the lease by its full length; false when it is lost and the work has to stop."""
        async with self._pool.connection() as conn:
            return await queries.extend_lease(conn, job.id, lease=job.lease, lease_seconds=self.policy.lease_seconds)

    async def complete(self, job: Job) -> bool:
        """Remove a finished job; false when the lease was lost and someone else has the job."""
        async with self._pool.connection() as conn:
            return await queries.delete_leased_job(conn, job.id, lease=job.lease)

    async def fail(self, job: Job, error: str, *, content: bool) -> bool:
        """Give a job back after a failed attempt; false when the lease was lost.

        ``content`` says that the job's own content is to blame: five of these in a row park it. Outages never do.
        """
        failures = job.row.content_failures + 1 if content else job.row.content_failures
        async with self._pool.connection() as conn:
            return await queries.reschedule_job(
                conn,
                job.id,
                lease=job.lease,
                delay_seconds=self.policy.delay_seconds(job.row.attempts),
                error=error.replace("\x00", "�")[:MAX_ERROR_CHARS],
                content_failures=failures,
                parked=failures >= CONTENT_FAILURES_UNTIL_PARKED,
            )

    async def release(self, job: Job) -> bool:
        """Give a job back untouched, claimable at once: this process is ending."""
        async with self._pool.connection() as conn:
            return await queries.release_job(conn, job.id, lease=job.lease)
