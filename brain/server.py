"""The listener of the brain: uvicorn, stopped by signals in order, its services closed after the last answer."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from brain.app import create_app
from brain.services import open_services

if TYPE_CHECKING:
    from collections.abc import Generator

    from litestar.types import ASGIApp

    from brain.config.models import Config

logger = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 5
"""How long open answers may go on after the stop was asked for."""
KEEP_ALIVE_SECONDS: Final = 75
BACKLOG: Final = 2048


class BrainServer(uvicorn.Server):
    """A server that leaves signals to its owner: uvicorn would raise them again before the services are closed."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


def server_for(app: ASGIApp) -> BrainServer:
    """Return an unstarted server; give ``serve`` the sockets to listen on, set ``should_exit`` to stop it."""
    return BrainServer(
        uvicorn.Config(
            app,  # pyright: ignore[reportArgumentType] - the two packages spell the ASGI types differently
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


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        OSError: the address is taken or not one of this machine; the message says what to change.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise OSError(
            problem.errno,
            f"cannot listen on {host} port {port}: {reason}; change server.port or server.host, or end the program that uses it",
        ) from problem
    # Inherited by every connection. Without it head and body of an answer, written one after the other, lie 40 ms apart.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def serve(config: Config) -> None:
    """Open the services, listen until SIGINT or SIGTERM, then close in order. The database must be migrated.

    Raises:
        OSError: the address is taken or not ours.
    """
    # Bound first: a second start on the same port must fail before it touches the database.
    with bind(config.server.host, config.server.port) as listener:
        async with open_services(config) as services:
            server = server_for(create_app(services))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, _ask_to_stop, server)
            logger.info("listening", host=config.server.host, port=listener.getsockname()[1])
            await server.serve(sockets=[listener])
            logger.info("stopped listening")


def _ask_to_stop(server: BrainServer) -> None:
    # The second signal does not wait for open answers any more.
    server.force_exit = server.should_exit
    server.should_exit = True
