"""How much one call may read, visit and take, and the watch that work in a thread looks at."""

from __future__ import annotations

import threading
import time
from typing import Final

import msgspec

MEBIBYTE: Final = 1024 * 1024


class FsError(Exception):
    """A call cannot be served; the message is meant for the model."""


class FsLimits(msgspec.Struct, frozen=True):
    """Caps of one call. The length of the text that reaches the model is capped further by the caller."""

    text_bytes: int = 10 * MEBIBYTE
    """Read from a text file, and from all files of one call together."""
    media_bytes: int = 16 * MEBIBYTE
    listed_entries: int = 100_000
    """Entries of one directory that are shown."""
    tree_entries: int = 20_000
    tree_depth: int = 100
    visited_entries: int = 2_000_000
    """Entries that a search looks at."""
    matches: int = 10_000
    seconds: float = 30


class Watch:
    """Tells work in a thread to end: its time is over, or the call was cancelled."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Make the work end at its next look."""
        self._cancelled.set()

    @property
    def is_over(self) -> bool:
        """Whether the work has to end."""
        return self._cancelled.is_set() or time.monotonic() >= self._ends_at

    def check(self) -> None:
        """Look.

        Raises:
            FsError: the work has to end.
        """
        if self.is_over:
            raise FsError("the time limit of the filesystem tools was reached: try a smaller part")


def reason_of(error: OSError) -> str:
    """Return why the operating system refused, without paths."""
    return (error.strerror or type(error).__name__).lower()
