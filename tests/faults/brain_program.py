"""A brain reduced to its turns as a program of its own, so that a test can kill it. Arguments: database URL, hand URL, port."""

from __future__ import annotations

import asyncio
import sys

from brain.db.pools import open_pool
from tests.fakes.hand import FakeHand
from tests.integration.turns.conftest import Settings, run_brain


async def main(database_url: str, hand_url: str, port: int) -> None:
    hand = FakeHand()
    hand.url = hand_url
    async with open_pool(database_url, name="victim") as pool, run_brain(database_url, pool, hand, Settings(port=port)):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
