"""SQL of the records that the store writes: counters, entities, attributes, aliases, relationships."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

from brain.memory.views import Entity, Relationship, RelationshipSubject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

ENTITY_KEY = "eltm_entities_key"
RELATIONSHIP_KEY = "eltm_relationships_key"


class BrokenDatabaseError(Exception):
    """A row that the migrations seed is missing."""


class Triple(msgspec.Struct, frozen=True):
    """A relationship by what it says."""

    src_id: int
    dst_id: int
    verb: str


async def bump_version(conn: AsyncConnection) -> None:
    """Count one visible change. The last statement of a transaction: it makes all writers wait for one row.

    Raises:
        BrokenDatabaseError: the counter is missing.
    """
    cur = await conn.execute("UPDATE gsg_meta_number SET value = value + 1 WHERE key = 'eltm_version'")
    if cur.rowcount != 1:
        raise BrokenDatabaseError("gsg_meta_number has no row 'eltm_version'")


async def set_meta_number(conn: AsyncConnection, key: str, value: int) -> None:
    """Set a counter.

    Raises:
        BrokenDatabaseError: it is missing.
    """
    cur = await conn.execute(
        "UPDATE gsg_meta_number SET value = %(value)s WHERE key = %(key)s",
        {"key": key, "value": value},
    )
    if cur.rowcount != 1:
        raise BrokenDatabaseError(f"gsg_meta_number has no row {key!r}")


async def get_meta_number(conn: AsyncConnection, key: str) -> int:
    """Return a counter; 0 if it is missing."""
    cur = await conn.execute("SELECT value FROM gsg_meta_number WHERE key = %(key)s", {"key": key})
    row = await cur.fetchone()
    return int(row[0]) if row else 0


async def find_entity_by_key(conn: AsyncConnection, name: str, category: str) -> int | None:
    """Return the id of the entity with that name and category."""
    cur = await conn.execute(
        """
        SELECT id
          FROM eltm_entities
         WHERE canonical_name = %(name)s AND category = %(category)s AND forget_id IS NULL
        """,
        {"name": name, "category": category},
    )
    row = await cur.fetchone()
    return int(row[0]) if row else None


async def find_entities_by_keys(
    conn: AsyncConnection,
    names: Sequence[str],
    categories: Sequence[str],
) -> dict[tuple[str, str], int]:
    """Return the ids of the existing entities among pairs of name and category."""
    cur = await conn.execute(
        """
        SELECT e.canonical_name, e.category, e.id
          FROM unnest(%(names)s::text[], %(categories)s::text[]) AS wanted (name, category)
          JOIN eltm_entities AS e ON e.canonical_name = wanted.name AND e.category = wanted.category
         WHERE e.forget_id IS NULL
        """,
        {"names": list(names), "categories": list(categories)},
    )
    return {(str(name), str(category)): int(entity_id) for name, category, entity_id in await cur.fetchall()}


async def insert_entity(conn: AsyncConnection, name: str, category: str, terms: Sequence[str]) -> int | None:
    """Insert an entity and return its id; ``None`` if somebody else was first."""
    cur = await conn.execute(
        """
        INSERT INTO eltm_entities (canonical_name, category, terms)
        VALUES (%(name)s, %(category)s, %(terms)s)
            ON CONFLICT (canonical_name, category) WHERE forget_id IS NULL DO NOTHING
        RETURNING id
        """,
        {"name": name, "category": category, "terms": list(terms)},
    )
    row = await cur.fetchone()
    return int(row[0]) if row else None


async def lock_entities(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, Entity]:
    """Lock entities, always in ascending order of id so that opposite operations cannot deadlock."""
    async with conn.cursor(row_factory=class_row(Entity)) as cur:
        await cur.execute(
            """
            SELECT id, canonical_name, category
              FROM eltm_entities
             WHERE id = ANY(%(ids)s) AND forget_id IS NULL
             ORDER BY id
               FOR UPDATE
            """,
            {"ids": sorted(entity_ids)},
        )
        return {entity.id: entity for entity in await cur.fetchall()}


async def hold_entities(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, Entity]:
    """Keep entities from being merged away or forgotten until the transaction ends."""
    async with conn.cursor(row_factory=class_row(Entity)) as cur:
        await cur.execute(
            """
            SELECT id, canonical_name, category
              FROM eltm_entities
             WHERE id = ANY(%(ids)s) AND forget_id IS NULL
             ORDER BY id
               FOR KEY SHARE
            """,
            {"ids": sorted(entity_ids)},
        )
        return {entity.id: entity for entity in await cur.fetchall()}


async def get_entities(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, Entity]:
    """Return the entities that exist among the given, by id."""
    async with conn.cursor(row_factory=class_row(Entity)) as cur:
        await cur.execute(
            """
            SELECT id, canonical_name, category
              FROM eltm_entities
             WHERE id = ANY(%(ids)s) AND forget_id IS NULL
             ORDER BY id
            """,
            {"ids": list(entity_ids)},
        )
        return {entity.id: entity for entity in await cur.fetchall()}


async def update_entity(conn: AsyncConnection, entity_id: int, name: str, category: str) -> None:
    """Rename or recategorise an entity."""
    await conn.execute(
        """
        UPDATE eltm_entities
           SET canonical_name = %(name)s, category = %(category)s
         WHERE id = %(id)s
        """,
        {"id": entity_id, "name": name, "category": category},
    )


async def set_entity_terms(conn: AsyncConnection, entity_id: int, terms: Sequence[str]) -> None:
    """Store the words by which an entity is found."""
    await conn.execute(
        "UPDATE eltm_entities SET terms = %(terms)s WHERE id = %(id)s",
        {"id": entity_id, "terms": list(terms)},
    )


async def delete_entity(conn: AsyncConnection, entity_id: int) -> None:
    """Delete an entity; what still hangs on it goes with it."""
    await conn.execute("DELETE FROM eltm_entities WHERE id = %(id)s", {"id": entity_id})


async def get_attributes(conn: AsyncConnection, entity_ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the attributes of entities, keys in ascending order; entities without any are missing."""
    cur = await conn.execute(
        """
        SELECT entity_id, key, value
          FROM eltm_entity_attributes
         WHERE entity_id = ANY(%(ids)s)
         ORDER BY entity_id, key COLLATE "C"
        """,
        {"ids": list(entity_ids)},
    )
    found: dict[int, dict[str, str]] = {}
    for entity_id, key, value in await cur.fetchall():
        found.setdefault(int(entity_id), {})[str(key)] = str(value)
    return found


async def upsert_attributes(conn: AsyncConnection, entity_id: int, attributes: dict[str, str]) -> None:
    """Write attributes in one statement."""
    await conn.execute(
        """
        INSERT INTO eltm_entity_attributes (entity_id, key, value)
        SELECT %(entity_id)s, key, value
          FROM unnest(%(keys)s::text[], %(values)s::text[]) AS given (key, value)
            ON CONFLICT (entity_id, key) DO UPDATE SET value = excluded.value
        """,
        {"entity_id": entity_id, "keys": list(attributes), "values": list(attributes.values())},
    )


async def delete_attributes(conn: AsyncConnection, entity_id: int, keys: Sequence[str]) -> None:
    """Delete attributes of an entity."""
    await conn.execute(
        "DELETE FROM eltm_entity_attributes WHERE entity_id = %(entity_id)s AND key = ANY(%(keys)s)",
        {"entity_id": entity_id, "keys": list(keys)},
    )


async def get_aliases(conn: AsyncConnection, entity_id: int) -> list[str]:
    """Return the other names of an entity, sorted."""
    cur = await conn.execute(
        """
        SELECT alias
          FROM eltm_aliases
         WHERE entity_id = %(entity_id)s
         ORDER BY alias COLLATE "C"
        """,
        {"entity_id": entity_id},
    )
    return [str(row[0]) for row in await cur.fetchall()]


async def add_aliases(conn: AsyncConnection, entity_id: int, aliases: Sequence[str]) -> None:
    """Add other names to an entity; those it has stay."""
    await conn.execute(
        """
        INSERT INTO eltm_aliases (entity_id, alias)
        SELECT %(entity_id)s, alias
          FROM unnest(%(aliases)s::text[]) AS given (alias)
            ON CONFLICT (entity_id, alias) DO NOTHING
        """,
        {"entity_id": entity_id, "aliases": list(aliases)},
    )


async def drop_alias(conn: AsyncConnection, entity_id: int, alias: str) -> None:
    """Remove another name, because it has become the name."""
    await conn.execute(
        "DELETE FROM eltm_aliases WHERE entity_id = %(entity_id)s AND alias = %(alias)s",
        {"entity_id": entity_id, "alias": alias},
    )


async def find_relationship(conn: AsyncConnection, src_id: int, dst_id: int, verb: str) -> Relationship | None:
    """Return the relationship of a triple, valid or not."""
    async with conn.cursor(row_factory=class_row(Relationship)) as cur:
        await cur.execute(
            """
            SELECT id, src_id, dst_id, verb, valid
              FROM eltm_relationships
             WHERE src_id = %(src_id)s AND dst_id = %(dst_id)s AND verb = %(verb)s AND forget_id IS NULL
            """,
            {"src_id": src_id, "dst_id": dst_id, "verb": verb},
        )
        return await cur.fetchone()


async def find_relationships_by_triples(conn: AsyncConnection, triples: Sequence[Triple]) -> dict[Triple, int]:
    """Return the ids of the existing relationships among triples."""
    cur = await conn.execute(
        """
        SELECT r.src_id, r.dst_id, r.verb, r.id
          FROM unnest(%(src_ids)s::bigint[], %(dst_ids)s::bigint[], %(verbs)s::text[]) AS wanted (src_id, dst_id, verb)
          JOIN eltm_relationships AS r ON r.src_id = wanted.src_id AND r.dst_id = wanted.dst_id AND r.verb = wanted.verb
         WHERE r.forget_id IS NULL
        """,
        {
            "src_ids": [triple.src_id for triple in triples],
            "dst_ids": [triple.dst_id for triple in triples],
            "verbs": [triple.verb for triple in triples],
        },
    )
    return {Triple(int(src), int(dst), str(verb)): int(found) for src, dst, verb, found in await cur.fetchall()}


async def insert_relationship(conn: AsyncConnection, src_id: int, dst_id: int, verb: str) -> int | None:
    """Insert a relationship and return its id; ``None`` if somebody else was first."""
    cur = await conn.execute(
        """
        INSERT INTO eltm_relationships (src_id, dst_id, verb)
        VALUES (%(src_id)s, %(dst_id)s, %(verb)s)
            ON CONFLICT (src_id, dst_id, verb) WHERE forget_id IS NULL DO NOTHING
        RETURNING id
        """,
        {"src_id": src_id, "dst_id": dst_id, "verb": verb},
    )
    row = await cur.fetchone()
    return int(row[0]) if row else None


async def hold_relationship(conn: AsyncConnection, relationship_id: int) -> Relationship | None:
    """Keep a relationship from being merged away or forgotten until the transaction ends."""
    async with conn.cursor(row_factory=class_row(Relationship)) as cur:
        await cur.execute(
            """
            SELECT id, src_id, dst_id, verb, valid
              FROM eltm_relationships
             WHERE id = %(id)s AND forget_id IS NULL
               FOR NO KEY UPDATE
            """,
            {"id": relationship_id},
        )
        return await cur.fetchone()


async def set_valid(conn: AsyncConnection, relationship_id: int, *, valid: bool) -> bool:
    """Set whether the relationship holds; ``False`` if it is gone."""
    cur = await conn.execute(
        "UPDATE eltm_relationships SET valid = %(valid)s WHERE id = %(id)s AND forget_id IS NULL",
        {"id": relationship_id, "valid": valid},
    )
    return cur.rowcount == 1


async def list_relationships_touching(conn: AsyncConnection, entity_id: int) -> list[Relationship]:
    """Return and lock every relationship of an entity that is not forgotten, by id."""
    async with conn.cursor(row_factory=class_row(Relationship)) as cur:
        await cur.execute(
            """
            SELECT id, src_id, dst_id, verb, valid
              FROM eltm_relationships
             WHERE (src_id = %(entity_id)s OR dst_id = %(entity_id)s) AND forget_id IS NULL
             ORDER BY id
               FOR UPDATE
            """,
            {"entity_id": entity_id},
        )
        return await cur.fetchall()


async def repoint_relationship(conn: AsyncConnection, relationship_id: int, src_id: int, dst_id: int, *, valid: bool) -> None:
    """Give a relationship other ends."""
    await conn.execute(
        """
        UPDATE eltm_relationships
           SET src_id = %(src_id)s, dst_id = %(dst_id)s, valid = %(valid)s
         WHERE id = %(id)s
        """,
        {"id": relationship_id, "src_id": src_id, "dst_id": dst_id, "valid": valid},
    )


async def repoint_forgotten_relationships(conn: AsyncConnection, source_id: int, target_id: int) -> None:
    """Give the forgotten relationships of an entity to another one; nothing forgotten stands in another's way."""
    await conn.execute(
        """
        UPDATE eltm_relationships
           SET src_id = CASE src_id WHEN %(source_id)s THEN %(target_id)s ELSE src_id END,
               dst_id = CASE dst_id WHEN %(source_id)s THEN %(target_id)s ELSE dst_id END
         WHERE (src_id = %(source_id)s OR dst_id = %(source_id)s) AND forget_id IS NOT NULL
        """,
        {"source_id": source_id, "target_id": target_id},
    )


async def delete_relationship(conn: AsyncConnection, relationship_id: int) -> None:
    """Delete a relationship; notes that still hang on it go with it."""
    await conn.execute("DELETE FROM eltm_relationships WHERE id = %(id)s", {"id": relationship_id})


async def get_relationship_subjects(conn: AsyncConnection, relationship_ids: Sequence[int]) -> dict[int, RelationshipSubject]:
    """Return relationships with the names of both ends, by id."""
    async with conn.cursor(row_factory=class_row(RelationshipSubject)) as cur:
        await cur.execute(
            """
            SELECT r.id, src.canonical_name AS src_name, r.verb, dst.canonical_name AS dst_name, r.valid
              FROM eltm_relationships AS r
              JOIN eltm_entities AS src ON src.id = r.src_id
              JOIN eltm_entities AS dst ON dst.id = r.dst_id
             WHERE r.id = ANY(%(ids)s) AND r.forget_id IS NULL
             ORDER BY r.id
            """,
            {"ids": list(relationship_ids)},
        )
        return {subject.id: subject for subject in await cur.fetchall()}


async def limit_statement_time(conn: AsyncConnection, milliseconds: int) -> None:
    """Bound every further statement of this transaction."""
    await conn.execute("SELECT set_config('statement_timeout', %(value)s, true)", {"value": str(milliseconds)})


async def compile_pattern(conn: AsyncConnection, pattern: str) -> None:
    """Have a regular expression compiled."""
    await conn.execute("SELECT '' ~* %(pattern)s", {"pattern": pattern})
