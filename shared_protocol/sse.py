"""Server-sent events as bytes: writing them, and reading them back in pieces of any size.

The reader here is for our own streams (LF or CRLF line ends, ``event`` and ``data`` fields). What model servers send is read by
``hand.frames``, which tolerates far more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

CONNECTED_COMMENT = b": connected\n\n"
PING_COMMENT = b": ping\n\n"
HEARTBEAT_SECONDS = 15.0
"""Silence after which a comment is sent, so that a dead peer is noticed and proxies keep the connection."""


class ServerSentEvent(NamedTuple):
    """One event: its name (``message`` if none was given), its data, and its id or an empty string."""

    name: str
    data: bytes
    id: str = ""


def encode_event(name: str, data: bytes, event_id: str | None = None) -> bytes:
    """Return one event; ``data`` must be a single line."""
    head = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


class EventReader:
    """Split a byte stream into events; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        # The unfinished last line in pieces: a tool result with images is megabytes long and comes in many reads.
        self._rest: list[bytes] = []
        self._name = ""
        self._id = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that ``chunk`` completes."""
        lines = chunk.split(b"\n")
        self._rest.append(lines.pop())
        if not lines:
            return
        last = self._rest.pop()
        lines[0] = b"".join((*self._rest, lines[0]))
        self._rest = [last]
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if line:
                self._field(line)
            elif self._data:
                yield ServerSentEvent(self._name or "message", b"\n".join(self._data), self._id)
                self._name, self._id, self._data = "", "", []
            else:
                self._name, self._id = "", ""

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
