"""All SQL of the extraction queue. The caller owns the transaction; the database owns the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, scalar_row

JobState = Literal["waiting", "running", "retrying", "parked"]


class JobRow(msgspec.Struct, frozen=True):
    """A claimed job. ``attempts`` counts this one; ``first_index`` is the position of the first message in its chat."""

    id: int
    chat_json: str
    chat_id: str | None
    chat_title: str
    first_index: int
    attempts: int
    content_failures: int


class JobSummaryRow(msgspec.Struct, frozen=True):
    """A job as it is listed: everything but its content."""

    id: int
    state: JobState
    chat_id: str | None
    chat_title: str
    message_count: int
    attempts: int
    last_error: str | None
    visible_after: datetime
    created_at: datetime


class QueueFigures(msgspec.Struct, frozen=True):
    """Depth of the queue by state, and the age of its oldest job in seconds."""

    waiting: int
    running: int
    retrying: int
    parked: int
    oldest_age_seconds: float


async def insert_job(
    conn: AsyncConnection,
    *,
    chat_json: str | None,
    chat_id: str | None,
    chat_title: str,
    first_index: int,
    message_count: int,
    serial_key: str | None,
) -> int:
    """Insert one job, claimable at once, and return its id. Without ``chat_json`` the chat's stored text is copied in place."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO pending_extractions (chat_json, chat_id, chat_title, first_index, message_count, serial_key)
            VALUES (coalesce(%(chat_json)s, (SELECT chat_json FROM chats WHERE id = %(chat_id)s)),
                    %(chat_id)s, %(chat_title)s, %(first_index)s, %(message_count)s, %(serial_key)s)
            RETURNING id
            """,
            {
                "chat_json": chat_json,
                "chat_id": chat_id,
                "chat_title": chat_title,
                "first_index": first_index,
                "message_count": message_count,
                "serial_key": serial_key,
            },
        )
        return int(await cur.fetchone() or 0)


async def release_expired_leases(conn: AsyncConnection) -> int:
    """Take leases back that have run out (their worker died or hangs) and return how many."""
    cur = await conn.execute(
        """
        UPDATE pending_extractions
           SET lease = NULL
         WHERE id IN (
                SELECT id
                  FROM pending_extractions
                 WHERE lease IS NOT NULL
                   AND visible_after <= now()
                 ORDER BY id
                   FOR UPDATE SKIP LOCKED
               )
        """
    )
    return cur.rowcount


async def claim_job(conn: AsyncConnection, *, lease: UUID, lease_seconds: float) -> JobRow | None:
    """Claim the oldest visible job whose chat has none running.

    Two brains may pick two jobs of one chat at the same moment: the second gets a unique violation of
    ``pending_extractions_serial_key_index``.
    """
    async with conn.cursor(row_factory=class_row(JobRow)) as cur:
        await cur.execute(
            """
            UPDATE pending_extractions
               SET lease = %(lease)s,
                   visible_after = now() + make_interval(secs => %(lease_seconds)s),
                   attempts = attempts + 1
             WHERE id = (
                    SELECT job.id
                      FROM pending_extractions AS job
                     WHERE NOT job.parked
                       AND job.lease IS NULL
                       AND job.visible_after <= now()
                       AND NOT EXISTS (
                            SELECT 1
                              FROM pending_extractions AS other
                             WHERE other.serial_key = job.serial_key
                               AND other.lease IS NOT NULL
                           )
                     ORDER BY job.id
                     LIMIT 1
                       FOR UPDATE SKIP LOCKED
                   )
            RETURNING id, chat_json, chat_id, chat_title, first_index, attempts, content_failures
            """,
            {"lease": lease, "lease_seconds": lease_seconds},
        )
        return await cur.fetchone()


async def extend_lease(conn: AsyncConnection, job_id: int, *, lease: UUID, lease_seconds: float) -> bool:
    """Move the end of a held lease; false if it is no longer held."""
    cur = await conn.execute(
        """
        UPDATE pending_extractions
           SET visible_after = now() + make_interval(secs => %(lease_seconds)s)
         WHERE id = %(job_id)s
           AND lease = %(lease)s
        """,
        {"job_id": job_id, "lease": lease, "lease_seconds": lease_seconds},
    )
    return cur.rowcount == 1


async def job_exists(conn: AsyncConnection, job_id: int) -> bool:
    """Whether a job is still in the queue: it may have been dropped or erased while it is worked on."""
    cur = await conn.execute("SELECT EXISTS (SELECT 1 FROM pending_extractions WHERE id = %(job_id)s)", {"job_id": job_id})
    row = await cur.fetchone()
    return bool(row and row[0])


async def delete_leased_job(conn: AsyncConnection, job_id: int, *, lease: UUID) -> bool:
    """Delete a job that is still held under ``lease``."""
    cur = await conn.execute(
        """
        DELETE FROM pending_extractions
         WHERE id = %(job_id)s
           AND lease = %(lease)s
        """,
        {"job_id": job_id, "lease": lease},
    )
    return cur.rowcount == 1


async def release_job(conn: AsyncConnection, job_id: int, *, lease: UUID) -> bool:
    """Give a held job back as if it had not been claimed. False if the lease is no longer held."""
    cur = await conn.execute(
        """
        UPDATE pending_extractions
           SET lease = NULL,
               visible_after = now(),
               attempts = attempts - 1
         WHERE id = %(job_id)s
           AND lease = %(lease)s
        """,
        {"job_id": job_id, "lease": lease},
    )
    return cur.rowcount == 1


async def reschedule_job(
    conn: AsyncConnection,
    job_id: int,
    *,
    lease: UUID,
    delay_seconds: float,
    error: str,
    content_failures: int,
    parked: bool,
) -> bool:
    """Give a held job back: visible after the delay, or parked. False if the lease is no longer held."""
    cur = await conn.execute(
        """
        UPDATE pending_extractions
           SET lease = NULL,
               visible_after = now() + make_interval(secs => %(delay_seconds)s),
               last_error = %(error)s,
               content_failures = %(content_failures)s,
               parked = %(parked)s
         WHERE id = %(job_id)s
           AND lease = %(lease)s
        """,
        {
            "job_id": job_id,
            "lease": lease,
            "delay_seconds": delay_seconds,
            "error": error,
            "content_failures": content_failures,
            "parked": parked,
        },
    )
    return cur.rowcount == 1


async def list_jobs(conn: AsyncConnection, *, state: JobState | None, limit: int, offset: int) -> list[JobSummaryRow]:
    """List jobs, oldest first, without their content."""
    async with conn.cursor(row_factory=class_row(JobSummaryRow)) as cur:
        await cur.execute(
            """
            SELECT id, state, chat_id, chat_title, message_count, attempts, last_error, visible_after, created_at
              FROM (
                    SELECT id, chat_id, chat_title, message_count, attempts, last_error, visible_after, created_at,
                           CASE WHEN parked THEN 'parked'
                                WHEN lease IS NOT NULL AND visible_after > now() THEN 'running'
                                WHEN attempts > 0 THEN 'retrying'
                                ELSE 'waiting'
                           END AS state
                      FROM pending_extractions
                   ) AS job
             WHERE %(state)s::text IS NULL
                OR state = %(state)s
             ORDER BY id
             LIMIT %(limit)s
            OFFSET %(offset)s
            """,
            {"state": state, "limit": limit, "offset": offset},
        )
        return await cur.fetchall()


async def read_figures(conn: AsyncConnection) -> QueueFigures:
    """Count the jobs by state."""
    async with conn.cursor(row_factory=class_row(QueueFigures)) as cur:
        await cur.execute(
            """
            SELECT count(*) FILTER (WHERE NOT parked AND lease IS NULL AND attempts = 0) AS waiting,
                   count(*) FILTER (WHERE lease IS NOT NULL AND visible_after > now()) AS running,
                   count(*) FILTER (WHERE NOT parked AND attempts > 0 AND (lease IS NULL OR visible_after <= now())) AS retrying,
                   count(*) FILTER (WHERE parked) AS parked,
                   coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_age_seconds
              FROM pending_extractions
            """
        )
        return await cur.fetchone() or QueueFigures(0, 0, 0, 0, 0.0)


async def retry_job(conn: AsyncConnection, job_id: int) -> bool:
    """Make a job that is not running visible at once, with its failures forgotten. False if there is no such job."""
    cur = await conn.execute(
        """
        UPDATE pending_extractions
           SET visible_after = CASE WHEN lease IS NULL THEN now() ELSE visible_after END,
               parked = false,
               content_failures = 0
         WHERE id = %(job_id)s
        """,
        {"job_id": job_id},
    )
    return cur.rowcount == 1


async def delete_job(conn: AsyncConnection, job_id: int) -> bool:
    """Delete a job in whatever state; its worker finds the lease gone. False if there is no such job."""
    cur = await conn.execute("DELETE FROM pending_extractions WHERE id = %(job_id)s", {"job_id": job_id})
    return cur.rowcount == 1


async def delete_jobs_of_chat(conn: AsyncConnection, chat_id: str) -> int:
    """Delete every job of a chat (forget, erase) and return how many there were."""
    cur = await conn.execute("DELETE FROM pending_extractions WHERE chat_id = %(chat_id)s", {"chat_id": chat_id})
    return cur.rowcount
