"""Every route of the API, in the order of the reference documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brain.api.chats import AttachmentController, ChatController
from brain.api.eltm import EltmController
from brain.api.hand_callback import hand_callback_router
from brain.api.health import HealthController, MetricsController
from brain.api.login import LoginController
from brain.api.maintenance import MaintenanceController
from brain.api.memory_pipelines import DigestController, JobController, ReplayController
from brain.api.messages import MessagesController
from brain.api.models import ModelController
from brain.api.openapi import OpenApiController
from brain.api.personas import PersonaController
from brain.api.search import SearchController
from brain.api.tools import ToolController

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litestar import Controller, Router

CONTROLLERS: Final[Sequence[type[Controller]]] = (
    ModelController,
    ChatController,
    MessagesController,
    AttachmentController,
    SearchController,
    PersonaController,
    EltmController,
    DigestController,
    ReplayController,
    JobController,
    MaintenanceController,
    ToolController,
    LoginController,
    HealthController,
    MetricsController,
    OpenApiController,
)


def described_routes() -> list[type[Controller] | Router]:
    """Return all routes for the description of the API, those of the hand included; their token is not part of it."""
    return [*CONTROLLERS, hand_callback_router("")]
