"""The brain's two internal routes on loopback: tool listing and tool callback, as a test wants them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DICE = {
    "name": "dice__roll",
    "description": "Roll a die.",
    "schema": {"type": "object", "properties": {"sides": {"type": "integer"}}},
}


class ToolHost:
    """Records both kinds of requests; ``on_list`` and ``on_call`` may be replaced."""

    def __init__(self) -> None:
        self.listings: list[web.Request] = []
        self.calls: list[dict[str, Any]] = []
        self.call_headers: list[dict[str, str]] = []
        self.tools: list[object] = [DICE]
        self.on_list: Handler | None = None
        self.on_call: Handler | None = None
        self.port = 0

    @property
    def urls(self) -> dict[str, str]:
        """The two fields of a run request."""
        return {"toolListUrl": f"http://127.0.0.1:{self.port}/tools", "toolCallbackUrl": f"http://127.0.0.1:{self.port}/tool"}

    async def list_tools(self, request: web.Request) -> web.StreamResponse:
        """Answer a listing."""
        self.listings.append(request)
        if self.on_list is not None:
            return await self.on_list(request)
        return web.json_response({"tools": self.tools})

    async def call_tool(self, request: web.Request) -> web.StreamResponse:
        """Answer a call."""
        call = await request.json()
        self.calls.append(call)
        self.call_headers.append(dict(request.headers))
        if self.on_call is not None:
            return await self.on_call(request)
        return web.json_response({"parts": [{"type": "text", "text": f"result of {call['id']}"}], "isError": False})


@asynccontextmanager
async def running_tool_host() -> AsyncGenerator[ToolHost]:
    """Yield a listening tool host."""
    host = ToolHost()
    app = web.Application()
    app.router.add_get("/tools", host.list_tools)
    app.router.add_post("/tool", host.call_tool)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host.port = runner.addresses[0][1]
    try:
        yield host
    finally:
        await runner.cleanup()
