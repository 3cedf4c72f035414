"""The fourteen tools as one writer run gets them: every note is tied to the fact it records, and failures are not lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from brain.errors import InvalidInputError
from brain.memory.evidence import has_invented_identifier, overlap
from brain.memory.notes import hold_runs
from brain.memory.tokens import query_terms
from brain.memory.tool_specs import FACT, NOTE_TOOLS, TOOLS
from brain.memory.tools import EltmTools
from brain.memory.views import NoteSource
from brain.tools.provider import ToolOutcome, error_outcome
from shared_protocol.messages import text_of

if TYPE_CHECKING:
    from uuid import UUID

    from brain.memory.evidence import Fact
    from brain.memory.search import EltmSearch
    from brain.memory.store import EltmStore
    from shared_protocol.tools import ToolSpec

ATTRIBUTION_SHARE: Final = 0.4
"""Share of a note's words from which on a fact counts as the one it records, when the model did not say which."""
SUPPORT_SHARE: Final = 0.25
"""Share of a note's words that the facts must contain; below it the note says something that no fact says."""

_WRITES: Final = frozenset(tool.name for tool in TOOLS if tool.writes)
_OUTAGE: Final = re.compile(r"^Error: (?:embedding failed \(|\w+ failed: )")
_object_decoder: Final = msgspec.json.Decoder(dict[str, Raw])
_text_decoder: Final = msgspec.json.Decoder(str)


class WriterTools:
    """Bare names, reading and writing. ``unfinished`` counts writes that failed for want of a service and never succeeded."""

    def __init__(self, store: EltmStore, search: EltmSearch, facts: Sequence[Fact], run_id: UUID) -> None:
        sources = {fact.number: source_of(fact, run_id) for fact in facts}
        self._pool = store.pool
        self._source = NoteSource(run_id)
        self._tools = EltmTools(store, search, read_only=False, facts=sources, source=self._source)
        self._fact_terms = {fact.number: frozenset(query_terms(fact.text)) for fact in facts}
        self._all_terms = frozenset[str]().union(*self._fact_terms.values())
        self._all_text = "\n".join(fact.text for fact in facts)
        self._failed: set[tuple[str, bytes]] = set()

    @property
    def unfinished(self) -> int:
        """Writes that failed because something was away."""
        return len(self._failed)

    @property
    def namespaces(self) -> Sequence[str]:
        """None: the names are bare."""
        return self._tools.namespaces

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the fourteen tools."""
        return await self._tools.list_tools()

    def budget_seconds(self, name: str) -> int:
        """Return 0: no budget."""
        return self._tools.budget_seconds(name)

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run one call, with the fact it belongs to."""
        if name in _WRITES:
            try:
                async with self._pool.connection() as conn:
                    await hold_runs(conn, [self._source])
            except InvalidInputError as problem:
                return error_outcome(str(problem))
        if name in NOTE_TOOLS:
            note = _text_of(args, "note")
            if note is not None and not self._is_supported(note):
                return error_outcome("no fact of the list says this: record what the facts state, in their words")
            args = self._with_fact(args, note)
        outcome = await self._tools.execute(call_id, name, args)
        if name in _WRITES:
            key = (name, bytes(args))
            if outcome.is_error and _OUTAGE.match(text_of(outcome.parts)):
                self._failed.add(key)
            elif not outcome.is_error:
                self._failed.discard(key)
        return outcome

    def _is_supported(self, note: str) -> bool:
        return not has_invented_identifier(note, self._all_text) and overlap(note, self._all_terms) >= SUPPORT_SHARE

    def _with_fact(self, args: Raw, note: str | None) -> Raw:
        """Name the fact that a note records, where the model left it out and the words leave no doubt."""
        fields = _fields(args)
        if fields is None or note is None or FACT.name in fields:
            return args
        shares = {number: overlap(note, terms) for number, terms in self._fact_terms.items()}
        best = max(shares, key=lambda number: (shares[number], -number), default=None)
        if best is None or shares[best] < ATTRIBUTION_SHARE:
            return args
        return Raw(msgspec.json.encode({**fields, FACT.name: best}))


def source_of(fact: Fact, run_id: UUID) -> NoteSource:
    """Return the link from a note to the place in the chat that a fact is from."""
    return NoteSource(run_id, fact.number, fact.message_index, fact.sent_at, fact.excerpt)


def _fields(args: Raw) -> dict[str, Raw] | None:
    try:
        return _object_decoder.decode(args)
    except msgspec.DecodeError:
        return None


def _text_of(args: Raw, name: str) -> str | None:
    value = (_fields(args) or {}).get(name)
    if value is None:
        return None
    try:
        return _text_decoder.decode(value)
    except msgspec.DecodeError:
        return None
