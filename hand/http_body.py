"""The body of one HTTP/1.1 answer, from raw socket bytes to payload bytes; no waiting, no tasks."""

from __future__ import annotations

from typing import Protocol


class BodyError(Exception):
    """The framing of the answer is broken, or it ended before its announced end."""

    payload: bytes = b""
    """What the same read brought before the fault."""


class BodyReader(Protocol):
    """Takes raw bytes in any pieces and gives back the payload in them."""

    done: bool
    """The body is complete; what was fed beyond it is lost, as no request is ever pipelined."""

    def feed(self, data: bytes) -> bytes:
        """Return the payload in ``data``; ``BodyError`` if the framing is broken."""
        ...

    def end(self) -> None:
        """The connection has ended; ``BodyError`` if the body had not."""
        ...


class LengthBody:
    """A body of announced length."""

    def __init__(self, length: int) -> None:
        self._missing = length
        self.done: bool = length == 0

    def feed(self, data: bytes) -> bytes:
        """Return the payload, cut at the announced length."""
        if len(data) > self._missing:
            data = data[: self._missing]
        self._missing -= len(data)
        self.done = self._missing == 0
        return data

    def end(self) -> None:
        """Complain about missing bytes."""
        if not self.done:
            raise BodyError(f"the connection ended {self._missing} bytes before the announced end of the body")


class ClosingBody:
    """A body that ends with its connection."""

    def __init__(self) -> None:
        self.done: bool = False

    def feed(self, data: bytes) -> bytes:
        """Return everything."""
        return data

    def end(self) -> None:
        """Any end is the end."""
        self.done = True


_LONGEST_SIZE_LINE = 4096
_LONGEST_TRAILER = 65_536


class ChunkedBody:
    """A body in chunks; extensions and trailers are skipped."""

    def __init__(self) -> None:
        self.done: bool = False
        self._rest = b""
        # Bytes still missing of the current chunk, its closing CRLF included.
        self._missing = 0
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes:
        """Return the payload of all chunks in ``data``."""
        pieces: list[bytes] = []
        try:
            self._take(data, pieces)
        except BodyError as problem:
            problem.payload = b"".join(pieces)
            raise
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def end(self) -> None:
        """Complain if the last chunk has not come."""
        if not self.done:
            raise BodyError("the connection ended before the last chunk of the body")

    def _take(self, data: bytes, pieces: list[bytes]) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if self._in_trailer:
            self._read_trailer(data, 0)
            return
        position = 0
        missing = self._missing
        length = len(data)
        while position < length:
            if missing > 2:
                piece = data[position : position + missing - 2]
                pieces.append(piece)
                position += len(piece)
                missing -= len(piece)
                continue
            if missing:
                skip = min(missing, length - position)
                if data[position : position + skip] != b"\r\n"[2 - missing : 2 - missing + skip]:
                    raise BodyError("a chunk of the body is longer than it says")
                position += skip
                missing -= skip
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                self._rest = data[position:]
                if len(self._rest) > _LONGEST_SIZE_LINE:
                    raise BodyError("the size line of a chunk does not end")
                break
            # The usual case in one step: a whole chunk is here, and its size line holds nothing but digits.
            digits = data[position:end]
            if digits.isalnum() and len(digits) < 9 and not digits.startswith(b"0"):
                stop = end + 2 + _hex_value(digits)
                if data[stop : stop + 2] == b"\r\n":
                    pieces.append(data[end + 2 : stop])
                    position = stop + 2
                    continue
            size = _chunk_size(data[position:end])
            position = end + 2
            if size == 0:
                self._read_trailer(data, position)
                break
            missing = size + 2
        self._missing = missing

    def _read_trailer(self, data: bytes, position: int) -> None:
        self._in_trailer = True
        while (end := data.find(b"\r\n", position)) >= 0:
            if end == position:
                self.done = True
                return
            position = end + 2
        self._rest = data[position:]
        if len(self._rest) > _LONGEST_TRAILER:
            raise BodyError("the trailer of the body does not end")


def _hex_value(digits: bytes) -> int:
    try:
        return int(digits, 16)
    except ValueError:
        raise BodyError("the size line of a chunk is no number") from None


_HEX = frozenset(b"0123456789abcdefABCDEF")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not digits or len(digits) > 16 or not _HEX.issuperset(digits):
        raise BodyError("the size line of a chunk is no number")
    return int(digits, 16)
