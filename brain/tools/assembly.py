"""Which tools there are: opens what is configured, composes the sets of chat loop and sub-agent (chat-domain 14.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog

from brain.config.models import Config, McpConfig, McpServerConfig
from brain.errors import InvalidInputError
from brain.tools.approval import ApprovalPolicy
from brain.tools.bash import NAMESPACE as BASH_NAMESPACE
from brain.tools.bash import BashTool
from brain.tools.combined import CombinedTools, EmptyNamespace
from brain.tools.fs.access import open_access
from brain.tools.fs.provider import FsTools
from brain.tools.fs.specs import NAMESPACE as FS_NAMESPACE
from brain.tools.limit import LimitedTools
from brain.tools.names import server_namespace_problem
from brain.tools.provider import ToolProvider, ToolSetupError, ToolTransportError
from brain.tools.whitelist import WhitelistedTools, check_whitelist, stale_namespaces

if TYPE_CHECKING:
    from brain.tools.mcp_server import McpServer

EXA_NAMESPACE: Final = "exa"
GSG_NAMESPACE: Final = "gsg"
FS_THREADS: Final = 4

logger = structlog.get_logger(__name__)


class ToolSets:
    """The opened tools of this brain. ``gsg`` and ``eltm`` are handed in by those who know the memory."""

    def __init__(self, config: Config, servers: Sequence[McpServer], fs: FsTools | None, bash: BashTool | None) -> None:
        self.servers = tuple(servers)
        self.fs = fs
        self.bash = bash
        self._config = config
        self._own: tuple[ToolProvider, ...] = (*self.servers, *(tool for tool in (fs, bash) if tool is not None))

    @property
    def approval_policy(self) -> ApprovalPolicy:
        """What the gates of chat runs go by."""
        approvals = self._config.approvals
        return ApprovalPolicy(self._ask, approvals.unattended, approvals.timeout_seconds)

    def for_chats(self, gsg: ToolProvider | None) -> ChatTools:
        """Return the set of the chat loop; ``gsg`` is ``None`` when the sub-agent's model cannot call tools.

        The namespace exists all the same: a persona that names it is given memories, and must not become invalid.

        Raises:
            ToolSetupError: two tools claim one namespace.
        """
        memory = EmptyNamespace(GSG_NAMESPACE) if gsg is None else gsg
        return ChatTools((*self._own, memory), self._config.agent.main.tool_result_limit)

    def for_investigator(self, eltm: ToolProvider) -> ToolProvider:
        """Return the sub-agent's set. What asks for approval is left out unless it may run unattended: nobody could answer.

        Raises:
            ToolSetupError: ``allowedNamespaces`` names something that is not served, or nothing is left of it.
        """
        investigator = self._config.agent.investigator
        children = (*self._own, eltm)
        hidden = self._ask if self._config.approvals.unattended == "deny" else frozenset[str]()
        try:
            check_whitelist(investigator.allowed_namespaces, CombinedTools(children).namespaces)
            allowed = [namespace for namespace in investigator.allowed_namespaces if namespace not in hidden]
            whitelisted = _narrowed(children, allowed)
        except InvalidInputError as problem:
            raise ToolSetupError(f"agent.investigator.allowedNamespaces: {problem}") from problem
        return LimitedTools(whitelisted, investigator.tool_result_limit)

    def asks(self, namespace: str) -> bool:
        """Whether calls of a namespace ask for approval."""
        return namespace in self._ask

    @property
    def _ask(self) -> frozenset[str]:
        tool, servers = self._config.tool, server_configs(self._config.mcp)
        marked = {FS_NAMESPACE: tool.fs.approval, BASH_NAMESPACE: tool.bash.approval}
        marked |= {namespace: server.approval for namespace, server in servers.items()}
        return frozenset(namespace for namespace, approval in marked.items() if approval == "ask")


class ChatTools:
    """The chat loop's tools, narrowed per request to what the persona allows."""

    def __init__(self, children: Sequence[ToolProvider], limit_chars: int) -> None:
        """Combine the children.

        Raises:
            ToolSetupError: two of them claim one namespace.
        """
        self._children = tuple(children)
        self._limit_chars = limit_chars
        self._all = LimitedTools(CombinedTools(self._children), limit_chars)

    @property
    def namespaces(self) -> Sequence[str]:
        """All that a persona may name."""
        return self._all.namespaces

    def stale(self, whitelist: Sequence[str]) -> list[str]:
        """Return the entries of a persona's list that are not served (any more): sends with it are refused until it is edited."""
        return stale_namespaces(whitelist, self.namespaces)

    def select(self, whitelist: Sequence[str]) -> ToolProvider:
        """Return the tools for a persona; an empty list allows all.

        Raises:
            InvalidInputError: an entry is not served.
        """
        if not whitelist:
            return self._all
        check_whitelist(whitelist, self.namespaces)
        return LimitedTools(_narrowed(self._children, whitelist), self._limit_chars)


def _narrowed(children: Sequence[ToolProvider], allowed: Sequence[str]) -> ToolProvider:
    # Only what can be seen is listed: another server that is down is none of its business.
    return WhitelistedTools(
        CombinedTools([child for child in children if not set(allowed).isdisjoint(child.namespaces)]), allowed
    )


@asynccontextmanager
async def open_tool_sets(config: Config) -> AsyncGenerator[ToolSets]:
    """Check the configuration of all tools, connect all servers at once, and close them at the end.

    Raises:
        ToolSetupError: a mistake in the configuration, or servers that cannot be reached; names all of those.
    """
    servers = _build_servers(config)
    bash = BashTool(config.tool.bash) if config.tool.bash.enabled else None
    if bash is not None:
        logger.warning("the shell tool is on and has no sandbox: anyone who can chat can run commands as this user")
    access = open_access(config.tool.fs.allowed_dirs, config.tool.fs.blacklists) if config.tool.fs.enabled else None
    executor = ThreadPoolExecutor(FS_THREADS, thread_name_prefix="fs")
    try:
        for server in servers:
            server.start()
        await _connect_all(servers)
        yield ToolSets(config, servers, None if access is None else FsTools(access, executor), bash)
    finally:
        await asyncio.gather(*(server.stop() for server in servers))
        # A thread that hangs in a dead file system cannot be ended; it must not hold up the end of the brain.
        executor.shutdown(wait=False, cancel_futures=True)


def server_configs(mcp: McpConfig) -> dict[str, McpServerConfig]:
    """Return all configured servers by namespace, in the order of their tools."""
    return {**({} if mcp.exa is None else {EXA_NAMESPACE: mcp.exa}), **mcp.customs}


def _checked_servers(config: Config) -> dict[str, McpServerConfig]:
    taken = {FS_NAMESPACE: config.tool.fs.enabled, BASH_NAMESPACE: config.tool.bash.enabled}
    for namespace in config.mcp.customs:
        problem = server_namespace_problem(namespace)
        if problem is None and taken.get(namespace):
            problem = f"it is the namespace of the built-in tool.{namespace}"
        if problem is not None:
            raise ToolSetupError(f"mcp.customs.{namespace}: this namespace cannot be used: {problem}")
    return server_configs(config.mcp)


def _build_servers(config: Config) -> list[McpServer]:
    if not (configured := _checked_servers(config)):
        return []
    # Imported on use: the SDK takes a second of the start and 40 MB, and most installations have no tool server.
    from brain.tools.mcp_connect import connector_for
    from brain.tools.mcp_server import McpServer

    return [
        McpServer(namespace, server, connector_for(namespace, server, config.mcp.proxy))
        for namespace, server in configured.items()
    ]


async def _connect_all(servers: Sequence[McpServer]) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_try_connect(server)) for server in servers]
    if failures := [problem for task in tasks if (problem := task.result()) is not None]:
        raise ToolSetupError("; ".join(map(str, failures)))


async def _try_connect(server: McpServer) -> ToolTransportError | None:
    """Connect and list once, so that mistakes in a server's names show at the start; return the failure."""
    try:
        await server.connect()
        await server.list_tools()
    except ToolTransportError as problem:
        return problem
    return None
