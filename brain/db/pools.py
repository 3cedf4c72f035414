"""Connection pools: opened in one place, closed in one place, every connection ready for vectors."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DEFAULT_MAX_SIZE: Final = 20
OPEN_TIMEOUT_S: Final = 15.0
"""How long a start waits for the first connection before it says that the database does not answer."""
TRUSTED_SECONDS: Final = 1.0
"""How long after its last use a connection is handed out without asking the database: under load this spares many round trips."""


class CancellablePool(AsyncConnectionPool[AsyncConnection]):
    """A pool that never swallows a cancellation.

    psycopg_pool hands the connection out and forgets the cancellation when both arrive in one turn of the loop: an endless
    task that is being stopped would then go on for ever.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._returned: WeakKeyDictionary[AsyncConnection, float] = WeakKeyDictionary()

    async def getconn(self, timeout: float | None = None) -> AsyncConnection:  # noqa: ASYNC109 - the signature of the base class
        """Return a connection, as the base class does.

        Raises:
            asyncio.CancelledError: the task was cancelled meanwhile; the connection is back in the pool.
        """
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        conn = await super().getconn(timeout)
        if task is not None and task.cancelling() > before:
            await self.putconn(conn)
            raise asyncio.CancelledError
        return conn

    async def putconn(self, conn: AsyncConnection) -> None:
        """Take a connection back, as the base class does."""
        self._returned[conn] = time.monotonic()
        await super().putconn(conn)

    async def check_rested(self, conn: AsyncConnection) -> None:
        """Ask a connection that has rested whether it is alive; one that worked a moment ago is taken at its word.

        Raises:
            psycopg.OperationalError: the connection is lost.
        """
        if time.monotonic() - self._returned.get(conn, 0.0) > TRUSTED_SECONDS:
            await self.check_connection(conn)


@asynccontextmanager
async def open_pool(
    url: str,
    *,
    min_size: int = 1,
    max_size: int = DEFAULT_MAX_SIZE,
    timeout_s: float = 30.0,
    name: str = "brain",
) -> AsyncGenerator[AsyncConnectionPool[AsyncConnection]]:
    """Yield an open pool on a migrated database, close it afterwards.

    Connections are in **autocommit** mode: a single statement is its own transaction and costs one round trip. Whatever
    consists of several statements is wrapped by its owner in ``async with conn.transaction():``.
    ``vector`` and ``halfvec`` values are registered on each connection.

    Raises:
        psycopg_pool.PoolTimeout: the database did not answer within ``OPEN_TIMEOUT_S``.
    """

    async def check(conn: AsyncConnection) -> None:
        await pool.check_rested(conn)

    pool = CancellablePool(
        url,
        connection_class=AsyncConnection,
        kwargs={"autocommit": True, "application_name": f"daapu-{name}"},
        min_size=min_size,
        max_size=max_size,
        timeout=timeout_s,
        name=name,
        open=False,
        check=check,
        configure=register_vector_async,
    )
    try:
        await pool.open(wait=True, timeout=OPEN_TIMEOUT_S)
        yield pool
    finally:
        await pool.close()
