"""JSON and text as strangers write them: lone surrogates, bare NaN, stray control characters."""

from __future__ import annotations

import json
import re
from typing import NoReturn

import msgspec

_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SHORTEST_SECRET = 8
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|.)", re.DOTALL)


def without_surrogates(text: str) -> str:
    """Return the text with pairs of surrogates joined and lone halves, which have no UTF-8 form, left out."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _PAIR.sub(_joined, _LONE.sub("", text))
    return text


def _joined(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16", "surrogatepass").decode("utf-16")


def without_secrets(text: str, *secrets: str) -> str:
    """Return the text with ``***`` for each secret; what is shorter than eight characters is none (``k``, ``none``)."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def parse_lenient(text: str) -> object:
    """Parse JSON that may hold bare ``NaN`` and lone surrogate escapes.

    Raises:
        ValueError: it is no JSON all the same.
    """
    try:
        return json.loads(text)  # pyright: ignore[reportAny]  # narrowed by whoever reads it
    except RecursionError as problem:
        raise ValueError("nested too deeply") from problem


def parse_strict(text: str) -> object:
    """Parse JSON; ``NaN`` and its kin are refused, lone surrogate escapes are not.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(text, parse_constant=_refuse)  # pyright: ignore[reportAny]  # narrowed by whoever reads it
    except RecursionError as problem:
        raise ValueError("nested too deeply") from problem


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def clean_escapes(text: str, *, keep_nul: bool = False) -> str:
    """Return valid JSON text without escapes of lone surrogates and, unless kept, of U+0000; all else stays verbatim."""
    if "\\u" not in text:
        return text

    def clean(match: re.Match[str]) -> str:
        first, second = match.group(1), match.group(2)
        if first is None:
            return match.group()
        code = int(first, 16)
        if 0xD800 <= code <= 0xDBFF:
            return match.group() if second else ""
        rest = "" if second is None else clean_escapes(match.group()[6:])
        if 0xDC00 <= code <= 0xDFFF or (code == 0 and not keep_nul):
            return rest
        return match.group()[:6] + rest

    return _ESCAPE.sub(clean, text)


def clean_document(body: bytes) -> bytes:
    """Return a JSON document in a form that strict decoders take: valid UTF-8, no lone surrogate escapes.

    Raises:
        ValueError: it is no JSON at all.
    """
    text = clean_escapes(body.decode("utf-8-sig", "replace"), keep_nul=True)
    try:
        parse_strict(text)
    except ValueError as problem:
        raise ValueError("the text is no JSON") from problem
    return text.encode()


def compact(text: str | bytes) -> bytes:
    """Return valid JSON without white space between tokens, literals untouched."""
    return msgspec.json.format(text.encode() if isinstance(text, str) else text, indent=-1)
