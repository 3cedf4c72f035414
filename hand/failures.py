"""Failures that a gateway reports inside a 200 stream (section 10.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hand.jsonvalues import as_count, as_list, as_object, as_text

_CODE_FIELDS = ("code", "status", "status_code", "http_code", "http_status")
_THREE_DIGITS = re.compile("[0-9]{3}")


class InBandFailure(Exception):  # noqa: N818  # the word of the protocol; whether it is an error of the run is decided later
    """A failure inside the stream: ``code`` 400-599 if one was given, ``text`` the whole JSON, ``message`` for people."""

    def __init__(self, code: int | None, text: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.text = text
        self.message = message


def find_failure(chunk: Mapping[str, object], event: str) -> InBandFailure | None:
    """Return the failure that a chunk reports, if it does."""
    if is_given(chunk.get("error")) or chunk.get("object") == "error":
        return _describe(chunk)
    if not as_list(chunk.get("choices")) and (event == "error" or _is_bare_error(chunk)):
        return _describe(chunk)
    groq = as_object(chunk.get("x_groq"))
    if groq is not None and is_given(groq.get("error")):
        return _describe(groq, chunk)
    for choice in map(as_object, as_list(chunk.get("choices"))):
        if choice is not None and is_given(choice.get("error")):
            return _describe(choice, chunk)
    return None


def failure_of_error_field(document: object) -> InBandFailure | None:
    """Return the failure in the value of an SSE field called ``error``."""
    found = as_object(document)
    if found:
        return _describe(found)
    text = document.strip() if isinstance(document, str) else json.dumps(document) if document else ""
    return InBandFailure(None, text, text) if text else None


def is_given(error: object) -> bool:
    """Whether an ``error`` value means one: ``null``, ``""``, ``{}`` and ``false`` do not."""
    return bool(as_text(error)) or bool(as_object(error))


def _is_bare_error(chunk: Mapping[str, object]) -> bool:
    return isinstance(chunk.get("message"), str) and ("code" in chunk or "status_code" in chunk)


def _describe(holder: Mapping[str, object], chunk: Mapping[str, object] | None = None) -> InBandFailure:
    text = json.dumps(chunk or holder, ensure_ascii=False)
    return InBandFailure(_code(holder), text, _message(holder) or text)


def _code(holder: Mapping[str, object]) -> int | None:
    for field in _CODE_FIELDS:
        value = holder.get(field)
        number = as_count(value) if isinstance(value, int | float) or _THREE_DIGITS.fullmatch(as_text(value).strip()) else 0
        if 400 <= number <= 599:
            return number
    nested = as_object(holder.get("error"))
    return _code(nested) if nested is not None else None


def _message(holder: Mapping[str, object]) -> str:
    """Return the innermost message, with the provider's raw words behind it."""
    error = holder.get("error")
    nested = as_object(error)
    inner = _message(nested) if nested is not None else as_text(error)
    outer = as_text(holder.get("message"))
    # A string beside a message is its title: "Internal Server Error".
    message = f"{inner}: {outer}" if nested is None and inner and outer and outer not in inner else inner or outer
    raw = as_text((as_object(holder.get("metadata")) or {}).get("raw"))
    if raw and raw not in message:
        message = f"{message}\n{raw}" if message else raw
    return message
