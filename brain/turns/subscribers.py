"""The event stream of one client of a turn: the events from the log, and word to the turn when the client is gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from brain.turns.events import CONNECTED

if TYPE_CHECKING:
    from types import TracebackType

    from brain.turns.run_log import Subscription


class ClientStream(AsyncGenerator[bytes, None]):
    """Yields ``connected``, then everything of a subscription. ``aclose`` always calls ``on_close``, also before the first event.

    A class and not a generator function: closing a generator that was never started would run nothing of it.
    """

    def __init__(self, subscription: Subscription, on_close: Callable[[], None] | None = None) -> None:
        self._subscription = subscription
        self._on_close = on_close
        self._started = False
        self._closed = False

    async def asend(self, value: None) -> bytes:
        """Return the next bytes."""
        del value
        if self._closed:
            raise StopAsyncIteration
        if not self._started:
            self._started = True
            return CONNECTED
        block = await self._subscription.next_bytes()
        if block is None:
            raise StopAsyncIteration
        return block

    async def __anext__(self) -> bytes:
        """Return the next bytes."""
        return await self.asend(None)

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> bytes:
        """Close the stream and raise what was thrown in."""
        del tb
        await self.aclose()
        if isinstance(typ, BaseException):
            raise typ
        raise val if isinstance(val, BaseException) else typ()

    async def aclose(self) -> None:
        """End the stream; the client is gone or has everything."""
        if not self._closed:
            self._closed = True
            if self._on_close is not None:
                self._on_close()
