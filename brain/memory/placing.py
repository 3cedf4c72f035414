"""Carries out a plan: checks each entry against its fact, finds or makes the subject, and records the fact with its source."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries_history, queries_names, queries_views
from brain.memory.event_days import find_event_day, find_iso_days
from brain.memory.normalise import is_placeholder, normalise_category, normalise_key, normalise_name, normalise_verb
from brain.memory.notes import NoteRules, hold_runs
from brain.memory.tokens import fold, words_of
from brain.memory.views import NewNote
from brain.memory.writer_tools import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from brain.memory.evidence import Fact
    from brain.memory.plan import Plan, PlanEntry
    from brain.memory.store import EltmStore
    from brain.memory.views import AttachedNotes, EntityView, NoteSource

USER_NAME: Final = "user"
USER_CATEGORY: Final = "person"
DEFAULT_CATEGORY: Final = "general"

MAX_NAME_CHARS: Final = 80
MAX_CATEGORY_CHARS: Final = 30
MAX_VERB_WORDS: Final = 5
MAX_VALUE_CHARS: Final = 200

_USER_NAMES: Final = frozenset(
    {
        "user",
        "the user",
        "me",
        "i",
        "myself",
        "the person",
        "用户",
        "使用者",
        "用戶",
        "ユーザー",
        "ユーザ",
        "utilisateur",
        "benutzer",
    }
)
_ENDING: Final = re.compile(
    r"\b(?:no longer|not any ?more|left|quit|ended|stopped|over|broke up|separated|divorced|resigned|retired|fired|laid off|sold|"
    r"moved (?:out|away)|former(?:ly)?|ex|cancel(?:led|ed)|closed|died|gave up|switched (?:away )?from)\b|"
    r"不再|离开|離開|离职|離職|辞|分手|离婚|離婚|結束|结束|やめ|辞め|退職|別れ|終わ|もう.*ない",
    re.IGNORECASE,
)
_CHANGES_MEANING: Final = re.compile(r"\d|^(?:not|no|never|none|n't|cannot)$|不|没|沒|ない")


class Placement(msgspec.Struct, frozen=True):
    """What became of the facts: notes written, facts that were recorded already, erased ones kept out, entries passed over."""

    written: int = 0
    repeated: int = 0
    kept_out: int = 0
    attributes: int = 0
    refused: int = 0


class _Subject(msgspec.Struct, frozen=True):
    name: str
    category: str


class Placer:
    """Records facts with the same operations, and the same check for repetitions, as the tools of the writer."""

    def __init__(self, store: EltmStore) -> None:
        self._store = store

    async def place(self, facts: Sequence[Fact], plan: Plan, *, run_id: UUID, today: date) -> Placement:
        """Record every fact at least once: where the plan says, else with the person it came from.

        The text of a note is the text of the fact; a plan cannot bring anything into the memory that no fact says.
        """
        known = {fact.number for fact in facts}
        by_fact: dict[int, list[PlanEntry]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for entry in plan.entries:
            if entry.fact in known:
                by_fact[entry.fact].append(entry)
            else:
                counts["refused"] += 1
        for fact in facts:
            await self._place_fact(fact, by_fact[fact.number], run_id, today, counts)
        return Placement(**{name: counts[name] for name in Placement.__struct_fields__})

    async def _place_fact(
        self, fact: Fact, entries: Sequence[PlanEntry], run_id: UUID, today: date, counts: Counter[str]
    ) -> None:
        sources = (source_of(fact, run_id),)
        async with self._store.pool.connection() as conn:
            await hold_runs(conn, sources)
        has_note = False
        for entry in entries:
            match entry.kind:
                case "attribute":
                    counts["attributes"] += await self._set_attribute(fact, entry, counts)
                case "relationship":
                    has_note = await self._note_on_relationship(fact, entry, sources, today, counts) or has_note
                case "note":
                    subject = _subject_of(fact, entry.entity, entry.category)
                    if subject is None:
                        counts["refused"] += 1
                        continue
                    await self._note_on_entity(fact, subject, _event_date(fact, entry.date, today), sources, counts)
                    has_note = True
        if not has_note:
            # An attribute has no source and no past: the sentence it came from is kept as a note as well.
            subject = next((found for entry in entries if (found := _subject_of(fact, entry.entity, entry.category))), None)
            owner = subject or _Subject(USER_NAME, USER_CATEGORY)
            await self._note_on_entity(fact, owner, _event_date(fact, None, today), sources, counts)

    async def _note_on_entity(
        self, fact: Fact, subject: _Subject, day: date, sources: tuple[NoteSource, ...], counts: Counter[str]
    ) -> None:
        entity = await self._find_or_create(subject)
        note = NewNote(day, fact.text)
        outcome = await self._store.notes.attach_to_entity(entity.entity.id, [note], NoteRules("writer", True, True, sources))
        if outcome.near and not await self._link_if_same(fact, outcome, sources):
            outcome = await self._store.notes.attach_to_entity(
                entity.entity.id, [note], NoteRules("writer", True, False, sources)
            )
        _count(outcome, counts)

    async def _note_on_relationship(
        self, fact: Fact, entry: PlanEntry, sources: tuple[NoteSource, ...], today: date, counts: Counter[str]
    ) -> bool:
        source = _subject_of(fact, entry.entity, entry.category)
        target = None if entry.other is None else _subject_of(fact, entry.other, entry.other_category)
        verb = _verb(entry.verb)
        if source is None or target is None or verb is None or source == target:
            counts["refused"] += 1
            return False
        src, dst = await self._find_or_create(source), await self._find_or_create(target)
        try:
            edge = await self._store.relationships.create(src.entity.id, dst.entity.id, verb)
        except InvalidInputError:  # a person erased exactly this edge
            counts["kept_out"] += 1
            return False
        ended = entry.ended if entry.ended is not True or _ENDING.search(fact.text) else None
        valid = None if ended is None else not ended
        note = NewNote(_event_date(fact, entry.date, today), fact.text)
        edge_id = edge.relationship.id
        outcome = await self._store.notes.attach_to_relationship(edge_id, [note], valid, NoteRules("writer", True, True, sources))
        if outcome.near and not await self._link_if_same(fact, outcome, sources):
            outcome = await self._store.notes.attach_to_relationship(
                edge_id, [note], valid, NoteRules("writer", True, False, sources)
            )
        _count(outcome, counts)
        return True

    async def _set_attribute(self, fact: Fact, entry: PlanEntry, counts: Counter[str]) -> bool:
        subject = _subject_of(fact, entry.entity, entry.category)
        key = _short(normalise_key, entry.key, MAX_NAME_CHARS)
        value = (entry.value or "").strip()
        if (
            subject is None
            or key is None
            or not value
            or len(value) > MAX_VALUE_CHARS
            or "\n" in value
            or not _says(fact.text, value)
        ):
            counts["refused"] += 1
            return False
        entity = await self._find_or_create(subject)
        change = await self._store.entities.set_attribute(entity.entity.id, key, value)
        counts["kept_out"] += change.erased
        return change.changed

    async def _find_or_create(self, subject: _Subject) -> EntityView:
        """Return the entity of that name: of the same category, else the one known by this name, else a new one."""
        async with self._store.pool.connection() as conn:
            named = await queries_names.find_named(conn, [subject.name], 20)
            views = await queries_views.get_entity_views(conn, [entity_id for entity_id, _ in named])
        of_category = [view for view in views.values() if view.entity.category == subject.category]
        if of_category or views:
            return (of_category or sorted(views.values(), key=lambda view: (-view.note_count, view.entity.id)))[0]
        try:
            return (await self._store.entities.create(subject.name, subject.category)).view
        except NotFoundError:  # merged away between the look-up and the write
            return (await self._store.entities.create(subject.name, subject.category)).view

    async def _link_if_same(self, fact: Fact, outcome: AttachedNotes, sources: tuple[NoteSource, ...]) -> bool:
        """Link the fact to a near note that says the same; false when numbers, names with digits or a negation differ."""
        changed = {term for term in words_of(fact.text) if _CHANGES_MEANING.search(term)}
        for near in outcome.near:
            if changed == {term for term in words_of(near.note.note) if _CHANGES_MEANING.search(term)}:
                async with self._store.pool.connection() as conn, conn.transaction():
                    await hold_runs(conn, sources)
                    await queries_history.insert_sources(conn, [near.note.id], sources)
                return True
        return False


def _count(outcome: AttachedNotes, counts: Counter[str]) -> None:
    written = sum(outcome.written)
    counts["written"] += written
    counts["kept_out"] += outcome.kept_out
    counts["repeated"] += len(outcome.written) - written + (1 if outcome.near else 0)


def _subject_of(fact: Fact, name: str, category: str) -> _Subject | None:
    """Return the subject an entry names, if the fact speaks of it; a placeholder may stand for something without a name."""
    short = _short(normalise_name, name, MAX_NAME_CHARS)
    if short is None:
        return None
    if short in _USER_NAMES:
        return _Subject(USER_NAME, USER_CATEGORY)
    if not _says(fact.text, short) and not is_placeholder(short):
        return None
    return _Subject(short, _short(normalise_category, category, MAX_CATEGORY_CHARS) or DEFAULT_CATEGORY)


def _short(normalise: Callable[[str], str], raw: str | None, limit: int) -> str | None:
    if raw is None:
        return None
    try:
        text = normalise(raw)
    except InvalidInputError:
        return None
    return text if len(text) <= limit and "\n" not in text else None


def _verb(raw: str | None) -> str | None:
    verb = _short(normalise_verb, raw, MAX_NAME_CHARS)
    return verb if verb is not None and verb.count("_") < MAX_VERB_WORDS else None


def _says(text: str, words: str) -> bool:
    return " ".join(fold(words).split()) in " ".join(fold(text).split())


def _event_date(fact: Fact, planned: str | None, today: date) -> date:
    """Return the day of a fact: the planned one if the fact has it, else the one it names, else its message's, else today."""
    for day in find_iso_days(fact.text):
        if day.isoformat() == planned:
            return day
    return find_event_day(fact.text, fact.day) or fact.day or today
