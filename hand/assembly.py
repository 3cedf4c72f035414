"""Tool calls out of fragments (section 11) and the finished message out of everything (12.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Literal
from uuid import uuid4

import msgspec
from msgspec import Raw

from hand.arguments import is_complete, object_text, read_arguments
from hand.jsonvalues import as_object, as_text
from hand.textio import without_surrogates
from hand.usage import TokenUsage
from shared_protocol.messages import AssistantMessage, AssistantPart, ReasoningPart, TextPart, ToolCallPart, Usage

_LEGACY_INDEX = "function_call"
_MOST_DIGITS = 18


class Fragment(msgspec.Struct, frozen=True):
    """One entry of ``delta.tool_calls``; empty strings stand for what it does not bring."""

    index: int | str | None
    id: str
    name: str
    arguments: str
    replaces: bool = False
    """The arguments came as an object, so they are whole."""

    @classmethod
    def read(cls, entry: Mapping[str, object]) -> Fragment:
        """Read an entry of the list."""
        return cls._read(_index_of(entry.get("index")), as_text(entry.get("id")), as_object(entry.get("function")) or {})

    @classmethod
    def read_legacy(cls, entry: Mapping[str, object]) -> Fragment:
        """Read a ``function_call``, which has neither id nor index."""
        return cls._read(_LEGACY_INDEX, "", entry)

    @classmethod
    def _read(cls, index: int | str | None, call_id: str, function: Mapping[str, object]) -> Fragment:
        name, arguments = as_text(function.get("name")), function.get("arguments")
        whole = as_object(arguments)
        return cls(
            index=index,
            id=_clean(call_id),
            name=_clean(name),
            arguments=as_text(arguments) if whole is None else object_text(whole),
            replaces=whole is not None,
        )


def _clean(text: str) -> str:
    """Return an id or a name as it may be stored; empty if it is blank."""
    text = without_surrogates(text).replace("\0", "")
    return text if text.strip() else ""


def _index_of(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    # No stream has so many calls that more digits could be meant.
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= _MOST_DIGITS:
        return int(value)
    return None


class Call:
    """A tool call as far as it has come."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.has_index: bool = False
        self._pieces: list[str] = []
        self.length: int = 0
        # Completeness is asked for often and answered by parsing, so the answer is kept per length.
        self._complete_at: tuple[int, bool] = (0, False)

    @property
    def arguments(self) -> str:
        """The text of the arguments."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def has_complete_arguments(self) -> bool:
        """Whether the arguments need no more text."""
        if self._complete_at[0] != self.length:
            self._complete_at = (self.length, is_complete(self.arguments))
        return self._complete_at[1]

    def merge(self, fragment: Fragment) -> None:
        """Add what a fragment brings (11.3)."""
        self.id = self.id or fragment.id
        self._merge_name(fragment.name)
        if not fragment.arguments:
            return
        if fragment.replaces:
            self._pieces, self.length = [fragment.arguments], len(fragment.arguments)
            self._complete_at = (0, False)
        elif not self._is_repeat(fragment.arguments):
            self._pieces.append(fragment.arguments)
            self.length += len(fragment.arguments)

    def is_followed_by(self, fragment: Fragment, *, touched: bool) -> bool:
        """Whether a fragment for this place starts a new call instead (11.2)."""
        if not fragment.name:
            return False
        if touched or (fragment.id and self.id and fragment.id != self.id):
            return True
        if not fragment.arguments or not self.has_complete_arguments:
            return False
        if fragment.name != self.name:
            return True
        same_id = bool(fragment.id) and fragment.id == self.id
        return not same_id and fragment.arguments != self.arguments and self.arguments.strip() != "{}"

    def _merge_name(self, name: str) -> None:
        if not name or name == self.name:
            return
        if name.startswith(self.name):
            self.name = name
        elif not self.length:
            self.name += name

    def _is_repeat(self, arguments: str) -> bool:
        return len(arguments) == self.length and arguments == self.arguments and self.has_complete_arguments


class CallAssembler:
    """Assigns fragments to calls (11.1); ``calls`` in order of first appearance."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._by_index: dict[int | str, Call] = {}
        self._by_id: dict[str, Call] = {}

    def take(self, fragments: Iterable[Fragment]) -> None:
        """Take the entries of one delta."""
        touched: set[Call] = set()
        for fragment in fragments:
            call = self._find(fragment, touched) or self._start(fragment)
            call.merge(fragment)
            if call.id:
                _ = self._by_id.setdefault(call.id, call)
            touched.add(call)

    def _find(self, fragment: Fragment, touched: Collection[Call]) -> Call | None:
        if fragment.index is not None:
            return self._find_by_index(fragment, fragment.index, touched)
        call = self._by_id.get(fragment.id) if fragment.id else None
        if call is not None:
            return None if call.is_followed_by(fragment, touched=call in touched) else call
        latest = self.calls[-1] if self.calls else None
        if latest is None or not fragment.name:
            return latest
        resumed = not fragment.id and not latest.id and fragment.name == latest.name
        return latest if resumed and latest not in touched and not latest.has_complete_arguments else None

    def _find_by_index(self, fragment: Fragment, index: int | str, touched: Collection[Call]) -> Call | None:
        call = self._by_index.get(index)
        if call is not None:
            return None if call.is_followed_by(fragment, touched=call in touched) else call
        call = self._by_id.get(fragment.id) if fragment.id else None
        if call is None or call.has_index:
            return None
        self._by_index[index], call.has_index = call, True
        return call

    def _start(self, fragment: Fragment) -> Call:
        call = Call()
        self.calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index], call.has_index = call, True
        if fragment.id:
            self._by_id[fragment.id] = call
        return call


class FinishedCall(msgspec.Struct, frozen=True):
    """A call that can be executed; ``args`` is a JSON object, ``source`` what it was made of."""

    id: str
    name: str
    args: bytes
    source: Call


def finish_calls(calls: Iterable[Call], used_ids: Collection[str], *, only_complete: bool) -> list[FinishedCall]:
    """Return the calls with readable arguments and ids that are unique over the chat (11.4, 11.5).

    With ``only_complete`` those without complete arguments are left out, as the answer was cut.
    """
    finished: list[FinishedCall] = []
    taken = set(used_ids)
    for call in calls:
        if not call.name or (only_complete and not call.has_complete_arguments):
            continue
        for position, args in enumerate(read_arguments(call.arguments)):
            call_id = call.id if position == 0 and call.id not in taken else ""
            call_id = call_id or f"call_{uuid4().hex}"
            taken.add(call_id)
            finished.append(FinishedCall(call_id, call.name, args, call))
    return finished


def assemble_message(
    order: Iterable[Literal["reasoning", "text"] | Call],
    texts: Mapping[str, str],
    calls: Iterable[FinishedCall],
    usage: TokenUsage,
    model_id: str,
    finish_reason: Literal["stop", "tool_calls", "length"],
) -> AssistantMessage:
    """Return the message of a round; blank channels are left out, parts in order of first appearance."""
    parts_of: defaultdict[Call, list[AssistantPart]] = defaultdict(list)
    for call in calls:
        parts_of[call.source].append(ToolCallPart(call.id, call.name, Raw(call.args)))
    parts: list[AssistantPart] = []
    for place in order:
        if isinstance(place, Call):
            parts.extend(parts_of[place])
        elif (text := texts[place]).strip():
            parts.append(ReasoningPart(text) if place == "reasoning" else TextPart(text))
    return AssistantMessage(
        parts=tuple(parts),
        meta=Usage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            total_tokens=usage.input + usage.output,
            model_id=model_id,
            cached_tokens=usage.cached or None,
        ),
        finish_reason=finish_reason,
    )
