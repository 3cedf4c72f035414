"""Readiness asks the embedding model, but not at every call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from brain.memory import embeddings
from brain.memory.embeddings import EmbeddingCheck, EmbeddingError, TextKind


class Model:
    model_id = "p/e"
    dimensions = 3

    def __init__(self) -> None:
        self.asked = 0
        self.is_down = False
        self.hangs = False

    async def embed_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> list[list[float]]:
        del kind
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_down:
            raise EmbeddingError("upstream", "down")
        return [[0.0] * 3 for _ in texts]


async def test_an_answer_counts_for_a_minute() -> None:
    now = 1000.0
    model = Model()
    check = EmbeddingCheck(model, lambda: now)
    assert await asyncio.gather(*(check() for _ in range(5))) == [True] * 5
    assert model.asked == 1
    model.is_down = True
    now += 59
    assert await check()
    now += 1
    assert not await check()
    assert model.asked == 2


async def test_a_model_that_hangs_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "CHECK_SECONDS", 0.05)
    model = Model()
    model.hangs = True
    assert not await EmbeddingCheck(model)()
