"""SQL of the attachments: contents stored once, and which chats link to them. The caller owns the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.rows import scalar_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


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
