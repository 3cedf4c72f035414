"""A small OpenAI-compatible server whose abilities are chosen by the test; it speaks the real protocol over a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class ModelServer:
    """What it can do, and what it was asked."""

    window: dict[str, Any] = field(default_factory=lambda: {"meta": {"n_ctx": 4096}})
    tools: bool = True
    structured: bool = True
    colour: str | None = "Red."
    """Answer to a picture; ``None`` refuses pictures."""
    dimensions: int = 3
    status: int = 200
    requests: list[dict[str, Any]] = field(default_factory=list)
    address: str = ""

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", **self.window}, {"id": "other"}]})

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        if self.status != 200:
            return web.json_response({"error": {"message": "no such key", "type": "auth"}}, status=self.status)
        content = body["messages"][-1]["content"]
        message: dict[str, Any] = {"role": "assistant", "content": "yes"}
        if isinstance(content, list):
            if self.colour is None:
                return web.json_response({"error": {"message": "image input is not supported"}}, status=500)
            message["content"] = self.colour
        elif "tools" in body and self.tools:
            call = {"name": body["tools"][0]["function"]["name"], "arguments": '{"city":"Paris"}'}
            message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        elif "response_format" in body:
            message["content"] = json.dumps({"city": "Paris", "sunny": True}) if self.structured else "It is sunny."
        return web.json_response({"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]})

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        vectors = [{"object": "embedding", "index": 0, "embedding": [0.5] * self.dimensions}]
        return web.json_response({"object": "list", "data": vectors})


@asynccontextmanager
async def model_server(**abilities: Any) -> AsyncIterator[ModelServer]:
    """Yield a running server on a free port; ``address`` includes the ``/v1`` root."""
    server = ModelServer(**abilities)
    app = web.Application()
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_post("/v1/embeddings", server.embeddings)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()
