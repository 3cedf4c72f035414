"""``GET /api/models``: the chat models of the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import Controller, get
from litestar.di import NamedDependency

from brain.api.wire import ModelInfo, model_info
from brain.catalog import Catalog


class ModelController(Controller):
    """Models."""

    path = "/api/models"
    tags = ("models",)

    @get("/", operation_id="listModels", summary="List chat models")
    async def list_models(
        self,
        catalog: NamedDependency[Catalog],
        measured_models: NamedDependency[Mapping[str, dict[str, object]]],
    ) -> list[ModelInfo]:
        """Return the chat models in the order of the configuration."""
        return [model_info(model, measured_models.get(model.id)) for model in catalog.chat_models]
