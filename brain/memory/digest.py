"""Text and pictures handed in directly to be remembered (memory §16)."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Final

from brain.chats.attachments import check_image
from brain.config.models import LimitsConfig
from brain.errors import InvalidInputError, PayloadTooLargeError
from brain.memory.normalise import parse_date
from brain.memory.pipeline import Origin
from brain.memory.sentinel import is_nothing_to_remember
from shared_protocol.instants import instant_from_datetime
from shared_protocol.messages import AttachmentPart, Base64Content, ContentPart, TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brain.memory.pipeline import MemoryPipeline

_IMAGE_TYPE: Final = re.compile(r"image/[a-zA-Z0-9.+-]+")
_SPACE: Final = re.compile(r"\s+")


class DigestService:
    """Remembers submissions at once: extraction and writer have finished when it returns."""

    def __init__(
        self,
        pipeline: MemoryPipeline,
        *,
        limits: LimitsConfig | None = None,
        today: Callable[[], date] = lambda: datetime.now().astimezone().date(),
    ) -> None:
        self._pipeline = pipeline
        self._limits = limits or LimitsConfig()
        self._today = today

    async def digest(self, parts: Sequence[ContentPart], day: str | None) -> None:
        """Remember the parts; ``day`` is the reference date (today without one).

        Raises:
            InvalidInputError: a part or the date breaks a rule.
            PayloadTooLargeError: too many images, or one that is too large.
            CapabilityError: the extraction model cannot read the content.
            StageError: a model failed.
        """
        kept = [checked for number, part in enumerate(parts, 1) if (checked := self._check_part(number, part)) is not None]
        images = sum(isinstance(part, AttachmentPart) for part in kept)
        if images > self._limits.images_per_message:
            raise PayloadTooLargeError(
                f"{images} images are more than limits.imagesPerMessage ({self._limits.images_per_message}) allows"
            )
        if not kept:
            raise InvalidInputError("there is nothing to digest: give at least one text that is not blank, or an image")
        reference = self._today() if day is None else parse_date(day)
        if reference > self._today():
            raise InvalidInputError("date must not be in the future")
        texts = [part.text for part in kept if isinstance(part, TextPart)]
        if len(texts) == len(kept) and is_nothing_to_remember("\n\n".join(texts)):
            return
        # The start of that day where the server is: the anchor from which relative dates count.
        moment = datetime.combine(reference, time()).astimezone()
        message = UserMessage(tuple(kept), instant_from_datetime(moment))
        await self._pipeline.remember((message,), Origin("digest"), flavour="digest")

    def _check_part(self, number: int, part: ContentPart) -> ContentPart | None:
        """Return a part as it is used, ``None`` for a blank text."""
        if isinstance(part, TextPart):
            return part if part.text.strip() else None
        if part.kind != "image":
            raise InvalidInputError(f"only text and images can be digested, not {part.kind!r}")
        if not _IMAGE_TYPE.fullmatch(part.mime_type):
            raise InvalidInputError(f"mimeType must be an image type, not {part.mime_type!r}")
        base64 = _SPACE.sub("", part.content.base64)
        try:
            content = b64decode(base64, validate=True)
        except (binascii.Error, ValueError) as problem:
            raise InvalidInputError(f"the base64 content of an image cannot be decoded: {problem}") from problem
        check_image(number, content, self._limits)
        return AttachmentPart("image", Base64Content(base64), part.mime_type)
