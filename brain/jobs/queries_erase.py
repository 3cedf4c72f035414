"""SQL by which an erasure reaches the queue and the replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


async def find_jobs_containing(conn: AsyncConnection, pieces: Sequence[str]) -> list[int]:
    """Return the queued jobs whose content, title or error has one of the pieces: lowercase, escaped like text in JSON."""
    cur = await conn.execute(
        """
        SELECT id
          FROM pending_extractions
         WHERE EXISTS (SELECT 1
                         FROM unnest(%(pieces)s::text[]) AS given (piece)
                        WHERE position(piece IN lower(chat_json)) > 0
                           OR position(piece IN lower(chat_title || ' ' || coalesce(last_error, ''))) > 0)
         ORDER BY id
        """,
        {"pieces": list(pieces)},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_jobs_of_chat(conn: AsyncConnection, chat_id: str) -> list[int]:
    """Return the queued jobs of a chat."""
    cur = await conn.execute("SELECT id FROM pending_extractions WHERE chat_id = %(chat_id)s ORDER BY id", {"chat_id": chat_id})
    return [int(row[0]) for row in await cur.fetchall()]


async def delete_jobs(conn: AsyncConnection, job_ids: Sequence[int]) -> None:
    """Delete jobs, also such as are being worked on: their lease is gone with the row."""
    await conn.execute("DELETE FROM pending_extractions WHERE id = ANY(%(ids)s)", {"ids": list(job_ids)})


async def end_replays_containing(conn: AsyncConnection, pieces: Sequence[str]) -> int:
    """End replays that still hold one of the pieces, empty them, and return how many."""
    cur = await conn.execute(
        """
        UPDATE replay_runs
           SET state = CASE state WHEN 'running' THEN 'failed' ELSE state END,
               error = CASE state WHEN 'running' THEN 'its content was erased' ELSE NULL END,
               upload_json = '[]', summary_json = NULL, title = '', lease = NULL, lease_until = NULL, updated_at = now()
         WHERE EXISTS (SELECT 1
                         FROM unnest(%(pieces)s::text[]) AS given (piece)
                        WHERE position(piece IN lower(upload_json || coalesce(summary_json, ''))) > 0
                           OR position(piece IN lower(title || ' ' || coalesce(error, ''))) > 0)
        """,
        {"pieces": list(pieces)},
    )
    return cur.rowcount
