"""SQL of replays: one walk at a time over all brains, its state, and the lease of the brain that walks."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, scalar_row

ReplayState = Literal["running", "finished", "failed"]

SINGLE_FLIGHT = "replay_runs_single_flight_index"


class ReplayStatusRow(msgspec.Struct, frozen=True):
    """How the latest walk stands."""

    state: ReplayState
    messages_total: int
    windows_compacted: int
    jobs_queued: int
    error: str | None


class ReplayRow(msgspec.Struct, frozen=True):
    """A walk that was claimed: where it stands in its upload."""

    id: int
    title: str
    compaction_rounds: int
    context_rounds: int
    upload_json: str
    next_index: int
    summary_json: str | None


async def insert_replay(
    conn: AsyncConnection,
    *,
    title: str,
    compaction_rounds: int,
    context_rounds: int,
    messages_total: int,
    upload_json: str,
) -> int:
    """Start a walk; a unique violation of ``SINGLE_FLIGHT`` says that one is running."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO replay_runs (state, title, compaction_rounds, context_rounds, messages_total, upload_json)
            VALUES ('running', %(title)s, %(compaction_rounds)s, %(context_rounds)s, %(messages_total)s, %(upload_json)s)
            RETURNING id
            """,
            {
                "title": title,
                "compaction_rounds": compaction_rounds,
                "context_rounds": context_rounds,
                "messages_total": messages_total,
                "upload_json": upload_json,
            },
        )
        return int(await cur.fetchone() or 0)


async def find_latest_replay(conn: AsyncConnection) -> ReplayStatusRow | None:
    """Return how the latest walk stands; ``None`` if there never was one."""
    async with conn.cursor(row_factory=class_row(ReplayStatusRow)) as cur:
        await cur.execute(
            """
            SELECT state, messages_total, windows_compacted, jobs_queued, error
              FROM replay_runs
             ORDER BY id DESC
             LIMIT 1
            """
        )
        return await cur.fetchone()


async def claim_replay(conn: AsyncConnection, *, lease: UUID, lease_seconds: float) -> ReplayRow | None:
    """Claim the running walk if no brain holds it."""
    async with conn.cursor(row_factory=class_row(ReplayRow)) as cur:
        await cur.execute(
            """
            UPDATE replay_runs
               SET lease = %(lease)s,
                   lease_until = now() + make_interval(secs => %(lease_seconds)s)
             WHERE state = 'running'
               AND (lease IS NULL OR lease_until <= now())
            RETURNING id, title, compaction_rounds, context_rounds, upload_json, next_index, summary_json
            """,
            {"lease": lease, "lease_seconds": lease_seconds},
        )
        return await cur.fetchone()


async def extend_replay_lease(conn: AsyncConnection, replay_id: int, *, lease: UUID, lease_seconds: float) -> bool:
    """Move the end of a held lease; false if it is no longer held."""
    cur = await conn.execute(
        """
        UPDATE replay_runs
           SET lease_until = now() + make_interval(secs => %(lease_seconds)s)
         WHERE id = %(replay_id)s
           AND lease = %(lease)s
        """,
        {"replay_id": replay_id, "lease": lease, "lease_seconds": lease_seconds},
    )
    return cur.rowcount == 1


async def release_replay(conn: AsyncConnection, replay_id: int, *, lease: UUID) -> None:
    """Give a walk back so that any brain can go on with it."""
    await conn.execute(
        """
        UPDATE replay_runs
           SET lease = NULL,
               lease_until = NULL
         WHERE id = %(replay_id)s
           AND lease = %(lease)s
        """,
        {"replay_id": replay_id, "lease": lease},
    )


async def advance_replay(conn: AsyncConnection, replay_id: int, *, lease: UUID, next_index: int, summary_json: str) -> bool:
    """Record one window whose region was queued in the same transaction; false if the lease is lost."""
    cur = await conn.execute(
        """
        UPDATE replay_runs
           SET next_index = %(next_index)s,
               summary_json = %(summary_json)s,
               windows_compacted = windows_compacted + 1,
               jobs_queued = jobs_queued + 1,
               updated_at = now()
         WHERE id = %(replay_id)s
           AND lease = %(lease)s
           AND state = 'running'
        """,
        {"replay_id": replay_id, "lease": lease, "next_index": next_index, "summary_json": summary_json},
    )
    return cur.rowcount == 1


async def end_replay(
    conn: AsyncConnection, replay_id: int, *, lease: UUID, state: ReplayState, jobs: int, error: str | None
) -> bool:
    """End a walk and drop its upload; ``jobs`` were queued in the same transaction. False if the lease is lost."""
    cur = await conn.execute(
        """
        UPDATE replay_runs
           SET state = %(state)s,
               jobs_queued = jobs_queued + %(jobs)s,
               error = %(error)s,
               upload_json = '[]',
               summary_json = NULL,
               lease = NULL,
               lease_until = NULL,
               updated_at = now()
         WHERE id = %(replay_id)s
           AND lease = %(lease)s
           AND state = 'running'
        """,
        {"replay_id": replay_id, "lease": lease, "state": state, "jobs": jobs, "error": error},
    )
    return cur.rowcount == 1
