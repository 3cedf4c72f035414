"""SQL by which an erasure reaches chats and the text that compactions dropped from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

from brain.chats.queries_contents import delete_unlinked_contents, lock_contents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


class ErasedChat(msgspec.Struct, frozen=True):
    """A chat that holds what is being erased."""

    id: str
    title: str


async def find_chats_containing(conn: AsyncConnection, pieces: Sequence[str]) -> list[ErasedChat]:
    """Return the chats whose history or title has one of the pieces, which are escaped like text in JSON, in lowercase."""
    async with conn.cursor(row_factory=class_row(ErasedChat)) as cur:
        await cur.execute(
            """
            SELECT id, title
              FROM chats
             WHERE EXISTS (SELECT 1
                             FROM unnest(%(pieces)s::text[]) AS given (piece)
                            WHERE position(piece IN lower(chat_json)) > 0 OR position(piece IN lower(title)) > 0)
             ORDER BY id
            """,
            {"pieces": list(pieces)},
        )
        return await cur.fetchall()


async def get_chats(conn: AsyncConnection, chat_ids: Sequence[str]) -> list[ErasedChat]:
    """Return the chats that exist among the given."""
    async with conn.cursor(row_factory=class_row(ErasedChat)) as cur:
        await cur.execute("SELECT id, title FROM chats WHERE id = ANY(%(ids)s) ORDER BY id", {"ids": list(chat_ids)})
        return await cur.fetchall()


async def delete_drops_containing(conn: AsyncConnection, pieces: Sequence[str]) -> None:
    """Delete dropped regions that have one of the pieces, with the attachments that nothing else uses."""
    cur = await conn.execute(
        """
        WITH gone AS (
            DELETE FROM chat_drops
             WHERE EXISTS (SELECT 1
                             FROM unnest(%(pieces)s::text[]) AS given (piece)
                            WHERE position(piece IN lower(messages_json)) > 0)
            RETURNING chat_id, n
        )
        DELETE FROM attachment_links AS link
              USING gone
              WHERE link.chat_id = gone.chat_id AND link.n = gone.n
        RETURNING link.sha256
        """,
        {"pieces": list(pieces)},
    )
    await _delete_unused(conn, [bytes(row[0]) for row in await cur.fetchall()])


async def delete_drops_of_chat(conn: AsyncConnection, chat_id: str) -> None:
    """Delete the dropped regions of a chat, with the attachments that nothing else uses."""
    cur = await conn.execute(
        """
        WITH gone AS (DELETE FROM chat_drops WHERE chat_id = %(chat_id)s RETURNING n)
        DELETE FROM attachment_links AS link
              USING gone
              WHERE link.chat_id = %(chat_id)s AND link.n = gone.n
        RETURNING link.sha256
        """,
        {"chat_id": chat_id},
    )
    await _delete_unused(conn, [bytes(row[0]) for row in await cur.fetchall()])


async def _delete_unused(conn: AsyncConnection, hashes: Sequence[bytes]) -> None:
    if hashes:
        await lock_contents(conn, hashes)
        await delete_unlinked_contents(conn, hashes)
