"""A transport that reaches servers through tunnels (``CONNECT``) of one HTTP proxy, plain ``http`` ones too (chat-domain 15).

The library would send plain requests in absolute form, which a proxy that only tunnels refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import httpcore2
import httpx2

ANSWER_LIMIT_BYTES: Final = 16 * 1024


class TunnelTransport(httpx2.AsyncHTTPTransport):
    """Like its base, over connections that the proxy makes."""

    def __init__(self, proxy_host: str, proxy_port: int, limits: httpx2.Limits) -> None:
        super().__init__(trust_env=False)
        # The base has no parameter for how connections are made; the pool is its only state.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_TunnelBackend(proxy_host, proxy_port),
        )


class _TunnelBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, proxy_host: str, proxy_port: int) -> None:
        self._proxy_host = proxy_host
        self._proxy_port = proxy_port
        # A cast, because the library declares the class twice, once for installations without anyio.
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._network.connect_tcp(
            self._proxy_host, self._proxy_port, timeout=timeout, local_address=local_address, socket_options=socket_options
        )
        try:
            await _open_tunnel(stream, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", timeout)
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


async def _open_tunnel(stream: httpcore2.AsyncNetworkStream, target: str, timeout: float | None) -> None:  # noqa: ASYNC109 - handed on
    await stream.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode(), timeout=timeout)
    answer = b""
    while b"\r\n\r\n" not in answer:
        # Nothing can follow the head: the server behind the tunnel speaks second.
        chunk = await stream.read(ANSWER_LIMIT_BYTES - len(answer), timeout=timeout)
        answer += chunk
        if not chunk or len(answer) >= ANSWER_LIMIT_BYTES:
            raise httpcore2.ProxyError("the proxy closed the connection instead of opening a tunnel")
    status_line = answer.partition(b"\r\n")[0].decode(errors="replace")
    _, _, status = status_line.partition(" ")
    if not status.startswith("2"):
        raise httpcore2.ProxyError(f"the proxy refused the tunnel: {status[:200]}")
