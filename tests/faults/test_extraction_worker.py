"""An extraction worker that is killed at each step, or loses its database: the job comes back, and nothing is written twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psycopg
import pytest

from brain.db.migrate import migrate
from brain.jobs.queue import enqueue_snapshot
from brain.local.postgres import EmbeddedPostgres
from tests.faults.worker_program import STEPS
from tests.integration.memory.pipelines import CHAT

ROOT = Path(__file__).parents[2]
LEASE_SECONDS = 2.0


async def start(url: str, step: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.worker_program",
        url,
        step,
        str(LEASE_SECONDS),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def read_until(process: asyncio.subprocess.Process, line: str, seconds: float = 60) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(seconds):
        while True:
            found = (await process.stdout.readline()).decode()
            if not found:
                pytest.fail(f"the worker ended before {line!r}")
            if found.strip() == line:
                return


async def enqueue(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await enqueue_snapshot(conn, CHAT, chat_id="1755500000000-42", chat_title="Moves")


async def fetch(url: str, statement: str) -> list[tuple]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        return await (await conn.execute(statement)).fetchall()


async def lease_is_over(url: str) -> bool:
    return await fetch(url, "SELECT 1 FROM pending_extractions WHERE lease IS NULL OR visible_after <= now()") != []


async def work_to_the_end(url: str) -> None:
    async with asyncio.timeout(30):
        while not await lease_is_over(url):
            await asyncio.sleep(0.05)
    process = await start(url, "none")
    try:
        await read_until(process, "DONE")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def assert_remembered_once(url: str) -> None:
    assert await fetch(url, "SELECT count(*) FROM pending_extractions") == [(0,)]
    notes = await fetch(url, "SELECT note FROM eltm_notes ORDER BY note")
    assert notes == [("Ada, the user's sister, works at Northwind.",), ("The user moved to Lisbon on 2026-03-01.",)]
    assert await fetch(url, "SELECT count(*) FROM eltm_entities") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
async def test_worker_killed_at_a_step_loses_nothing_and_repeats_nothing(database_url, step):
    await enqueue(database_url)
    process = await start(database_url, step)
    try:
        await read_until(process, f"AT {step}")
        assert await fetch(database_url, "SELECT attempts, lease IS NOT NULL FROM pending_extractions") == [(1, True)]
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    await work_to_the_end(database_url)
    await assert_remembered_once(database_url)


@pytest.mark.slow
async def test_worker_survives_a_restart_of_the_database(tmp_path):
    server = EmbeddedPostgres(tmp_path / "pg")
    server.start()
    try:
        url = server.url()
        migrate(url)
        await enqueue(url)
        process = await start(url, "half written")
        try:
            await read_until(process, "AT half written")
            server.stop()
            server.start()
            url = server.url()
        finally:
            process.kill()
            await process.wait()
        await work_to_the_end(url)
        await assert_remembered_once(url)
    finally:
        server.stop()
