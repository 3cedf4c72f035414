"""Live runs: run id to the tools and the model that the hand's callbacks belong to."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from collections.abc import Generator

    from brain.catalog import ChatModel
    from brain.tools.provider import ToolProvider


class LiveRun(msgspec.Struct, frozen=True):
    """What a callback needs to know about its run."""

    run_id: str
    tools: ToolProvider
    model: ChatModel


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
            del self._runs[run_id]

    def find(self, run_id: str) -> LiveRun | None:
        """Look a live run up."""
        return self._runs.get(run_id)
