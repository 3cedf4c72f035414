"""What an extraction answers: numbered items, read leniently out of JSON or lines, before any of it is believed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec import Raw

from brain.memory.sentinel import is_nothing_to_remember, is_refusal_to_list
from brain.prompts import read_prompt
from brain.runs.ladder import AnswerForm
from brain.runs.model_json import strip_fences

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ITEMS: Final = 300
"""Items of one answer that are looked at: a model that lists thousands is repeating itself."""

MAX_FACT_CHARS: Final = 4000

_PACKAGE: Final = "brain.memory"
_SCHEMA: Final = Raw(
    b'{"type":"object","additionalProperties":false,"required":["facts"],"properties":{"facts":{"type":"array","items":'
    b'{"type":"object","additionalProperties":false,"required":["message","fact","quote"],"properties":{'
    b'"message":{"type":"integer"},"fact":{"type":"string"},"quote":{"type":"string"}}}}}}'
)
_FACT_KEYS: Final = ("fact", "text", "content", "statement", "memory")
_MESSAGE_KEYS: Final = ("message", "messageNumber", "message_number", "number", "source", "messages", "part")
_QUOTE_KEYS: Final = ("quote", "evidence", "excerpt")

_DIGITS: Final = re.compile(r"\d{1,9}", re.ASCII)
_BULLET: Final = re.compile(r"^(?:[-*•‣–—]\s+|\d{1,4}[.)、．]\s*)+")
_NUMBER_WORD: Final = r"(?:message|msg\.?|m|消息|訊息|讯息|メッセージ|part|#)"
_LEADING: Final = re.compile(
    rf"^(?:[\[【(（]\s*{_NUMBER_WORD}?\s*#?(\d{{1,9}})(?:\s*[,，、;-]\s*\d{{1,9}})*\s*[\]】)）]|{_NUMBER_WORD}\s*#?(\d{{1,9}}))\s*[:：.\-–—]*\s*",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(rf"\s*[\[【(（]\s*{_NUMBER_WORD}?\s*#?(\d{{1,9}})\s*[\]】)）]\s*[.。]?$", re.IGNORECASE)
_QUOTE: Final = re.compile(
    r"""\s*(?:\||//|—\s*quote:|\(quote:|quote:)\s*(?:quote:\s*)?(["“”«»„'‘’「『].*|[^|]*)$""", re.IGNORECASE | re.DOTALL
)
_QUOTE_LINE: Final = re.compile(r"""^(?:[-*>]\s*)?(?:quote|引用|原文)\s*[:：]\s*(.+)$""", re.IGNORECASE)
_CHATTER: Final = re.compile(r"^(?:#+\s|-{3,}$|\*{3,}$|={3,}$|</?[a-z]+>$)|[:：]$", re.IGNORECASE)
_BROKEN_JSON: Final = re.compile(r"""\{\s*["']facts["']|["'](?:fact|message)["']\s*:""")
_QUESTION: Final = re.compile(r"[?？]\s*$")
_MARKS: Final = "\"“”«»„'‘’「」『』 \t"


class RawFact(msgspec.Struct, frozen=True):
    """One item as the model wrote it; ``message`` is the number it named, if it named one."""

    text: str
    message: int | None = None
    quote: str | None = None


class RawFacts(msgspec.Struct, frozen=True):
    """All items of an answer.

    ``plain``: no item names a message, the form of models that only list. ``malformed`` counts what was no item at all,
    ``excess`` items beyond the most that are looked at, repetitions included.
    """

    items: tuple[RawFact, ...]
    plain: bool = False
    malformed: int = 0
    excess: int = 0


def facts_form() -> AnswerForm[RawFacts]:
    """Return the form in which facts are asked for."""
    return AnswerForm(
        name="facts",
        schema=_SCHEMA,
        list_key="facts",
        describe_json=read_prompt(_PACKAGE, "facts_json").text,
        describe_text=read_prompt(_PACKAGE, "facts_text").text,
        read_json=read_facts_json,
        read_text=read_facts_text,
    )


def read_facts_json(value: object) -> RawFacts:
    """Read decoded JSON: ``{"facts": [...]}`` or the bare list.

    Raises:
        ValueError: neither, or a list of which nothing is an item.
    """
    raw = cast("dict[str, object]", value).get("facts") if isinstance(value, dict) else value
    if not isinstance(raw, list):
        raise ValueError('the JSON has no list "facts"')  # noqa: TRY004 - what a reader refuses is always a ValueError
    entries = cast("list[object]", raw)
    items = [fact for entry in entries if (fact := _read_item(entry)) is not None]
    if entries and not items:
        if len(entries) == 1 and isinstance(entries[0], str) and is_nothing_to_remember(entries[0]):
            return RawFacts(())
        raise ValueError("no entry of the list is a fact with its text")
    return _bounded([fact for fact in items if not is_nothing_to_remember(fact.text)], malformed=len(entries) - len(items))


def read_facts_text(text: str) -> RawFacts:
    """Read lines such as ``[3] The user moved. | "I moved"``; the sentinel gives no items.

    Raises:
        ValueError: the text is blank, or long and without anything that looks like an item.
    """
    body = strip_fences(text)
    if is_nothing_to_remember(body) or is_refusal_to_list(body):
        return RawFacts(())
    if _BROKEN_JSON.search(body):
        raise ValueError("the answer holds JSON that is not complete")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    items: list[RawFact] = []
    for line in lines:
        quote = _QUOTE_LINE.match(line)
        if quote and items:
            items[-1] = msgspec.structs.replace(items[-1], quote=items[-1].quote or _clean_quote(quote.group(1)))
        elif not _CHATTER.search(line) and not is_nothing_to_remember(line):
            items.append(_read_line(line))
    if not items:
        raise ValueError("the answer has no line that could be a fact")
    numbered = [item for item in items if item.message is not None]
    if not numbered:
        # A question is part of an answer to the conversation, not of a list of facts.
        told = [item for item in items if not _QUESTION.search(item.text)]
        return _bounded(told, plain=True, malformed=len(items) - len(told))
    return _bounded(items)


def _read_line(line: str) -> RawFact:
    text = _BULLET.sub("", line).replace("**", "").strip()
    leading = _LEADING.match(text)
    number = None
    if leading:
        number = int(leading.group(1) or leading.group(2))
        text = text[leading.end() :]
    quote_match = _QUOTE.search(text)
    quote = _clean_quote(quote_match.group(1)) if quote_match else None
    if quote_match:
        text = text[: quote_match.start()]
    if number is None and (trailing := _TRAILING.search(text)):
        number = int(trailing.group(1))
        text = text[: trailing.start()]
    return RawFact(text.strip()[:MAX_FACT_CHARS], number, quote)


def _read_item(entry: object) -> RawFact | None:
    if isinstance(entry, str):
        return _read_line(entry) if entry.strip() else None
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, object]", entry)
    text = next((value.strip() for key in _FACT_KEYS if isinstance(value := fields.get(key), str) and value.strip()), None)
    if text is None:
        return None
    quote = next((value for key in _QUOTE_KEYS if isinstance(value := fields.get(key), str) and value.strip()), None)
    number = next((found for key in _MESSAGE_KEYS if (found := _read_number(fields.get(key))) is not None), None)
    return RawFact(text[:MAX_FACT_CHARS], number, None if quote is None else _clean_quote(quote))


def _read_number(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if found := _DIGITS.search(value):
            return int(found.group())
        case list() if value:
            return _read_number(cast("list[object]", value)[0])
        case _:
            return None


def _clean_quote(quote: str) -> str | None:
    return quote.strip().rstrip(")").strip(_MARKS) or None


def _bounded(items: Iterable[RawFact], *, plain: bool = False, malformed: int = 0) -> RawFacts:
    """Keep each item once and at most ``MAX_ITEMS``."""
    every = list(items)
    first: dict[tuple[str, int | None], RawFact] = {}
    for item in every:
        first.setdefault((item.text.casefold(), item.message), item)
    distinct = list(first.values())
    kept = [item for item in distinct if item.text][:MAX_ITEMS]
    return RawFacts(tuple(kept), plain=plain, malformed=malformed, excess=len(every) - len(kept))
