"""Several providers as one: specifications in order of the children, calls routed by namespace (chat-domain 14.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Raw

from brain.tools.names import namespace_problem
from brain.tools.provider import ToolOutcome, ToolProvider, ToolSetupError, ToolTransportError, error_outcome, split_name
from shared_protocol.tools import ToolSpec


class CombinedTools:
    """A provider made of providers. No children is fine: such a set serves nothing."""

    def __init__(self, children: Sequence[ToolProvider]) -> None:
        """Route by namespace.

        Raises:
            ToolSetupError: a child without a namespace, a namespace that is not valid or is served twice.
        """
        self._children = tuple(children)
        self._routes: dict[str, ToolProvider] = {}
        for child in self._children:
            if not child.namespaces:
                raise ToolSetupError("a tool provider serves no namespace")
            for namespace in child.namespaces:
                if (problem := namespace_problem(namespace)) is not None:
                    raise ToolSetupError(f"the tool namespace {namespace!r} is not valid: {problem}")
                if namespace in self._routes:
                    raise ToolSetupError(
                        f"the tool namespace {namespace!r} is served twice: rename the tool server with that key"
                    )
                self._routes[namespace] = child

    @property
    def namespaces(self) -> Sequence[str]:
        """All namespaces, in order of the children."""
        return tuple(self._routes)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Ask all children at once and concatenate in their order.

        Raises:
            ToolTransportError: the first child, in order, that could not be listed.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_try_list(child)) for child in self._children]
        specs: list[ToolSpec] = []
        for task in tasks:
            listed = task.result()
            if isinstance(listed, ToolTransportError):
                raise listed
            specs.extend(listed)
        return specs

    def budget_seconds(self, name: str) -> int:
        """Return the child's budget, 0 for an unroutable name."""
        child = self._route(name)
        return 0 if child is None else child.budget_seconds(name)

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run the call in the child that serves its namespace."""
        child = self._route(name)
        if child is None:
            return error_outcome(f"there is no tool named '{name}'")
        return await child.execute(call_id, name, args)

    def _route(self, name: str) -> ToolProvider | None:
        split = split_name(name)
        return None if split is None else self._routes.get(split[0])


class EmptyNamespace:
    """A namespace that can be named and has no tools."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    @property
    def namespaces(self) -> Sequence[str]:
        """The one namespace."""
        return (self._namespace,)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return none."""
        return ()

    def budget_seconds(self, name: str) -> int:  # noqa: ARG002 - the interface
        """Return 0."""
        return 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:  # noqa: ARG002 - the interface
        """Refuse every call in a way that the model sees."""
        return error_outcome(f"there is no tool named '{name}'")


async def _try_list(child: ToolProvider) -> Sequence[ToolSpec] | ToolTransportError:
    # As a value: a failing child must not cancel its siblings, whose connections would suffer from it.
    try:
        return await child.list_tools()
    except ToolTransportError as problem:
        return problem
