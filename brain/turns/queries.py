"""All SQL of live turns and tool grants. The caller owns the transaction; the database owns the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row, scalar_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class LiveTurnRow(msgspec.Struct, frozen=True):
    """Who runs the turn of a chat."""

    turn_id: str
    owner: str
    address: str


async def claim_turn(conn: AsyncConnection, chat_id: str, *, turn_id: str, owner: str, address: str) -> bool:
    """Name the owner of a chat's turn, over a dead one if need be; false without such a chat. The caller holds its lock."""
    cur = await conn.execute(
        """
        INSERT INTO live_turns (chat_id, turn_id, owner, address)
        SELECT id, %(turn_id)s, %(owner)s, %(address)s
          FROM chats
         WHERE id = %(chat_id)s
        ON CONFLICT ON CONSTRAINT live_turns_pkey DO UPDATE
           SET turn_id = excluded.turn_id,
               owner = excluded.owner,
               address = excluded.address,
               started_at = now(),
               seen_at = now()
        """,
        {"chat_id": chat_id, "turn_id": turn_id, "owner": owner, "address": address},
    )
    return cur.rowcount == 1


async def release_turn(conn: AsyncConnection, chat_id: str, *, turn_id: str) -> bool:
    """Remove a turn's row; false if it is gone or another turn's."""
    cur = await conn.execute(
        """
        DELETE FROM live_turns
         WHERE chat_id = %(chat_id)s
           AND turn_id = %(turn_id)s
        """,
        {"chat_id": chat_id, "turn_id": turn_id},
    )
    return cur.rowcount == 1


async def touch_turns(conn: AsyncConnection, *, owner: str) -> int:
    """Say that an owner is alive and return how many turns it has."""
    cur = await conn.execute(
        """
        UPDATE live_turns
           SET seen_at = now()
         WHERE owner = %(owner)s
        """,
        {"owner": owner},
    )
    return cur.rowcount


async def find_live_turn(conn: AsyncConnection, chat_id: str, *, stale_seconds: float) -> LiveTurnRow | None:
    """Return the owner of a chat's turn if it has been seen lately."""
    async with conn.cursor(row_factory=class_row(LiveTurnRow)) as cur:
        await cur.execute(
            """
            SELECT turn_id, owner, address
              FROM live_turns
             WHERE chat_id = %(chat_id)s
               AND seen_at > now() - make_interval(secs => %(stale_seconds)s)
            """,
            {"chat_id": chat_id, "stale_seconds": stale_seconds},
        )
        return await cur.fetchone()


async def list_live_chats(conn: AsyncConnection, *, stale_seconds: float) -> list[str]:
    """Return all chats that have a live turn on any replica; they are few."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT chat_id
              FROM live_turns
             WHERE seen_at > now() - make_interval(secs => %(stale_seconds)s)
            """,
            {"stale_seconds": stale_seconds},
        )
        return await cur.fetchall()


async def has_grant(conn: AsyncConnection, chat_id: str, tool: str) -> bool:
    """Whether a person allowed a tool for the whole chat."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT EXISTS (
                SELECT
                  FROM tool_grants
                 WHERE chat_id = %(chat_id)s
                   AND tool = %(tool)s
            )
            """,
            {"chat_id": chat_id, "tool": tool},
        )
        return bool(await cur.fetchone())


async def insert_grant(conn: AsyncConnection, chat_id: str, tool: str) -> None:
    """Allow a tool for the whole chat; nothing happens if the chat is gone."""
    await conn.execute(
        """
        INSERT INTO tool_grants (chat_id, tool)
        SELECT id, %(tool)s
          FROM chats
         WHERE id = %(chat_id)s
        ON CONFLICT ON CONSTRAINT tool_grants_pkey DO NOTHING
        """,
        {"chat_id": chat_id, "tool": tool},
    )
