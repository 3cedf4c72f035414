"""Builds the aiohttp application and serves it; what is opened here is closed here."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from hand.errors import invalid_request
from hand.gateway import Gateway, open_gateway
from hand.logs import Log
from hand.metrics import Metrics
from hand.routes import Routes, answer_error
from hand.runs import RunServices
from hand.settings import Settings

_LAST_SECONDS = 1.0
HEAD_SECONDS = 60.0
"""How long the head of the first request on a connection may take."""


class Hand:
    """A listening hand."""

    def __init__(self, routes: Routes, gateway: Gateway, host: str, port: int) -> None:
        self.routes = routes
        self.gateway = gateway
        self.host = host
        self.port = port


class _Protocol(web.RequestHandler):
    """One connection of a brain. What is no HTTP gets our error body too, and its words, which may be a token, reach no log."""

    __slots__ = ("_head_timer",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request; whoever sends none, or one byte now and then, does not keep the socket."""
        super().connection_made(transport)
        self._head_timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._close_if_silent)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of the timer, which would hold this connection in memory."""
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if not self._request_count:
            self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer bytes that are no request."""
        del status, exc, message
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has already begun")
        response = answer_error(invalid_request("this is not a valid HTTP request"))
        response.force_close()
        return response


class _Server(web.Server):
    """The low-level server: five routes need neither a router nor middlewares, and a request costs a third less."""

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return _Protocol(self, loop=self._loop, **self._kwargs)


@asynccontextmanager
async def open_hand(settings: Settings, log: Log | None = None) -> AsyncGenerator[Hand]:
    """Listen, yield the running hand, and close everything in reverse.

    Raises:
        OSError: the address cannot be bound.
    """
    log = log or Log()
    # No limits of its own: the brain owns execution budgets, and all calls of a round go out at once.
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        open_gateway() as gateway,
        aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(), trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session,
    ):
        routes = Routes(settings, RunServices(gateway, session, settings.token, log, Metrics()))
        server = _Server(routes.dispatch, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_LAST_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, settings.host, settings.port, backlog=1024)
            await site.start()
            port = _bound_port(runner, settings.port)
            log.started(settings.host, port)
            gateway.warm_up()
            yield Hand(routes, gateway, settings.host, port)
        finally:
            await runner.cleanup()


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the wait for open runs."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    async with open_hand(settings) as hand:
        _ = await stop.wait()
        await hand.routes.drain(hurry)


def _bound_port(runner: web.ServerRunner, wanted: int) -> int:
    for address in runner.addresses:  # pyright: ignore[reportAny]  # addresses of any socket family
        return int(address[1])  # pyright: ignore[reportAny]  # the second item of a TCP address is its port
    return wanted
