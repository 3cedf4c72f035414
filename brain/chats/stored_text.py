"""How a list of messages is written in the database: its JSON, with each attachment replaced by the hash of its content.

A mark is ``"base64": "sha256:<hex>"`` with one space after the colon. Our JSON is compact and a quotation mark inside a string is
escaped, so neither a text nor the verbatim arguments of a tool call can contain a mark: only this module writes them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from brain.chats.validation import decode_base64
from shared_protocol.codec import encode_messages
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    ContentPart,
    Message,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MARK: Final = re.compile(r'"base64": "sha256:([0-9a-f]{64})"')


class StoredText(msgspec.Struct, frozen=True):
    """Messages as stored: the text with marks, and the contents behind the marks by SHA-256."""

    text: str
    contents: dict[bytes, bytes]


def to_stored_text(messages: Sequence[Message]) -> StoredText:
    """Return the stored form. Base64 that is not canonical, so that it could not be restored to the letter, stays in the text."""
    contents: dict[bytes, bytes] = {}
    # A fresh random token stands for the mark until the JSON is written: no text can contain it.
    token = secrets.token_hex(16)
    marked = [_mark_message(message, token, contents) for message in messages]
    text = encode_messages(marked).decode()
    if contents:
        text = text.replace(f'"base64":"{token}', '"base64": "sha256:')
    return StoredText(text, contents)


def hashes_in(text: str) -> set[bytes]:
    """Return the hashes of all marks in a stored text."""
    return {bytes.fromhex(digest) for digest in _MARK.findall(text)} if '"base64": "' in text else set()


def from_stored_text(text: str, contents: Mapping[bytes, bytes]) -> str:
    """Return the JSON with every mark replaced by its content.

    Raises:
        KeyError: a content is missing; the key is its hash in hexadecimal.
    """
    if '"base64": "' not in text:
        return text
    encoded = {digest.hex(): base64.b64encode(content).decode() for digest, content in contents.items()}
    return _MARK.sub(lambda match: f'"base64":"{encoded[match.group(1)]}"', text)


def _mark_message(message: Message, token: str, contents: dict[bytes, bytes]) -> Message:
    if isinstance(message, UserMessage) and _has_attachment(message.parts):
        return msgspec.structs.replace(message, parts=_mark_parts(message.parts, token, contents))
    if isinstance(message, ToolResultMessage) and _has_attachment(message.result.parts):
        result = msgspec.structs.replace(message.result, parts=_mark_parts(message.result.parts, token, contents))
        return ToolResultMessage((result,))
    return message


def _has_attachment(parts: Iterable[ContentPart]) -> bool:
    return any(isinstance(part, AttachmentPart) for part in parts)


def _mark_parts(parts: Iterable[ContentPart], token: str, contents: dict[bytes, bytes]) -> tuple[ContentPart, ...]:
    return tuple(_mark_part(part, token, contents) if isinstance(part, AttachmentPart) else part for part in parts)


def _mark_part(part: AttachmentPart, token: str, contents: dict[bytes, bytes]) -> AttachmentPart:
    text = part.content.base64
    try:
        content = decode_base64(text)
    except ValueError:
        return part
    if not content or base64.b64encode(content).decode() != text:
        return part
    digest = hashlib.sha256(content).digest()
    contents[digest] = content
    return msgspec.structs.replace(part, content=Base64Content(token + digest.hex()))
