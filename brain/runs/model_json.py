"""Finds JSON in what small models answer: behind thinking tags, inside fences, between sentences, cut off at the end."""

from __future__ import annotations

import json
import re
from typing import Final, cast

import msgspec

MAX_ANSWER_CHARS: Final = 2_000_000
"""Longer answers are a model gone astray; the rest is not looked at."""

MAX_STARTS: Final = 2000
"""How many opening brackets are tried before the text counts as prose."""

_THINKING = re.compile(r"<(think|thinking|thought|reasoning|reflection)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile(r"^.*?</(?:think|thinking|thought|reasoning|reflection)\s*>", re.DOTALL | re.IGNORECASE)
_THINKING_START = re.compile(r"<(?:think|thinking|thought|reasoning|reflection)\b[^>]*>.*\Z", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_ALONE_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)

_JSON_START = re.compile(r"\s*(?:\{|\[\s*[{\[\"\]])")

_decoder = json.JSONDecoder(strict=False)


def strip_thinking(text: str) -> str:
    """Return the answer without the thoughts that some servers leave in it, also half-open ones."""
    text = _THINKING.sub("", text[:MAX_ANSWER_CHARS])
    text = _THINKING_END.sub("", text)
    return _THINKING_START.sub("", text).strip()


def strip_fences(text: str) -> str:
    """Return the text with the lines of Markdown fences taken out; what they enclose stays."""
    return _ALONE_FENCE.sub("", text).strip()


def looks_like_json(text: str) -> bool:
    """Whether an answer, its thoughts and fences aside, sets out to be JSON, however it goes on."""
    return _JSON_START.match(strip_fences(strip_thinking(text))) is not None


def find_json(text: str) -> list[object]:
    """Return the JSON objects and arrays in an answer, those inside fences first, then by place; nested ones only once."""
    answer = strip_thinking(text)
    found: list[object] = []
    for fence in _FENCE.finditer(answer):
        found.extend(_scan(fence.group(2)))
    return found or _scan(answer)


def salvage_objects(text: str) -> list[dict[str, object]]:
    """Return the innermost complete objects of an answer whose end is missing, in order."""
    answer = strip_thinking(text)
    objects: list[dict[str, object]] = []
    position = 0
    for _ in range(MAX_STARTS):
        position = answer.find("{", position)
        if position < 0:
            break
        parsed = _decode_at(answer, position)
        if parsed is None or not isinstance(parsed[0], dict):
            position += 1
            continue
        objects.append(cast("dict[str, object]", parsed[0]))
        position = parsed[1]
    return objects


def _scan(text: str) -> list[object]:
    found: list[object] = []
    position = 0
    for _ in range(MAX_STARTS):
        start = _next_start(text, position)
        if start < 0:
            break
        parsed = _decode_at(text, start)
        if parsed is None:
            position = start + 1
            continue
        found.append(parsed[0])
        position = parsed[1]
    return found


def _next_start(text: str, position: int) -> int:
    starts = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
    return min(starts, default=-1)


def _decode_at(text: str, position: int) -> tuple[object, int] | None:
    try:
        value, end = _decoder.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None
    # The standard decoder takes NaN and lone surrogates; neither may travel further.
    try:
        msgspec.json.encode(value)
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        return None
    return value, end
