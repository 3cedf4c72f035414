"""The execution budget of a call: enforced once, where the call enters the tools (chat-domain 15 and 19.3)."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from brain.tools.provider import ToolOutcome, ToolProvider, error_outcome


async def execute_within_budget(tools: ToolProvider, call_id: str, name: str, args: Raw) -> ToolOutcome:
    """Run a call, bounded by the budget of its provider; an overrun cancels it and is a failure that the model sees.

    Raises:
        ToolTransportError: the run has to end.
    """
    seconds = tools.budget_seconds(name)
    if seconds <= 0:
        return await tools.execute(call_id, name, args)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await tools.execute(call_id, name, args)
    except TimeoutError:
        if not limit.expired():  # the tool's own, not ours
            raise
        return error_outcome(f"the tool '{name}' timed out after {seconds} seconds")
