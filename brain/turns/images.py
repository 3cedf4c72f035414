"""Images made smaller on their way to the model (``images.downscaleTo``); what is stored keeps the original.

The same image always gives the same bytes, from a cache or not: a changed one would break the prompt's prefix.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from PIL import Image

from brain.chats.attachments import MAX_PIXELS
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    ContentPart,
    Message,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = structlog.get_logger(__name__)

_FORMATS: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
"""What is written again in its own format. An animation would lose its frames, so GIF goes as it is."""
_QUALITY: Final = 85
_CACHE_BYTES: Final = 32 * 1024 * 1024


class ImageScaler:
    """Scales images whose longest edge is over ``longest_edge`` pixels; ``None``: none at all."""

    def __init__(self, longest_edge: int | None) -> None:
        self._longest_edge = longest_edge
        self._cache: OrderedDict[bytes, AttachmentPart] = OrderedDict()
        self._cached_bytes = 0

    async def scale(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with their images at most so large."""
        if self._longest_edge is None or not any(map(_has_image, messages)):
            return tuple(messages)
        return await asyncio.to_thread(self._scale_all, tuple(messages), self._longest_edge)

    def _scale_all(self, messages: tuple[Message, ...], edge: int) -> tuple[Message, ...]:
        return tuple(self._scale_message(message, edge) if _has_image(message) else message for message in messages)

    def _scale_message(self, message: Message, edge: int) -> Message:
        if isinstance(message, ToolResultMessage):
            result = msgspec.structs.replace(message.result, parts=self._scale_parts(message.result.parts, edge))
            return msgspec.structs.replace(message, parts=(result,))
        if isinstance(message, UserMessage):
            return msgspec.structs.replace(message, parts=self._scale_parts(message.parts, edge))
        return message

    def _scale_parts(self, parts: tuple[ContentPart, ...], edge: int) -> tuple[ContentPart, ...]:
        return tuple(self._scale_part(part, edge) if _is_image(part) else part for part in parts)

    def _scale_part(self, part: ContentPart, edge: int) -> ContentPart:
        if not isinstance(part, AttachmentPart):
            return part
        key = hashlib.sha256(part.mime_type.encode() + b"\n" + part.content.base64.encode()).digest()
        found = self._cache.get(key)
        if found is None:
            found = _shrink(part, edge)
            self._cache[key] = found
            self._cached_bytes += len(found.content.base64)
            while self._cached_bytes > _CACHE_BYTES and len(self._cache) > 1:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= len(dropped.content.base64)
        return found


def _shrink(part: AttachmentPart, edge: int) -> AttachmentPart:
    try:
        with Image.open(io.BytesIO(base64.b64decode(part.content.base64)), formats=list(_FORMATS)) as image:
            if max(image.size) <= edge or image.format is None or image.width * image.height > MAX_PIXELS:
                return part
            kind = image.format
            # A JPEG decodes at a fraction of its size directly: less memory and time.
            image.draft(None, (edge, edge))
            image.thumbnail((edge, edge))
            target = io.BytesIO()
            image.save(target, kind, quality=_QUALITY)
    except (OSError, ValueError, Image.DecompressionBombError) as problem:
        logger.warning("an image could not be made smaller and goes as it is", reason=str(problem))
        return part
    content = Base64Content(base64.b64encode(target.getvalue()).decode())
    return AttachmentPart(part.kind, content, _FORMATS[kind])


def _has_image(message: Message) -> bool:
    if isinstance(message, ToolResultMessage):
        return any(map(_is_image, message.result.parts))
    return isinstance(message, UserMessage) and any(map(_is_image, message.parts))


def _is_image(part: ContentPart) -> bool:
    return isinstance(part, AttachmentPart) and part.kind == "image"
