"""All SQL of the chats: rows, attachments, dropped regions, given memories, and the locks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row, scalar_row

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """A whole row, the history as stored."""

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


class DropHead(msgspec.Struct, frozen=True):
    """A dropped region without its messages."""

    n: int
    created_at: datetime
    dropped_messages: int
    rounds: int


class ChatChanges(msgspec.Struct, frozen=True):
    """What an edit of a chat's properties sets; ``None`` leaves a property alone."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    remember: bool | None = None


# --- chats ---------------------------------------------------------------------------------------------------------------


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
                   created_at, updated_at, pinned, archived, temporary, remember
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


# --- attachments ---------------------------------------------------------------------------------------------------------


async def fetch_contents(conn: AsyncConnection, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the contents of hashes; unknown ones are left out."""
    cur = await conn.execute(
        """
        SELECT sha256, content
          FROM attachments
         WHERE sha256 = ANY(%(hashes)s)
        """,
        {"hashes": list(hashes)},
        binary=True,
    )
    return {bytes(row[0]): bytes(row[1]) for row in await cur.fetchall()}


async def fetch_content_sizes(conn: AsyncConnection, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """Return the sizes of contents in bytes; unknown ones are left out."""
    cur = await conn.execute(
        """
        SELECT sha256, length(content)
          FROM attachments
         WHERE sha256 = ANY(%(hashes)s)
        """,
        {"hashes": list(hashes)},
        binary=True,
    )
    return {bytes(row[0]): int(row[1]) for row in await cur.fetchall()}


async def hold_contents(conn: AsyncConnection, hashes: Sequence[bytes]) -> set[bytes]:
    """Keep contents from being deleted until the transaction ends; returns those that exist."""
    async with conn.cursor(row_factory=scalar_row, binary=True) as cur:
        await cur.execute(
            """
            SELECT sha256
              FROM attachments
             WHERE sha256 = ANY(%(hashes)s)
             ORDER BY sha256
               FOR KEY SHARE
            """,
            {"hashes": list(hashes)},
        )
        return {bytes(found) for found in await cur.fetchall()}


async def insert_content(conn: AsyncConnection, sha256: bytes, content: bytes) -> None:
    """Add a content unless it is there."""
    await conn.execute(
        """
        INSERT INTO attachments (sha256, content)
        VALUES (%(sha256)s, %(content)b)
        ON CONFLICT (sha256) DO NOTHING
        """,
        {"sha256": sha256, "content": content},
    )


async def list_links(conn: AsyncConnection, chat_id: str) -> list[bytes]:
    """Return the hashes that a chat uses anywhere, each once."""
    async with conn.cursor(row_factory=scalar_row, binary=True) as cur:
        await cur.execute(
            """
            SELECT DISTINCT sha256
              FROM attachment_links
             WHERE chat_id = %(chat_id)s
             ORDER BY sha256
            """,
            {"chat_id": chat_id},
        )
        return [bytes(found) for found in await cur.fetchall()]


async def replace_links(conn: AsyncConnection, chat_id: str, n: int, hashes: Sequence[bytes]) -> list[bytes]:
    """Make the links of one owner exactly these and return the hashes whose links were taken away."""
    async with conn.cursor(row_factory=scalar_row, binary=True) as cur:
        await cur.execute(
            """
            WITH added AS (
                INSERT INTO attachment_links (chat_id, n, sha256)
                SELECT %(chat_id)s, %(n)s::int, sha256
                  FROM unnest(%(hashes)s::bytea[]) AS given (sha256)
                ON CONFLICT ON CONSTRAINT attachment_links_pkey DO NOTHING
            )
            DELETE FROM attachment_links
             WHERE chat_id = %(chat_id)s
               AND n = %(n)s::int
               AND sha256 <> ALL(%(hashes)s::bytea[])
            RETURNING sha256
            """,
            {"chat_id": chat_id, "n": n, "hashes": list(hashes)},
        )
        return [bytes(found) for found in await cur.fetchall()]


async def lock_contents(conn: AsyncConnection, hashes: Sequence[bytes]) -> None:
    """Keep everybody else from linking contents until the transaction ends."""
    await conn.execute(
        """
        SELECT sha256
          FROM attachments
         WHERE sha256 = ANY(%(hashes)s)
         ORDER BY sha256
           FOR UPDATE
        """,
        {"hashes": list(hashes)},
    )


async def delete_unlinked_contents(conn: AsyncConnection, hashes: Sequence[bytes]) -> None:
    """Delete those of the contents that nothing uses; call ``lock_contents`` first."""
    await conn.execute(
        """
        DELETE FROM attachments
         WHERE sha256 = ANY(%(hashes)s)
           AND NOT EXISTS (SELECT FROM attachment_links WHERE attachment_links.sha256 = attachments.sha256)
        """,
        {"hashes": list(hashes)},
    )


# --- dropped regions and given memories ----------------------------------------------------------------------------------


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


# --- locks ---------------------------------------------------------------------------------------------------------------


async def prepare_lock_session(conn: AsyncConnection, timeout_ms: int) -> None:
    """Bound every statement of a lock session."""
    await conn.execute(
        "SELECT set_config('statement_timeout', %(timeout)s, false)",
        {"timeout": f"{timeout_ms}ms"},
    )


async def try_lock(conn: AsyncConnection, key: int) -> bool:
    """Take a session lock at once or not at all."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT pg_try_advisory_lock(%(key)s::bigint)", {"key": key})
        return bool(await cur.fetchone())


async def unlock(conn: AsyncConnection, key: int) -> bool:
    """Give a session lock back; whether this session held it."""
    async with conn.cursor(row_factory=scalar_row) as cur:
        await cur.execute("SELECT pg_advisory_unlock(%(key)s::bigint)", {"key": key})
        return bool(await cur.fetchone())


async def ping(conn: AsyncConnection) -> None:
    """Prove that the session lives."""
    await conn.execute("SELECT 1")
