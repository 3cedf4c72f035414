from __future__ import annotations

import mcp_types as types
import pytest

from brain.tools.mcp_result import NO_CONTENT, read_result
from shared_protocol.messages import AttachmentPart, Base64Content, TextPart


def result(
    *blocks: types.ContentBlock, is_error: bool = False, structured: dict[str, object] | None = None
) -> types.CallToolResult:
    return types.CallToolResult(content=list(blocks), is_error=is_error, structured_content=structured)


def blob(mime: str | None, data: str = "AAAA") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri="x://y", blob=data, mime_type=mime))


def test_blocks_keep_their_order_and_blank_text_is_dropped() -> None:
    outcome = read_result(
        result(
            types.TextContent(text="a"),
            types.TextContent(text=" \n"),
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="x://y", text="b")),
        )
    )
    assert outcome.parts == (TextPart("a"), AttachmentPart("audio", Base64Content("AAAA"), "audio/wav"), TextPart("b"))
    assert not outcome.is_error


@pytest.mark.parametrize(
    ("mime", "kind"),
    [
        ("image/png", "image"),
        ("video/mp4", "video"),
        ("audio/ogg", "audio"),
        ("application/pdf", "file"),
        ("IMAGE/PNG", "image"),
        ("application/pdf; x=y", "file"),
    ],
)
def test_embedded_bytes_are_attached_by_their_type(mime: str, kind: str) -> None:
    (part,) = read_result(result(blob(mime))).parts
    assert isinstance(part, AttachmentPart)
    assert (part.kind, part.mime_type) == (kind, mime)


@pytest.mark.parametrize(
    "block",
    [
        blob(None),
        blob("application/zip"),
        blob("text/plain"),
        types.ResourceLink(name="n", uri="x://y"),
        types.ImageContent(data="not base64!", mime_type="image/png"),
    ],
)
def test_what_a_chat_cannot_hold_is_an_error_result(block: types.ContentBlock) -> None:
    outcome = read_result(result(types.TextContent(text="a"), block))
    assert outcome.is_error
    (part,) = outcome.parts
    assert isinstance(part, TextPart)
    assert part.text.startswith("Error: ")


@pytest.mark.parametrize("is_error", [True, False])
def test_nothing_becomes_one_placeholder(is_error: bool) -> None:
    outcome = read_result(result(types.TextContent(text=""), is_error=is_error))
    assert (outcome.parts, outcome.is_error) == ((TextPart(NO_CONTENT),), is_error)


def test_structured_content_alone_is_shown_as_json() -> None:
    assert read_result(result(structured={"a": [1, "x"]})).parts == (TextPart('{"a":[1,"x"]}'),)
