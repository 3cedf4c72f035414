"""SQL of forgetting (a mark that can be undone) and of erasing (rows that are gone)."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec
from psycopg.rows import class_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection


class EntityText(msgspec.Struct, frozen=True):
    """An entity, forgotten or not."""

    id: int
    canonical_name: str
    category: str
    forget_id: int | None


class RelationshipText(msgspec.Struct, frozen=True):
    """A relationship in words, forgotten or not."""

    id: int
    src_name: str
    verb: str
    dst_name: str
    forget_id: int | None


class NoteText(msgspec.Struct, frozen=True):
    """A note, forgotten or not."""

    id: int
    entity_id: int | None
    relationship_id: int | None
    event_date: date
    note: str
    forget_id: int | None


class AttributeText(msgspec.Struct, frozen=True):
    """An attribute with the name of its entity."""

    entity_id: int
    entity_name: str
    key: str
    value: str


class SourceText(msgspec.Struct, frozen=True):
    """A source, as far as an erasure needs it."""

    id: int
    note_id: int
    chat_id: str | None
    excerpt: str


async def add_forget(conn: AsyncConnection) -> int:
    """Record an act of forgetting and return its id."""
    cur = await conn.execute("INSERT INTO eltm_forgets DEFAULT VALUES RETURNING id")
    row = await cur.fetchone()
    assert row is not None
    return int(row[0])


async def lock_entity_text(conn: AsyncConnection, entity_ids: Sequence[int]) -> list[EntityText]:
    """Return and lock entities, forgotten or not, in ascending order of id."""
    async with conn.cursor(row_factory=class_row(EntityText)) as cur:
        await cur.execute(
            """
            SELECT id, canonical_name, category, forget_id
              FROM eltm_entities
             WHERE id = ANY(%(ids)s)
             ORDER BY id
               FOR UPDATE
            """,
            {"ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def lock_relationship_text(
    conn: AsyncConnection,
    relationship_ids: Sequence[int],
    entity_ids: Sequence[int] = (),
) -> list[RelationshipText]:
    """Return and lock the given relationships and those of the given entities, forgotten or not, by id."""
    async with conn.cursor(row_factory=class_row(RelationshipText)) as cur:
        await cur.execute(
            """
            SELECT r.id, src.canonical_name AS src_name, r.verb, dst.canonical_name AS dst_name, r.forget_id
              FROM eltm_relationships AS r
              JOIN eltm_entities AS src ON src.id = r.src_id
              JOIN eltm_entities AS dst ON dst.id = r.dst_id
             WHERE r.id = ANY(%(ids)s) OR r.src_id = ANY(%(entity_ids)s) OR r.dst_id = ANY(%(entity_ids)s)
             ORDER BY r.id
               FOR UPDATE OF r
            """,
            {"ids": list(relationship_ids), "entity_ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def lock_note_text(
    conn: AsyncConnection,
    note_ids: Sequence[int],
    entity_ids: Sequence[int] = (),
    relationship_ids: Sequence[int] = (),
) -> list[NoteText]:
    """Return and lock the given notes and those of the given subjects, forgotten or not, by id."""
    async with conn.cursor(row_factory=class_row(NoteText)) as cur:
        await cur.execute(
            """
            SELECT id, entity_id, relationship_id, event_date, note, forget_id
              FROM eltm_notes
             WHERE id = ANY(%(ids)s) OR entity_id = ANY(%(entity_ids)s) OR relationship_id = ANY(%(relationship_ids)s)
             ORDER BY id
               FOR UPDATE
            """,
            {"ids": list(note_ids), "entity_ids": list(entity_ids), "relationship_ids": list(relationship_ids)},
        )
        return await cur.fetchall()


async def mark_forgotten(
    conn: AsyncConnection,
    forget_id: int,
    *,
    entity_ids: Sequence[int] = (),
    relationship_ids: Sequence[int] = (),
    note_ids: Sequence[int] = (),
) -> None:
    """Mark records that are not forgotten yet, and hide their vectors from the searches."""
    parameters = {
        "forget_id": forget_id,
        "entity_ids": list(entity_ids),
        "relationship_ids": list(relationship_ids),
        "note_ids": list(note_ids),
    }
    await conn.execute(
        "UPDATE eltm_entities SET forget_id = %(forget_id)s WHERE id = ANY(%(entity_ids)s) AND forget_id IS NULL",
        parameters,
    )
    await conn.execute(
        "UPDATE eltm_relationships SET forget_id = %(forget_id)s WHERE id = ANY(%(relationship_ids)s) AND forget_id IS NULL",
        parameters,
    )
    await conn.execute(
        "UPDATE eltm_notes SET forget_id = %(forget_id)s WHERE id = ANY(%(note_ids)s) AND forget_id IS NULL",
        parameters,
    )
    await conn.execute("UPDATE eltm_entity_vectors SET hidden = true WHERE entity_id = ANY(%(entity_ids)s)", parameters)
    await conn.execute("UPDATE eltm_note_vectors SET hidden = true WHERE note_id = ANY(%(note_ids)s)", parameters)


async def undo_forget(conn: AsyncConnection, forget_id: int) -> list[int]:
    """Take back an act of forgetting and return the notes it touched.

    What belongs to something that another act made forgotten passes over to that act instead of coming back.
    """
    parameters = {"forget_id": forget_id}
    await conn.execute(
        """
        UPDATE eltm_entity_vectors
           SET hidden = false
         WHERE entity_id IN (SELECT id FROM eltm_entities WHERE forget_id = %(forget_id)s)
        """,
        parameters,
    )
    await conn.execute("UPDATE eltm_entities SET forget_id = NULL WHERE forget_id = %(forget_id)s", parameters)
    await conn.execute(
        """
        UPDATE eltm_relationships AS r
           SET forget_id = (SELECT max(e.forget_id) FROM eltm_entities AS e WHERE e.id IN (r.src_id, r.dst_id))
         WHERE r.forget_id = %(forget_id)s
        """,
        parameters,
    )
    cur = await conn.execute(
        """
        UPDATE eltm_notes AS n
           SET forget_id = (SELECT max(subject.forget_id)
                              FROM (SELECT e.forget_id FROM eltm_entities AS e WHERE e.id = n.entity_id
                                    UNION ALL
                                    SELECT r.forget_id FROM eltm_relationships AS r WHERE r.id = n.relationship_id) AS subject)
         WHERE n.forget_id = %(forget_id)s
        RETURNING n.id
        """,
        parameters,
    )
    touched = [int(row[0]) for row in await cur.fetchall()]
    await conn.execute(
        """
        UPDATE eltm_note_vectors AS v
           SET hidden = n.forget_id IS NOT NULL
          FROM eltm_notes AS n
         WHERE n.id = v.note_id AND n.id = ANY(%(note_ids)s)
        """,
        {"note_ids": touched},
    )
    return touched


async def find_forgotten_hashes(conn: AsyncConnection, hashes: Sequence[bytes]) -> set[bytes]:
    """Return which texts a forgotten note has."""
    cur = await conn.execute(
        "SELECT DISTINCT text_hash FROM eltm_notes WHERE text_hash = ANY(%(hashes)s) AND forget_id IS NOT NULL",
        {"hashes": list(hashes)},
    )
    return {bytes(row[0]) for row in await cur.fetchall()}


async def update_note(
    conn: AsyncConnection,
    note_id: int,
    *,
    event_date: date,
    note: str,
    terms: Sequence[str],
    word_count: int,
    text_hash: bytes,
) -> None:
    """Rewrite a note as a person wants it."""
    await conn.execute(
        """
        UPDATE eltm_notes
           SET event_date = %(event_date)s, note = %(note)s, terms = %(terms)s, word_count = %(word_count)s,
               text_hash = %(text_hash)s, edited = true
         WHERE id = %(id)s
        """,
        {
            "id": note_id,
            "event_date": event_date,
            "note": note,
            "terms": list(terms),
            "word_count": word_count,
            "text_hash": text_hash,
        },
    )


async def find_notes_in_range(conn: AsyncConnection, start: date, end: date) -> list[int]:
    """Return the notes of a range of event dates, forgotten or not."""
    cur = await conn.execute(
        "SELECT id FROM eltm_notes WHERE event_date BETWEEN %(start)s AND %(end)s ORDER BY id",
        {"start": start, "end": end},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_notes_only_from_chat(conn: AsyncConnection, chat_id: str) -> list[int]:
    """Return the notes all of whose sources lie in a chat."""
    cur = await conn.execute(
        """
        SELECT s.note_id
          FROM eltm_note_sources AS s
          JOIN eltm_extraction_runs AS r ON r.id = s.run_id
         GROUP BY s.note_id
        HAVING bool_and(r.chat_id IS NOT DISTINCT FROM %(chat_id)s)
         ORDER BY s.note_id
        """,
        {"chat_id": chat_id},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_relationships_left_bare(conn: AsyncConnection, note_ids: Sequence[int]) -> list[int]:
    """Return the relationships that have no note but the given ones."""
    cur = await conn.execute(
        """
        SELECT DISTINCT gone.relationship_id
          FROM eltm_notes AS gone
         WHERE gone.id = ANY(%(ids)s) AND gone.relationship_id IS NOT NULL
           AND NOT EXISTS (SELECT 1
                             FROM eltm_notes AS n
                            WHERE n.relationship_id = gone.relationship_id AND NOT n.id = ANY(%(ids)s))
         ORDER BY gone.relationship_id
        """,
        {"ids": list(note_ids)},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_subjects(conn: AsyncConnection, note_ids: Sequence[int], relationship_ids: Sequence[int]) -> list[int]:
    """Return the entities that the notes are about, and the ends of the relationships."""
    cur = await conn.execute(
        """
        SELECT entity_id FROM eltm_notes WHERE id = ANY(%(notes)s) AND entity_id IS NOT NULL
         UNION
        SELECT unnest(ARRAY[src_id, dst_id]) FROM eltm_relationships WHERE id = ANY(%(edges)s)
         ORDER BY 1
        """,
        {"notes": list(note_ids), "edges": list(relationship_ids)},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_entities_left_bare(
    conn: AsyncConnection,
    entity_ids: Sequence[int],
    note_ids: Sequence[int],
    relationship_ids: Sequence[int],
) -> list[int]:
    """Return those of the entities that have no note and no relationship but the given ones."""
    cur = await conn.execute(
        """
        SELECT e.id
          FROM eltm_entities AS e
         WHERE e.id = ANY(%(entities)s)
           AND NOT EXISTS (SELECT 1 FROM eltm_notes AS n WHERE n.entity_id = e.id AND NOT n.id = ANY(%(notes)s))
           AND NOT EXISTS (SELECT 1
                             FROM eltm_relationships AS r
                            WHERE (r.src_id = e.id OR r.dst_id = e.id) AND NOT r.id = ANY(%(edges)s))
         ORDER BY e.id
        """,
        {"entities": list(entity_ids), "notes": list(note_ids), "edges": list(relationship_ids)},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def is_said_elsewhere(conn: AsyncConnection, attribute: AttributeText, note_ids: Sequence[int]) -> bool:
    """Whether a note of the entity other than the given ones has the value of the attribute in it."""
    cur = await conn.execute(
        """
        SELECT EXISTS (SELECT 1
                         FROM eltm_notes AS n
                        WHERE n.entity_id = %(entity_id)s AND NOT n.id = ANY(%(notes)s)
                          AND position(lower(%(value)s) IN lower(n.note)) > 0)
        """,
        {"entity_id": attribute.entity_id, "value": attribute.value, "notes": list(note_ids)},
    )
    row = await cur.fetchone()
    return row is not None and bool(row[0])


async def find_notes_containing(conn: AsyncConnection, text: str) -> list[int]:
    """Return the notes that contain a text in lowercase, forgotten or not."""
    cur = await conn.execute(
        """
        SELECT id
          FROM eltm_notes
         WHERE position(%(text)s IN lower(note)) > 0
         ORDER BY id
        """,
        {"text": text},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_entities_containing(conn: AsyncConnection, text: str) -> list[int]:
    """Return the entities whose name or category contains a text in lowercase."""
    cur = await conn.execute(
        "SELECT id FROM eltm_entities WHERE position(%(text)s IN canonical_name || ' ' || category) > 0 ORDER BY id",
        {"text": text},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_relationships_containing(conn: AsyncConnection, text: str) -> list[int]:
    """Return the relationships whose verb contains a text in lowercase, with spaces or underscores."""
    cur = await conn.execute(
        "SELECT id FROM eltm_relationships WHERE position(%(text)s IN replace(verb, '_', ' ')) > 0 ORDER BY id",
        {"text": text.replace("_", " ")},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def find_attributes_containing(conn: AsyncConnection, text: str) -> list[AttributeText]:
    """Return the attributes whose key or value contains a text in lowercase."""
    async with conn.cursor(row_factory=class_row(AttributeText)) as cur:
        await cur.execute(
            """
            SELECT a.entity_id, e.canonical_name AS entity_name, a.key, a.value
              FROM eltm_entity_attributes AS a
              JOIN eltm_entities AS e ON e.id = a.entity_id
             WHERE position(%(text)s IN lower(a.value)) > 0 OR position(%(spaced)s IN replace(a.key, '_', ' ')) > 0
             ORDER BY a.entity_id, a.key
            """,
            {"text": text, "spaced": text.replace("_", " ")},
        )
        return await cur.fetchall()


async def get_attribute_texts(conn: AsyncConnection, entity_ids: Sequence[int]) -> list[AttributeText]:
    """Return all attributes of entities."""
    async with conn.cursor(row_factory=class_row(AttributeText)) as cur:
        await cur.execute(
            """
            SELECT a.entity_id, e.canonical_name AS entity_name, a.key, a.value
              FROM eltm_entity_attributes AS a
              JOIN eltm_entities AS e ON e.id = a.entity_id
             WHERE a.entity_id = ANY(%(ids)s)
             ORDER BY a.entity_id, a.key
            """,
            {"ids": list(entity_ids)},
        )
        return await cur.fetchall()


async def get_source_texts(
    conn: AsyncConnection,
    *,
    note_ids: Sequence[int] = (),
    chat_id: str | None = None,
    text: str | None = None,
) -> list[SourceText]:
    """Return the sources of notes, of a chat, or with a text in lowercase in them."""
    async with conn.cursor(row_factory=class_row(SourceText)) as cur:
        await cur.execute(
            """
            SELECT s.id, s.note_id, r.chat_id, s.excerpt
              FROM eltm_note_sources AS s
              JOIN eltm_extraction_runs AS r ON r.id = s.run_id
             WHERE s.note_id = ANY(%(note_ids)s)
                OR r.chat_id = %(chat_id)s
                OR position(%(text)s IN lower(s.excerpt)) > 0
             ORDER BY s.id
            """,
            {"note_ids": list(note_ids), "chat_id": chat_id, "text": text},
        )
        return await cur.fetchall()


async def delete_records(
    conn: AsyncConnection,
    *,
    entity_ids: Sequence[int],
    relationship_ids: Sequence[int],
    note_ids: Sequence[int],
    source_ids: Sequence[int],
) -> None:
    """Delete records with everything that hangs on them: vectors, aliases, attributes, sources, revisions."""
    parameters = {
        "entity": list(entity_ids),
        "relationship": list(relationship_ids),
        "note": list(note_ids),
        "source": list(source_ids),
    }
    await conn.execute(
        """
        DELETE FROM eltm_revisions
         WHERE (subject_type = 'entity' AND subject_id = ANY(%(entity)s))
            OR (subject_type = 'relationship' AND subject_id = ANY(%(relationship)s))
            OR (subject_type = 'note' AND subject_id = ANY(%(note)s))
        """,
        parameters,
    )
    await conn.execute("DELETE FROM eltm_note_sources WHERE id = ANY(%(source)s)", parameters)
    await conn.execute("DELETE FROM eltm_notes WHERE id = ANY(%(note)s)", parameters)
    await conn.execute("DELETE FROM eltm_relationships WHERE id = ANY(%(relationship)s)", parameters)
    await conn.execute("DELETE FROM eltm_entities WHERE id = ANY(%(entity)s)", parameters)


async def delete_attribute_history(conn: AsyncConnection, attributes: Sequence[AttributeText]) -> None:
    """Delete the revisions that have one of the values of the attributes."""
    await conn.execute(
        """
        DELETE FROM eltm_revisions AS r
         USING unnest(%(entities)s::bigint[], %(lines)s::text[]) AS gone (entity_id, line)
         WHERE r.subject_type = 'entity' AND r.subject_id = gone.entity_id AND gone.line IN (r.before, r.after)
        """,
        {
            "entities": [attribute.entity_id for attribute in attributes],
            "lines": [f"{attribute.key}: {attribute.value}" for attribute in attributes],
        },
    )


async def delete_runs_of_chat(conn: AsyncConnection, chat_id: str) -> None:
    """Delete the extraction runs of a chat with the links to it."""
    await conn.execute("DELETE FROM eltm_extraction_runs WHERE chat_id = %(chat_id)s", {"chat_id": chat_id})


async def erase_traces(conn: AsyncConnection, text: str) -> None:
    """Remove a text in lowercase from histories, other names, and the titles and errors kept with extraction runs."""
    parameters = {"text": text}
    await conn.execute(
        "DELETE FROM eltm_revisions WHERE position(%(text)s IN lower(coalesce(before, '') || ' ' || coalesce(after, ''))) > 0",
        parameters,
    )
    await conn.execute("DELETE FROM eltm_aliases WHERE position(%(text)s IN alias) > 0", parameters)
    await conn.execute(
        "UPDATE eltm_extraction_runs SET chat_title = NULL WHERE position(%(text)s IN lower(chat_title)) > 0",
        parameters,
    )
    # An error may quote what a model or a gateway answered.
    await conn.execute(
        "UPDATE eltm_extraction_runs SET outcome = 'erased' WHERE position(%(text)s IN lower(outcome)) > 0",
        parameters,
    )
    await conn.execute("UPDATE eltm_reembed SET error = 'erased' WHERE position(%(text)s IN lower(error)) > 0", parameters)


async def find_alias_owners(conn: AsyncConnection, text: str) -> list[int]:
    """Return the entities that have another name with a text in lowercase in it."""
    cur = await conn.execute(
        "SELECT DISTINCT entity_id FROM eltm_aliases WHERE position(%(text)s IN alias) > 0 ORDER BY entity_id",
        {"text": text},
    )
    return [int(row[0]) for row in await cur.fetchall()]


async def ends_are_visible(conn: AsyncConnection, relationship_id: int) -> bool:
    """Whether neither end of a relationship is forgotten."""
    cur = await conn.execute(
        """
        SELECT bool_and(e.forget_id IS NULL)
          FROM eltm_relationships AS r
          JOIN eltm_entities AS e ON e.id IN (r.src_id, r.dst_id)
         WHERE r.id = %(id)s
        """,
        {"id": relationship_id},
    )
    row = await cur.fetchone()
    return row is not None and bool(row[0])
