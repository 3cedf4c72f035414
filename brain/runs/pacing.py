"""How a brain under load keeps up with many answers: it lets what trickles in gather for a moment.

Most of the cost of a token is waking up for it. As long as the event loop is on time, every token is passed on when it comes.
When the loop runs late, each stream waits a little between two reads; what arrived meanwhile is taken as one.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LONGEST_PAUSE_SECONDS: Final = 0.15
"""Still reads as flowing text."""
SAMPLE_SECONDS: Final = 0.02
LATE_SECONDS: Final = 0.002
ON_TIME_SECONDS: Final = 0.0007
SHORTER_SECONDS: Final = 0.002
SMOOTHING: Final = 0.2


class Pacing:
    """Measures how late the loop is, and says how long a stream should let its next tokens gather; 0 when the loop keeps up."""

    def __init__(self) -> None:
        self.pause_seconds = 0.0
        self._lateness = 0.0

    def record(self, lateness: float) -> None:
        """Take in by how many seconds a timer was late."""
        self._lateness += SMOOTHING * (lateness - self._lateness)
        if self._lateness > LATE_SECONDS:
            self.pause_seconds = min(self.pause_seconds + self._lateness, LONGEST_PAUSE_SECONDS)
        elif self._lateness < ON_TIME_SECONDS:
            self.pause_seconds = max(self.pause_seconds - SHORTER_SECONDS, 0.0)

    async def watch(self) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + SAMPLE_SECONDS
            await asyncio.sleep(SAMPLE_SECONDS)
            self.record(clock() - due)


class Gathering:
    """The pauses of one stream; its end cuts them short."""

    def __init__(self, pacing: Pacing) -> None:
        self._pacing = pacing
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.Future[None] | None = None
        self._has_ended = False

    def end(self) -> None:
        """Nothing more will arrive."""
        self._has_ended = True
        self._wake()

    async def pause(self) -> None:
        """Let tokens gather, if the loop is late."""
        seconds = self._pacing.pause_seconds
        if seconds <= 0 or self._has_ended:
            return
        self._pause = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    def _wake(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)


@asynccontextmanager
async def open_pacing() -> AsyncGenerator[Pacing]:
    """Yield a pacing that measures for the time of the block."""
    pacing = Pacing()
    watch = asyncio.create_task(pacing.watch(), name="pacing")
    try:
        yield pacing
    finally:
        watch.cancel()
        await asyncio.wait({watch})
