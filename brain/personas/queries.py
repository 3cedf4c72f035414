"""All SQL of the personas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class PersonaRow(msgspec.Struct, frozen=True):
    """A persona as stored; ``allowed_namespaces`` is a JSON array."""

    id: int
    name: str
    system_prompt: str
    allowed_namespaces: str
    remember: bool


async def list_personas(conn: AsyncConnection) -> list[PersonaRow]:
    """Return all rows by id."""
    async with conn.cursor(row_factory=class_row(PersonaRow)) as cur:
        await cur.execute(
            """
            SELECT id, name, system_prompt, allowed_namespaces, remember
              FROM personas
             ORDER BY id
            """,
        )
        return await cur.fetchall()


async def find_persona(conn: AsyncConnection, persona_id: int) -> PersonaRow | None:
    """Return one row."""
    async with conn.cursor(row_factory=class_row(PersonaRow)) as cur:
        await cur.execute(
            """
            SELECT id, name, system_prompt, allowed_namespaces, remember
              FROM personas
             WHERE id = %(persona_id)s
            """,
            {"persona_id": persona_id},
        )
        return await cur.fetchone()


async def insert_persona(
    conn: AsyncConnection,
    *,
    name: str,
    system_prompt: str,
    allowed_namespaces: str,
    remember: bool,
) -> PersonaRow:
    """Add a row."""
    async with conn.cursor(row_factory=class_row(PersonaRow)) as cur:
        await cur.execute(
            """
            INSERT INTO personas (name, system_prompt, allowed_namespaces, remember)
            VALUES (%(name)s, %(system_prompt)s, %(allowed_namespaces)s, %(remember)s)
            RETURNING id, name, system_prompt, allowed_namespaces, remember
            """,
            {
                "name": name,
                "system_prompt": system_prompt,
                "allowed_namespaces": allowed_namespaces,
                "remember": remember,
            },
        )
        row = await cur.fetchone()
        assert row is not None, "INSERT ... RETURNING answers with its row"
        return row


async def update_persona(
    conn: AsyncConnection,
    persona_id: int,
    *,
    name: str,
    system_prompt: str,
    allowed_namespaces: str,
    remember: bool | None,
) -> PersonaRow | None:
    """Replace a row; ``None`` if it is gone. ``remember`` keeps its value if not given."""
    async with conn.cursor(row_factory=class_row(PersonaRow)) as cur:
        await cur.execute(
            """
            UPDATE personas
               SET name = %(name)s,
                   system_prompt = %(system_prompt)s,
                   allowed_namespaces = %(allowed_namespaces)s,
                   remember = coalesce(%(remember)s, remember)
             WHERE id = %(persona_id)s
            RETURNING id, name, system_prompt, allowed_namespaces, remember
            """,
            {
                "persona_id": persona_id,
                "name": name,
                "system_prompt": system_prompt,
                "allowed_namespaces": allowed_namespaces,
                "remember": remember,
            },
        )
        return await cur.fetchone()


async def delete_persona(conn: AsyncConnection, persona_id: int) -> bool:
    """Delete a row; whether there was one."""
    cur = await conn.execute(
        """
        DELETE FROM personas
         WHERE id = %(persona_id)s
        """,
        {"persona_id": persona_id},
    )
    return cur.rowcount > 0
