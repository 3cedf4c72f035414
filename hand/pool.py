"""The sockets to gateways that are open, by origin; idle ones are kept for a few seconds."""

from __future__ import annotations

import asyncio
import ssl

from hand.sockets import Connection, Origin

_IDLE_SECONDS = 15.0
_MOST_IDLE = 256
_CONNECT_SECONDS = 30.0


class ConnectionPool:
    """Open sockets by origin; idle ones are kept for a few seconds."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._tls: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def open_sockets(self) -> int:
        """Sockets that exist, idle ones included."""
        return len(self._all)

    @property
    def idle_sockets(self) -> int:
        """Sockets that wait for the next request."""
        return sum(len(idle) for idle in self._idle.values())

    def take_idle(self, origin: Origin) -> Connection | None:
        """Return the socket that was used last, if it is still open."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    async def connect(self, origin: Origin) -> Connection:
        """Open a new socket.

        Raises:
            OSError: nobody answers there.
        """
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                lambda: Connection(self, origin),
                host,
                port,
                ssl=self._tls_context() if scheme == "https" else None,
                server_hostname=host if scheme == "https" else None,
            )
        self._all.add(connection)
        return connection

    def give_back(self, connection: Connection, origin: Origin) -> None:
        """Keep a socket for the next request."""
        idle = self._idle.setdefault(origin, [])
        if len(idle) >= _MOST_IDLE:
            connection.abort()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._close_idle)

    def forget(self, connection: Connection) -> None:
        """Drop a socket that has closed."""
        self._all.discard(connection)

    def close(self) -> None:
        """Close everything."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._all):
            connection.abort()
        self._idle.clear()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _IDLE_SECONDS
        for origin, connections in list(self._idle.items()):
            kept = [connection for connection in connections if connection.is_open and connection.idle_since > oldest]
            for connection in connections:
                if connection.is_open and connection.idle_since <= oldest:
                    connection.abort()
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        self._sweep = loop.call_later(_IDLE_SECONDS, self._close_idle) if self._idle else None

    def _tls_context(self) -> ssl.SSLContext:
        # About 0.1 s of work, so once and only when needed.
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls
