"""Which tools a turn gets: those of the chat loop, narrowed to its persona, with a person asked where that is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from brain.tools.approval import ApprovalEvent, ApprovalGate, ApprovalRequest
from brain.tools.combined import CombinedTools
from brain.tools.provider import ToolTransportError
from brain.turns import queries
from brain.turns.budget import estimate_tools
from brain.turns.events import publish_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.tools.approval import ApprovalPolicy
    from brain.tools.provider import ToolProvider
    from brain.turns.live import LiveTurn

logger = structlog.get_logger(__name__)


class StoredGrants:
    """The tools that a person allowed for the whole chat, in the database."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], chat_id: str) -> None:
        self._pool = pool
        self._chat_id = chat_id

    async def is_granted(self, name: str) -> bool:
        """Whether an advertised name needs no more asking in this chat."""
        async with self._pool.connection() as conn:
            return await queries.has_grant(conn, self._chat_id, name)

    async def grant(self, name: str) -> None:
        """Remember an advertised name for this chat."""
        async with self._pool.connection() as conn:
            await queries.insert_grant(conn, self._chat_id, name)


class ChatToolSet(Protocol):
    """The tools of the chat loop, as the composition root has put them together."""

    def select(self, whitelist: Sequence[str]) -> ToolProvider:
        """Return the tools for a persona; an empty list allows all.

        Raises:
            InvalidInputError: an entry is not served.
        """
        ...


class TurnTooling:
    """Builds the tools of each turn out of those of the chat loop."""

    def __init__(self, chat_tools: ChatToolSet, policy: ApprovalPolicy, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._chat_tools = chat_tools
        self._policy = policy
        self._pool = pool
        self._sizes: dict[tuple[str, ...], int] = {}
        self.none: ToolProvider = CombinedTools(())

    def open(self, turn: LiveTurn) -> ToolProvider:
        """Return the tools of a turn; its gate, if it has one, is set on the turn.

        Raises:
            InvalidInputError: the persona names a namespace that is not served.
        """
        tools = self._chat_tools.select(turn.request.persona.allowed_namespaces)
        if self._policy.ask.isdisjoint(tools.namespaces):
            return tools

        def tell(event: ApprovalEvent) -> None:
            # A gate that is closed at the end of a turn has nobody left to tell.
            if not turn.log.is_closed:
                publish_as(turn.log, "tool_approval" if isinstance(event, ApprovalRequest) else "tool_approval_result", event)

        grants = StoredGrants(self._pool, turn.request.chat_id)
        turn.gate = ApprovalGate(tools, self._policy, attended=turn.request.approvals, publish=tell, grants=grants)
        return turn.gate

    async def estimate(self, tools: ToolProvider | None) -> int:
        """Return the tokens of a tool list. Listed once per set of namespaces: the hand lists again before each round anyway."""
        if tools is None:
            return 0
        key = tuple(tools.namespaces)
        if key not in self._sizes:
            try:
                self._sizes[key] = estimate_tools(await tools.list_tools())
            except ToolTransportError as problem:
                logger.warning("the tools could not be listed for the estimate", reason=str(problem))
                return 0
        return self._sizes[key]
