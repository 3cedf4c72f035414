"""What a tool server offers: its listing, and the names under which the model sees it (chat-domain 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from mcp import Client
from mcp_types import Tool
from msgspec import Raw

from brain.tools.names import advertised_name, collapse_separators
from brain.tools.provider import ToolTransportError
from shared_protocol.tools import ToolSpec

MAX_PAGES: Final = 100


class ServerOffer:
    """The tools of one server as of its last listing."""

    def __init__(self, namespace: str) -> None:
        self.specs: tuple[ToolSpec, ...] = ()
        self._namespace = namespace
        self._raw_names: dict[str, str] = {}
        self._order: dict[str, int] = {}

    def find_raw_name(self, name: str) -> str | None:
        """Return the server's own name of an advertised tool, ``None`` if it offers none of that name."""
        return self._raw_names.get(name)

    def replace(self, tools: Sequence[Tool]) -> Sequence[ToolSpec]:
        """Take over a new listing and return it as advertised.

        Raises:
            ToolTransportError: two tools have one advertised name; what was offered before stays.
        """
        names: dict[str, str] = {}
        specs: list[ToolSpec] = []
        for tool in tools:
            name = advertised_name(self._namespace, collapse_separators(tool.name))
            if name in names:
                raise ToolTransportError(
                    f"the tool server '{self._namespace}' has two tools named '{name}' ({names[name]!r}, {tool.name!r})"
                )
            names[name] = tool.name
            specs.append(_spec_of(name, tool))
            # Known tools keep their place, whatever order the server answers in: a model server reuses an unchanged prompt only.
            self._order.setdefault(name, len(self._order))
        specs.sort(key=lambda spec: self._order[spec.name])
        self._raw_names = names
        self.specs = tuple(specs)
        return self.specs


async def fetch_tools(client: Client) -> list[Tool]:
    """Ask for all pages of a listing.

    Raises:
        ValueError: it does not end within ``MAX_PAGES``; besides, whatever the client raises.
    """
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        # The per-round listing must see the truth, never a cache.
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        tools.extend(page.tools)
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise ValueError(f"the listing has more than {MAX_PAGES} pages")


def _spec_of(name: str, tool: Tool) -> ToolSpec:
    # The hand refuses a blank description, and with it the whole listing.
    described = (tool.description, tool.title, tool.name)
    description = next((text for text in described if text and text.strip()), name)
    return ToolSpec(name, description, Raw(msgspec.json.encode(tool.input_schema)))
