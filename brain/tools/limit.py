"""Caps on what a tool result may bring into the context: text length and attachment bytes (chat-domain 14.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from brain.tools.provider import ToolOutcome, ToolProvider
from shared_protocol.messages import AttachmentPart, ContentPart, TextPart
from shared_protocol.tools import ToolSpec

ERROR_LIMIT_CHARS: Final = 100_000
"""Errors are kept whole up to here even where results are cut earlier: their end often says what to do."""

ATTACHMENT_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Decoded bytes of all attachments of one result; a run request has a cap of 48 MiB as a whole."""


class LimitedTools:
    """Cuts what its inner provider returns. Lengths are counted in code points."""

    def __init__(
        self,
        inner: ToolProvider,
        limit_chars: int,
        *,
        error_limit_chars: int = ERROR_LIMIT_CHARS,
        attachment_limit_bytes: int = ATTACHMENT_LIMIT_BYTES,
    ) -> None:
        self._inner = inner
        self._limit_chars = limit_chars
        self._error_limit_chars = max(limit_chars, error_limit_chars)
        self._attachment_limit_bytes = attachment_limit_bytes

    @property
    def namespaces(self) -> Sequence[str]:
        """Those of the inner provider."""
        return self._inner.namespaces

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools of the inner provider."""
        return await self._inner.list_tools()

    def budget_seconds(self, name: str) -> int:
        """Return the budget of the inner provider."""
        return self._inner.budget_seconds(name)

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run the call and cap its result."""
        outcome = await self._inner.execute(call_id, name, args)
        parts = _without_excess_attachments(outcome.parts, self._attachment_limit_bytes)
        limit = self._error_limit_chars if outcome.is_error else self._limit_chars
        return ToolOutcome(cap_text(parts, limit), outcome.is_error)


def cap_text(parts: tuple[ContentPart, ...], limit_chars: int) -> tuple[ContentPart, ...]:
    """Return ``parts`` untouched if their text fits, else the attachments followed by one cut text part.

    The marker that states the original length is counted inside the limit; a limit below its length leaves the marker alone.
    """
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    length = sum(map(len, texts)) + max(0, len(texts) - 1)
    if length <= limit_chars:
        return parts
    marker = f"\n\n[Truncated: the result has {length} characters, the limit is {limit_chars}]"
    kept = "\n".join(texts)[: max(0, limit_chars - len(marker))]
    attachments: tuple[ContentPart, ...] = tuple(part for part in parts if isinstance(part, AttachmentPart))
    return (*attachments, TextPart(kept + marker))


def _without_excess_attachments(parts: tuple[ContentPart, ...], limit_bytes: int) -> tuple[ContentPart, ...]:
    left = limit_bytes
    kept: list[ContentPart] = []
    for part in parts:
        if isinstance(part, TextPart):
            kept.append(part)
            continue
        size = len(part.content.base64) * 3 // 4
        if size <= left:
            left -= size
            kept.append(part)
        else:
            kept.append(TextPart(f"[Left out: {part.mime_type} of {size} bytes; one result may carry {limit_bytes} bytes]"))
    return tuple(kept)
