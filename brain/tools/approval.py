"""Asking a person before a marked tool runs (issue 4 item 6; additions 1; decision 7).

One ``ApprovalGate`` per run wraps its tools. It asks through a callback, waits, and is answered by ``decide``. The wait does not
count against the tool's budget: the gate reports no budget for what it asks about and enforces the inner one after the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Raw

from brain.errors import ConflictError, NotFoundError
from brain.tools.budget import execute_within_budget
from brain.tools.provider import ToolOutcome, ToolProvider, error_outcome, split_name
from shared_protocol.tools import ToolSpec

Decision: TypeAlias = Literal["approve", "deny"]
Scope: TypeAlias = Literal["once", "chat"]
Verdict: TypeAlias = Literal["approve", "deny", "timeout"]
Unattended: TypeAlias = Literal["allow", "deny"]


class ApprovalPolicy(msgspec.Struct, frozen=True):
    """Which namespaces ask, and what holds when nobody can answer or nobody does."""

    ask: frozenset[str]
    unattended: Unattended
    timeout_seconds: int


class ApprovalRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A call that waits for a person: the data of the event ``tool_approval``."""

    id: str
    name: str
    args: Raw
    timeout_seconds: int


class ApprovalResult(msgspec.Struct, frozen=True):
    """How the wait ended: the data of the event ``tool_approval_result``."""

    id: str
    decision: Verdict


ApprovalEvent: TypeAlias = ApprovalRequest | ApprovalResult


class ChatGrants(Protocol):
    """The tools of one chat that were approved for all further calls."""

    async def is_granted(self, name: str) -> bool:
        """Whether the advertised name needs no more asking in this chat."""
        ...

    async def grant(self, name: str) -> None:
        """Remember the advertised name for this chat."""
        ...


class RunGrants:
    """Grants that live as long as the object: for a run, or for tests."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    async def is_granted(self, name: str) -> bool:
        """Whether ``name`` was granted."""
        return name in self._names

    async def grant(self, name: str) -> None:
        """Remember ``name``."""
        self._names.add(name)


class ApprovalGate:
    """The tools of one run, some of which ask first."""

    def __init__(
        self,
        inner: ToolProvider,
        policy: ApprovalPolicy,
        *,
        attended: bool,
        publish: Callable[[ApprovalEvent], None],
        grants: ChatGrants,
    ) -> None:
        """Wrap ``inner``. ``attended``: the client of this run announced that it can answer."""
        self._inner = inner
        self._policy = policy
        self._attended = attended
        self._publish = publish
        self._grants = grants
        self._waiting: dict[str, tuple[ApprovalRequest, asyncio.Future[Decision]]] = {}
        self._decided: set[str] = set()
        self._closed = False

    @property
    def namespaces(self) -> Sequence[str]:
        """Those of the inner provider."""
        return self._inner.namespaces

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The calls that wait, oldest first."""
        return tuple(request for request, _ in self._waiting.values())

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools of the inner provider: asking does not change what the model sees."""
        return await self._inner.list_tools()

    def budget_seconds(self, name: str) -> int:
        """Return the inner budget; 0 for what is asked about, whose budget starts after the answer."""
        return 0 if self._asks(name) else self._inner.budget_seconds(name)

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run the call, after a person approved it if its namespace is marked."""
        if self._asks(name) and not await self._grants.is_granted(name):
            refusal = await self._refusal(call_id, name, args)
            if refusal is not None:
                return error_outcome(refusal)
        return await execute_within_budget(self._inner, call_id, name, args)

    async def decide(self, call_id: str, decision: Decision, scope: Scope = "once") -> None:
        """Answer a waiting call. An approval of scope ``chat`` holds for all further calls of that tool in this chat.

        Raises:
            NotFoundError: no call of this id was ever asked about in this run.
            ConflictError: it has been decided, or its time was over.
        """
        waiting = self._waiting.get(call_id)
        if waiting is None or waiting[1].done():
            if waiting is not None or call_id in self._decided:
                raise ConflictError(f"the tool call {call_id!r} has been decided already")
            raise NotFoundError("tool call waiting for approval", call_id)
        request, answer = waiting
        answer.set_result(decision)
        if decision == "approve" and scope == "chat":
            await self._grants.grant(request.name)
            self._approve_others(request.name)

    def close(self) -> None:
        """Deny what still waits, and everything after: the run is over."""
        self._closed = True
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_result("deny")

    def _approve_others(self, name: str) -> None:
        # Calls of one wave wait together; a grant for the chat answers all of that tool.
        for request, answer in self._waiting.values():
            if request.name == name and not answer.done():
                answer.set_result("approve")

    def _asks(self, name: str) -> bool:
        if not self._attended and self._policy.unattended == "allow":
            return False
        split = split_name(name)
        return split is not None and split[0] in self._policy.ask

    async def _refusal(self, call_id: str, name: str, args: Raw) -> str | None:
        if not self._attended:
            return f"the tool '{name}' needs a person's approval, and nobody can give it in this chat"
        if self._closed:
            return f"the tool '{name}' was not run: the answer was stopped"
        if call_id in self._waiting:
            return f"another call with the id '{call_id}' waits for approval"
        match await self._ask_person(ApprovalRequest(call_id, name, args, self._policy.timeout_seconds)):
            case "approve":
                return None
            case "deny":
                return f"the user declined to run the tool '{name}'; do not try it again unless asked to"
            case "timeout":
                return f"nobody approved the tool '{name}' within {self._policy.timeout_seconds} seconds, so it was not run"

    async def _ask_person(self, request: ApprovalRequest) -> Verdict:
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = (request, answer)
        self._decided.discard(request.id)
        try:
            self._publish(request)
            verdict: Verdict = await self._await_answer(answer)
        finally:
            del self._waiting[request.id]
            self._decided.add(request.id)
        self._publish(ApprovalResult(request.id, verdict))
        return verdict

    async def _await_answer(self, answer: asyncio.Future[Decision]) -> Verdict:
        await asyncio.wait({answer}, timeout=self._policy.timeout_seconds)
        return answer.result() if answer.done() else "timeout"
