"""The search over titles and messages: words to a query, rows to hits with marked snippets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from brain.chats.search import queries
from brain.chats.search.folding import fold, fold_with_positions, query_grams
from brain.chats.search.index import TITLE_INDEX
from brain.errors import InvalidInputError

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

MAX_QUERY_CHARS: Final = 500
MAX_TERMS: Final = 12
HIT_START: Final = "\ue000"
HIT_END: Final = "\ue001"
_BEFORE: Final = 60
"""Characters shown before the first hit."""
_SHOWN: Final = 200
"""Characters of a snippet, marks not counted."""

_CURSOR: Final = re.compile(r"([0-9]+-[0-9]+):(-?[0-9]{1,9})")


class Hit(msgspec.Struct, frozen=True):
    """One text that was found; ``message_index`` is ``None`` for the title of a chat."""

    chat_id: str
    title: str
    message_index: int | None
    role: str | None
    created_at: str | None
    snippet: str


class HitPage(msgspec.Struct, frozen=True):
    """Hits, newest chat first; ``next_cursor`` is ``None`` on the last page."""

    hits: list[Hit]
    next_cursor: str | None


class ChatSearch:
    """Finds what was said. Every word of the query must occur in a text, as a part of a word too; case does not count."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def find(self, query: str, *, limit: int, cursor: str | None) -> HitPage:
        """Return a page of hits.

        Raises:
            InvalidInputError: the query is blank or too long, or the cursor is not one of ours.
        """
        terms = read_terms(query)
        before_chat, before_index = _read_cursor(cursor)
        async with self._pool.connection() as conn:
            rows = await queries.find_hits(
                conn,
                longest=_pattern(max(terms, key=len)),
                patterns=[_pattern(term) for term in terms],
                grams=sorted({gram for term in terms for gram in query_grams(term)}),
                before_chat=before_chat,
                before_index=before_index,
                limit=limit + 1,
            )
        page = rows[:limit]
        last = page[-1] if len(rows) > limit else None
        return HitPage(
            [_hit(row, terms) for row in page],
            None if last is None else f"{last.chat_id}:{last.message_index}",
        )


def read_terms(query: str) -> list[str]:
    """Return the words of a query, folded, each once.

    Raises:
        InvalidInputError: blank or too long.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInputError(f"q: longer than {MAX_QUERY_CHARS} characters")
    terms = list(dict.fromkeys(fold(query.replace("\x00", " ")).split()))
    if not terms:
        raise InvalidInputError("q: must not be blank")
    if len(terms) > MAX_TERMS:
        raise InvalidInputError(f"q: more than {MAX_TERMS} words")
    return terms


def make_snippet(body: str, terms: list[str]) -> str:
    """Return the surroundings of the first hit on one line, every hit in it wrapped in U+E000 ... U+E001."""
    folded, positions = fold_with_positions(body)
    spans = _merge(sorted(span for term in terms for span in _occurrences(folded, term, positions)))
    first = spans[0][0] if spans else 0
    start = max(0, first - _BEFORE)
    end = min(len(body), start + _SHOWN)
    pieces: list[str] = ["…"] if start > 0 else []
    at = start
    for left, right in spans:
        if left >= end:
            break
        pieces += [body[at:left], HIT_START, body[left : min(right, end)], HIT_END]
        at = min(right, end)
    pieces.append(body[at:end])
    if end < len(body):
        pieces.append("…")
    return re.sub(r"\s", " ", "".join(pieces))


def _occurrences(folded: str, term: str, positions: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = folded.find(term)
    while at >= 0:
        left = positions[at]
        # The end is where the next cluster starts: a hit may end inside the folded form of one character.
        after = at + len(term)
        last = positions[after - 1]
        while positions[after] == last:
            after += 1
        found.append((left, positions[after]))
        at = folded.find(term, at + len(term))
    return found


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for left, right in spans:
        if merged and left <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
        else:
            merged.append((left, right))
    return merged


def _pattern(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _read_cursor(cursor: str | None) -> tuple[str | None, int]:
    if cursor is None:
        return None, 0
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidInputError(f"cursor: {cursor!r} is not the nextCursor of a page")
    return match.group(1), int(match.group(2))


def _hit(row: queries.HitRow, terms: list[str]) -> Hit:
    is_title = row.message_index == TITLE_INDEX
    return Hit(
        chat_id=row.chat_id,
        title=row.title,
        message_index=None if is_title else row.message_index,
        role=row.role,
        created_at=row.message_created_at,
        snippet=make_snippet(row.body, terms),
    )
