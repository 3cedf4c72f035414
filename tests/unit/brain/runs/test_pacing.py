"""Under load tokens gather; on time nothing is delayed."""

from __future__ import annotations

import asyncio

import pytest

from brain.runs.pacing import LONGEST_PAUSE_SECONDS, Gathering, Pacing, open_pacing


def test_a_loop_on_time_delays_nothing() -> None:
    pacing = Pacing()
    for _ in range(1_000):
        pacing.record(0.0003)
    assert pacing.pause_seconds == 0


def test_pauses_grow_with_lateness_up_to_the_longest_and_vanish_afterwards() -> None:
    pacing = Pacing()
    pauses: list[float] = []
    for _ in range(100):
        pacing.record(0.02)
        pauses.append(pacing.pause_seconds)
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    for _ in range(200):
        pacing.record(0.0)
    assert pacing.pause_seconds == 0


async def test_the_end_of_a_stream_cuts_its_pause_short() -> None:
    pacing = Pacing()
    pacing.pause_seconds = 60.0
    gathering = Gathering(pacing)
    pausing = asyncio.create_task(gathering.pause())
    await asyncio.sleep(0)
    assert not pausing.done()
    gathering.end()
    await asyncio.wait_for(pausing, 5)
    await asyncio.wait_for(gathering.pause(), 5)


async def test_a_pause_ends_by_itself() -> None:
    pacing = Pacing()
    pacing.pause_seconds = 0.001
    await asyncio.wait_for(Gathering(pacing).pause(), 5)


async def test_a_cancelled_pause_lets_go() -> None:
    pacing = Pacing()
    pacing.pause_seconds = 60.0
    pausing = asyncio.create_task(Gathering(pacing).pause())
    await asyncio.sleep(0)
    pausing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pausing


async def test_a_blocked_loop_is_noticed() -> None:
    async with open_pacing() as pacing:
        async with asyncio.timeout(20):
            while pacing.pause_seconds == 0:
                await asyncio.sleep(0.001)
                _ = sum(range(2_000_000))  # what keeps a loop busy
        assert pacing.pause_seconds > 0
