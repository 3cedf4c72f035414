"""A brain reduced to its turns as a program of its own, so that a test can kill it. Arguments: database URL, hand URL, port.

Lines on its input edit the chat of the tests: ``delete`` and ``truncate``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from brain.chats.service import ChatService
from brain.db.pools import open_pool
from brain.jobs.queue import enqueue_encoded
from brain.turns.service import find_live_chats
from tests.fakes.hand import FakeHand
from tests.integration.turns.conftest import CHAT, Brain, Settings, run_brain

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool


async def main(database_url: str, hand_url: str, port: int) -> None:
    hand = FakeHand()
    hand.url = hand_url
    settings = Settings(port=port, ask=("dice",))
    async with open_pool(database_url, name="victim") as pool, run_brain(database_url, pool, hand, settings) as brain:
        print("ready", flush=True)
        await obey(brain, pool)


async def obey(brain: Brain, pool: AsyncConnectionPool[AsyncConnection]) -> None:
    chats = ChatService(pool, brain.store, brain.locks, enqueue=enqueue_encoded, live=find_live_chats)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        match line.decode().strip():
            case "delete":
                await chats.delete(CHAT)
            case "truncate":
                await chats.truncate(CHAT, 2)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
