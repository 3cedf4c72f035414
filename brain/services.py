"""The composition root: every part of the brain is opened here, handed its neighbours, and closed in reverse."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import aiohttp
import msgspec

from brain.api.forwarding import TurnForwarder
from brain.api.health import HealthChecks
from brain.catalog import Catalog, build_catalog
from brain.chats.erasure import ChatEraser
from brain.chats.locks import ChatLocks, open_chat_locks
from brain.chats.search.service import ChatSearch
from brain.chats.service import ChatService
from brain.chats.store import ChatStore
from brain.chats.titles import TitleGenerator
from brain.chats.transfer import ChatReader
from brain.config.models import Config
from brain.db.pools import open_pool
from brain.jobs.queue import enqueue_encoded
from brain.memory.assembly import MemoryParts, build_memory
from brain.observability.metrics import Metrics
from brain.personas.service import PersonaService
from brain.probes.queries import find_measurements
from brain.runs.client import HandClient, open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from brain.tools.assembly import ToolSets, open_tool_sets
from brain.tools.overview import ToolOverview
from brain.turns.images import ImageScaler
from brain.turns.loop import TurnParts
from brain.turns.memory_recall import EltmRecall
from brain.turns.service import TurnService, find_live_chats, open_turn_service
from brain.turns.tooling import TurnTooling

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Mapping

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.probes.probe import Measurement

POOL_TIMEOUT_S = 5.0
"""How long a request waits for a connection before it is told that the database does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Finished parts, by name. The application offers them to its routes; a test may build others."""

    config: Config
    catalog: Catalog
    pool: AsyncConnectionPool[AsyncConnection]
    metrics: Metrics
    hand: HandClient
    registry: RunRegistry
    collector: RunCollector
    locks: ChatLocks
    chat_store: ChatStore
    chats: ChatService
    reader: ChatReader
    titles: TitleGenerator
    search: ChatSearch
    personas: PersonaService
    health: HealthChecks
    memory: MemoryParts
    turns: TurnService
    forwarder: TurnForwarder
    tool_sets: ToolSets
    tool_overview: ToolOverview
    measured_models: Mapping[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    """What the servers of the models reported, by catalog id."""


@asynccontextmanager
async def open_services(config: Config) -> AsyncGenerator[Services]:
    """Open everything a configured brain needs, yield it, close it in reverse. The database must be migrated.

    Raises:
        CatalogError: the models contradict themselves.
        InvalidInputError: a configured model is not in the catalog.
        ToolSetupError: a tool is configured wrongly, or a tool server cannot be reached.
        UnavailableError: the database gives no session for the chat locks.
        psycopg_pool.PoolTimeout: the database does not answer.
    """
    catalog = build_catalog(config.providers)
    title_model = catalog.get_chat_model(config.title.model)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(config.database.url, timeout_s=POOL_TIMEOUT_S))
        locks = await stack.enter_async_context(
            open_chat_locks(
                config.database.url,
                capacity=config.database.lock_pool_size,
                wait_ms=config.database.lock_connection_timeout,
            ),
        )
        hand = await stack.enter_async_context(open_hand_client(config.hand.base_url, config.hand.token))
        registry = RunRegistry()
        collector = RunCollector(hand, registry, config.hand, RunTrace(enabled=config.observability.one_shot_trace))
        store = ChatStore()
        tool_sets = await stack.enter_async_context(open_tool_sets(config))
        memory = build_memory(config, catalog, pool, hand, collector, tool_sets, ChatEraser(locks, store))
        chat_tools = tool_sets.for_chats(memory.investigator)
        metrics = Metrics()
        turn_parts = TurnParts(
            pool=pool,
            store=store,
            client=hand,
            registry=registry,
            collector=collector,
            compact_model=catalog.get_chat_model(config.memory.compact_model),
            hand=config.hand,
            run_request_bytes=config.limits.run_request_bytes,
            memory=EltmRecall(memory.store.reads, memory.recaller),
            tooling=TurnTooling(chat_tools, tool_sets.approval_policy, pool),
            images=ImageScaler(config.images.downscale_to),
            metrics=metrics,
        )
        turns = await stack.enter_async_context(open_turn_service(turn_parts, locks, address=config.hand.self_base_url))
        session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
        await stack.enter_async_context(_running(memory.worker.run(), "extraction"))
        await stack.enter_async_context(_running(memory.reembedding.run(), "re-embedding"))
        await stack.enter_async_context(_running(memory.replays.run(), "replay"))
        async with pool.connection() as conn:
            measured = await find_measurements(conn)
        yield Services(
            config=config,
            catalog=catalog,
            pool=pool,
            metrics=metrics,
            hand=hand,
            registry=registry,
            collector=collector,
            locks=locks,
            chat_store=store,
            chats=ChatService(pool, store, locks, enqueue=enqueue_encoded, live=find_live_chats),
            reader=ChatReader(pool, store),
            titles=TitleGenerator(pool, store, collector, title_model, config.title.last_n_round),
            search=ChatSearch(pool),
            personas=PersonaService(pool, chat_tools.namespaces),
            health=HealthChecks(pool, config.database.url, hand),
            memory=memory,
            turns=turns,
            forwarder=TurnForwarder(session, turns),
            tool_sets=tool_sets,
            tool_overview=ToolOverview(tool_sets, memory.investigator),
            measured_models={model_id: _as_object(found) for model_id, found in measured.items()},
        )


@asynccontextmanager
async def _running(work: Coroutine[None, None, None], name: str) -> AsyncGenerator[None]:
    """Run endless work beside the block and cancel it at the end."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _as_object(measurement: Measurement) -> dict[str, object]:
    return cast("dict[str, object]", msgspec.to_builtins(measurement))
