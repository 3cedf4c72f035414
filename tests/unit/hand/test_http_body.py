"""The framing of HTTP answers, cut into reads in any way."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hand.http_body import BodyError, BodyReader, ChunkedBody, ClosingBody, LengthBody
from hand.sockets import parse_head


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]  # noqa: RUF007  # pairs of edges


def read(body: BodyReader, pieces: list[bytes]) -> bytes:
    return b"".join(body.feed(piece) for piece in pieces if not body.done)


@given(
    st.lists(st.binary(min_size=1, max_size=40)),
    st.sampled_from([b"", b";name=value", b' ; q="x"']),
    st.lists(st.integers(0, 10_000)),
)
def test_chunks_cut_anywhere(payloads: list[bytes], extension: bytes, cuts: list[int]) -> None:
    raw = b"".join(b"%X%b\r\n%b\r\n" % (len(payload), extension, payload) for payload in payloads)
    body = ChunkedBody()
    assert read(body, pieces_of(raw + b"0\r\nTrailer: x\r\n\r\n", cuts)) == b"".join(payloads)
    assert body.done
    body.end()


@pytest.mark.parametrize(
    "raw",
    [b"x\r\n", b"\r\n", b"-1\r\na\r\n", b"1_0\r\n", b"+3\r\nabc\r\n", b"3\r\nabcd\r\n", b"ffffffffffffffffff\r\n", b"1" * 5000],
)
def test_broken_chunks_are_an_error(raw: bytes) -> None:
    with pytest.raises(BodyError):
        ChunkedBody().feed(raw)


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000)))
@example(b"3\r\nabc\r\n2\r\nde\r\nzz\r\n", [7])
def test_any_bytes_as_chunks_end_in_payload_or_a_body_error(raw: bytes, cuts: list[int]) -> None:
    def outcome(pieces: list[bytes]) -> object:
        body = ChunkedBody()
        payload = b""
        try:
            for piece in pieces:
                if not body.done:
                    payload += body.feed(piece)
        except BodyError as problem:
            return payload + problem.payload, "broken"
        return payload, body.done

    # What came before a fault is not lost with it.
    assert outcome([raw]) == outcome(pieces_of(raw, cuts))


def test_an_early_end_is_an_error_where_the_end_was_announced() -> None:
    for body in (ChunkedBody(), LengthBody(3)):
        with pytest.raises(BodyError):
            body.end()
    closing = ClosingBody()
    assert closing.feed(b"abc") == b"abc"
    closing.end()
    assert closing.done


def test_length_cuts_what_is_too_much() -> None:
    body = LengthBody(3)
    assert (body.feed(b"ab"), body.done, body.feed(b"cde"), body.done) == (b"ab", False, b"c", True)


@pytest.mark.parametrize(
    ("head", "kind", "keeps_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3", LengthBody, True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3", ChunkedBody, True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3", LengthBody, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3", LengthBody, False),
        (b"HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 3", LengthBody, True),
        (b"HTTP/1.1 200", ClosingBody, False),
        (b"HTTP/1.1 204 No Content", LengthBody, True),
    ],
)
def test_framing_of_a_head(head: bytes, kind: type, keeps_alive: bool) -> None:
    parsed, body = parse_head(head)
    assert (type(body), parsed.keeps_alive) == (kind, keeps_alive)


@pytest.mark.parametrize("head", [b"", b"SSH-2.0-OpenSSH", b"HTTP/2 200", b"HTTP/1.1 abc", b"HTTP/1.1"])
def test_what_is_no_http_1(head: bytes) -> None:
    with pytest.raises(BodyError):
        parse_head(head)
