"""The plan of a model without tool calls: for each fact where it belongs, as one structured answer that our code carries out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw

from brain.prompts import read_prompt
from brain.runs.ladder import AnswerForm
from brain.runs.model_json import strip_fences

if TYPE_CHECKING:
    from collections.abc import Mapping

EntryKind: TypeAlias = Literal["note", "attribute", "relationship"]

MAX_ENTRIES: Final = 400

_PACKAGE: Final = "brain.memory"
_SCHEMA: Final = Raw(
    b'{"type":"object","additionalProperties":false,"required":["entries"],"properties":{"entries":{"type":"array","items":'
    b'{"type":"object","additionalProperties":false,'
    b'"required":["fact","kind","entity","category","date","key","value","verb","other","otherCategory","ended"],"properties":{'
    b'"fact":{"type":"integer"},"kind":{"type":"string","enum":["note","attribute","relationship"]},'
    b'"entity":{"type":"string"},"category":{"type":"string"},"date":{"type":["string","null"]},'
    b'"key":{"type":["string","null"]},"value":{"type":["string","null"]},"verb":{"type":["string","null"]},'
    b'"other":{"type":["string","null"]},"otherCategory":{"type":["string","null"]},"ended":{"type":["boolean","null"]}}}}}}'
)
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)
_NAMED: Final = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$", re.DOTALL)
_KINDS: Final[Mapping[str, EntryKind]] = {
    "note": "note",
    "notes": "note",
    "entity_note": "note",
    "attribute": "attribute",
    "attr": "attribute",
    "relationship": "relationship",
    "relation": "relationship",
    "rel": "relationship",
    "relationship_note": "relationship",
}


class PlanEntry(msgspec.Struct, frozen=True):
    """Where one fact goes, as the model wrote it; nothing in it is believed before it was checked against the fact."""

    fact: int
    kind: EntryKind
    entity: str
    category: str = ""
    date: str | None = None
    key: str | None = None
    value: str | None = None
    verb: str | None = None
    other: str | None = None
    other_category: str = ""
    ended: bool | None = None


class Plan(msgspec.Struct, frozen=True):
    """The entries of an answer, and how many of its items were none."""

    entries: tuple[PlanEntry, ...]
    malformed: int = 0


def plan_form() -> AnswerForm[Plan]:
    """Return the form in which a plan is asked for."""
    return AnswerForm(
        name="memory_plan",
        schema=_SCHEMA,
        list_key="entries",
        describe_json=read_prompt(_PACKAGE, "plan_json").text,
        describe_text=read_prompt(_PACKAGE, "plan_text").text,
        read_json=read_plan_json,
        read_text=read_plan_text,
    )


def read_plan_json(value: object) -> Plan:
    """Read decoded JSON: ``{"entries": [...]}`` or the bare list.

    Raises:
        ValueError: neither, or a list of which nothing is an entry.
    """
    raw = cast("dict[str, object]", value).get("entries") if isinstance(value, dict) else value
    if not isinstance(raw, list):
        raise ValueError('the JSON has no list "entries"')  # noqa: TRY004 - what a reader refuses is always a ValueError
    items = cast("list[object]", raw)
    entries = [
        entry for item in items if isinstance(item, dict) and (entry := _read_fields(cast("dict[str, object]", item))) is not None
    ]
    if items and not entries:
        raise ValueError("no item of the list says where a fact goes")
    return Plan(tuple(dict.fromkeys(entries[:MAX_ENTRIES])), len(items) - len(entries[:MAX_ENTRIES]))


def read_plan_text(text: str) -> Plan:
    """Read lines such as ``NOTE | 1 | ada (person) | 2026-03-01``.

    Raises:
        ValueError: no line is an entry.
    """
    entries: list[PlanEntry] = []
    lines = [line for line in strip_fences(text).splitlines() if line.strip()]
    for line in lines:
        cells = [cell.strip() for cell in line.strip(" \t|-*•").split("|")]
        entry = _read_cells(cells)
        if entry is not None:
            entries.append(entry)
    if not entries:
        raise ValueError("the answer has no line that says where a fact goes")
    return Plan(tuple(dict.fromkeys(entries[:MAX_ENTRIES])), len(lines) - len(entries[:MAX_ENTRIES]))


def _read_fields(fields: dict[str, object]) -> PlanEntry | None:
    kind = _KINDS.get(str(fields.get("kind", fields.get("type", "note"))).strip().lower())
    fact = _whole(fields.get("fact"))
    entity = _words(fields.get("entity")) or _words(fields.get("subject")) or _words(fields.get("name"))
    if kind is None or fact is None or entity is None:
        return None
    name, category = _split_name(entity)
    other, other_category = _split_name(_words(fields.get("other")) or _words(fields.get("target")) or "")
    ended = fields.get("ended")
    return PlanEntry(
        fact=fact,
        kind=kind,
        entity=name,
        category=_words(fields.get("category")) or category,
        date=_words(fields.get("date")),
        key=_words(fields.get("key")),
        value=_words(fields.get("value")),
        verb=_words(fields.get("verb")),
        other=other or None,
        other_category=_words(fields.get("otherCategory")) or other_category,
        ended=ended if isinstance(ended, bool) else None,
    )


def _read_cells(cells: list[str]) -> PlanEntry | None:
    kind = _KINDS.get(cells[0].strip("*` ").lower().removesuffix(":"))
    if kind is None or len(cells) < 3:
        return None
    fact = _whole(cells[1])
    name, category = _split_name(cells[2])
    if fact is None or not name:
        return None
    rest = cells[3:]
    match kind:
        case "note":
            return PlanEntry(fact, kind, name, category, date=rest[0] if rest else None)
        case "attribute":
            key, _, value = (rest[0] if rest else "").partition("=")
            return PlanEntry(fact, kind, name, category, key=key.strip() or None, value=value.strip() or None)
        case "relationship":
            if len(rest) < 2:
                return None
            other, other_category = _split_name(rest[1])
            last = rest[3].lower() if len(rest) > 3 else ""
            ended = {"ended": True, "holds": False}.get(last)
            date = rest[2] if len(rest) > 2 else None
            return PlanEntry(fact, kind, name, category, date, None, None, rest[0], other or None, other_category, ended)


def _split_name(text: str) -> tuple[str, str]:
    match = _NAMED.match(text.strip().strip("\"'`"))
    return ("", "") if match is None else (match.group(1).strip(), (match.group(2) or "").strip())


def _words(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return text if text and text.lower() not in {"null", "none", "n/a", "-"} else None


def _whole(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if found := _NUMBER.search(value):
            return int(found.group())
        case _:
            return None
