"""Reads the hand's event stream: bytes of any cut in, decoded events out, in the path of every token.

The general reader is ``shared_protocol.sse.EventReader``; here the one form that our hand writes is taken apart without going
line by line, and everything else falls back to that reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from shared_protocol.codec import decode_run_event
from shared_protocol.run import EVENT_TYPES, RunEvent
from shared_protocol.sse import EventReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared_protocol.sse import ServerSentEvent

_HEAD: Final = b"event: "
_BETWEEN: Final = b"\ndata: "
_END: Final = b"\n\n"
_decoders: Final = {name.encode(): msgspec.json.Decoder(struct) for name, struct in EVENT_TYPES.items()}


class RunEventReader:
    """Splits and decodes one stream. Unknown events and comments are skipped."""

    def __init__(self) -> None:
        # The unfinished last event in pieces: one with images is megabytes long and comes in many reads.
        self._rest: list[bytes] = []
        self._general: EventReader | None = None

    def feed(self, chunk: bytes) -> list[RunEvent]:
        """Return the events that ``chunk`` completes.

        Raises:
            msgspec.DecodeError: the data of an event does not fit it.
        """
        if self._general is not None:
            return _decode_all(self._general.feed(chunk))
        if b"\r" in chunk:  # a proxy between us and the hand has changed the line ends
            self._general = EventReader()
            return _decode_all(self._general.feed(b"".join((*self._rest, chunk))))
        if self._rest:
            if _END not in chunk and not (chunk.startswith(b"\n") and self._rest[-1].endswith(b"\n")):
                self._rest += [chunk] if chunk else []
                return []
            chunk = b"".join((*self._rest, chunk))
        *blocks, last = chunk.split(_END)
        self._rest = [last] if last else []
        events: list[RunEvent] = []
        for block in blocks:
            if block.startswith(_HEAD):
                name, _, data = block[len(_HEAD) :].partition(_BETWEEN)
                decoder = _decoders.get(name)
                if decoder is not None and b"\n" not in data:
                    events.append(decoder.decode(data))
                    continue
            events += _decode_all(EventReader().feed(block + _END))
        return events


def _decode_all(events: Iterable[ServerSentEvent]) -> list[RunEvent]:
    return [decoded for event in events if (decoded := decode_run_event(event)) is not None]
