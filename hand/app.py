"""Builds the aiohttp application and serves it; what is opened here is closed here."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from hand.gateway import Gateway, open_gateway
from hand.logs import Log
from hand.metrics import Metrics
from hand.routes import Routes
from hand.runs import RunServices
from hand.settings import Settings

_LAST_SECONDS = 1.0


class Hand:
    """A listening hand."""

    def __init__(self, routes: Routes, gateway: Gateway, host: str, port: int) -> None:
        self.routes = routes
        self.gateway = gateway
        self.host = host
        self.port = port


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
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(), trust_env=False) as session,
    ):
        routes = Routes(settings, RunServices(gateway, session, settings.token, log, Metrics()))
        # The low-level server: five routes need neither a router nor middlewares, and a request costs a third less.
        server = web.Server(routes.dispatch, handler_cancellation=True, access_log=None)
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
