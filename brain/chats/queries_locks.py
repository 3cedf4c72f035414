"""SQL of the session that holds the chat locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.rows import scalar_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection


async def prepare_lock_session(conn: AsyncConnection, timeout_ms: int) -> None:
    """Bound every statement of a lock session."""
    await conn.execute(
        "SELECT set_config('statement_timeout', %(timeout)s, false)",
        {"timeout": f"{timeout_ms}ms"},
    )


async def try_lock(conn: AsyncConnection, key: int) -> bool:
    """Take a session lock at once or not at all."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT pg_try_advisory_lock(%(key)s::bigint)", {"key": key})
        return bool(await cur.fetchone())


async def unlock(conn: AsyncConnection, key: int) -> bool:
    """Give a session lock back; whether this session held it."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT pg_advisory_unlock(%(key)s::bigint)", {"key": key})
        return bool(await cur.fetchone())


async def ping(conn: AsyncConnection) -> None:
    """Prove that the session lives."""
    await conn.execute("SELECT 1")
