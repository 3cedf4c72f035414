"""A whole memory on a real database with scripted models: what the pipeline suites share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date

from brain.memory.extraction import Extractor
from brain.memory.pipeline import MemoryPipeline
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.writer import Writer
from brain.runs.oneshot import RunCollector
from shared_protocol.instants import Instant
from shared_protocol.messages import AssistantMessage, Message, TextPart, Usage, UserMessage
from tests.fakes.scripted_model import ScriptedModel, chat_model

TODAY = date(2026, 3, 20)
USAGE = Usage(input_tokens=1, output_tokens=1, total_tokens=2)


def said(text: str, at: str = "2026-03-02T12:00:00Z") -> UserMessage:
    return UserMessage((TextPart(text),), Instant(at))


def answered(text: str) -> AssistantMessage:
    return AssistantMessage(parts=(TextPart(text),), meta=USAGE, finish_reason="stop")


CHAT: tuple[Message, ...] = (
    said("I moved to Lisbon yesterday. My sister Ada works at Northwind."),
    answered("Welcome to Lisbon!"),
)
FACTS = '[1] The user moved to Lisbon on 2026-03-01. | "I moved to Lisbon yesterday"\n[1] Ada, the user\'s sister, works at Northwind. | "Ada works at Northwind"'


@dataclass
class Memory:
    """The parts that tests look at."""

    store: EltmStore
    search: EltmSearch
    model: ScriptedModel
    collector: RunCollector
    pipeline: MemoryPipeline

    async def notes(self) -> list[str]:
        async with self.store.pool.connection() as conn:
            cur = await conn.execute("SELECT note FROM eltm_notes ORDER BY id")
            return [row[0] for row in await cur.fetchall()]

    async def rows(self, statement: str) -> list[tuple]:
        async with self.store.pool.connection() as conn:
            return await (await conn.execute(statement)).fetchall()


@asynccontextmanager
async def open_memory(
    store: EltmStore, *writer: str, extraction: tuple[str, ...] = (), demo: bool = False, max_rounds: int = 20
) -> AsyncGenerator[Memory]:
    """Yield a memory whose writer has the given capabilities."""
    model = ScriptedModel()
    async with model.serve() as collector:
        search = EltmSearch(store.pool, store.spaces)
        yield Memory(
            store,
            search,
            model,
            collector,
            MemoryPipeline(
                store.pool,
                Extractor(collector, chat_model(*extraction, demo=demo)),
                Writer(store, search, collector, chat_model(*writer, demo=demo), max_rounds=max_rounds),
                search,
                today=lambda: TODAY,
            ),
        )
