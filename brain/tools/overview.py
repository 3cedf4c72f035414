"""The state of every namespace, for people: what serves it, whether it works, what it offers (additions 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from brain.config.models import Approval
from brain.errors import ConflictError, NotFoundError
from brain.tools.assembly import GSG_NAMESPACE, ToolSets
from brain.tools.bash import NAMESPACE as BASH_NAMESPACE
from brain.tools.bash import TOOL_NAME
from brain.tools.fs.specs import NAMESPACE as FS_NAMESPACE
from brain.tools.provider import ToolProvider
from shared_protocol.tools import ToolSpec

if TYPE_CHECKING:
    from brain.tools.mcp_server import McpServer

NamespaceKind: TypeAlias = Literal["mcp", "fs", "bash", "gsg"]
NamespaceState: TypeAlias = Literal["ready", "down", "disabled"]


NO_SUB_AGENT: Final = "agent.investigator.model has no tool_calls: the sub-agent is not offered, memories are given all the same"


class NamespaceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One namespace. ``tools`` are those of the last listing that worked."""

    namespace: str
    kind: NamespaceKind
    state: NamespaceState
    last_error: str | None = None
    tools: Sequence[ToolSpec] = ()
    budget_seconds: int = 0
    approval: Approval = "never"


class ToolOverview:
    """Answers what the page shows about tools."""

    def __init__(self, tool_sets: ToolSets, gsg: ToolProvider | None) -> None:
        """Show ``tool_sets`` and the sub-agent, ``None`` when its model cannot call tools."""
        self._tool_sets = tool_sets
        self._gsg = gsg

    async def statuses(self) -> list[NamespaceStatus]:
        """Return servers, built-in tools and sub-agent, in the order of their tools. Idle servers are asked if they are there."""
        bash = self._tool_sets.bash
        await asyncio.gather(*(server.check() for server in self._tool_sets.servers))
        return [
            *(self._server_status(namespace) for namespace in self._servers),
            await self._built_in("fs", FS_NAMESPACE, self._tool_sets.fs),
            await self._built_in("bash", BASH_NAMESPACE, bash, 0 if bash is None else bash.budget_seconds(TOOL_NAME)),
            await self._built_in("gsg", GSG_NAMESPACE, self._gsg, last_error=NO_SUB_AGENT if self._gsg is None else None),
        ]

    def reconnect(self, namespace: str) -> None:
        """Begin to reconnect a server; ``statuses`` tells how it went.

        Raises:
            NotFoundError: nothing has this namespace.
            ConflictError: it has no connection.
        """
        if (server := self._servers.get(namespace)) is not None:
            server.reconnect()
        elif namespace in {FS_NAMESPACE, BASH_NAMESPACE, GSG_NAMESPACE}:
            raise ConflictError(f"{namespace!r} is built in: there is no connection to make anew")
        else:
            raise NotFoundError("tool namespace", namespace)

    @property
    def _servers(self) -> dict[str, McpServer]:
        return {server.namespace: server for server in self._tool_sets.servers}

    def _approval(self, namespace: str) -> Approval:
        return "ask" if self._tool_sets.asks(namespace) else "never"

    def _server_status(self, namespace: str) -> NamespaceStatus:
        server = self._servers[namespace]
        return NamespaceStatus(
            namespace=namespace,
            kind="mcp",
            state=server.state,
            last_error=server.last_error,
            tools=server.listed,
            budget_seconds=server.tool_budget_seconds,
            approval=self._approval(namespace),
        )

    async def _built_in(
        self,
        kind: NamespaceKind,
        namespace: str,
        provider: ToolProvider | None,
        budget_seconds: int = 0,
        last_error: str | None = None,
    ) -> NamespaceStatus:
        return NamespaceStatus(
            namespace=namespace,
            kind=kind,
            state="disabled" if provider is None else "ready",
            last_error=last_error,
            tools=() if provider is None else await provider.list_tools(),
            budget_seconds=budget_seconds,
            approval=self._approval(namespace),
        )
