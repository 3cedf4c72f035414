"""Live runs: run id to the tools and the model that the hand's callbacks belong to."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from brain.errors import BrainError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from brain.catalog import ChatModel
    from brain.tools.provider import ToolOutcome, ToolProvider


class RunEndedError(BrainError):
    """A run ended while one of its tool calls was still at work."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} has ended")


class LiveRun:
    """What a callback needs to know about its run, and the calls that are at work for it."""

    def __init__(self, run_id: str, tools: ToolProvider, model: ChatModel) -> None:
        self.run_id = run_id
        self.tools = tools
        self.model = model
        self._calls: set[asyncio.Task[ToolOutcome]] = set()

    async def perform(self, work: Coroutine[Any, Any, ToolOutcome]) -> ToolOutcome:
        """Run one call as a part of this run: whoever ends the run ends the call too, a stopped answer must not act any more.

        Raises:
            RunEndedError: the run ended first.
        """
        call = asyncio.create_task(work)
        self._calls.add(call)
        try:
            return await call
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise RunEndedError(self.run_id) from None
        finally:
            self._calls.discard(call)

    def end(self) -> None:
        """Cancel the calls that are at work; whoever waits for them is told."""
        for call in self._calls:
            call.cancel()


class RunRegistry:
    """The runs of this process. An id is registered before the hand hears of it, and removed however the run ends."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}

    @contextmanager
    def register(self, tools: ToolProvider, model: ChatModel) -> Generator[str]:
        """Register a new run for the time of the ``with`` block and yield its id, a random UUID."""
        run_id = str(uuid4())
        self._runs[run_id] = LiveRun(run_id, tools, model)
        try:
            yield run_id
        finally:
            self._runs.pop(run_id).end()

    def find(self, run_id: str) -> LiveRun | None:
        """Look a live run up."""
        return self._runs.get(run_id)
