"""The composition root: every part of the brain is opened here, handed its neighbours, and closed in reverse."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brain.api.health import HealthChecks
from brain.catalog import Catalog, ChatModel, build_catalog
from brain.chats.locks import ChatLocks, open_chat_locks
from brain.chats.search.service import ChatSearch
from brain.chats.service import ChatService
from brain.chats.store import ChatStore
from brain.chats.titles import TitleGenerator
from brain.chats.transfer import ChatReader
from brain.config.models import Config
from brain.db.pools import open_pool
from brain.jobs.queue import enqueue_snapshot
from brain.observability.metrics import Metrics
from brain.personas.service import PersonaService
from brain.runs.client import HandClient, open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.api.guards import MaintenanceGate

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
    maintenance: MaintenanceGate | None = None
    """The memory's switch; without it nothing is ever blocked."""
    measured_models: Mapping[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    """What the servers of the models reported, by catalog id."""


@asynccontextmanager
async def open_services(config: Config) -> AsyncGenerator[Services]:
    """Open everything a configured brain needs, yield it, close it in reverse. The database must be migrated.

    Raises:
        CatalogError: the models contradict themselves.
        UnavailableError: the database gives no session for the chat locks.
        psycopg_pool.PoolTimeout: the database does not answer.
    """
    catalog = build_catalog(config.providers)
    title_model = _configured_model(catalog, config.title.model)
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
        yield Services(
            config=config,
            catalog=catalog,
            pool=pool,
            metrics=Metrics(),
            hand=hand,
            registry=registry,
            collector=collector,
            locks=locks,
            chat_store=store,
            chats=ChatService(pool, store, locks, enqueue=enqueue_snapshot, live=_none_live),
            reader=ChatReader(pool, store),
            titles=TitleGenerator(pool, store, collector, title_model, config.title.last_n_round),
            search=ChatSearch(pool),
            personas=PersonaService(pool, ()),
            health=HealthChecks(pool, config.database.url, hand),
        )


def _configured_model(catalog: Catalog, model_id: str) -> ChatModel:
    # The configuration was checked against the catalog when it was read; this is its last guard.
    return catalog.get_chat_model(model_id)


async def _none_live(_conn: AsyncConnection, _chat_ids: Sequence[str]) -> AbstractSet[str]:
    return frozenset()
