"""The worker loop: what it does with success, failure, outage, lost leases, maintenance and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from brain.errors import HandRunError, HandUnavailableError, StageError
from brain.jobs import queries
from brain.jobs.queue import JobQueue, QueuePolicy, enqueue_snapshot
from brain.jobs.worker import JobWorker
from shared_protocol.instants import Instant
from shared_protocol.messages import TextPart, UserMessage

MESSAGES = (UserMessage((TextPart("I moved to Lisbon"),), Instant("2026-03-01T08:00:00Z")),)


class Work:
    """Records jobs and does what it is told with each."""

    def __init__(self, *outcomes: BaseException | asyncio.Event | None) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[int] = []
        self.started = asyncio.Event()

    async def __call__(self, job) -> None:
        self.seen.append(job.id)
        self.started.set()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
        elif outcome is not None:
            raise outcome


async def never_paused() -> bool:
    return False


def worker(pool, work, *, lease_seconds=1800.0, is_paused=never_paused, workers=1, idle_seconds=0.02):
    queue = JobQueue(pool, QueuePolicy(lease_seconds, 300))
    return JobWorker(queue, work, is_paused=is_paused, workers=workers, idle_seconds=idle_seconds)


async def enqueue(pool, chat_id="a") -> int:
    async with pool.connection() as conn:
        return await enqueue_snapshot(conn, MESSAGES, chat_id=chat_id, chat_title="Moves")


async def jobs(pool):
    async with pool.connection() as conn:
        return await queries.list_jobs(conn, state=None, limit=100, offset=0)


@contextlib.asynccontextmanager
async def running(loop: JobWorker):
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def wait_until(condition) -> None:
    async with asyncio.timeout(5):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_finished_job_is_gone(pool):
    await enqueue(pool)
    assert await worker(pool, Work()).work_one()
    assert await jobs(pool) == []


async def test_nothing_to_do_is_said(pool):
    assert not await worker(pool, Work()).work_one()


@pytest.mark.parametrize(
    ("problem", "parks"),
    [
        (HandUnavailableError("gone"), False),
        (HandRunError("upstream", "503"), False),
        (HandRunError("auth", "bad key"), False),
        (ConnectionRefusedError("database"), False),
        (HandRunError("context_exhausted", "too long"), True),
        (StageError("extraction", "nonsense"), True),
        (ZeroDivisionError("our bug"), True),
    ],
)
async def test_only_failures_of_the_content_park_a_job(pool, problem, parks):
    await enqueue(pool)
    loop = worker(pool, Work(*[problem] * 6))
    for _ in range(6):
        async with pool.connection() as conn:
            await conn.execute("UPDATE pending_extractions SET visible_after = now()")
        await loop.work_one()
    (job,) = await jobs(pool)
    assert (job.state, job.attempts) == (("parked", 5) if parks else ("retrying", 6))
    assert str(problem) in job.last_error


async def test_outage_wrapped_in_a_stage_error_is_an_outage(pool):
    problem = StageError("writer", "the model call failed")
    problem.__cause__ = HandUnavailableError("gone")
    await enqueue(pool)
    loop = worker(pool, Work(*[problem] * 6))
    for _ in range(6):
        async with pool.connection() as conn:
            await conn.execute("UPDATE pending_extractions SET visible_after = now()")
        await loop.work_one()
    assert (await jobs(pool))[0].state == "retrying"


async def test_failing_job_does_not_spin(pool):
    await enqueue(pool, "a")
    healthy = await enqueue(pool, "b")
    work = Work(StageError("extraction", "nonsense"))
    async with running(worker(pool, work)):

        async def healthy_is_done() -> bool:
            return healthy not in [job.id for job in await jobs(pool)]

        await wait_until(healthy_is_done)
        for _ in range(10):
            await asyncio.sleep(0.02)
    assert len(work.seen) == 2


async def test_paused_worker_claims_nothing_and_drains_when_it_may(pool):
    paused = True

    async def is_paused() -> bool:
        return paused

    await enqueue(pool)
    work = Work()
    async with running(worker(pool, work, is_paused=is_paused)):
        await asyncio.sleep(0.1)
        assert work.seen == []
        paused = False
        await asyncio.wait_for(work.started.wait(), 5)


async def test_job_whose_lease_was_taken_is_abandoned(pool):
    job_id = await enqueue(pool)
    work = Work(asyncio.Event())
    async with running(worker(pool, work, lease_seconds=0.3)):
        await asyncio.wait_for(work.started.wait(), 5)
        async with pool.connection() as conn:
            await conn.execute(
                "UPDATE pending_extractions SET lease = gen_random_uuid(), visible_after = now() + interval '1 hour'"
            )
        other = await enqueue(pool, "b")
        await wait_until(lambda: asyncio.sleep(0, other in work.seen))
    assert [job.id for job in await jobs(pool)] == [job_id]


async def test_heartbeat_keeps_a_slow_job_from_being_claimed_twice(pool):
    await enqueue(pool)
    gate = asyncio.Event()
    work = Work(gate)
    async with running(worker(pool, work, lease_seconds=0.3, workers=2)):
        await asyncio.wait_for(work.started.wait(), 5)
        await asyncio.sleep(1)
        gate.set()

        async def is_empty() -> bool:
            return await jobs(pool) == []

        await wait_until(is_empty)
    assert len(work.seen) == 1


async def test_hung_job_is_given_back_in_the_end(pool):
    await enqueue(pool)
    assert await worker(pool, Work(asyncio.Event()), lease_seconds=0.1).work_one()
    assert (await jobs(pool))[0].state == "retrying"


async def test_cancelled_worker_gives_its_job_back_at_once(pool):
    await enqueue(pool)
    work = Work(asyncio.Event())
    async with running(worker(pool, work)):
        await asyncio.wait_for(work.started.wait(), 5)
    (job,) = await jobs(pool)
    assert (job.state, job.attempts) == ("waiting", 0)


async def test_two_workers_never_share_a_job(pool):
    ids = [await enqueue(pool, f"chat {number % 7}") for number in range(40)]
    work = Work()
    loops = [worker(pool, work, workers=2) for _ in range(2)]
    async with running(loops[0]), running(loops[1]):

        async def is_empty() -> bool:
            return await jobs(pool) == []

        await wait_until(is_empty)
    assert sorted(work.seen) == ids


async def test_waking_ends_the_pause(pool):
    work = Work()
    loop = worker(pool, work, idle_seconds=60)
    async with running(loop):
        await asyncio.sleep(0.05)
        await enqueue(pool)
        loop.wake()
        await asyncio.wait_for(work.started.wait(), 5)
