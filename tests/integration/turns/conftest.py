"""A brain reduced to its turns: the real application parts over real HTTP, with a scripted hand and a real database."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
import msgspec
import pytest
import uvicorn
from litestar import Litestar
from litestar.di import Provide

from brain.api.errors import exception_handlers
from brain.api.forwarding import TurnForwarder
from brain.api.guards import RequestGuard
from brain.api.hand_callback import hand_callback_router
from brain.api.messages import MessagesController
from brain.api.request import ApiRequest
from brain.catalog import Catalog, build_catalog
from brain.chats.locks import ChatLocks, open_chat_locks
from brain.chats.store import ChatStore, StoredChat
from brain.chats.transfer import ChatReader
from brain.config.models import ApprovalsConfig, ChatModelConfig, HandConfig, LimitsConfig, ProviderConfig
from brain.personas.service import PersonaDraft, PersonaService
from brain.runs.client import open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from brain.tools.approval import ApprovalPolicy
from brain.tools.provider import ToolOutcome, ToolProvider, ToolTransportError, text_outcome
from brain.tools.whitelist import WhitelistedTools
from brain.turns.injection import MemoryRecall, Recalled
from brain.turns.loop import TurnParts
from brain.turns.service import TurnService, open_turn_service
from brain.turns.tooling import TurnTooling
from shared_protocol.messages import AttachmentPart, Base64Content, Message
from shared_protocol.sse import EventReader
from shared_protocol.tools import ToolSpec
from tests.fakes.hand import TOKEN, FakeHand

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

CHAT = "1755500000000-42"


class DiceTools:
    """Two tools: ``dice__roll`` answers at once, ``dice__wait`` when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.release = asyncio.Event()
        self.budget = 0
        self.is_down = False

    @property
    def namespaces(self) -> tuple[str, ...]:
        return ("dice",)

    async def list_tools(self) -> tuple[ToolSpec, ...]:
        if self.is_down:
            raise ToolTransportError("the dice are gone")
        schema = msgspec.Raw(b'{"type":"object","properties":{"sides":{"type":"integer"}}}')
        return (ToolSpec("dice__roll", "Rolls a die", schema), ToolSpec("dice__wait", "Waits", schema))

    def select(self, whitelist: Sequence[str]) -> ToolProvider:
        return WhitelistedTools(self, whitelist) if whitelist else self

    def budget_seconds(self, name: str) -> int:
        del name
        return self.budget

    async def execute(self, call_id: str, name: str, args: msgspec.Raw) -> ToolOutcome:
        self.calls.append((call_id, bytes(args).decode()))
        if self.is_down:
            raise ToolTransportError("the dice are gone")
        if name == "dice__wait":
            await self.release.wait()
        if name == "dice__broken":
            raise ZeroDivisionError
        if name == "dice__film":
            return ToolOutcome((AttachmentPart("video", Base64Content("AAAA"), "video/mp4"),))
        return text_outcome("4")


class NoMemory:
    """A memory that is empty and never changes."""

    async def version(self) -> str:
        return "0"

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        del messages
        return Recalled()


@dataclass
class Settings:
    """What a test changes about its brain."""

    models: list[ChatModelConfig] = field(default_factory=list)
    hand: dict[str, Any] = field(default_factory=dict)
    ask: tuple[str, ...] = ()
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)
    run_request_bytes: int = 48 * 2**20
    memory: MemoryRecall = field(default_factory=NoMemory)
    lock_places: int = 100
    lock_wait_ms: int = 10_000
    port: int = 0
    gateway: str = "http://gateway/v1"


def model_config(model_id: str = "large", **changes: Any) -> ChatModelConfig:
    values: dict[str, Any] = {
        "model_id": model_id,
        "context_length": 100_000,
        "max_output_tokens": 1000,
        "capabilities": ["tool_calls", "image"],
        "compaction_trigger_fraction": 0.8,
        "compaction_keep_rounds": 2,
    }
    return ChatModelConfig(**{**values, **changes})


@dataclass
class Brain:
    """A running brain and a client of it."""

    url: str
    http: httpx2.AsyncClient
    turns: TurnService
    locks: ChatLocks
    hand: FakeHand
    tools: DiceTools
    pool: AsyncConnectionPool[AsyncConnection]
    store: ChatStore
    registry: RunRegistry

    async def create_chat(self, *messages: Message, chat_id: str = CHAT, title: str = "New chat") -> str:
        async with self.pool.connection() as conn, conn.transaction():
            await self.store.insert(conn, chat_id, title=title, messages=messages)
        return chat_id

    async def load(self, chat_id: str = CHAT) -> StoredChat:
        async with self.pool.connection() as conn:
            chat = await self.store.load(conn, chat_id)
        assert chat is not None
        return chat

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        async with self.pool.connection() as conn:
            return await (await conn.execute(query)).fetchall()  # type: ignore[arg-type]

    @asynccontextmanager
    async def sending(self, text: str = "Hi", *, chat_id: str = CHAT, **body: Any) -> AsyncGenerator[EventFeed]:
        payload = {"text": text, "model": "gw/large", "personaId": 0, **body}
        async with self.http.stream("POST", f"/api/chats/{chat_id}/messages", json=payload) as response:
            if response.status_code != 200:
                await response.aread()
                raise AssertionError(f"{response.status_code}: {response.text}")
            yield EventFeed(response)

    async def send(self, text: str = "Hi", *, chat_id: str = CHAT, **body: Any) -> list[Event]:
        async with self.sending(text, chat_id=chat_id, **body) as feed:
            return await feed.rest()

    async def idle(self, chat_id: str = CHAT) -> None:
        await until(lambda: self.turns.find(chat_id) is None and chat_id not in self.locks.held_chats)


@dataclass(frozen=True)
class Event:
    """One event as a client read it."""

    name: str
    raw: bytes
    id: str

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.raw)


class EventFeed:
    """Reads the events of one response one by one."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._chunks = response.aiter_raw()
        self._reader = EventReader()
        self._ready: list[Event] = []
        self.bytes = b""

    async def next(self, name: str | None = None) -> Event:
        """Return the next event, or the next one of that name."""
        async with asyncio.timeout(10):
            while True:
                while not self._ready:
                    chunk = await anext(self._chunks)
                    self.bytes += chunk
                    self._ready += [Event(item.name, item.data, item.id) for item in self._reader.feed(chunk)]
                event = self._ready.pop(0)
                if name is None or event.name == name:
                    return event

    async def read_text(self, wanted: str) -> Event:
        """Read until the text so far is what is wanted; return the last event."""
        text = ""
        while text != wanted:
            event = await self.next("text")
            text += event.data["delta"]
        return event

    async def rest(self) -> list[Event]:
        events: list[Event] = []
        while True:
            try:
                events.append(await self.next())
            except StopAsyncIteration:
                return events


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def text_of_events(events: list[Event], name: str = "text") -> str:
    return "".join(event.data["delta"] for event in events if event.name == name)


async def until(condition: Any) -> None:
    """Wait for a condition, at most 5 s."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def run_brain(
    database_url: str,
    pool: AsyncConnectionPool[AsyncConnection],
    hand: FakeHand,
    settings: Settings | None = None,
) -> AsyncGenerator[Brain]:
    settings = settings or Settings()
    async with AsyncExitStack() as stack:
        port = settings.port or free_port()
        address = f"http://127.0.0.1:{port}"
        models = settings.models or [model_config()]
        catalog = build_catalog({"gw": ProviderConfig(api_key="k", base_url=settings.gateway, llm=models)})
        hand_config = HandConfig(**{"base_url": hand.url, "self_base_url": address, "token": TOKEN, **settings.hand})
        client = await stack.enter_async_context(open_hand_client(hand_config.base_url, TOKEN))
        locks = await stack.enter_async_context(
            open_chat_locks(database_url, capacity=settings.lock_places, wait_ms=settings.lock_wait_ms)
        )
        registry = RunRegistry()
        store = ChatStore()
        tools = DiceTools()
        parts = TurnParts(
            pool=pool,
            store=store,
            client=client,
            registry=registry,
            collector=RunCollector(client, registry, hand_config, RunTrace(enabled=False)),
            compact_model=catalog.chat_models[0],
            hand=hand_config,
            run_request_bytes=settings.run_request_bytes,
            memory=settings.memory,
            tooling=TurnTooling(
                tools,
                ApprovalPolicy(frozenset(settings.ask), settings.approvals.unattended, settings.approvals.timeout_seconds),
                pool,
            ),
        )
        turns = await stack.enter_async_context(open_turn_service(parts, locks, address=address))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        forwarder = TurnForwarder(session, turns)
        personas = PersonaService(pool, ("dice", "gsg"))
        await personas.create(PersonaDraft("Plain", "A plain persona.", ("dice",)))
        app = build_app(turns, forwarder, catalog, registry, personas, ChatReader(pool, store))
        await stack.enter_async_context(serve(app, port))
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=address, timeout=30))
        yield Brain(address, http, turns, locks, hand, tools, pool, store, registry)


def giver(value: Any) -> Any:
    return lambda: value


def build_app(
    turns: TurnService,
    forwarder: TurnForwarder,
    catalog: Catalog,
    registry: RunRegistry,
    personas: PersonaService,
    reader: ChatReader,
) -> Litestar:
    limits = LimitsConfig()
    given: dict[str, Any] = {
        "turns": turns,
        "forwarder": forwarder,
        "catalog": catalog,
        "registry": registry,
        "personas": personas,
        "limits": limits,
        "reader": reader,
    }
    return Litestar(
        route_handlers=[MessagesController, hand_callback_router(TOKEN)],
        dependencies={name: Provide(giver(value), sync_to_thread=False) for name, value in given.items()},
        guards=[RequestGuard(limits, None)],
        exception_handlers=exception_handlers(),
        request_class=ApiRequest,
        logging_config=None,
        openapi_config=None,
    )


@asynccontextmanager
async def serve(app: Any, port: int) -> AsyncGenerator[None]:
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server._serve())
    await until(lambda: server.started)
    try:
        yield
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def hand() -> AsyncGenerator[FakeHand]:
    async with FakeHand().serve() as fake:
        yield fake


@pytest.fixture
async def brain(database_url: str, pool: AsyncConnectionPool[AsyncConnection], hand: FakeHand) -> AsyncGenerator[Brain]:
    async with run_brain(database_url, pool, hand) as running:
        yield running
