"""Reading of regular files: text whole or by lines, media as attachments (chat-domain 16.3)."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import PurePath
from typing import Final

from brain.tools.fs.limits import FsError, Watch, reason_of
from brain.tools.fs.opening import open_parent
from shared_protocol.messages import AttachmentKind, AttachmentPart, Base64Content

BLOCK_BYTES: Final = 64 * 1024

MEDIA_TYPES: Final[dict[str, tuple[AttachmentKind, str]]] = {
    ".png": ("image", "image/png"),
    ".jpg": ("image", "image/jpeg"),
    ".jpeg": ("image", "image/jpeg"),
    ".gif": ("image", "image/gif"),
    ".webp": ("image", "image/webp"),
    ".bmp": ("image", "image/bmp"),
    ".svg": ("image", "image/svg+xml"),
    ".mp3": ("audio", "audio/mpeg"),
    ".wav": ("audio", "audio/wav"),
    ".ogg": ("audio", "audio/ogg"),
    ".flac": ("audio", "audio/flac"),
}
OTHER_MEDIA: Final[tuple[AttachmentKind, str]] = ("file", "application/octet-stream")


def read_text(path: str, limit_bytes: int, watch: Watch) -> str:
    """Return a file as UTF-8 with replacement; past ``limit_bytes`` it is cut and says so.

    Raises:
        FsError: it is missing, no regular file, or unreadable.
    """
    with _open_regular(path) as file:
        content = _read_up_to(file, limit_bytes, watch)
        size = os.fstat(file.fileno()).st_size
        text = content.decode(errors="replace")
        if len(content) == limit_bytes and file.read(1):
            text += f"\n\n[Truncated: the file has {size} bytes, only the first {limit_bytes} were read; use head or tail]"
        return text


def read_head(path: str, lines: int, limit_bytes: int, watch: Watch) -> str:
    """Return the first lines; an empty one after the last line end does not count.

    Raises:
        FsError: as ``read_text``.
    """
    with _open_regular(path) as file:
        content = bytearray()
        complete_lines = 0
        while complete_lines < lines and len(content) < limit_bytes:
            watch.check()
            block = file.read(min(BLOCK_BYTES, limit_bytes - len(content)))
            if not block:
                break
            content += block
            complete_lines += block.count(b"\n")
    found = _split_lines(content)
    if found[-1] == "":
        found.pop()
    return "\n".join(found[:lines])


def read_tail(path: str, lines: int, limit_bytes: int, watch: Watch) -> str:
    """Return the last lines; an empty one after the last line end counts.

    Raises:
        FsError: as ``read_text``.
    """
    with _open_regular(path) as file:
        position = file.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        line_ends = taken = 0
        # One line end more than lines: it is the one before the first line wanted.
        while position > 0 and line_ends < lines and taken < limit_bytes:
            watch.check()
            size = min(BLOCK_BYTES, position, limit_bytes - taken)
            position = file.seek(position - size)
            block = _read_up_to(file, size, watch)
            blocks.append(block)
            taken += size
            line_ends += block.count(b"\n")
    return "\n".join(_split_lines(b"".join(reversed(blocks)))[-lines:])


def read_media(path: str, limit_bytes: int, watch: Watch) -> AttachmentPart:
    """Return a file as an attachment, its type taken from the extension.

    Raises:
        FsError: as ``read_text``, or it is larger than ``limit_bytes``.
    """
    kind, mime_type = MEDIA_TYPES.get(PurePath(path).suffix.lower(), OTHER_MEDIA)
    with _open_regular(path) as file:
        content = _read_up_to(file, limit_bytes + 1, watch)
        if len(content) > limit_bytes:
            size = os.fstat(file.fileno()).st_size
            raise FsError(f"the file has {size} bytes, the limit for media is {limit_bytes}")
    return AttachmentPart(kind, Base64Content(base64.b64encode(content).decode()), mime_type)


@contextmanager
def _open_regular(path: str) -> Generator[FileIO]:
    # Not blocking, so that a FIFO without a writer cannot hang the open; the path must still be what was resolved.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
    try:
        with open_parent(path) as (parent, name):
            # A device may act on being opened: look first.
            _require_regular(os.stat(name, dir_fd=parent, follow_symlinks=False))
            descriptor = os.open(name, flags, dir_fd=parent)
        with FileIO(descriptor, "rb") as file:
            _require_regular(os.fstat(descriptor))
            yield file
    except FileNotFoundError as problem:
        raise FsError("the file does not exist") from problem
    except OSError as problem:
        raise FsError(f"the file cannot be read: {reason_of(problem)}") from problem


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise FsError("it is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise FsError("it is not a regular file (a pipe, device, socket or link)")


def _read_up_to(file: FileIO, limit_bytes: int, watch: Watch) -> bytes:
    content = bytearray()
    while len(content) < limit_bytes:
        watch.check()
        block = file.read(min(BLOCK_BYTES, limit_bytes - len(content)))
        if not block:
            break
        content += block
    return bytes(content)


def _split_lines(content: bytes | bytearray) -> list[str]:
    return content.decode(errors="replace").replace("\r\n", "\n").split("\n")
