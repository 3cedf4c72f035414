"""Tool listing and tool callback: the two calls that the hand makes back to its brain."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from shared_protocol.messages import ContentPart, NonBlank


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as advertised to the model; ``schema`` is a JSON Schema object, passed on verbatim."""

    name: NonBlank
    description: NonBlank
    schema: Raw


class ToolListing(msgspec.Struct, frozen=True):
    """Answer of ``GET {toolListUrl}?runId=``."""

    tools: tuple[ToolSpec, ...]


class ToolRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST {toolCallbackUrl}``: ``id`` is the tool call's, ``name`` the advertised name, ``args`` an object."""

    run_id: str
    id: str
    name: str
    args: Raw


class Fatal(msgspec.Struct, frozen=True):
    """Why the whole run has to end."""

    message: str


class ToolAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A tool's answer, also when the tool failed in a way that the model should see. ``isError`` is always written."""

    parts: tuple[ContentPart, ...]
    is_error: bool


class FatalAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer that ends the run with ``tool_transport``."""

    is_error: bool
    fatal: Fatal
