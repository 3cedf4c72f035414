"""A tool server for tests, over Streamable HTTP in this process or as a child process over either transport.

As a program: ``python mcp_server.py stdio`` or ``python mcp_server.py http PORT``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import Server
from mcp.server.stdio import stdio_server

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
RICH_SCHEMA = {
    "type": "object",
    "properties": {"size": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/name"}]}},
    "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}},
    "additionalProperties": False,
}

Content = list[types.ContentBlock]


class FakeToolServer:
    """Tools that behave well or badly; what is listed can be changed at any time."""

    def __init__(self) -> None:
        self.tools = [
            "echo",
            "image",
            "hang",
            "fail",
            "refuse",
            "die",
            "flood",
            "link",
            "environment",
            "nothing",
            "pid",
            "garbage",
            "endless",
        ]
        self.page_size = 100
        self.list_delay = asyncio.Event()
        self.list_delay.set()
        self.lists = 0
        self.list_failures = 0
        self.calls: list[str] = []
        self.cancelled = asyncio.Event()
        self.hanging = asyncio.Event()
        self.on_die: Callable[[], None] = lambda: os._exit(3)
        self.headers: list[dict[str, str]] = []

    def build(self) -> Server[Any]:
        return Server("fake", version="1", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _context: object, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.lists += 1
        await self.list_delay.wait()
        if self.list_failures > 0:
            self.list_failures -= 1
            raise MCPError(-32603, "no list today")
        start = int(params.cursor) if params is not None and params.cursor else 0
        names = self.tools[start : start + self.page_size]
        more = start + self.page_size < len(self.tools)
        tools = [types.Tool(name=name, description=f"Does {name}", input_schema=RICH_SCHEMA) for name in names]
        return types.ListToolsResult(tools=tools, next_cursor=str(start + self.page_size) if more else None)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls.append(params.name)
        request = getattr(context, "request", None)
        if request is not None:
            self.headers.append(dict(request.headers))
        arguments = params.arguments or {}
        match params.name:
            case "hang":
                self.hanging.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            case "die":
                self.on_die()
                await asyncio.Event().wait()
            case "refuse":
                raise MCPError(-32602, "the server refuses this")
        return types.CallToolResult(content=self._content(params.name, arguments), is_error=params.name == "fail")

    def _content(self, name: str, arguments: dict[str, Any]) -> Content:  # noqa: PLR0911 - one line per tool
        match name:
            case "image":
                return [types.TextContent(text="a picture"), types.ImageContent(data=PIXEL, mime_type="image/png")]
            case "fail":
                return [types.TextContent(text="it broke")]
            case "flood":
                return [types.TextContent(text="x" * 3_000_000)]
            case "link":
                return [types.ResourceLink(name="doc", uri="file:///doc")]
            case "environment":
                return [types.TextContent(text="\n".join(f"{key}={value}" for key, value in sorted(os.environ.items())))]
            case "pid":
                return [types.TextContent(text=str(os.getpid()))]
            case "nothing":
                return []
            case _:
                return [types.TextContent(text=f"{name}: {arguments.get('text', '')}")]


class RunningServer:
    """A server that listens in this process, to be stopped and started again on the same port."""

    def __init__(self, fake: FakeToolServer, *, stateless: bool = True) -> None:
        self.fake = fake
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._stateless = stateless
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        app = self.fake.build().streamable_http_app(stateless_http=self._stateless)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_config=None, timeout_graceful_shutdown=0, lifespan="on", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._server._serve())
        async with asyncio.timeout(5):
            while not self._server.started:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = self._server.force_exit = True
            await asyncio.wait({self._task})
            self._server = self._task = None


@asynccontextmanager
async def running_server(fake: FakeToolServer, *, stateless: bool = True) -> AsyncGenerator[RunningServer]:
    server = RunningServer(fake, stateless=stateless)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _be_rude(noise: bytes) -> None:
    """Answer by hand, with ``noise`` before the answer to each call: the library keeps its servers from that."""
    tool = {"name": "do", "inputSchema": {"type": "object"}}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                reply["result"] = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "rude", "version": "0"}}
            case "tools/list":
                reply["result"] = {"tools": [tool]}
            case "tools/call":
                sys.stdout.buffer.write(noise)
                reply["result"] = {"content": [{"type": "text", "text": "done"}]}
            case _:
                reply["error"] = {"code": -32601, "message": "unknown method"}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


async def _main(arguments: list[str]) -> None:
    fake = FakeToolServer()
    if arguments[0] == "http":
        app = fake.build().streamable_http_app(stateless_http=arguments[2:] != ["stateful"])
        await uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=int(arguments[1]), log_level="warning", ws="none")
        ).serve()
        return
    print("fake tool server starts", file=sys.stderr)
    server = fake.build()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__" and sys.argv[1] == "rude":
    _be_rude({"garbage": b"not a message\n" * 20_000, "endless": b"x" * 3_000_000}[sys.argv[2]])
elif __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
