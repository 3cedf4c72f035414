"""The pool: vectors travel, single statements commit by themselves."""

from __future__ import annotations

import asyncio

import numpy as np
from pgvector import HalfVector
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from brain.db.pools import open_pool


async def test_vectors_travel_both_ways(pool: AsyncConnectionPool[AsyncConnection]) -> None:
    async with pool.connection() as conn:
        cursor = await conn.execute("SELECT %(v)s::halfvec", {"v": HalfVector([1.0, 0.5])})
        row = await cursor.fetchone()
    assert row is not None
    assert np.allclose(row[0].to_numpy(), [1.0, 0.5])


async def test_a_single_statement_is_committed_at_once(pool: AsyncConnectionPool[AsyncConnection]) -> None:
    async with pool.connection() as first, pool.connection() as second:
        await first.execute("CREATE TABLE t_seen (x int)")
        await first.execute("INSERT INTO t_seen VALUES (1)")
        cursor = await second.execute("SELECT x FROM t_seen")
        assert await cursor.fetchone() == (1,)


async def test_tests_do_not_see_each_others_rows(pool: AsyncConnectionPool[AsyncConnection]) -> None:
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE t_seen (x int)")


async def test_a_cancellation_that_arrives_with_the_connection_is_not_lost(database_url: str) -> None:
    async with open_pool(database_url, min_size=1, max_size=1) as pool:
        held = await pool.getconn()
        waiting = asyncio.create_task(pool.getconn())
        while not pool.get_stats().get("requests_waiting"):
            await asyncio.sleep(0)
        await pool.putconn(held)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        async with pool.connection() as conn:  # it was given back
            await conn.execute("SELECT 1")
