"""How a tool server is reached: Streamable HTTP, or a child process (chat-domain 15, libraries 5.3).

Both are context managers that have to be entered and left in one task. What a server may send at once is bounded here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias, assert_never

import httpx2
import structlog
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from brain.config.models import McpHttpServerConfig, McpServerConfig, McpStdioServerConfig, ProxyConfig
from brain.tools.bash import scrub
from brain.tools.mcp_proxy import TunnelTransport
from brain.tools.mcp_stdio import stdio_streams

MESSAGE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Of one event, and of one JSON body: images travel as base64 in one message."""
CONNECT_SECONDS: Final = 30
READ_SECONDS: Final = 300
"""Of silence; more if the budget of the server's tools is longer, none if they have no budget."""
LOG_LINE_CHARS: Final = 500

McpConnector: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

logger = structlog.get_logger(__name__)


def connector_for(namespace: str, config: McpServerConfig, proxy: ProxyConfig | None) -> McpConnector:
    """Return how to connect to a configured server."""
    match config:
        case McpHttpServerConfig():
            return lambda: _connect_http(config, proxy)
        case McpStdioServerConfig():
            return lambda: _connect_stdio(namespace, config)
        case _:
            assert_never(config)


@asynccontextmanager
async def _connect_http(config: McpHttpServerConfig, proxy: ProxyConfig | None) -> AsyncGenerator[Client]:
    budget = config.tool_execution_timeout_seconds
    read_seconds = max(READ_SECONDS, budget + CONNECT_SECONDS) if budget else None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    # Explicit only: neither proxies nor credentials come from the environment.
    transport = (
        httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)
        if proxy is None
        else TunnelTransport(proxy.host, proxy.port, limits)
    )
    async with httpx2.AsyncClient(
        headers=config.headers,
        transport=_CappedTransport(transport, MESSAGE_LIMIT_BYTES),
        trust_env=False,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=read_seconds),
    ) as http_client:
        streams = streamable_http_client(config.url, http_client=http_client, max_sse_event_size=MESSAGE_LIMIT_BYTES)
        async with Client(streams, cache=None) as client:
            yield client


@asynccontextmanager
async def _connect_stdio(namespace: str, config: McpStdioServerConfig) -> AsyncGenerator[Client]:
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _StderrLog(namespace), source)
    environment = scrub(os.environ) | config.environment
    try:
        streams = stdio_streams(config.command, environment, errors=writing, limit_bytes=MESSAGE_LIMIT_BYTES)
        async with Client(streams, cache=None) as client:
            yield client
    finally:
        os.close(writing)
        transport.close()


class _StderrLog(asyncio.Protocol):
    """Writes the error output of a server to the log, line by line, cut."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LOG_LINE_CHARS]
        for line in lines:
            if text := line[:LOG_LINE_CHARS].decode(errors="replace").strip():
                logger.info("tool server", namespace=self._namespace, line=text)


class _CappedTransport(httpx2.AsyncBaseTransport):
    """Bounds JSON bodies, which the library reads whole; events are bounded by the library."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, limit_bytes: int) -> None:
        self._inner = inner
        self._limit_bytes = limit_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _CappedStream(response.stream, self._limit_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit_bytes: int) -> None:
        self._inner = inner
        self._limit_bytes = limit_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit_bytes
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.RemoteProtocolError(f"the server's answer is larger than {self._limit_bytes} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
