"""The pool hands out connections and never swallows a cancellation."""

import asyncio
import random

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


async def test_connections_of_cancelled_work_answer_their_own_questions(pool):
    chance = random.Random(7)
    async with pool.connection() as conn:
        await conn.execute("CREATE TABLE storm (n int)")

    async def work(number: int) -> None:
        async with pool.connection() as conn, conn.transaction():
            await conn.execute("INSERT INTO storm VALUES (%s)", (number,))
            async with conn.cursor() as cur:
                await cur.executemany("INSERT INTO storm VALUES (%s)", [(number,)] * 3)
            found = await (await conn.execute("SELECT %s::int", (number,))).fetchone()
            assert found == (number,)

    async def ask(number: int) -> None:
        async with pool.connection() as conn:
            cur = await conn.execute("UPDATE storm SET n = n WHERE n = %s", (-1,))
            assert cur.rowcount == 0
            found = await (await conn.execute("SELECT %s::int", (number,))).fetchone()
            assert found == (number,)

    for round_number in range(40):
        tasks = [asyncio.create_task(work(round_number * 100 + each)) for each in range(12)]
        await asyncio.sleep(chance.uniform(0, 0.02))
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in ended if isinstance(each, AssertionError)] == []
        async with asyncio.timeout(20):
            await asyncio.gather(*(ask(round_number * 1000 + each) for each in range(12)))
    async with pool.connection() as conn:
        cur = await conn.execute("SELECT count(*) FROM (SELECT n FROM storm GROUP BY n HAVING count(*) <> 4) AS partial")
        assert await cur.fetchone() == (0,)
