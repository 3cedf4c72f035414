"""The whole application over a real database, with a scripted hand; in process, or behind a real listener."""

from __future__ import annotations

import asyncio
import base64
import io
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
import pytest_asyncio
from PIL import Image
from psycopg import AsyncConnection

from brain.app import create_app
from brain.config.models import Config
from brain.memory.maintenance import MAINTENANCE_KEY
from brain.memory.queries import set_meta_number
from brain.personas.service import PersonaService
from brain.server import bind, server_for
from brain.services import Services, open_services
from tests.fakes.hand import TOKEN, FakeHand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

NAMESPACES = ("gsg", "fs", "my-server")
MODEL = "gw/acme/large-1"


def make_config(database_url: str, hand_url: str, **sections: dict[str, Any]) -> Config:
    """Return a small valid configuration; ``sections`` are merged over it by key."""
    model = {
        "contextLength": 131072,
        "maxOutputTokens": 8192,
        "compactionTriggerFraction": 0.8,
        "compactionKeepRounds": 2,
    }
    values: dict[str, Any] = {
        "database": {"url": database_url, "lockConnectionTimeout": 1000},
        "providers": {
            "gw": {
                "apiKey": "k",
                "baseUrl": "http://127.0.0.1:9/v1",
                "llm": [
                    {"modelId": "acme/large-1", "capabilities": ["image", "tool_calls"], **model},
                    {"modelId": "small", "capabilities": [], "demo": True, **model},
                ],
                "embedding": [{"modelId": "e", "dimensions": 8}],
            },
        },
        "memory": {
            "compactModel": "gw/small",
            "eltm": {
                "extractionModel": "gw/small",
                "embeddingModel": "gw/e",
                "writerModel": "gw/small",
                "rewriteModel": "gw/small",
                "rewriteRounds": 2,
                "relatedEntitiesLimit": 0,
                "relatedNotesLimit": 0,
            },
        },
        "agent": {"investigator": {"model": "gw/small", "allowedNamespaces": ["eltm"]}},
        "title": {"model": "gw/small", "lastNRound": 1},
        "hand": {"baseUrl": hand_url, "selfBaseUrl": "http://brain.internal:8080", "token": TOKEN},
    }
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return msgspec.convert(values, Config)


class Switch:
    """Maintenance mode as a test sets it."""

    def __init__(self) -> None:
        self.on = False

    async def is_enabled(self) -> bool:
        return self.on

    async def set_enabled(self, *, enabled: bool) -> bool:
        self.on = enabled
        return enabled


@dataclass
class Api:
    """A started application and a client of it."""

    http: httpx2.AsyncClient
    services: Services
    hand: FakeHand
    maintenance: Switch
    url: str = ""

    async def create_chat(self) -> str:
        answer = await self.http.post("/api/chats")
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def import_chat(self, messages: list[Any], title: str = "Imported") -> str:
        answer = await self.http.post("/api/chats/import", json={"title": title, "messages": messages})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def run_sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        async with self.services.pool.connection() as conn:
            cursor = await conn.execute(statement.encode(), values or None)
            return await cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def open_api(database_url: str, *, listen: bool = False, **sections: dict[str, Any]) -> AsyncGenerator[Api]:
    async with AsyncExitStack() as stack:
        hand = await stack.enter_async_context(FakeHand().serve())
        config = make_config(database_url, hand.url, **sections)
        await stop_extraction(database_url)
        opened = await stack.enter_async_context(open_services(config))
        switch = Switch()
        memory = replace(opened.memory, maintenance=switch)  # type: ignore[arg-type]
        services = replace(opened, memory=memory, personas=PersonaService(opened.pool, NAMESPACES))
        app = create_app(services)
        if listen:
            url = await stack.enter_async_context(listening(app))
            client = httpx2.AsyncClient(base_url=url, timeout=30)
        else:
            url = "http://localhost"
            client = httpx2.AsyncClient(base_url=url, transport=httpx2.ASGITransport(app=app), timeout=30)
        http = await stack.enter_async_context(client)
        yield Api(http, services, hand, switch, url)


async def stop_extraction(database_url: str) -> None:
    """Switch maintenance mode on in the database, so that jobs stay in the queue; the routes ask the test's own switch."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as conn:
        await set_meta_number(conn, MAINTENANCE_KEY, 1)


@asynccontextmanager
async def listening(app: Any) -> AsyncGenerator[str]:
    with bind("127.0.0.1", 0) as listener:
        server = server_for(app)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@pytest_asyncio.fixture
async def api(database_url: str) -> AsyncGenerator[Api]:
    async with open_api(database_url) as opened:
        yield opened


def user(text: str = "Where to?", created_at: str = "2026-03-01T08:00:00Z", **extra: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "text": text}], "createdAt": created_at, **extra}


def assistant(text: str = "Lisbon.", *calls: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {
        "role": "assistant",
        "parts": [{"type": "text", "text": text}, *calls],
        "meta": {"inputTokens": 900, "outputTokens": 4, "totalTokens": 904},
        "finishReason": finish,
    }


def call(call_id: str = "c1", tool: str = "dice__roll", args: Any = None) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "tool": tool, "args": args or {}}


def result(call_id: str = "c1", tool: str = "dice__roll", parts: list[Any] | None = None) -> dict[str, Any]:
    content = [{"type": "text", "text": "4"}] if parts is None else parts
    return {
        "role": "tool_result",
        "parts": [{"type": "tool_result", "id": call_id, "tool": tool, "parts": content, "isError": False}],
    }


def image_part(content: bytes | str, mime: str = "image/png", kind: str = "image") -> dict[str, Any]:
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {"type": "attachment", "kind": kind, "content": {"type": "base64", "base64": text}, "mimeType": mime}


def png(width: int = 4, height: int = 4) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(buffer, "PNG")
    return buffer.getvalue()
