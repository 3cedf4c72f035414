"""What a tool server answered, as neutral parts (chat-domain 15)."""

from __future__ import annotations

import base64
import binascii
from typing import Final, assert_never

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from brain.tools.provider import ToolOutcome, error_outcome
from shared_protocol.messages import AttachmentKind, AttachmentPart, Base64Content, ContentPart, TextPart

NO_CONTENT: Final = "(the tool returned no content)"

_KINDS: Final[dict[str, AttachmentKind]] = {"image": "image", "video": "video", "audio": "audio"}


class UnsupportedContentError(Exception):
    """A block that a chat cannot hold; the message is meant for the model."""


def read_result(result: CallToolResult) -> ToolOutcome:
    """Return the parts of a result; never none. ``isError`` of the server is passed through."""
    try:
        parts = tuple(part for block in result.content if (part := _read_block(block)) is not None)
    except UnsupportedContentError as problem:
        return error_outcome(str(problem))
    if not parts:
        parts = (TextPart(_structured_text(result) or NO_CONTENT),)
    return ToolOutcome(parts, is_error=bool(result.is_error))


def _read_block(block: ContentBlock) -> ContentPart | None:
    match block:
        case TextContent():
            return _text(block.text)
        case ImageContent():
            return _attachment("image", block.data, block.mime_type)
        case AudioContent():
            return _attachment("audio", block.data, block.mime_type)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return _text(resource.text)
        case EmbeddedResource(resource=BlobResourceContents() as resource):
            return _attachment(_kind_of(resource.mime_type), resource.blob, resource.mime_type or "")
        case EmbeddedResource():  # a third kind of resource would be a new protocol version's
            raise UnsupportedContentError("the tool answered with a resource that cannot be read here")
        case ResourceLink():
            raise UnsupportedContentError(f"the tool answered with a link to a resource ({block.uri}), which cannot be read here")
        case _:
            assert_never(block)


def _text(text: str) -> TextPart | None:
    return TextPart(text) if text.strip() else None


def _attachment(kind: AttachmentKind, data: str, mime_type: str) -> AttachmentPart:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UnsupportedContentError(f"the tool answered with {kind} content that is not valid base64") from problem
    return AttachmentPart(kind, Base64Content(data), mime_type)


def _kind_of(mime_type: str | None) -> AttachmentKind:
    if mime_type is None:
        raise UnsupportedContentError("the tool answered with binary content of unknown type")
    essence = mime_type.partition(";")[0].strip().lower()
    if essence == "application/pdf":
        return "file"
    kind = _KINDS.get(essence.partition("/")[0])
    if kind is None:
        raise UnsupportedContentError(f"the tool answered with binary content of type {mime_type}, which cannot be shown")
    return kind


def _structured_text(result: CallToolResult) -> str | None:
    if result.structured_content is None:
        return None
    return msgspec.json.encode(result.structured_content).decode()
