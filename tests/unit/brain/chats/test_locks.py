"""The chat lock: one run per chat, over processes, through losses of the session."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from brain.chats.locks import lock_key, open_chat_locks
from brain.errors import ChatBusyError, UnavailableError


def test_the_key_is_the_one_of_other_brains_on_the_same_database() -> None:
    assert lock_key("chat-1") == 6982876240565151206
    assert lock_key("1755500000000-42") == -2811712383774432382


async def test_a_second_hold_in_the_same_process_is_busy_at_once(database_url: str) -> None:
    async with open_chat_locks(database_url, capacity=5, wait_ms=3000) as locks, locks.hold("a"):
        with pytest.raises(ChatBusyError):
            async with locks.hold("a"):
                pass
        async with locks.hold("b"):
            assert locks.held_chats == {"a", "b"}


async def test_a_second_process_is_busy_until_the_first_lets_go(database_url: str) -> None:
    async with (
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as one,
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as two,
    ):
        async with one.hold("a"):
            with pytest.raises(ChatBusyError):
                async with two.hold("a"):
                    pass
        async with two.hold("a"):
            assert two.held_chats == {"a"}


async def test_no_free_place_is_unavailable_after_the_wait(database_url: str) -> None:
    async with open_chat_locks(database_url, capacity=1, wait_ms=100) as locks:
        async with locks.hold("a"):
            with pytest.raises(UnavailableError, match="lockPoolSize"):
                async with locks.hold("b"):
                    pass
        async with locks.hold("b"):
            pass


async def test_a_cancelled_holder_gives_the_lock_back(database_url: str) -> None:
    async with (
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as one,
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as two,
    ):
        entered = asyncio.Event()

        async def hold() -> None:
            async with one.hold("a"):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with two.hold("a"):
            pass


async def test_a_cancellation_during_acquisition_gives_the_lock_back(database_url: str) -> None:
    async with (
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as one,
        open_chat_locks(database_url, capacity=5, wait_ms=3000) as two,
    ):

        async def hold() -> None:
            async with one.hold("a"):
                pass

        for steps in range(12):
            task = asyncio.create_task(hold())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            async with two.hold("a"):
                pass
        assert one.held_chats == frozenset()


async def test_holders_are_told_when_the_session_is_lost_and_new_holds_work(database_url: str) -> None:
    async with open_chat_locks(database_url, capacity=5, wait_ms=3000) as locks:
        async with locks.hold("a") as held:
            assert not held.lost.is_set()
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as admin:
                await admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'daapu-chat-locks'"
                    " AND datname = current_database()",
                )
            await asyncio.wait_for(held.lost.wait(), 5)
            async with locks.hold("b") as other:
                assert not other.lost.is_set()
        async with locks.hold("a") as again:
            assert not again.lost.is_set()


async def test_a_database_that_is_away_is_unavailable() -> None:
    with pytest.raises(UnavailableError):
        async with open_chat_locks("host=/nonexistent dbname=x", capacity=1, wait_ms=500):
            pass
