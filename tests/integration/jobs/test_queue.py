"""The queue against a real database."""

from __future__ import annotations

from uuid import uuid4

import pytest

from brain.jobs import queries
from brain.jobs.queue import JobQueue, QueuePolicy, enqueue_snapshot
from shared_protocol.instants import Instant
from shared_protocol.messages import TextPart, UserMessage

MESSAGES = (UserMessage((TextPart("I moved to Lisbon"),), Instant("2026-03-01T08:00:00Z")),)


@pytest.fixture
def queue(pool):
    return JobQueue(pool, QueuePolicy(lease_seconds=1800, first_delay_seconds=300))


async def enqueue(pool, chat_id: str | None = None, **kwargs) -> int:
    async with pool.connection() as conn:
        return await enqueue_snapshot(conn, MESSAGES, chat_id=chat_id, chat_title="Moves", **kwargs)


async def age(pool, job_id: int, *, seconds: float) -> None:
    """Let the job's moment come, as if the time had passed."""
    async with pool.connection() as conn:
        await conn.execute(
            "UPDATE pending_extractions SET visible_after = visible_after - make_interval(secs => %s) WHERE id = %s",
            (seconds, job_id),
        )


async def delay_of(pool, job_id: int) -> float:
    async with pool.connection() as conn:
        cur = await conn.execute(
            "SELECT extract(epoch FROM visible_after - now())::float8 FROM pending_extractions WHERE id = %s", (job_id,)
        )
        return (await cur.fetchone())[0]


async def test_oldest_job_is_claimed_first(pool, queue):
    first, second = await enqueue(pool, "a"), await enqueue(pool, "b")
    assert [(await queue.claim()).id, (await queue.claim()).id, await queue.claim()] == [first, second, None]


async def test_jobs_of_one_chat_run_one_after_the_other(pool, queue):
    first, second = await enqueue(pool, "a"), await enqueue(pool, "a")
    job = await queue.claim()
    assert (job.id, await queue.claim()) == (first, None)
    assert await queue.complete(job)
    assert (await queue.claim()).id == second


async def test_jobs_without_a_chat_run_side_by_side(pool, queue):
    await enqueue(pool)
    await enqueue(pool)
    assert await queue.claim() is not None
    assert await queue.claim() is not None


async def test_database_refuses_two_leases_for_one_chat(pool, queue):
    await enqueue(pool, "a")
    other = await enqueue(pool, "a")
    await queue.claim()
    async with pool.connection() as conn:
        with pytest.raises(Exception, match="pending_extractions_serial_key_index"):
            await conn.execute("UPDATE pending_extractions SET lease = %s WHERE id = %s", (uuid4(), other))


async def test_expired_lease_is_claimed_again_and_the_first_worker_cannot_finish_it(pool, queue):
    job_id = await enqueue(pool, "a")
    slow = await queue.claim()
    await age(pool, job_id, seconds=1801)
    again = await queue.claim()
    assert (again.id, again.row.attempts) == (job_id, 2)
    assert not await queue.heartbeat(slow)
    assert not await queue.complete(slow)
    assert not await queue.fail(slow, "late", content=True)
    assert await queue.complete(again)
    assert not await queue.complete(again)


async def test_heartbeat_keeps_the_lease(pool, queue):
    job_id = await enqueue(pool, "a")
    job = await queue.claim()
    await age(pool, job_id, seconds=1700)
    assert await queue.heartbeat(job)
    assert await delay_of(pool, job_id) > 1700


async def test_failed_job_comes_back_after_a_delay_that_doubles_up_to_two_hours(pool, queue):
    job_id = await enqueue(pool, "a")
    delays = []
    for _ in range(7):
        job = await queue.claim()
        await queue.fail(job, "gateway away", content=False)
        delays.append(round(await delay_of(pool, job_id) / 60))
        assert await queue.claim() is None
        await age(pool, job_id, seconds=7300)
    assert delays == [5, 10, 20, 40, 80, 120, 120]
    async with pool.connection() as conn:
        (listed,) = await queries.list_jobs(conn, state="retrying", limit=10, offset=0)
    assert (listed.attempts, listed.last_error) == (7, "gateway away")


async def test_job_is_parked_after_five_failures_of_its_content_and_can_be_retried(pool, queue):
    job_id = await enqueue(pool, "a")
    for _ in range(5):
        await age(pool, job_id, seconds=7300)
        await queue.fail(await queue.claim(), "nonsense", content=True)
    await age(pool, job_id, seconds=7300)
    assert await queue.claim() is None
    async with pool.connection() as conn:
        assert [job.state for job in await queries.list_jobs(conn, state=None, limit=10, offset=0)] == ["parked"]
        assert await queries.retry_job(conn, job_id)
    assert (await queue.claim()).id == job_id


async def test_parked_job_of_a_chat_does_not_hold_up_the_next(pool, queue):
    job_id = await enqueue(pool, "a")
    for _ in range(5):
        await age(pool, job_id, seconds=7300)
        await queue.fail(await queue.claim(), "nonsense", content=True)
    second = await enqueue(pool, "a")
    assert (await queue.claim()).id == second


async def test_error_with_a_zero_character_is_stored(pool, queue):
    await enqueue(pool, "a")
    assert await queue.fail(await queue.claim(), "bad \x00 byte", content=False)


async def test_figures_count_each_job_once(pool, queue):
    for chat in "abc":
        await enqueue(pool, chat)
    await queue.fail(await queue.claim(), "away", content=False)
    await queue.claim()
    async with pool.connection() as conn:
        figures = await queries.read_figures(conn)
    assert (figures.waiting, figures.running, figures.retrying, figures.parked) == (1, 1, 1, 0)
    assert figures.oldest_age_seconds >= 0
