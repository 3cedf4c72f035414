"""The memories that are measured: a fresh database, an embedder, and the models of each tier."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from brain.catalog import build_catalog
from brain.config.models import Config, HandConfig
from brain.db.migrate import migrate
from brain.db.pools import open_pool
from brain.local.embedding_engine import DIMENSIONS, EMBEDDING_MODEL, EmbeddingEngine
from brain.local.postgres import EmbeddedPostgres
from brain.memory.embeddings import Embedder, HandEmbedder, TextKind
from brain.memory.extraction import Extractor
from brain.memory.pipeline import MemoryPipeline
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.writer import Writer
from brain.runs.client import open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from tests.eval.corpus import Chat, Session
from tests.eval.record import RECORDED
from tests.fakes.scripted_model import chat_model

TODAY = date(2026, 7, 1)


class RecordedModel:
    """Answers what was recorded for the session that is being remembered."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, str]] = json.loads(RECORDED.read_text("utf-8"))
        self._current: dict[str, str] = {}

    def prepare(self, chat: Chat, session: Session) -> None:
        self._current = self._answers[f"{chat.id}@{session.day}"]

    async def text(self, *, stage: str, **_: object) -> str:
        return self._current["extraction" if stage == "extraction" else "plan"]


class BundledEmbedder:
    """The bundled embedding model without a server in front of it."""

    def __init__(self, engine: EmbeddingEngine, executor: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._executor = executor

    @property
    def model_id(self) -> str:
        return f"local/{EMBEDDING_MODEL}"

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> list[list[float]]:
        if not texts:
            return []
        loop = asyncio.get_running_loop()
        vectors, _ = await loop.run_in_executor(self._executor, lambda: self._engine.embed(texts, is_query=kind == "query"))
        return vectors


@asynccontextmanager
async def open_database() -> AsyncGenerator[AsyncConnectionPool[AsyncConnection]]:
    """Yield a pool on an empty migrated database of an embedded server."""
    with tempfile.TemporaryDirectory(prefix="daapu-eval-") as folder:
        Path(folder).chmod(0o711)  # noqa: ASYNC240 - nothing else runs yet
        server = EmbeddedPostgres(Path(folder) / "pg", settings={"fsync": "off", "synchronous_commit": "off"})
        server.start()
        try:
            migrate(server.url())
            async with open_pool(server.url()) as pool:
                yield pool
        finally:
            server.stop()


@asynccontextmanager
async def open_bundled_embedder() -> AsyncGenerator[Embedder]:
    """Load the bundled embedding model."""
    with ThreadPoolExecutor(1) as executor:
        engine = await asyncio.get_running_loop().run_in_executor(executor, EmbeddingEngine)
        yield BundledEmbedder(engine, executor)


async def open_store(pool: AsyncConnectionPool[AsyncConnection], embedder: Embedder) -> tuple[EltmStore, EltmSearch]:
    """Return store and search with floors measured for the embedder."""
    store = EltmStore(pool, embedder)
    await store.spaces.prepare()
    return store, EltmSearch(pool, store.spaces)


def recorded_pipeline(store: EltmStore, search: EltmSearch, model: RecordedModel) -> MemoryPipeline:
    """Return a pipeline whose models answer what was recorded."""
    writer = Writer(store, search, model, chat_model(), max_rounds=1, way="plan")  # type: ignore[arg-type]
    return MemoryPipeline(store.pool, Extractor(model, chat_model()), writer, search, today=lambda: TODAY)


def bundled_pipeline(store: EltmStore, search: EltmSearch) -> MemoryPipeline:
    """Return the pipeline of the bundled chat model: it takes sentences as they stand, so no model is asked."""
    model = chat_model("structured_output", demo=True)
    asker = RecordedModel()
    writer = Writer(store, search, asker, model, max_rounds=1)  # type: ignore[arg-type]
    return MemoryPipeline(store.pool, Extractor(asker, model), writer, search, today=lambda: TODAY)


@asynccontextmanager
async def open_configured(
    config: Config, pool: AsyncConnectionPool[AsyncConnection]
) -> AsyncGenerator[tuple[EltmStore, EltmSearch, MemoryPipeline]]:
    """Yield the memory of a configuration whose hand is running."""
    catalog = build_catalog(config.providers)
    eltm = config.memory.eltm
    embedding = catalog.find_embedding_model(eltm.embedding_model)
    if embedding is None:
        raise SystemExit(f"the configuration has no embedding model {eltm.embedding_model!r}")
    hand: HandConfig = config.hand
    async with open_hand_client(hand.base_url, hand.token) as client:
        collector = RunCollector(client, RunRegistry(), hand, RunTrace(enabled=config.observability.one_shot_trace))
        store, search = await open_store(pool, HandEmbedder(client, embedding))
        # Tool loops need a brain that the hand can call back; the plan is what this measures of the writer.
        writer = Writer(
            store, search, collector, catalog.get_chat_model(eltm.writer_model), max_rounds=eltm.max_writer_rounds, way="plan"
        )
        extractor = Extractor(collector, catalog.get_chat_model(eltm.extraction_model))
        yield store, search, MemoryPipeline(pool, extractor, writer, search, today=lambda: TODAY)
