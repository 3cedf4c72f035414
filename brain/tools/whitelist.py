"""A provider narrowed to some of its namespaces: a persona's, or the sub-agent's (chat-domain 14.5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Raw

from brain.errors import InvalidInputError
from brain.tools.provider import ToolOutcome, ToolProvider, error_outcome, split_name
from shared_protocol.tools import ToolSpec


class WhitelistedTools:
    """Shows and runs only tools of the allowed namespaces."""

    def __init__(self, inner: ToolProvider, allowed: Collection[str]) -> None:
        """Narrow ``inner``.

        Raises:
            InvalidInputError: the whitelist is empty, or has an entry that ``inner`` does not serve.
        """
        check_whitelist(allowed, inner.namespaces)
        self._inner = inner
        self._allowed = frozenset(allowed)

    @property
    def namespaces(self) -> Sequence[str]:
        """The allowed namespaces, in the order of the inner provider."""
        return tuple(namespace for namespace in self._inner.namespaces if namespace in self._allowed)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the inner tools that are allowed."""
        return [spec for spec in await self._inner.list_tools() if self._is_allowed(spec.name)]

    def budget_seconds(self, name: str) -> int:
        """Return the inner budget of an allowed name, else 0."""
        return self._inner.budget_seconds(name) if self._is_allowed(name) else 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run an allowed call; anything else is a failure that the model sees."""
        if not self._is_allowed(name):
            return error_outcome(f"the tool '{name}' is not available here")
        return await self._inner.execute(call_id, name, args)

    def _is_allowed(self, name: str) -> bool:
        split = split_name(name)
        return split is not None and split[0] in self._allowed


def check_whitelist(allowed: Collection[str], served: Collection[str]) -> None:
    """Refuse a whitelist that is empty or names something that is not served.

    Raises:
        InvalidInputError: names every such entry, and what is served.
    """
    if not allowed:
        raise InvalidInputError("the list of allowed tool namespaces is empty")
    if unknown := stale_namespaces(allowed, served):
        names = ", ".join(repr(namespace) for namespace in unknown)
        known = ", ".join(served) or "none"
        raise InvalidInputError(f"the allowed tool namespaces {names} are not served (served: {known})")


def stale_namespaces(allowed: Collection[str], served: Collection[str]) -> list[str]:
    """Return the entries of a whitelist that nothing serves (any more), in their order."""
    known = set(served)
    return [namespace for namespace in allowed if namespace not in known]
