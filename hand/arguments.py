"""Tool-call arguments as models write them to the JSON objects that tools get (section 11.4)."""

from __future__ import annotations

import json
import re
from typing import Final

from hand.textio import clean_escapes, compact, parse_strict, without_surrogates

EMPTY: Final = b"{}"
_DEEPEST_STRING = 2
_ESCAPES = '"\\/bfnrtu'
_CLOSERS = {"{": "}", "[": "]"}
_decoder = json.JSONDecoder()
_WHITE = re.compile(r"[ \t\n\r]*")


def read_arguments(text: str) -> list[bytes]:
    """Return the argument objects in ``text``, compact and with their literals as written; more than one means several calls.

    What cannot be read becomes one ``{}``: half a command must not run, and the tool's complaint reaches the model.
    """
    if not text.strip():
        return [EMPTY]
    found = _read_complete(text)
    if found is None and (closed := _close(text)) is not None:
        found = _read_complete(closed)
    return found if found is not None else [EMPTY]


def is_complete(text: str) -> bool:
    """Whether the arguments need no more text: they parse, if need be after repair of characters."""
    if not text or text.isspace():
        return False
    # A cheap look first: servers that repeat the name in every fragment make this question frequent.
    if text.rstrip()[-1] not in '}]"el0123456789':
        return False
    return _read_complete(text) is not None


def object_text(value: object) -> str:
    """Return the JSON text of arguments that came as an object."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _read_complete(text: str) -> list[bytes] | None:
    """Steps 2 to 4; ``None`` if they fail."""
    for candidate in (text, _repair_characters(text)):
        if candidate is None:
            continue
        result = _read_document(candidate, _DEEPEST_STRING)
        if result is not None:
            return result
        several = _read_several(candidate)
        if several is not None:
            return several
    return None


def _read_document(text: str, depth: int) -> list[bytes] | None:
    try:
        value = parse_strict(text)
    except ValueError:
        return None
    if isinstance(value, dict):
        return [_canonical(text)]
    if isinstance(value, str):
        if depth and value.strip():
            return _read_object_string(value, depth - 1)
        return None
    return [EMPTY]


def _read_object_string(text: str, depth: int) -> list[bytes] | None:
    """Read a string that should hold an object, or once more a string that does."""
    for candidate in (text, _repair_characters(text)):
        if candidate is not None and candidate.lstrip()[:1] in {"{", '"'}:
            found = _read_document(candidate, depth)
            if found is not None:
                return found
    return None


def _read_several(text: str) -> list[bytes] | None:
    """Read objects written one behind the other; empty ones and repeats are dropped."""
    found: list[bytes] = []
    position = _skip_white(text, 0)
    while position < len(text):
        if text[position] != "{":
            return None
        try:
            _, end = _decoder.raw_decode(text, position)
            parse_strict(text[position:end])
        except (ValueError, RecursionError):
            return None
        item = _canonical(text[position:end])
        if item != EMPTY and item not in found:
            found.append(item)
        position = _skip_white(text, end)
    return found or [EMPTY]


def _skip_white(text: str, position: int) -> int:
    match = _WHITE.match(text, position)
    return match.end() if match else position


def _canonical(text: str) -> bytes:
    return compact(clean_escapes(without_surrogates(text)))


def _repair_characters(text: str) -> str | None:
    """Escape raw control characters inside strings and double backslashes that escape nothing; ``None`` if nothing changed."""
    pieces: list[str] = []
    inside = changed = False
    position = 0
    while position < len(text):
        char = text[position]
        if not inside:
            inside = char == '"'
        elif char == '"':
            inside = False
        elif char == "\\":
            following = text[position + 1 : position + 2]
            if following and following in _ESCAPES and (following != "u" or _is_hex(text[position + 2 : position + 6])):
                pieces.append(char + following)
                position += 2
                continue
            char, changed = "\\\\", True
        elif char < " ":
            char, changed = f"\\u{ord(char):04x}", True
        pieces.append(char)
        position += 1
    return "".join(pieces) if changed else None


def _is_hex(digits: str) -> bool:
    return len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits)


def _close(text: str) -> str | None:
    """Append missing closing brackets; ``None`` if the text ends inside a string or is not that kind of broken."""
    text = _repair_characters(text) or text
    open_brackets: list[str] = []
    inside = escaped = False
    for char in text:
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in _CLOSERS:
            open_brackets.append(_CLOSERS[char])
        elif char in "}]" and (not open_brackets or open_brackets.pop() != char):
            return None
    if inside or not open_brackets:
        return None
    trimmed = text.rstrip()
    trimmed = trimmed.removesuffix(",")
    return trimmed + "".join(reversed(open_brackets))
