"""Images that people attach: what is taken, what is refused and how."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import pytest
from PIL import Image

from brain.chats.attachments import read_data_urls
from brain.config.models import LimitsConfig
from brain.errors import InvalidInputError, PayloadTooLargeError

LIMITS = LimitsConfig(images_per_message=3, image_bytes=50_000)


def picture(form: str = "PNG", size: tuple[int, int] = (4, 4)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (1, 2, 3)).save(buffer, form)
    return buffer.getvalue()


def url(content: bytes | str, mime: str = "image/png") -> str:
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return f"data:{mime};base64,{text}"


def bomb(width: int, height: int) -> bytes:
    """A tiny PNG file whose header promises a huge picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\x00" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_pictures_are_kept_as_they_came(form: str) -> None:
    content = picture(form)
    (part,) = read_data_urls([url(content, "image/anything+x")], LIMITS)
    assert part.content.base64 == base64.b64encode(content).decode()
    assert (part.kind, part.mime_type) == ("image", "image/anything+x")


def test_white_space_in_base64_is_removed_and_around_the_url_ignored() -> None:
    text = base64.b64encode(picture()).decode()
    spaced = "\n ".join(text[start : start + 9] for start in range(0, len(text), 9))
    (part,) = read_data_urls([f" \t{url(spaced)}\n"], LIMITS)
    assert part.content.base64 == text


def test_an_animated_png_is_a_png() -> None:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (0, 200)]
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:])
    assert len(read_data_urls([url(buffer.getvalue())], LIMITS)) == 1


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "x",
        "http://example.org/x.png",
        "data:image/png,abc",
        "data:text/plain;base64,YWJj",
        "data:image/png;charset=x;base64,YWJj",
        "data:image/p ng;base64,YWJj",
        "data:image/png;base64,",
        "data:image/png;base64, ",
        "DATA:image/png;base64,YWJj",
        url("!!!!"),
        url(base64.b64encode(picture()).decode().rstrip("=")[:-1]),
        url(base64.urlsafe_b64encode(b"\xfb\xff\xfe").decode()),
        url(b"just text"),
        url(b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        url(picture("BMP")),
        url(picture("TIFF")),
        url(b"%PDF-1.7 ..."),
    ],
)
def test_what_is_no_picture_of_an_allowed_type_is_refused(broken: str) -> None:
    with pytest.raises(InvalidInputError, match="image 2"):
        read_data_urls([url(picture()), broken], LIMITS)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n" + b"rubbish" * 10, picture()[:40], b"GIF89a"])
def test_a_damaged_picture_is_left_to_the_model(content: bytes) -> None:
    """The contract asks for the type by content only, and its own example is no more than the first eight bytes of a PNG."""
    (part,) = read_data_urls([url(content)], LIMITS)
    assert part.content.base64 == base64.b64encode(content).decode()


@pytest.mark.parametrize("size", [(30_000, 30_000), (2**31 - 1, 2**31 - 1), (64_000_001, 1)])
def test_a_decompression_bomb_is_refused_by_its_header(size: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="pixels"):
        read_data_urls([url(bomb(*size))], LIMITS)


def test_caps_name_their_setting() -> None:
    with pytest.raises(PayloadTooLargeError, match=r"limits\.imagesPerMessage"):
        read_data_urls([url(picture())] * 4, LIMITS)
    with pytest.raises(PayloadTooLargeError, match=r"limits\.imageBytes"):
        read_data_urls([url(b"\x89PNG" + b"\x00" * 50_001)], LIMITS)


def test_an_image_of_exactly_the_cap_is_not_too_large() -> None:
    content = picture()
    limits = LimitsConfig(image_bytes=len(content))
    assert len(read_data_urls([url(content)], limits)) == 1
    with pytest.raises(PayloadTooLargeError):
        read_data_urls([url(content)], LimitsConfig(image_bytes=len(content) - 1))
