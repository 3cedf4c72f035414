"""Answers that ended because the output limit was used up: kept for a while, in case the person wants what there is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from brain.turns.loop import TurnLoop

KEEP_SECONDS: Final = 600.0
MAX_KEPT: Final = 32
"""The histories are in memory: a few are a courtesy, many would be a leak."""


class Leftovers:
    """The failed turns of this process that may still be stored, one per chat."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, TurnLoop]] = {}

    def keep(self, chat_id: str, loop: TurnLoop) -> None:
        """Keep a turn, instead of an earlier one of the same chat."""
        self.discard(chat_id)
        self._kept[chat_id] = (self._clock(), loop)
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def discard(self, chat_id: str) -> None:
        """Forget a chat's turn: the chat goes on."""
        self._kept.pop(chat_id, None)

    def take(self, chat_id: str) -> TurnLoop | None:
        """Return a chat's turn and forget it; ``None`` if there is none or it is too old."""
        kept_at, loop = self._kept.pop(chat_id, (0.0, None))
        return loop if loop is not None and self._clock() - kept_at <= KEEP_SECONDS else None
