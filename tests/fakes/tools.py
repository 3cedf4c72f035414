"""A tool provider that answers from a table and notes what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Raw

from brain.tools.provider import ToolOutcome, ToolTransportError, error_outcome, text_outcome
from shared_protocol.tools import ToolSpec


class FakeTools:
    def __init__(self, namespace: str, **answers: ToolOutcome) -> None:
        self.namespace = namespace
        self.answers = answers or {"run": text_outcome("done")}
        self.calls: list[tuple[str, str]] = []
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.lists = 0
        self.is_down = False
        self.budget = 7
        self.block: asyncio.Event | None = None

    @property
    def namespaces(self) -> Sequence[str]:
        return (self.namespace,) if self.namespace else ()

    async def list_tools(self) -> Sequence[ToolSpec]:
        self.lists += 1
        if self.is_down:
            raise ToolTransportError(f"{self.namespace} is down")
        return [ToolSpec(f"{self.namespace}__{bare}", "A tool", Raw(b"{}")) for bare in self.answers]

    def budget_seconds(self, name: str) -> int:
        return self.budget if name.partition("__")[2] in self.answers else 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        self.calls.append((call_id, name))
        self.started.put_nowait(call_id)
        if self.block is not None:
            await self.block.wait()
        return self.answers.get(name.partition("__")[2]) or error_outcome("unknown")
