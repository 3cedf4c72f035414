"""Keeps the search rows of a chat equal to its history and title, in the transaction that changes them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from brain.chats.search import queries
from brain.chats.search.folding import fold, grams
from shared_protocol.messages import AssistantMessage, Message, UserMessage, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

DEFAULT_TITLE: Final = "New chat"
TITLE_INDEX: Final = -1
MAX_INDEXED_CHARS: Final = 200_000
"""Of one message: what a person may want to find again is in there, what a paste of megabytes adds is noise."""
THREAD_FROM_CHARS: Final = 2**16

_UNWANTED: Final = {0x00: None, 0xE000: None, 0xE001: None}
"""U+0000, which PostgreSQL refuses, and the two marks that wrap hits in a snippet."""


async def index_history(
    conn: AsyncConnection, chat_id: str, messages: Sequence[Message], *, unchanged: int | None = None
) -> None:
    """Make the rows of a chat's messages those of ``messages``; unchanged rows are left alone.

    The first ``unchanged`` messages, if known, are those of the rows: what a turn appends is not compared with all before.
    """
    if unchanged is not None:
        await _index_tail(conn, chat_id, messages, unchanged)
        return
    wanted = {index: text for index, message in enumerate(messages) if (text := _searchable(message)) is not None}
    present = await queries.fetch_digests(conn, chat_id)
    digests = {index: _digest(*text) for index, text in wanted.items()}
    stale = [index for index, digest in present.items() if digests.get(index) != digest]
    fresh = [index for index, digest in digests.items() if present.get(index) != digest]
    if stale:
        await queries.delete_rows(conn, chat_id, stale)
    if fresh:
        await queries.insert_rows(conn, chat_id, await _rows([(index, *wanted[index], digests[index]) for index in fresh]))


async def _index_tail(conn: AsyncConnection, chat_id: str, messages: Sequence[Message], start: int) -> None:
    await queries.delete_rows_from(conn, chat_id, start)
    texts = [(index, text) for index in range(start, len(messages)) if (text := _searchable(messages[index])) is not None]
    if texts:
        await queries.append_rows(conn, chat_id, await _rows([(index, *text, _digest(*text)) for index, text in texts]))


async def _rows(chosen: Sequence[tuple[int, str, str | None, str, bytes]]) -> list[queries.IndexRow]:
    if sum(len(item[3]) for item in chosen) < THREAD_FROM_CHARS:
        return [_row(*item) for item in chosen]
    return await asyncio.to_thread(lambda: [_row(*item) for item in chosen])


async def index_title(conn: AsyncConnection, chat_id: str, title: str) -> None:
    """Make the row of a chat's title that of ``title``; the default title cannot be found."""
    await queries.delete_rows(conn, chat_id, [TITLE_INDEX])
    body = title.translate(_UNWANTED)
    if title != DEFAULT_TITLE and body.strip():
        await queries.insert_rows(conn, chat_id, [_row(TITLE_INDEX, None, None, body, b"")])


def _searchable(message: Message) -> tuple[str, str | None, str] | None:
    """Return role, createdAt and text of what people look for: what was said, not what tools answered."""
    match message:
        case UserMessage():
            role = "user"
        case AssistantMessage():
            role = "assistant"
        case _:
            return None
    body = text_of(message.parts).translate(_UNWANTED)[:MAX_INDEXED_CHARS]
    return (role, message.created_at, body) if body.strip() else None


def _digest(role: str, created_at: str | None, body: str) -> bytes:
    head = f"{role}\n{created_at or ''}\n"
    return hashlib.blake2b((head + body).encode(), digest_size=16).digest()


def _row(index: int, role: str | None, created_at: str | None, body: str, digest: bytes) -> queries.IndexRow:
    folded = fold(body)
    return queries.IndexRow(index, role, created_at, body, folded, grams(folded), digest)
