"""The ASGI application of the brain, built from finished services; everything that HTTP means is under ``brain.api``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from brain.api.chats import AttachmentController, ChatController
from brain.api.eltm import EltmController
from brain.api.errors import exception_handlers
from brain.api.guards import BodyLimitMiddleware, RequestGuard
from brain.api.hand_callback import hand_callback_router
from brain.api.health import HealthController, MetricsController
from brain.api.login import LoginController
from brain.api.maintenance import MaintenanceController
from brain.api.messages import MessagesController
from brain.api.middleware import AccessGate, RequestShell
from brain.api.models import ModelController
from brain.api.personas import PersonaController
from brain.api.search import SearchController
from brain.api.web_ui import WebUi, find_web_folder, read_web_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from litestar import Controller
    from litestar.types import ASGIApp

    from brain.services import Services

API_VERSION: Final = "1"

CONTROLLERS: Final[Sequence[type[Controller]]] = (
    ModelController,
    ChatController,
    AttachmentController,
    MessagesController,
    SearchController,
    PersonaController,
    EltmController,
    MaintenanceController,
    LoginController,
    HealthController,
    MetricsController,
)
"""Every route of the API, in the order of the reference documentation."""


def create_app(services: Services, *, web_folder: Path | None = None) -> ASGIApp:
    """Return the whole application: page, API, and the checks in front of both.

    ``web_folder`` holds the built page; by default the one that was built or installed with this program, if any.
    """
    files = read_web_files(web_folder or find_web_folder())
    return RequestShell(AccessGate(WebUi(create_api(services), files), services.config))


def create_api(services: Services) -> Litestar:
    """Return the API alone, without the checks in front of it; the OpenAPI document is made from it."""
    limits = services.config.limits
    return Litestar(
        route_handlers=[*CONTROLLERS, hand_callback_router(services.config.hand.token)],
        dependencies=_dependencies(services),
        guards=[RequestGuard(limits, services.memory.maintenance)],
        middleware=[DefineMiddleware(BodyLimitMiddleware, limits=limits)],
        exception_handlers=exception_handlers(),
        openapi_config=_openapi_config(),
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
        "turns": services.turns,
        "forwarder": services.forwarder,
        "memory": services.memory,
    }
    return {name: Provide(_always(value), sync_to_thread=False) for name, value in offered.items()}


def _always(value: object) -> Callable[[], Any]:
    # The framework checks what is injected against the parameter's type, so the type here says nothing.
    return lambda: value


def _openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="daapu",
        version=API_VERSION,
        description='The brain\'s HTTP API. Errors have the body `{"error": text}`.',
        path="/api",
        render_plugins=[JsonRenderPlugin()],
        use_handler_docstrings=True,
        components=Components(
            security_schemes={
                "token": SecurityScheme(type="http", scheme="bearer", description="Needed where `server.token` is set."),
            },
        ),
    )
