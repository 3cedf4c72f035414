"""Advisory locks: the keys that are in use, and a blocking hold for programs that run before any event loop."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator


def advisory_key(name: str) -> int:
    """Return the signed 64-bit key of a named lock: stable over releases, so that old and new code exclude each other."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


MIGRATION_KEY: Final = advisory_key("daapu/migrate")


@contextmanager
def hold_advisory_lock(url: str, key: int, *, wait_s: float) -> Generator[None]:
    """Hold the session lock ``key`` on a connection of its own while the body runs.

    Raises:
        psycopg.errors.LockNotAvailable: someone else held it for ``wait_s`` seconds.
        psycopg.OperationalError: no connection.
    """
    with psycopg.connect(url, autocommit=True, application_name="daapu-lock", connect_timeout=15) as conn:
        conn.execute("SELECT set_config('lock_timeout', %(wait)s, false)", {"wait": f"{int(wait_s * 1000)}ms"})
        conn.execute("SELECT pg_advisory_lock(%(key)s)", {"key": key})
        try:
            yield
        finally:
            # Closing the connection would release it too; a broken connection has released it already.
            if not conn.broken:
                conn.execute("SELECT pg_advisory_unlock(%(key)s)", {"key": key})
