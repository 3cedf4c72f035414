"""Checks what a model says it read: quotes against their message, invented identifiers, and echoes of memory."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from brain.memory.tokens import query_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brain.memory.facts import RawFact, RawFacts
    from brain.memory.regions import Source

DropReason: TypeAlias = Literal["no_message", "unknown_message", "quote_not_found", "unsupported", "echo", "excess", "malformed"]

MAX_EXCERPT_CHARS: Final = 2000
"""As long as a source's text is kept (additions §3)."""

MIN_QUOTE_CHARS: Final = 2
SUPPORT_SHARE: Final = 0.2
"""Share of a fact's words that its conversation must contain when no quote proves it."""
ATTRIBUTION_SHARE: Final = 0.5
"""Share of a plain fact's words that one message must contain to count as its source."""
ECHO_SHARE: Final = 0.75
"""Share of a fact's words that a given memory must contain for an assistant's sentence to be its echo."""
ECHO_TERM_SHARE: Final = 0.25
"""Share of words that came only out of memory from which on a fact is an echo, whoever is cited for it."""

_SPACE = re.compile(r"\s+")
_QUOTE_MARKS = str.maketrans(dict.fromkeys("“”«»„‟「」『』", '"') | dict.fromkeys("‘’‚‛`´", "'") | dict.fromkeys("‐‑‒–—―−", "-"))
_EDGES: Final = " \t.,;:!?…\"'()[]*_。、，！？；："
# Not by word boundaries: there is none between a figure and a Chinese or Japanese character.
_DATE: Final = re.compile(
    r"(?<![0-9A-Za-z_])(?:\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|(?:19|20)\d{2})(?![0-9A-Za-z_])"
    r"|\d{4}年"
)
_IDENTIFIER: Final = re.compile(r"\d{4,}", re.ASCII)
_USER_WORDS: Final = frozenset({"user", "用户", "ユー", "ーザ", "ザー", "使用", "用者"})


class Fact(msgspec.Struct, frozen=True):
    """A fact that passed the checks, and where it comes from. ``number`` is its place in the list the writer gets.

    ``message_index`` is its message's position in the chat, ``None`` when the chat goes on without that message.
    ``from_assistant``: the person did not say it, so it may be something the assistant remembered.
    """

    number: int
    text: str
    message_index: int | None
    day: date | None
    sent_at: datetime | None
    excerpt: str
    quoted: bool
    from_assistant: bool = False


class CheckedFacts(msgspec.Struct, frozen=True):
    """What is left of an answer, and how many items were dropped for which reason."""

    facts: tuple[Fact, ...]
    dropped: dict[DropReason, int]

    @property
    def dropped_count(self) -> int:
        """Items dropped in all."""
        return sum(self.dropped.values())


def fold_quote(text: str) -> str:
    """Return a text as quotes are compared: width, case, spaces, and the shapes of quote marks and dashes do not count."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).translate(_QUOTE_MARKS).casefold()).strip()


def contains_quote(text: str, quote: str) -> bool:
    """Whether a text contains a quote; an ellipsis inside the quote stands for left out text, in order."""
    folded = fold_quote(text)
    pieces = [fold_quote(piece).strip(_EDGES) for piece in re.split(r"\.\.\.|…|\[\.\.\.\]", quote)]
    if sum(map(len, pieces)) < MIN_QUOTE_CHARS:
        return False
    position = 0
    for piece in pieces:
        found = folded.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def overlap(text: str, terms: Iterable[str]) -> float:
    """Return the share of a text's content words that are among ``terms``; 0 for a text without words."""
    # A date that was worked out stands in no message.
    wanted = [term for term in query_terms(_DATE.sub(" ", text)) if term not in _USER_WORDS]
    known = terms if isinstance(terms, (set, frozenset)) else set(terms)
    return sum(term in known for term in wanted) / len(wanted) if wanted else 0.0


def has_invented_identifier(text: str, source: str) -> bool:
    """Whether a text has a long number, dates aside, that its source does not have."""
    return any(number not in source for number in _IDENTIFIER.findall(_DATE.sub(" ", text)))


def check_facts(raw: RawFacts, sources: Sequence[Source], known_texts: Sequence[str] = ()) -> CheckedFacts:
    """Return the items that rest on a message of the region, numbered from 1.

    ``known_texts`` are memories that were given to the conversation: what only repeats them is an echo.
    """
    checker = _Checker(sources, known_texts)
    dropped: Counter[DropReason] = Counter()
    dropped["malformed"] += raw.malformed
    dropped["excess"] += raw.excess
    facts: list[Fact] = []
    for item in raw.items:
        verdict = checker.judge(item, plain=raw.plain)
        if isinstance(verdict, str):
            dropped[verdict] += 1
        else:
            facts.append(_fact(len(facts) + 1, item, verdict, from_assistant=checker.is_from_assistant(item.text, verdict)))
    return CheckedFacts(tuple(facts), dict(+dropped))


def drop_echoes(facts: Sequence[Fact], sources: Sequence[Source], known_texts: Sequence[str]) -> tuple[Fact, ...]:
    """Return the facts that do not merely repeat one of the known memories, numbered anew from 1."""
    checker = _Checker(sources, known_texts)
    by_index = {source.index: source for source in sources}
    kept = [
        fact
        for fact in facts
        if not (
            fact.from_assistant and fact.message_index is not None and checker.is_echo(fact.text, by_index[fact.message_index])
        )
    ]
    return tuple(msgspec.structs.replace(fact, number=place) for place, fact in enumerate(kept, 1))


class _Checker:
    def __init__(self, sources: Sequence[Source], known_texts: Sequence[str]) -> None:
        self._sources = {source.number: source for source in sources}
        self._terms = {source.number: frozenset(query_terms(source.text)) for source in sources}
        self._all_terms = frozenset[str]().union(*self._terms.values())
        self._all_text = "\n".join(source.text for source in sources)
        self._has_attachments = any(source.has_attachment for source in sources)
        known = [frozenset(query_terms(text)) for text in known_texts]
        recalled = self._union(source for source in sources if source.recalled)
        not_recalled = self._union(source for source in sources if not source.recalled)
        told = self._union(source for source in sources if source.speaker == "assistant" or source.recalled)
        said = self._union(source for source in sources if source.speaker != "assistant" and not source.recalled)
        self._known = known
        self._told_only = told - said
        # Words that the conversation has only out of memory: by a report, or by an answer that used what it was given.
        self._echo_terms = (recalled - not_recalled) | ((told - said) & frozenset[str]().union(*known))

    def _union(self, sources: Iterable[Source]) -> frozenset[str]:
        return frozenset[str]().union(*(self._terms[source.number] for source in sources))

    def judge(self, item: RawFact, *, plain: bool) -> Source | DropReason:
        source = self._attribute(item) if plain else self._cited(item)
        if isinstance(source, str):
            return source
        if item.quote is not None:
            quoted = self._quoted(item.quote, source)
            if quoted is None:
                return "quote_not_found"
            source = quoted
        if self.is_echo(item.text, source):
            return "echo"
        return source if self._is_supported(item) else "unsupported"

    def _cited(self, item: RawFact) -> Source | DropReason:
        if item.message is None:
            return "no_message"
        return self._sources.get(item.message, "unknown_message")

    def _attribute(self, item: RawFact) -> Source | DropReason:
        """Find the message that a plain list's item is from: the one it shares most words with."""
        best, share = None, 0.0
        for source in self._sources.values():
            found = overlap(item.text, self._terms[source.number])
            if found > share:
                best, share = source, found
        return best if best is not None and share >= ATTRIBUTION_SHARE else "no_message"

    def _quoted(self, quote: str, cited: Source) -> Source | None:
        """Return the message that holds the quote: the cited one, else the only other one (a small model miscounts)."""
        if contains_quote(cited.text, quote):
            return cited
        if cited.has_attachment:
            return cited  # words in a picture cannot be compared
        others = [source for source in self._sources.values() if contains_quote(source.text, quote)]
        return others[0] if len(others) == 1 else None

    def is_from_assistant(self, text: str, source: Source) -> bool:
        return source.speaker == "assistant" or overlap(text, self._told_only) >= ECHO_TERM_SHARE

    def is_echo(self, text: str, source: Source) -> bool:
        if source.recalled or overlap(text, self._echo_terms) >= ECHO_TERM_SHARE:
            return True
        return source.speaker == "assistant" and any(overlap(text, known) >= ECHO_SHARE for known in self._known)

    def _is_supported(self, item: RawFact) -> bool:
        if self._has_attachments:
            return True
        if has_invented_identifier(item.text, self._all_text):
            return False
        return item.quote is not None or overlap(item.text, self._all_terms) >= SUPPORT_SHARE


def _fact(number: int, item: RawFact, source: Source, *, from_assistant: bool) -> Fact:
    sent_at = source.sent_at
    return Fact(
        number=number,
        text=item.text,
        message_index=source.index,
        day=None if sent_at is None else sent_at.astimezone().date(),
        sent_at=sent_at,
        excerpt=excerpt_of(source.text, item.quote),
        quoted=item.quote is not None,
        from_assistant=from_assistant,
    )


def excerpt_of(text: str, quote: str | None) -> str:
    """Return the part of a message that is kept as the source of a note: around the quote if the message is long."""
    clean = text.replace("\x00", "").strip()
    if len(clean) <= MAX_EXCERPT_CHARS:
        return clean
    place = clean.casefold().find(quote.strip(_EDGES).casefold()) if quote else -1
    start = max(0, place - MAX_EXCERPT_CHARS // 4) if place >= 0 else 0
    return clean[start : start + MAX_EXCERPT_CHARS]
