"""The numbered events of one live turn, and the cursors that follow them: live, late, again, or slower than the model.

Subscribers share one log instead of a queue each. Deltas of one kind are kept as one growing run of JSON string content with
four bytes per event, so a long answer costs its own text once, and a subscriber that lags gets many deltas as one event.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DeltaKind = Literal["text", "reasoning"]

_DELTA_HEAD: Final[dict[DeltaKind, bytes]] = {
    "text": b'event: text\ndata: {"delta":"',
    "reasoning": b'event: reasoning\ndata: {"delta":"',
}
_DELTA_TAIL: Final = b'"}\n\n'
_EVENT_NUMBER: Final = re.compile(r"[0-9]{1,12}")


class _Single:
    """One event that is no delta; ``block`` starts with ``event:`` and ends with the blank line."""

    __slots__ = ("block", "first")

    def __init__(self, first: int, block: bytes) -> None:
        self.first = first
        self.block = block

    @property
    def count(self) -> int:
        return 1

    def render(self, _start: int, _stop: int) -> bytes:
        return self.block


class _Deltas:
    """Consecutive deltas of one kind: their JSON string content end to end, and where each ends."""

    __slots__ = ("content", "ends", "first", "kind")

    def __init__(self, first: int, kind: DeltaKind) -> None:
        self.first = first
        self.kind: DeltaKind = kind
        self.content = bytearray()
        self.ends = array("Q")

    @property
    def count(self) -> int:
        return len(self.ends)

    def append(self, content: bytes) -> None:
        self.content += content
        self.ends.append(len(self.content))

    def content_from(self, start: int) -> bytes:
        """Return the JSON string content from position ``start`` on."""
        return bytes(self.content[self.ends[start - 1] if start else 0 :])

    def render(self, start: int, stop: int) -> bytes:
        """Return the events from position ``start`` to before ``stop`` as one event."""
        begin = self.ends[start - 1] if start else 0
        return b"".join((_DELTA_HEAD[self.kind], self.content[begin : self.ends[stop - 1]], _DELTA_TAIL))


class RunLog:
    """Events of a turn, numbered from 1. Exactly one terminal event ends it, by ``close``."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self._segments: list[_Single | _Deltas] = []
        self._firsts = array("Q")
        self._count = 0
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def last_number(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._count

    @property
    def is_closed(self) -> bool:
        """Whether the terminal event has been published."""
        return self._closed

    def publish(self, name: str, data: bytes) -> None:
        """Append one event; ``data`` is a single line."""
        self._append_segment(_Single(self._count + 1, b"event: %b\ndata: %b\n\n" % (name.encode(), data)))
        self._count += 1
        self._wake()

    def publish_delta(self, kind: DeltaKind, json_content: bytes) -> None:
        """Append one delta; ``json_content`` is the inside of a JSON string, without its quotes."""
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, _Deltas) or last.kind != kind:
            last = _Deltas(self._count + 1, kind)
            self._append_segment(last)
        last.append(json_content)
        self._count += 1
        self._wake()

    def close(self, name: str, data: bytes) -> None:
        """Append the terminal event; later calls of any kind are a bug and refused.

        Raises:
            RuntimeError: the log has its terminal event already.
        """
        self.publish(name, data)
        self._closed = True

    def _append_segment(self, segment: _Single | _Deltas) -> None:
        if self._closed:
            raise RuntimeError("an event after the terminal one")
        self._segments.append(segment)
        self._firsts.append(segment.first)

    def _wake(self) -> None:
        if self._closed:
            raise RuntimeError("an event after the terminal one")
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def read_after(self, number: int, *, with_ids: bool) -> bytes:
        """Return the events after ``number``; neighbouring deltas come as one event that carries the id of the last."""
        if number >= self._count:
            return b""
        wanted = max(number, 0) + 1
        last = self._segments[-1]
        if not with_ids and wanted >= last.first:  # a reader that keeps up, which is nearly always the case
            return last.render(wanted - last.first, last.count)
        blocks: list[bytes] = []
        for index in range(bisect_right(self._firsts, wanted) - 1, len(self._segments)):
            segment = self._segments[index]
            start = max(wanted - segment.first, 0)
            stop = segment.count
            if with_ids:
                blocks.append(b"id: %b-%d\n" % (self.turn_id.encode(), segment.first + stop - 1))
            blocks.append(segment.render(start, stop))
        return b"".join(blocks)

    def text_since(self, number: int, kind: DeltaKind) -> str:
        """Return the text of all deltas of a kind after ``number``."""
        pieces: list[bytes] = []
        for index in range(max(bisect_right(self._firsts, number + 1) - 1, 0), len(self._segments)):
            segment = self._segments[index]
            if isinstance(segment, _Deltas) and segment.kind == kind and segment.first + segment.count > number + 1:
                pieces.append(segment.content_from(max(number + 1 - segment.first, 0)))
        return msgspec.json.decode(b'"%b"' % b"".join(pieces), type=str)

    async def wait_beyond(self, number: int) -> None:
        """Return once there is an event after ``number`` (at once if there is)."""
        while self._count <= number:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class Subscription:
    """One reader's place in a log, meant for one task."""

    def __init__(self, log: RunLog, *, after: int = 0, with_ids: bool = False) -> None:
        self._log = log
        self._number = after
        self._with_ids = with_ids

    async def next_bytes(self) -> bytes | None:
        """Return everything new as bytes, waiting for it if need be; ``None`` after the terminal event."""
        log = self._log
        if self._number >= log.last_number:
            if log.is_closed:
                return None
            await log.wait_beyond(self._number)
        block = log.read_after(self._number, with_ids=self._with_ids)
        self._number = log.last_number
        return block

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield bytes up to and including the terminal event."""
        while (chunk := await self.next_bytes()) is not None:
            yield chunk


def number_of_event(log: RunLog, event_id: str | None) -> int:
    """Return the number in a ``Last-Event-ID``; 0 (from the start) if it is missing, or no event of this turn has it."""
    owner, _, number = (event_id or "").rpartition("-")
    if owner != log.turn_id or not _EVENT_NUMBER.fullmatch(number):
        return 0
    return int(number) if int(number) <= log.last_number else 0
