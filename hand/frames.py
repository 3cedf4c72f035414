"""Bytes of a gateway's stream to data events and JSON documents, tolerant of everything in section 10.1.

Pushes into a consumer instead of yielding, as one read may hold hundreds of events. Lines are split as bytes: no byte of a
line end occurs inside a UTF-8 sequence, so decoding line by line equals decoding the whole.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from hand.errors import TransientError
from hand.textio import parse_lenient

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_KNOWN_FIELDS = (b"event", b"data", b"error", b"id", b"retry")
_DONE = b"[DONE]"
_GAP = b"\n\n"
_LAST_WORDS = b"data: [DONE]\n\n"
_LAST_EVENTS = 3
NO_DOCUMENT = object()
"""Stands for text that is no JSON."""


class FrameConsumer(Protocol):
    """Takes what the decoder finds, in order."""

    def take_usual(self, chunks: bytes, count: int) -> bool:
        """Take ``count`` plain chunks, a JSON array, if all have the usual form; ``False`` hands them to the general way."""
        ...

    def take_document(self, document: object, event: str) -> None:
        """Take a decoded JSON document of an event with that name (empty if it has none)."""
        ...

    def take_error_field(self, document: object) -> None:
        """Take the value of a field called ``error``: a document, or the text if it is no JSON."""
        ...


class FrameDecoder:
    """Splits a stream that arrives in pieces of any size; ``done`` once the end marker has been seen."""

    def __init__(self, consumer: FrameConsumer) -> None:
        self._consumer = consumer
        # The unfinished last line, in pieces, so that a long line is joined once.
        self._partial: list[bytes] = []
        self._start = b""
        self._started = False
        self._after_cr = False
        self._event = ""
        self._data: list[bytes] = []
        self._raw: list[bytes] = []
        self.done: bool = False
        self.documents: int = 0
        """Data events that were JSON so far: the measure of progress."""

    def feed(self, data: bytes) -> None:
        """Take bytes as they come.

        Raises:
            TransientError: a chunk is corrupt; whatever the consumer raises passes through.
        """
        if self.done:
            return
        if not self._started:
            data = self._drop_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        has_cr = b"\r" in data
        if not has_cr:
            data = self._take_usual(data)
        if has_cr:
            self._after_cr = data.endswith(b"\r")
            lines = _LINE_END.split(data)
        elif b"\n" in data:
            lines = data.split(b"\n")
        else:
            if data:
                self._partial.append(data)
            return
        if self._partial:
            self._partial.append(lines[0])
            lines[0] = b"".join(self._partial)
            self._partial = []
        if last := lines.pop():
            self._partial.append(last)
        self._take_lines(lines)

    def finish(self) -> None:
        """The body has ended: dispatch what a blank line would have dispatched.

        Raises:
            TransientError: a chunk is corrupt.
        """
        if self.done:
            return
        if self._start:
            self._partial.insert(0, self._start)
        if self._partial:
            line, self._partial = b"".join(self._partial), []
            self._take_lines([line])
        if not self.done:
            self._close_raw()
            self._dispatch()

    def _take_usual(self, data: bytes) -> bytes:
        """Take the whole plain chunks at the front of a read in one step and return what is left of it.

        Under load a read holds hundreds of them and hardly anything else. A document is cut out wherever ``data: `` follows a
        blank line; if that was inside of something else, the array does not parse or has another length, and nothing is taken.
        """
        end = data.rfind(_GAP)
        if end >= 0 and data.endswith(_LAST_WORDS):
            # The last events of an answer are the unusual ones: finish reason, usage, end marker.
            for _ in range(_LAST_EVENTS):
                end = data.rfind(_GAP, 0, end)
        if end < 0 or self._data or self._event or self._raw:
            return data
        front = b"".join((*self._partial, data[:end]))
        if not front.startswith(b"data: {"):
            return data
        count = front.count(_GAP) + 1
        if not self._consumer.take_usual(b"[%b]" % front[6:].replace(b"\n\ndata: ", b","), count):
            return data
        self.documents += count
        self._partial = []
        return data[end + 2 :]

    def _drop_bom(self, data: bytes) -> bytes:
        data = self._start + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        self._started, self._start = True, b""
        return data.removeprefix(_BOM)

    def _take_lines(self, lines: list[bytes]) -> None:
        pending = self._data
        for line in lines:
            if not line:
                if self._raw:
                    self._raw.append(line)
                elif len(pending) == 1 and not self._event:
                    text = pending.pop()
                    if self._consumer.take_usual(b"[%b]" % text, 1):
                        self.documents += 1
                    else:
                        self._take_data(text, "")
                else:
                    self._dispatch()
            elif line.startswith(b"data:"):
                if self._raw:
                    self._close_raw()
                pending.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif self._raw:
                self._raw.append(line)
            else:
                self._take_field(line)
            if self.done:
                return

    def _take_field(self, line: bytes) -> None:
        if line.startswith((b"{", b"[")):
            self._take_unframed(line)
            return
        name, _, value = line.partition(b":")
        if name not in _KNOWN_FIELDS:
            return
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode("utf-8", "replace").strip()
        elif name == b"data":
            self._data.append(value)
        elif name == b"error":
            document = parse(value)
            self._consumer.take_error_field(value.decode("utf-8", "replace") if document is NO_DOCUMENT else document)

    def _take_unframed(self, line: bytes) -> None:
        document = parse(line)
        if document is NO_DOCUMENT:
            self._raw.append(line)
            return
        if self._data:
            self._dispatch()
        if not self.done:
            self._consume(document, "")

    def _close_raw(self) -> None:
        if self._raw:
            document = parse(b"\n".join(self._raw))
            self._raw = []
            if document is not NO_DOCUMENT:
                self._consume(document, "")

    def _dispatch(self) -> None:
        event, self._event = self._event, ""
        if not self._data:
            return
        lines = self._data[:]
        self._data.clear()
        if len(lines) == 1:
            self._take_data(lines[0], event)
            return
        text = b"\n".join(lines)
        if text.lstrip().startswith(_DONE):
            self.done = True
            return
        document = parse(text)
        if document is not NO_DOCUMENT:
            self._consume(document, event)
        elif all(not line.strip() or line.lstrip().startswith(_DONE) or parse(line) is not NO_DOCUMENT for line in lines):
            for line in lines:
                if not self.done:
                    self._take_data(line, event)
        else:
            _refuse_corrupt(text)

    def _take_data(self, text: bytes, event: str) -> None:
        stripped = text.strip()
        if not stripped:
            return
        if stripped.startswith(_DONE):
            self.done = True
            return
        document = parse(stripped)
        if document is NO_DOCUMENT:
            _refuse_corrupt(stripped)
        else:
            self._consume(document, event)

    def _consume(self, document: object, event: str) -> None:
        self.documents += 1
        if isinstance(document, list):
            for element in document:  # pyright: ignore[reportUnknownVariableType]  # any JSON, told apart by the consumer
                self._consumer.take_document(element, event)  # pyright: ignore[reportUnknownArgumentType]  # likewise
        else:
            self._consumer.take_document(document, event)


def parse(text: bytes) -> object:
    """Return the JSON document in ``text``, or ``NO_DOCUMENT``; bare ``NaN`` and broken UTF-8 are tolerated."""
    try:
        return msgspec.json.decode(text)  # pyright: ignore[reportAny]  # narrowed by the consumer
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return parse_lenient(text.decode("utf-8", "replace"))
        except ValueError:
            return NO_DOCUMENT


def _refuse_corrupt(text: bytes) -> None:
    """Complain about something that was meant as a chunk; anything else is somebody's heartbeat."""
    if text.lstrip().startswith((b"{", b"[")):
        raise TransientError("corrupt", "the gateway's stream holds a chunk that is no JSON")
