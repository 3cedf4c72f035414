"""A started hand for tests, and a client that collects what a run streams."""

from __future__ import annotations

import asyncio
import copy
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from hand.app import Hand, open_hand
from hand.logs import Log
from hand.settings import Settings

TOKEN = "test-token-0123456789"
Event = tuple[str, dict[str, Any]]


def run_request(base_url: str, **changes: Any) -> dict[str, Any]:
    """Return a valid run request; keys of ``model`` may be given as a dict, ``None`` removes a key."""
    request: dict[str, Any] = {
        "model": {
            "baseUrl": base_url,
            "apiKey": "gateway-key-0123456789",
            "modelId": "acme/large-1",
            "contextWindow": 131072,
            "maxOutputTokens": 4000,
            "reasoning": False,
            "input": ["text"],
        },
        "messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
        "maxTokens": 4000,
        "runId": "run-1",
        "maxRounds": 8,
        "maxRetries": 1,
        "streamIdleTimeoutMs": 5000,
    }
    for key, value in changes.items():
        if key == "model":
            request["model"].update(value)
        else:
            request[key] = copy.deepcopy(value)
    return request


def embed_request(base_url: str, **changes: Any) -> dict[str, Any]:
    """Return a valid embedding request."""
    request: dict[str, Any] = {
        "model": {"baseUrl": base_url, "apiKey": "gateway-key-0123456789", "modelId": "emb-1"},
        "dimensions": 3,
        "input": ["a", "b"],
        "maxRetries": 1,
        "timeoutMs": 5000,
    }
    return request | changes


async def eventually(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 5) -> None:
    """Wait until ``condition`` holds.

    Raises:
        TimeoutError: it never did.
    """
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(0.01)


class HandClient:
    """Talks to one hand over HTTP."""

    def __init__(self, hand: Hand, session: aiohttp.ClientSession, log: io.BytesIO) -> None:
        self.hand = hand
        self.session = session
        self.url = f"http://127.0.0.1:{hand.port}"
        self._log = log

    @property
    def log_text(self) -> str:
        """Everything the hand has logged."""
        return self._log.getvalue().decode()

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """The log, one object per line."""
        return [json.loads(line) for line in self.log_text.splitlines()]

    @asynccontextmanager
    async def open_run(self, request: dict[str, Any]) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Yield the response of a run as soon as its head is there."""
        body = io.BytesIO(json.dumps(request).encode())
        async with self.session.post(f"{self.url}/v1/run", data=body, headers={"x-daapu-token": TOKEN}) as response:
            yield response

    async def run(self, request: dict[str, Any]) -> list[Event]:
        """Run to the end and return all events."""
        async with self.open_run(request) as response:
            assert response.status == 200, await response.text()
            return [event async for event in events_of(response)]

    async def post(self, path: str, body: bytes | dict[str, Any], token: str | None = TOKEN) -> tuple[int, dict[str, Any]]:
        """Post to any route and return status and JSON body."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if token is None else {"x-daapu-token": token}
        async with self.session.post(f"{self.url}{path}", data=raw, headers=headers) as response:
            return response.status, await response.json()

    async def embed(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Embed and return status and JSON body."""
        return await self.post("/v1/embed", request)


async def events_of(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Yield the events of an open run."""
    rest = b""
    async for piece in response.content.iter_any():
        rest += piece
        while (end := rest.find(b"\n\n")) >= 0:
            block, rest = rest[:end].decode(), rest[end + 2 :]
            if block.startswith(":"):
                continue
            name, data = block.split("\n")
            yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def text_of(events: list[Event], kind: str = "text_delta") -> str:
    """Return the deltas of one channel joined."""
    return "".join(data["text"] for name, data in events if name == kind)


def names_of(events: list[Event]) -> list[str]:
    """Return the event names, neighbouring deltas of one kind as one."""
    names: list[str] = []
    for name, _ in events:
        if not (name.endswith("_delta") and names and names[-1] == name):
            names.append(name)
    return names


@asynccontextmanager
async def running_hand(**changes: Any) -> AsyncGenerator[HandClient]:
    """Yield a client of a hand that listens on a free port."""
    log = io.BytesIO()
    settings = Settings(**{"token": TOKEN, "port": 0, "drain_seconds": 0.2, **changes})
    async with (
        open_hand(settings, Log(log, log)) as hand,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        # The first run of a process waits for the SDK to be loaded, which timeouts of milliseconds would not survive.
        await hand.gateway.ready()
        yield HandClient(hand, session, log)
