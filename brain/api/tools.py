"""Routes under ``/api/tools``: what tools there are and how they are (additions 5)."""

from __future__ import annotations

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Raw

from brain.api.errors import error_answers
from brain.api.wire import WireStruct
from brain.config.models import Approval
from brain.tools.overview import NamespaceKind, NamespaceState, NamespaceStatus, ToolOverview
from shared_protocol.tools import ToolSpec


class ToolBody(WireStruct, frozen=True):
    """A tool under the name that the model sees; ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Raw


class NamespaceBody(WireStruct, frozen=True, kw_only=True):
    """A namespace. ``tools`` are those of the last listing that worked; ``budgetSeconds`` 0 means no limit."""

    namespace: str
    kind: NamespaceKind
    state: NamespaceState
    last_error: str | None
    tools: list[ToolBody]
    budget_seconds: int
    approval: Approval


class ReconnectBody(WireStruct, frozen=True):
    """A reconnect has begun; the list tells how it went."""

    state: str


class ToolController(Controller):
    """Tools."""

    path = "/api/tools"
    tags = ("tools",)

    @get("/", operation_id="listTools", summary="List tool namespaces and their state")
    async def list_namespaces(self, tool_overview: NamedDependency[ToolOverview]) -> list[NamespaceBody]:
        """Return tool servers, built-in tools and the sub-agent, also those that are down or disabled.

        A connected server that was silent for 10 s is asked whether it is still there, for 5 s at most.
        """
        return [_namespace_body(status) for status in await tool_overview.statuses()]

    @post(
        "/{namespace:str}/reconnect",
        operation_id="reconnectTools",
        status_code=202,
        summary="Reconnect a tool server",
        responses=error_answers(400, 404, 409),
    )
    async def reconnect(self, namespace: FromPath[str], tool_overview: NamedDependency[ToolOverview]) -> ReconnectBody:
        """Drop the connection of a tool server and begin to make a new one; 409 for built-in tools, which have none."""
        tool_overview.reconnect(namespace)
        return ReconnectBody("connecting")


def _namespace_body(status: NamespaceStatus) -> NamespaceBody:
    return NamespaceBody(
        namespace=status.namespace,
        kind=status.kind,
        state=status.state,
        last_error=status.last_error,
        tools=[_tool_body(spec) for spec in status.tools],
        budget_seconds=status.budget_seconds,
        approval=status.approval,
    )


def _tool_body(spec: ToolSpec) -> ToolBody:
    return ToolBody(spec.name, spec.description, spec.schema)
