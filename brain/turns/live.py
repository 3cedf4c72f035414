"""One live turn as the rest of the brain sees it: its log, how to stop it, and what waits for a person."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from brain.errors import NotFoundError
from brain.turns.run_log import RunLog

if TYPE_CHECKING:
    from brain.catalog import ChatModel
    from brain.personas.service import Persona
    from brain.tools.approval import ApprovalGate, ApprovalRequest, Decision, Scope
    from shared_protocol.instants import Instant
    from shared_protocol.messages import ContentPart


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A validated message to answer. ``replace_from``: the index of the user message that this one replaces, on success only."""

    chat_id: str
    parts: tuple[ContentPart, ...]
    model: ChatModel
    persona: Persona
    replace_from: int | None = None
    detach: bool = False
    approvals: bool = False
    remember: bool = True
    request_id: str = ""


class LiveTurn:
    """A turn between its first check and its terminal event; lives on one replica, in one task."""

    def __init__(self, turn_id: str, request: TurnRequest, started_at: Instant) -> None:
        self.turn_id = turn_id
        self.request = request
        self.started_at = started_at
        self.log = RunLog(turn_id)
        self.gate: ApprovalGate | None = None
        self.phase: Literal["checking", "running", "storing", "stored", "ended"] = "checking"
        self.stop_request: Literal["keep", "discard"] | None = None
        self.end_reason: str | None = None
        self.outcome = "cancelled"
        """What the metrics count: ``stored``, ``stopped``, ``cancelled``, ``refused``, ``failed``, or the hand's error type."""
        self.begun = time.monotonic()
        self.has_spoken = False
        self._task: asyncio.Task[None] | None = None

    def attach(self, task: asyncio.Task[None]) -> None:
        """Name the task that runs the turn."""
        self._task = task

    @property
    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """Tool calls that wait for a person, oldest first."""
        return () if self.gate is None else self.gate.pending

    async def decide(self, call_id: str, decision: Decision, scope: Scope) -> None:
        """Answer a waiting tool call.

        Raises:
            NotFoundError: no such call was asked about in this turn.
            ConflictError: it has been decided already.
        """
        if self.gate is None:
            raise NotFoundError("tool call waiting for approval", call_id)
        await self.gate.decide(call_id, decision, scope)

    def stop(self, *, keep_partial: bool) -> None:
        """End the turn on a person's wish. The first wish counts; a turn that is being stored ends by itself."""
        if self.stop_request is None and self.phase in {"checking", "running"}:
            self.stop_request = "keep" if keep_partial else "discard"
            self._cancel()

    def abandon(self, reason: str) -> None:
        """End the turn because nobody can use it any more: its client is gone, or it may not go on."""
        if self.phase != "ended" and self.end_reason is None:
            self.end_reason = reason
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
