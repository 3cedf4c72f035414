"""Servers that the library's own server classes cannot play: older, careless, hostile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from msgspec import Raw

from brain.config.models import McpHttpServerConfig
from brain.tools import mcp_connect
from brain.tools.mcp_connect import connector_for
from brain.tools.mcp_server import McpServer
from brain.tools.provider import ToolTransportError

TOOL = {"name": "do", "inputSchema": {"type": "object"}}
KEY = "https://host/mcp?key=s3cret"


class StrangeServer:
    def __init__(self) -> None:
        self.tools: list[Any] = [TOOL]
        self.answer: Any = {"content": [{"type": "text", "text": "done"}]}
        self.error: Any = None
        self.calls = 0
        self.initialized = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                self.initialized += 1
                version = message["params"]["protocolVersion"]
                info = {"name": "old", "version": "0"}
                reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                reply["result"] = {"tools": self.tools}
            case "tools/call":
                self.calls += 1
                reply |= {"error": self.error} if self.error else {"result": self.answer}
            case _:
                reply["error"] = {"code": -32601, "message": "unknown method"}
        return web.json_response(reply)


@pytest_asyncio.fixture
async def strange() -> AsyncGenerator[StrangeServer]:
    fake = StrangeServer()
    app = web.Application()
    app.router.add_route("*", "/mcp", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    yield fake
    await runner.cleanup()


@pytest_asyncio.fixture
async def server(strange: StrangeServer) -> AsyncGenerator[McpServer]:
    config = McpHttpServerConfig(url=strange.url, tool_execution_timeout_seconds=5, reconnect_attempts=1, reconnect_delay_ms=0)
    opened = McpServer("srv", config, connector_for("srv", config, None))
    opened.start()
    await opened.list_tools()
    yield opened
    await opened.stop()


async def call(server: McpServer) -> tuple[bool, str]:
    outcome = await server.execute("c", "srv__do", Raw(b'{"a":1}'))
    (part,) = outcome.parts
    return outcome.is_error, getattr(part, "text", "")


async def test_server_of_an_older_protocol_is_served(server: McpServer, strange: StrangeServer) -> None:
    assert await call(server) == (False, "done")
    assert strange.initialized == 1


async def test_tool_without_a_description_gets_one_that_the_hand_accepts(server: McpServer, strange: StrangeServer) -> None:
    strange.tools = [TOOL, {**TOOL, "name": "b", "description": " ", "title": "Bee"}]
    assert [spec.description for spec in await server.list_tools()] == ["do", "Bee"]


@pytest.mark.parametrize(
    "answer",
    [
        {"content": [{"type": "hologram", "data": "x"}]},
        {"content": [{"type": "text"}]},
        {"content": "text"},
        {"content": [{"type": "resource", "resource": {"uri": "x://y"}}]},
        {},
        {"content": [{"type": "image", "data": "AAAA"}]},
    ],
)
async def test_answer_out_of_protocol_is_an_error_result_and_keeps_the_connection(
    server: McpServer, strange: StrangeServer, answer: Any
) -> None:
    strange.answer = answer
    is_error, text = await call(server)
    assert is_error
    assert text.startswith("Error: ")
    assert server.state == "ready"
    strange.answer = {"content": [{"type": "text", "text": "again"}]}
    assert await call(server) == (False, "again")
    assert strange.initialized == 1


async def test_missing_structured_content_is_an_error_result(server: McpServer, strange: StrangeServer) -> None:
    strange.tools = [{**TOOL, "outputSchema": {"type": "object", "required": ["x"]}}]
    await server.list_tools()
    assert (await call(server))[0]
    assert server.state == "ready"


@pytest.mark.parametrize("code", [-32000, -32001, -32602, -32603, 7])
async def test_error_of_the_server_is_told_with_its_message(server: McpServer, strange: StrangeServer, code: int) -> None:
    strange.error = {"code": code, "message": "quota exceeded"}
    is_error, text = await call(server)
    assert is_error
    assert "quota exceeded" in text
    assert (server.state == "ready") is (code != -32001)


async def test_listing_out_of_protocol_fails_after_one_reconnect(server: McpServer, strange: StrangeServer) -> None:
    strange.tools = [{"name": "x", "inputSchema": 3}]
    with pytest.raises(ToolTransportError, match="srv"):
        await server.list_tools()
    assert strange.initialized == 2


async def test_keys_in_addresses_are_not_told(server: McpServer, strange: StrangeServer) -> None:
    strange.error = {"code": -32001, "message": f"timeout at '{KEY}'"}
    _, text = await call(server)
    assert "s3cret" not in text + str(server.last_error)


async def test_body_over_the_cap_is_not_read_to_its_end(
    server: McpServer, strange: StrangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_connect, "MESSAGE_LIMIT_BYTES", 100_000)
    server.reconnect()
    await server.list_tools()
    strange.answer = {"content": [{"type": "text", "text": "x" * 200_000}]}
    is_error, text = await call(server)
    assert is_error
    assert len(text) < 1000
    strange.answer = {"content": [{"type": "text", "text": "fine"}]}
    await server.list_tools()
    assert await call(server) == (False, "fine")
