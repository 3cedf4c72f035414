from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from brain.turns.images import ImageScaler
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    Message,
    TextPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)


def picture(width: int, height: int, kind: str = "PNG") -> AttachmentPart:
    target = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(target, kind)
    return AttachmentPart("image", Base64Content(base64.b64encode(target.getvalue()).decode()), f"image/{kind.lower()}")


def size_of(part: object) -> tuple[int, int]:
    assert isinstance(part, AttachmentPart)
    with Image.open(io.BytesIO(base64.b64decode(part.content.base64))) as image:
        return image.size


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_large_images_shrink_to_the_longest_edge_and_keep_their_type(kind: str) -> None:
    message = UserMessage((TextPart("look"), picture(400, 200, kind)))
    (scaled,) = await ImageScaler(100).scale([message])
    assert isinstance(scaled, UserMessage)
    assert scaled.parts[0] == TextPart("look")
    assert size_of(scaled.parts[1]) == (100, 50)
    assert scaled.parts[1].mime_type == f"image/{kind.lower()}"  # type: ignore[union-attr]


async def test_the_same_image_gives_the_same_bytes_in_every_process() -> None:
    message = UserMessage((picture(400, 200, "JPEG"),))
    assert await ImageScaler(100).scale([message]) == await ImageScaler(100).scale([message])


async def test_small_images_animations_and_broken_ones_go_as_they_are() -> None:
    broken = AttachmentPart("image", Base64Content("AAAA"), "image/png")
    messages: list[Message] = [UserMessage((picture(100, 50), picture(300, 300, "GIF"), broken))]
    assert await ImageScaler(100).scale(messages) == tuple(messages)


async def test_an_image_that_unpacks_to_far_too_much_is_not_unpacked() -> None:
    """A chat import or a tool may bring it: nobody has counted its pixels."""
    target = io.BytesIO()
    Image.new("1", (9000, 8000)).save(target, "PNG")
    bomb = AttachmentPart("image", Base64Content(base64.b64encode(target.getvalue()).decode()), "image/png")
    message = UserMessage((bomb,))
    assert await ImageScaler(100).scale([message]) == (message,)


async def test_images_of_tools_shrink_too() -> None:
    message = ToolResultMessage((ToolResultPart("c", "cam__shot", (picture(400, 400),)),))
    (scaled,) = await ImageScaler(100).scale([message])
    assert isinstance(scaled, ToolResultMessage)
    assert size_of(scaled.result.parts[0]) == (100, 100)


async def test_without_the_setting_nothing_is_touched() -> None:
    messages: list[Message] = [UserMessage((picture(400, 400),))]
    assert await ImageScaler(None).scale(messages) == tuple(messages)
