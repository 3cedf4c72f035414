"""Maintenance mode: one flag in the database, shared by every brain (memory.md section 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brain.memory import queries

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

MAINTENANCE_KEY: Final = "eltm_maintenance"


class Maintenance:
    """Reads and sets the flag. The check is advisory: what has passed it goes on."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def is_enabled(self) -> bool:
        """Whether writing the memory from outside is blocked."""
        async with self._pool.connection() as conn:
            return await queries.get_meta_number(conn, MAINTENANCE_KEY) != 0

    async def set_enabled(self, *, enabled: bool) -> bool:
        """Switch it on or off and return the state that holds."""
        async with self._pool.connection() as conn:
            await queries.set_meta_number(conn, MAINTENANCE_KEY, int(enabled))
        return enabled
