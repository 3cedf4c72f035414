"""Routes under ``/api/maintenance``: the switch, and the change of the embedding model."""

from __future__ import annotations

import msgspec
from litestar import Controller, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody

from brain.api.errors import error_answers
from brain.memory.assembly import MemoryParts
from brain.memory.reembed import ReembedStatus


class MaintenanceState(msgspec.Struct, frozen=True):
    """Whether maintenance mode is on."""

    enabled: bool


class MaintenanceController(Controller):
    """Maintenance mode."""

    path = "/api/maintenance"
    tags = ("maintenance",)

    @get("/", operation_id="getMaintenance", summary="Whether maintenance mode is on")
    async def get_state(self, memory: NamedDependency[MemoryParts]) -> MaintenanceState:
        """Return the switch."""
        return MaintenanceState(await memory.maintenance.is_enabled())

    @put("/", operation_id="setMaintenance", summary="Switch maintenance mode", responses=error_answers(400, 413, 415))
    async def set_state(
        self,
        data: JSONBody[MaintenanceState],
        memory: NamedDependency[MemoryParts],
    ) -> MaintenanceState:
        """Set the switch; what runs already finishes."""
        return MaintenanceState(await memory.maintenance.set_enabled(enabled=data.enabled))

    @get("/reembed", operation_id="getReembed", summary="State of the re-embedding")
    async def get_reembed(self, memory: NamedDependency[MemoryParts]) -> ReembedStatus:
        """Return the state of the re-embedding that runs or ran last."""
        return await memory.reembedding.status()

    @post(
        "/reembed",
        operation_id="startReembed",
        summary="Embed everything with the configured model",
        status_code=202,
        responses=error_answers(409),
    )
    async def start_reembed(self, memory: NamedDependency[MemoryParts]) -> ReembedStatus:
        """Fill a new generation of vectors while the old one serves, then switch. Needs maintenance mode."""
        return await memory.reembedding.start()
