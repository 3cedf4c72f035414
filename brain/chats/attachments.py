"""Images that people attach: data URLs, caps, and what the bytes really are."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Final

import filetype
from PIL import Image

from brain.chats.validation import decode_base64, strip_white_space
from brain.errors import InvalidInputError, PayloadTooLargeError
from shared_protocol.messages import AttachmentPart, Base64Content, Message, ToolResultMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brain.config.models import LimitsConfig

_DATA_URL: Final = re.compile(r"data:(image/[a-zA-Z0-9.+-]+);base64,(.+)", re.DOTALL)
IMAGE_TYPES: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
"""MIME type by content to the name of Pillow's decoder."""
MAX_PIXELS: Final = 64_000_000
"""Width times height; a picture that unpacks to more is a bomb or useless to a model."""


def attachments_of(message: Message) -> Iterator[AttachmentPart]:
    """Yield the attachments of a message, those of a tool result included."""
    parts = message.result.parts if isinstance(message, ToolResultMessage) else message.parts
    if isinstance(message, UserMessage | ToolResultMessage):
        for part in parts:
            if isinstance(part, AttachmentPart):
                yield part


def read_data_urls(urls: Sequence[str], limits: LimitsConfig) -> tuple[AttachmentPart, ...]:
    """Return the images of data URLs, checked. The MIME type and the base64 text are kept as given, without white space.

    Blocking work (decoding): large inputs belong in a thread.

    Raises:
        PayloadTooLargeError: too many images or one too large.
        InvalidInputError: no image data URL, or not an image of an allowed type.
    """
    if len(urls) > limits.images_per_message:
        raise PayloadTooLargeError(
            f"{len(urls)} images are more than limits.imagesPerMessage ({limits.images_per_message}) allows",
        )
    return tuple(_read_data_url(number, url, limits) for number, url in enumerate(urls, start=1))


def _read_data_url(number: int, url: str, limits: LimitsConfig) -> AttachmentPart:
    match = _DATA_URL.fullmatch(url.strip())
    if match is None:
        raise InvalidInputError(f"image {number} is not a data URL of the form data:image/<type>;base64,<content>")
    text = strip_white_space(match.group(2))
    # Four characters carry three bytes: a far too long text is refused without decoding it.
    if len(text) // 4 * 3 - 2 > limits.image_bytes:
        raise _too_large(number, limits)
    try:
        content = decode_base64(text)
    except ValueError as problem:
        raise InvalidInputError(f"image {number}: {problem}") from problem
    check_image(number, content, limits)
    return AttachmentPart("image", Base64Content(text), match.group(1))


def check_image(number: int, content: bytes, limits: LimitsConfig) -> str:
    """Return the MIME type of an image by its content. Whether a damaged one can be used is for the model to say.

    Raises:
        PayloadTooLargeError: over ``limits.imageBytes``.
        InvalidInputError: not one of the allowed types, or too many pixels.
    """
    if len(content) > limits.image_bytes:
        raise _too_large(number, limits)
    mime = sniff_image(content)
    if mime is None:
        raise InvalidInputError(f"image {number} is none of {', '.join(IMAGE_TYPES)} by its content")
    if not _has_sane_size(content, IMAGE_TYPES[mime]):
        raise InvalidInputError(f"image {number} has more than {MAX_PIXELS} pixels")
    return mime


def sniff_image(content: bytes) -> str | None:
    """Return the MIME type of an allowed image by its first bytes, ``None`` for anything else."""
    mime = sniff(content)
    return mime if mime in IMAGE_TYPES else None


def sniff(content: bytes) -> str | None:
    """Return the MIME type by the first bytes, ``None`` if they tell nothing. Text formats, SVG among them, tell nothing."""
    kind = filetype.guess(content[:8192])  # pyright: ignore[reportUnknownMemberType] - the library has no types
    mime: str | None = None if kind is None else str(kind.mime)  # pyright: ignore[reportUnknownArgumentType] - as above
    # An animated PNG is a PNG to everybody else.
    return "image/png" if mime == "image/apng" else mime


def _has_sane_size(content: bytes, decoder: str) -> bool:
    try:
        with warnings.catch_warnings():
            # Pillow warns from half its own cap on; ours is the one that counts.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            # Opening reads the header: no pixel is unpacked.
            with Image.open(io.BytesIO(content), formats=[decoder]) as image:
                return image.width * image.height <= MAX_PIXELS
    except Image.DecompressionBombError:
        return False
    except Exception:  # noqa: BLE001 - the decoders raise anything on damaged content, which then promises no size
        return True


def _too_large(number: int, limits: LimitsConfig) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"image {number} is larger than limits.imageBytes ({limits.image_bytes} bytes)")
