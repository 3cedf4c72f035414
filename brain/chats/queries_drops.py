"""SQL of what a turn leaves beside the history: dropped regions and given memories. The caller owns the transaction."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row, scalar_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


class DropHead(msgspec.Struct, frozen=True):
    """A dropped region without its messages."""

    n: int
    created_at: datetime
    dropped_messages: int
    rounds: int


async def insert_drop(conn: AsyncConnection, chat_id: str, *, dropped_messages: int, rounds: int, messages_json: str) -> int:
    """Add a dropped region and return its number within the chat, from 1."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            INSERT INTO chat_drops (chat_id, n, dropped_messages, rounds, messages_json)
            SELECT %(chat_id)s, coalesce(max(n), 0) + 1, %(dropped_messages)s, %(rounds)s, %(messages_json)s
              FROM chat_drops
             WHERE chat_id = %(chat_id)s
            RETURNING n
            """,
            {"chat_id": chat_id, "dropped_messages": dropped_messages, "rounds": rounds, "messages_json": messages_json},
        )
        number = await cur.fetchone()
        assert number is not None, "INSERT ... RETURNING answers with its row"
        return number


async def list_drops(conn: AsyncConnection, chat_id: str) -> list[DropHead]:
    """Return the dropped regions of a chat, oldest first."""
    async with conn.cursor(row_factory=class_row(DropHead)) as cur:
        await cur.execute(
            """
            SELECT n, created_at, dropped_messages, rounds
              FROM chat_drops
             WHERE chat_id = %(chat_id)s
             ORDER BY n
            """,
            {"chat_id": chat_id},
        )
        return await cur.fetchall()


async def find_drop(conn: AsyncConnection, chat_id: str, n: int) -> str | None:
    """Return the messages of a dropped region as stored."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT messages_json
              FROM chat_drops
             WHERE chat_id = %(chat_id)s
               AND n = %(n)s
            """,
            {"chat_id": chat_id, "n": n},
        )
        return await cur.fetchone()


async def insert_turn_memory(
    conn: AsyncConnection,
    chat_id: str,
    turn_id: str,
    *,
    message_created_at: str,
    note_ids: Sequence[int],
    entity_ids: Sequence[int],
    degraded: str | None,
) -> None:
    """Record what a turn was given."""
    await conn.execute(
        """
        INSERT INTO turn_memories (chat_id, turn_id, message_created_at, note_ids, entity_ids, degraded)
        VALUES (%(chat_id)s, %(turn_id)s, %(message_created_at)s, %(note_ids)s::bigint[], %(entity_ids)s::bigint[], %(degraded)s)
        """,
        {
            "chat_id": chat_id,
            "turn_id": turn_id,
            "message_created_at": message_created_at,
            "note_ids": list(note_ids),
            "entity_ids": list(entity_ids),
            "degraded": degraded,
        },
    )
