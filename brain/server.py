"""The listener of the brain: uvicorn on a fast loop, announced when ready, stopped in order."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from brain.app import create_app
from brain.services import open_services

if TYPE_CHECKING:
    from litestar.types import ASGIApp

    from brain.config.models import Config

logger = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 5
"""How long open answers may go on after the stop was asked for."""
KEEP_ALIVE_SECONDS: Final = 75


def server_for(app: ASGIApp, *, host: str, port: int) -> uvicorn.Server:
    """Return an unstarted server."""
    return uvicorn.Server(
        uvicorn.Config(
            app,  # pyright: ignore[reportArgumentType] - the two packages spell the ASGI types differently
            host=host,
            port=port,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        ),
    )


async def serve(config: Config) -> None:
    """Open the services, listen until SIGINT or SIGTERM, then close in order. The database must be migrated.

    Raises:
        OSError: the address is taken or not ours.
    """
    async with open_services(config) as services:
        server = server_for(create_app(services), host=config.server.host, port=config.server.port)
        logger.info("listening", host=config.server.host, port=config.server.port)
        await server.serve()
        logger.info("stopped listening")


def run(config: Config) -> None:
    """Run ``serve`` on the fastest loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not made for this platform
        return None
    return uvloop.Loop


__all__ = ["run", "serve", "server_for", "signal"]
