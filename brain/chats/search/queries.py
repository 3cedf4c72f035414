"""All SQL of the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg import AsyncConnection


class IndexRow(msgspec.Struct, frozen=True):
    """One text that can be found."""

    message_index: int
    role: str | None
    message_created_at: str | None
    body: str
    folded: str
    grams: list[str]
    digest: bytes


class HitRow(msgspec.Struct, frozen=True):
    """One text that was found."""

    chat_id: str
    title: str
    message_index: int
    role: str | None
    message_created_at: str | None
    body: str


async def fetch_digests(conn: AsyncConnection, chat_id: str) -> dict[int, bytes]:
    """Return the digests of a chat's message rows by index."""
    cur = await conn.execute(
        """
        SELECT message_index, digest
          FROM chat_search
         WHERE chat_id = %(chat_id)s
           AND message_index >= 0
        """,
        {"chat_id": chat_id},
        binary=True,
    )
    return {int(row[0]): bytes(row[1]) for row in await cur.fetchall()}


async def delete_rows(conn: AsyncConnection, chat_id: str, indexes: Sequence[int]) -> None:
    """Take texts out."""
    await conn.execute(
        """
        DELETE FROM chat_search
         WHERE chat_id = %(chat_id)s
           AND message_index = ANY(%(indexes)s)
        """,
        {"chat_id": chat_id, "indexes": list(indexes)},
    )


async def delete_rows_from(conn: AsyncConnection, chat_id: str, start: int) -> None:
    """Take out the texts of the messages from an index on."""
    await conn.execute(
        """
        DELETE FROM chat_search
         WHERE chat_id = %(chat_id)s
           AND message_index >= %(start)s
        """,
        {"chat_id": chat_id, "start": start},
    )


async def insert_rows(conn: AsyncConnection, chat_id: str, rows: Iterable[IndexRow]) -> None:
    """Put texts in."""
    async with (
        conn.cursor() as cur,
        cur.copy(
            """
            COPY chat_search (chat_id, message_index, role, message_created_at, body, folded, grams, digest)
            FROM STDIN
            """,
        ) as copy,
    ):
        for row in rows:
            await copy.write_row(
                (
                    chat_id,
                    row.message_index,
                    row.role,
                    row.message_created_at,
                    row.body,
                    row.folded,
                    row.grams,
                    row.digest,
                ),
            )


async def append_rows(conn: AsyncConnection, chat_id: str, rows: Iterable[IndexRow]) -> None:
    """Put the few texts in that a turn appends, each with a statement of its own."""
    for row in rows:
        await conn.execute(
            """
            INSERT INTO chat_search (chat_id, message_index, role, message_created_at, body, folded, grams, digest)
            VALUES (%(chat_id)s, %(message_index)s, %(role)s, %(message_created_at)s, %(body)s, %(folded)s, %(grams)s, %(digest)s)
            """,
            {"chat_id": chat_id, **msgspec.structs.asdict(row)},
        )


async def find_hits(
    conn: AsyncConnection,
    *,
    longest: str,
    patterns: Sequence[str],
    grams: Sequence[str],
    before_chat: str | None,
    before_index: int,
    limit: int,
) -> list[HitRow]:
    """Return texts that match every ``LIKE`` pattern and hold all grams, newest chat first, last message first.

    ``longest`` is one of the patterns: a single one can use the trigram index. Planned anew each time, because the best plan
    depends on the words.
    """
    async with conn.cursor(row_factory=class_row(HitRow)) as cur:
        await cur.execute(
            """
            SELECT found.chat_id, chats.title, found.message_index, found.role, found.message_created_at, found.body
              FROM chat_search AS found
              JOIN chats ON chats.id = found.chat_id
             WHERE found.folded LIKE %(longest)s
               AND found.folded LIKE ALL(%(patterns)s::text[])
               AND (cardinality(%(grams)s::text[]) = 0 OR found.grams @> %(grams)s::text[])
               AND (%(before_chat)s::text IS NULL
                    OR (found.chat_id, found.message_index) < (%(before_chat)s COLLATE "C", %(before_index)s::int))
               AND NOT chats.temporary
             ORDER BY found.chat_id DESC, found.message_index DESC
             LIMIT %(limit)s
            """,
            {
                "longest": longest,
                "patterns": list(patterns),
                "grams": list(grams),
                "before_chat": before_chat,
                "before_index": before_index,
                "limit": limit,
            },
            prepare=False,
        )
        return await cur.fetchall()
