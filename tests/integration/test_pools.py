"""The pool hands out connections and never swallows a cancellation."""

import asyncio

import pytest


async def test_a_task_cancelled_while_its_connection_arrives_ends(pool):
    async with pool.connection():
        pass
    for _ in range(20):
        holders = [await pool.getconn() for _ in range(pool.max_size)]

        async def wait_for_one() -> None:
            async with pool.connection():
                await asyncio.Event().wait()

        waiter = asyncio.create_task(wait_for_one())
        while pool.get_stats()["requests_waiting"] == 0:
            await asyncio.sleep(0)
        # Both in one turn of the loop: the connection comes back and the waiter is cancelled.
        await pool.putconn(holders.pop())
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await waiter
        for conn in holders:
            await pool.putconn(conn)
    assert pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"]
