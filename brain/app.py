"""The ASGI application of the brain, built from finished services; everything that HTTP means is under ``brain.api``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware

from brain.api.errors import exception_handlers
from brain.api.guards import BodyLimitMiddleware, RequestGuard
from brain.api.hand_callback import hand_callback_router
from brain.api.middleware import AccessGate, RequestShell
from brain.api.openapi import build_openapi
from brain.api.request import ApiRequest
from brain.api.routes import CONTROLLERS, described_routes
from brain.api.web_ui import WebUi, find_web_folder, read_web_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from litestar.types import ASGIApp

    from brain.services import Services


def create_app(services: Services, *, web_folder: Path | None = None) -> ASGIApp:
    """Return the whole application: page, API, and the checks in front of both.

    ``web_folder`` holds the built page; by default the one that was built or installed with this program, if any.
    """
    files = read_web_files(web_folder or find_web_folder())
    return RequestShell(AccessGate(WebUi(create_api(services), files), services.config))


def create_api(services: Services) -> Litestar:
    """Return the API alone, without the checks in front of it."""
    limits = services.config.limits
    return Litestar(
        route_handlers=[*CONTROLLERS, hand_callback_router(services.config.hand.token)],
        dependencies=_dependencies(services),
        guards=[RequestGuard(limits, services.memory.maintenance)],
        middleware=[DefineMiddleware(BodyLimitMiddleware, limits=limits)],
        exception_handlers=exception_handlers(),
        request_class=ApiRequest,
        openapi_config=None,
        # The limits are ours: they depend on the configuration, and the answer names them.
        request_max_body_size=None,
        logging_config=None,
        debug=False,
    )


def _dependencies(services: Services) -> dict[str, Provide]:
    offered: dict[str, object] = {
        "config": services.config,
        "limits": services.config.limits,
        "catalog": services.catalog,
        "pool": services.pool,
        "registry": services.registry,
        "chats": services.chats,
        "reader": services.reader,
        "titles": services.titles,
        "search": services.search,
        "personas": services.personas,
        "health": services.health,
        "metrics": services.metrics,
        "measured_models": services.measured_models,
        "openapi": build_openapi(described_routes()),
        "turns": services.turns,
        "forwarder": services.forwarder,
        "memory": services.memory,
        "jobs": services.memory.jobs,
        "digests": services.memory.digests,
        "replays": services.memory.replays,
        "tool_overview": services.tool_overview,
    }
    return {name: Provide(_always(value), sync_to_thread=False) for name, value in offered.items()}


def _always(value: object) -> Callable[[], Any]:
    # The framework checks what is injected against the parameter's type, so the type here says nothing.
    return lambda: value
