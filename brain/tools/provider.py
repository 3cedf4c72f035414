"""What a tool provider is: the interface between a run and whatever can execute a tool for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Raw

from brain.errors import BrainError
from shared_protocol.messages import ContentPart, TextPart
from shared_protocol.tools import ToolSpec

SEPARATOR = "__"
"""Between namespace and bare name in an advertised name; split at the first one."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """What a tool answered; ``is_error`` marks a failure that the model should see and may repair."""

    parts: tuple[ContentPart, ...]
    is_error: bool = False


class ToolTransportError(Exception):
    """The transport to a tool is dead: the run has to end. Everything a model can react to is a ``ToolOutcome`` instead."""


class ToolSetupError(BrainError):
    """A mistake in the configuration of the tools, found at start-up; the message names the key and what to do."""


class ToolProvider(Protocol):
    """Serves the tools of one or more namespaces."""

    @property
    def namespaces(self) -> Sequence[str]:
        """Namespaces served, in a fixed order."""
        ...

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the advertised tools, in a fixed order.

        Raises:
            ToolTransportError: a server behind it is down.
        """
        ...

    def budget_seconds(self, name: str) -> int:
        """Return the execution budget of an advertised name; 0 = none, also for unknown names."""
        ...

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run one call. ``args`` is a JSON object, verbatim.

        Raises:
            ToolTransportError: the run has to end.
        """
        ...


def error_outcome(message: str) -> ToolOutcome:
    """Return a failure that the model sees: one text part starting with ``Error: ``."""
    return ToolOutcome((TextPart(f"Error: {message}"),), is_error=True)


def text_outcome(text: str) -> ToolOutcome:
    """Return a successful answer of one text part."""
    return ToolOutcome((TextPart(text),))


def split_name(name: str) -> tuple[str, str] | None:
    """Return namespace and bare name of an advertised name, or ``None`` for a bare one."""
    namespace, separator, bare = name.partition(SEPARATOR)
    return (namespace, bare) if separator and namespace and bare else None
