"""Fixtures of the memory suites: a store on a real database whose embedder asks a fake hand over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from brain.memory.embeddings import HandEmbedder
from brain.memory.store import EltmStore
from tests.fakes.embedder import FakeEmbeddingHand, open_fake_embedder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool


@pytest_asyncio.fixture
async def fake_embedder() -> AsyncGenerator[tuple[HandEmbedder, FakeEmbeddingHand]]:
    async with open_fake_embedder() as opened:
        yield opened


@pytest_asyncio.fixture
async def fake_hand(fake_embedder: tuple[HandEmbedder, FakeEmbeddingHand]) -> FakeEmbeddingHand:
    return fake_embedder[1]


@pytest_asyncio.fixture
async def store(
    pool: AsyncConnectionPool[AsyncConnection],
    fake_embedder: tuple[HandEmbedder, FakeEmbeddingHand],
) -> EltmStore:
    eltm = EltmStore(pool, fake_embedder[0])
    await eltm.spaces.prepare()
    fake_embedder[1].requests.clear()
    return eltm
