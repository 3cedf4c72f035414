"""All SQL of the chats: rows, attachments, dropped regions, given memories, and the locks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row, scalar_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class ChatHead(msgspec.Struct, frozen=True):
    """A chat without its history."""

    id: str
    title: str
    persona_id: int
    created_at: datetime
    updated_at: datetime
    pinned: bool
    archived: bool
    temporary: bool
    remember: bool


class ChatRow(msgspec.Struct, frozen=True):
    """A whole row, the history as stored. ``version`` changes with every change of the row, whoever makes it."""

    id: str
    title: str
    chat_json: str
    eltm_version: str
    persona_id: int
    revision: int
    created_at: datetime
    updated_at: datetime
    pinned: bool
    archived: bool
    temporary: bool
    remember: bool
    version: str


class ChatChanges(msgspec.Struct, frozen=True):
    """What an edit of a chat's properties sets; ``None`` leaves a property alone."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    remember: bool | None = None


async def insert_chat(
    conn: AsyncConnection,
    chat_id: str,
    *,
    title: str,
    chat_json: str,
    persona_id: int,
    temporary: bool,
    remember: bool,
) -> ChatHead:
    """Insert a chat with an empty memory fingerprint."""
    async with conn.cursor(row_factory=class_row(ChatHead)) as cur:
        await cur.execute(
            """
            INSERT INTO chats (id, title, chat_json, persona_id, temporary, remember)
            VALUES (%(chat_id)s, %(title)s, %(chat_json)s, %(persona_id)s, %(temporary)s, %(remember)s)
            RETURNING id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember
            """,
            {
                "chat_id": chat_id,
                "title": title,
                "chat_json": chat_json,
                "persona_id": persona_id,
                "temporary": temporary,
                "remember": remember,
            },
        )
        row = await cur.fetchone()
        assert row is not None, "INSERT ... RETURNING answers with its row"
        return row


async def list_chats(
    conn: AsyncConnection,
    *,
    before_id: str | None,
    limit: int,
    with_archived: bool,
    with_temporary: bool,
) -> list[ChatHead]:
    """Return chats by id, newest first."""
    async with conn.cursor(row_factory=class_row(ChatHead)) as cur:
        await cur.execute(
            """
            SELECT id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember
              FROM chats
             WHERE (%(before_id)s::text IS NULL OR id < %(before_id)s)
               AND (%(with_archived)s OR NOT archived)
               AND (%(with_temporary)s OR NOT temporary)
             ORDER BY id DESC
             LIMIT %(limit)s
            """,
            {"before_id": before_id, "limit": limit, "with_archived": with_archived, "with_temporary": with_temporary},
        )
        return await cur.fetchall()


async def find_chat_head(conn: AsyncConnection, chat_id: str) -> ChatHead | None:
    """Return a chat without its history."""
    async with conn.cursor(row_factory=class_row(ChatHead)) as cur:
        await cur.execute(
            """
            SELECT id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember
              FROM chats
             WHERE id = %(chat_id)s
            """,
            {"chat_id": chat_id},
        )
        return await cur.fetchone()


async def find_chat(conn: AsyncConnection, chat_id: str) -> ChatRow | None:
    """Return a whole chat as stored."""
    async with conn.cursor(row_factory=class_row(ChatRow)) as cur:
        await cur.execute(
            """
            SELECT id, title, chat_json, eltm_version, persona_id, revision,
                   created_at, updated_at, pinned, archived, temporary, remember, xmin::text || '/' || ctid::text AS version
              FROM chats
             WHERE id = %(chat_id)s
            """,
            {"chat_id": chat_id},
        )
        return await cur.fetchone()


async def is_persona_remembering(conn: AsyncConnection, persona_id: int) -> bool:
    """Whether chats under a persona are remembered; so they are when it does not exist (0 is none)."""
    cur = await conn.execute(
        """
        SELECT NOT EXISTS (SELECT 1
                             FROM personas
                            WHERE id = %(persona_id)s
                              AND NOT remember)
        """,
        {"persona_id": persona_id},
    )
    row = await cur.fetchone()
    return bool(row and row[0])


async def update_history(
    conn: AsyncConnection,
    chat_id: str,
    *,
    chat_json: str,
    eltm_version: str,
    persona_id: int,
    remember: bool | None,
    expected_revision: int | None,
) -> int | None:
    """Replace the history and return its new revision; ``None`` if the chat is gone or has another revision."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            UPDATE chats
               SET chat_json = %(chat_json)s,
                   eltm_version = %(eltm_version)s,
                   persona_id = %(persona_id)s,
                   remember = coalesce(%(remember)s, remember),
                   revision = revision + 1,
                   updated_at = now()
             WHERE id = %(chat_id)s
               AND (%(expected_revision)s::bigint IS NULL OR revision = %(expected_revision)s)
            RETURNING revision
            """,
            {
                "chat_id": chat_id,
                "chat_json": chat_json,
                "eltm_version": eltm_version,
                "persona_id": persona_id,
                "remember": remember,
                "expected_revision": expected_revision,
            },
        )
        return await cur.fetchone()


async def update_properties(conn: AsyncConnection, chat_id: str, changes: ChatChanges) -> ChatHead | None:
    """Set the given properties; ``None`` if the chat is gone."""
    async with conn.cursor(row_factory=class_row(ChatHead)) as cur:
        await cur.execute(
            """
            UPDATE chats
               SET title = coalesce(%(title)s, title),
                   pinned = coalesce(%(pinned)s, pinned),
                   archived = coalesce(%(archived)s, archived),
                   remember = coalesce(%(remember)s, remember),
                   updated_at = now()
             WHERE id = %(chat_id)s
            RETURNING id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember
            """,
            {
                "chat_id": chat_id,
                "title": changes.title,
                "pinned": changes.pinned,
                "archived": changes.archived,
                "remember": changes.remember,
            },
        )
        return await cur.fetchone()


async def replace_title(conn: AsyncConnection, chat_id: str, *, old: str, new: str) -> ChatHead | None:
    """Set the title if it is still the old one."""
    async with conn.cursor(row_factory=class_row(ChatHead)) as cur:
        await cur.execute(
            """
            UPDATE chats
               SET title = %(new)s,
                   updated_at = now()
             WHERE id = %(chat_id)s
               AND title = %(old)s
            RETURNING id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember
            """,
            {"chat_id": chat_id, "old": old, "new": new},
        )
        return await cur.fetchone()


async def delete_chat(conn: AsyncConnection, chat_id: str) -> bool:
    """Delete a chat and all that hangs on it; whether there was one."""
    cur = await conn.execute(
        """
        DELETE FROM chats
         WHERE id = %(chat_id)s
        """,
        {"chat_id": chat_id},
    )
    return cur.rowcount > 0


async def list_titles_like(conn: AsyncConnection, prefix: str) -> list[str]:
    """Return the titles that start with a text, for numbering forks."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute(
            """
            SELECT title
              FROM chats
             WHERE starts_with(title, %(prefix)s)
             ORDER BY id
            """,
            {"prefix": prefix},
        )
        return await cur.fetchall()
