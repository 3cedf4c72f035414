"""Writing entities and their attributes (memory.md sections 5.1 to 5.4): text and vector change in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from psycopg.errors import UniqueViolation

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import queries, queries_history, queries_vectors, queries_views
from brain.memory.keep_out import attribute_statement, find_kept_out
from brain.memory.matches import find_near_matches
from brain.memory.normalise import (
    entity_text,
    is_placeholder,
    normalise_category,
    normalise_key,
    normalise_name,
    normalise_value,
)
from brain.memory.queries_history import NewRevision
from brain.memory.tokens import terms_of
from brain.memory.views import Author, CreatedEntity, Entity, EntityView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.memory.generations import Vectors, VectorSpaces

LOOKUP_CHUNK: Final = 500
"""Keys of one lookup in a bulk creation."""


class EntityKey(msgspec.Struct, frozen=True):
    """What makes an entity unique, normalised."""

    name: str
    category: str


class AttributeChange(msgspec.Struct, frozen=True):
    """What became of one attribute; ``erased``: a person erased this value, so it was not set."""

    key: str
    changed: bool
    erased: bool


class EntityStore:
    """Creates, renames and describes entities. Safe under concurrent callers."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        spaces: VectorSpaces,
        match_threshold: float | None = None,
    ) -> None:
        self._pool = pool
        self._spaces = spaces
        self._match_threshold = match_threshold

    async def create(self, name: str, category: str = "general") -> CreatedEntity:
        """Return the entity with this name and category, made if need be, and what is close to it. Nothing is merged.

        Raises:
            InvalidInputError: name or category is blank.
            EmbeddingError: a new entity could not be embedded.
        """
        key = EntityKey(normalise_name(name), normalise_category(category))
        async with self._pool.connection() as conn:
            entity_id = await queries.find_entity_by_key(conn, key.name, key.category)
            spaces = await self._spaces.read(conn)
        created = False
        if entity_id is None:
            vectors = await self._spaces.embed_passages(spaces, [entity_text(key.name, key.category, {})])
            async with self._pool.connection() as conn, conn.transaction():
                entity_id, created = await self._insert(conn, key, vectors)
                if created:
                    await queries.bump_version(conn)
        async with self._pool.connection() as conn:
            view = await _view(conn, entity_id)
            near = await find_near_matches(conn, spaces.active, view.entity, self._match_threshold)
        return CreatedEntity(view, created, near)

    async def create_many(self, keys: Sequence[EntityKey]) -> tuple[list[int], int]:
        """Return the ids of entities in input order and how many had to be made; one transaction, one bump at most.

        Raises:
            EmbeddingError: nothing was written.
        """
        distinct = list(dict.fromkeys(keys))
        async with self._pool.connection() as conn:
            known = await _find_known(conn, distinct)
            spaces = await self._spaces.read(conn)
        missing = [key for key in distinct if key not in known]
        texts = [entity_text(key.name, key.category, {}) for key in missing]
        vectors = await self._spaces.embed_passages(spaces, texts)
        inserted = 0
        if missing:
            async with self._pool.connection() as conn, conn.transaction():
                for at, key in enumerate(missing):
                    own = {generation: [rows[at]] for generation, rows in vectors.items()}
                    known[key], created = await self._insert(conn, key, own)
                    inserted += created
                if inserted:
                    await queries.bump_version(conn)
        return [known[key] for key in keys], inserted

    async def refine(
        self,
        entity_id: int,
        name: str | None = None,
        category: str | None = None,
        *,
        author: Author = "writer",
    ) -> EntityView:
        """Rename or recategorise an entity; ``None`` keeps. The old name stays as another name.

        Raises:
            InvalidInputError: a blank value, or another entity holds the new name and category (merge them instead).
            NotFoundError: the entity does not exist.
            EmbeddingError: nothing was changed.
        """
        new_name = None if name is None else normalise_name(name)
        new_category = None if category is None else normalise_category(category)
        try:
            async with self._pool.connection() as conn, conn.transaction():
                old = await _lock(conn, entity_id)
                new = Entity(entity_id, new_name or old.canonical_name, new_category or old.category)
                if new != old:
                    await self._rename(conn, old, new, author)
                return await _view(conn, entity_id)
        except UniqueViolation as problem:
            if problem.diag.constraint_name != queries.ENTITY_KEY:
                raise
            raise InvalidInputError(
                "another entity of this name and category was created meanwhile: merge the two instead",
            ) from problem

    async def set_attributes(
        self,
        entity_id: int,
        attributes: Mapping[str, str],
        *,
        author: Author = "writer",
    ) -> int:
        """Set attributes and return how many really changed. What a person erased is passed over.

        Raises:
            InvalidInputError: a blank key, a blank or multi-line value.
            NotFoundError: the entity does not exist.
            EmbeddingError: nothing was changed.
        """
        wanted = {normalise_key(key): normalise_value(value) for key, value in attributes.items()}
        if not wanted:
            return 0
        async with self._pool.connection() as conn, conn.transaction():
            entity = await _lock(conn, entity_id)
            present = (await queries.get_attributes(conn, [entity_id])).get(entity_id, {})
            changed = {key: value for key, value in wanted.items() if present.get(key) != value}
            if author != "person":
                changed = await _without_erased(conn, entity, changed)
            if not changed:
                return 0
            await self._restate(conn, entity, {**present, **changed})
            await queries.upsert_attributes(conn, entity_id, changed)
            await _record(conn, entity_id, author, {key: (present.get(key), value) for key, value in changed.items()})
            await queries.bump_version(conn)
        return len(changed)

    async def set_attribute(
        self,
        entity_id: int,
        key: str,
        value: str,
        *,
        author: Author = "writer",
    ) -> AttributeChange:
        """Set one attribute and say what became of it; raises like ``set_attributes``."""
        stored, wanted = normalise_key(key), normalise_value(value)
        changed = await self.set_attributes(entity_id, {stored: wanted}, author=author) > 0
        if changed:
            return AttributeChange(stored, changed=True, erased=False)
        async with self._pool.connection() as conn:
            present = (await queries.get_attributes(conn, [entity_id])).get(entity_id, {})
        return AttributeChange(stored, changed=False, erased=present.get(stored) != wanted)

    async def delete_attribute(self, entity_id: int, key: str, *, author: Author = "writer") -> str:
        """Delete an attribute and return its key as stored.

        Raises:
            NotFoundError: the entity does not exist or has no such attribute.
            EmbeddingError: nothing was changed.
        """
        stored = normalise_key(key)
        async with self._pool.connection() as conn, conn.transaction():
            entity = await _lock(conn, entity_id)
            present = (await queries.get_attributes(conn, [entity_id])).get(entity_id, {})
            if stored not in present:
                raise NotFoundError(f"attribute of entity {entity_id}", stored)
            rest = {other: value for other, value in present.items() if other != stored}
            await self._restate(conn, entity, rest)
            await queries.delete_attributes(conn, entity_id, [stored])
            await _record(conn, entity_id, author, {stored: (present[stored], None)})
            await queries.bump_version(conn)
        return stored

    async def _insert(self, conn: AsyncConnection, key: EntityKey, vectors: Vectors) -> tuple[int, bool]:
        terms, _ = terms_of(entity_text(key.name, key.category, {}))
        spaces = await self._spaces.read(conn, hold=True)
        entity_id = await queries.insert_entity(conn, key.name, key.category, terms)
        if entity_id is None:
            winner = await queries.find_entity_by_key(conn, key.name, key.category)
            if winner is None:
                raise InvalidInputError(f"entity {key.name!r} was removed meanwhile: try again")
            return winner, False
        complete = await self._spaces.embed_passages(spaces, [entity_text(key.name, key.category, {})], vectors)
        for generation in spaces.all:
            if generation.id in complete:
                await queries_vectors.put_entity_vector(conn, entity_id, generation.id, complete[generation.id][0])
        return entity_id, True

    async def _rename(self, conn: AsyncConnection, old: Entity, new: Entity, author: Author) -> None:
        other = await queries.find_entity_by_key(conn, new.canonical_name, new.category)
        if other is not None:
            raise InvalidInputError(
                f"entity {other} already is {new.canonical_name!r} ({new.category}): merge the two instead",
            )
        attributes = (await queries.get_attributes(conn, [old.id])).get(old.id, {})
        if new.canonical_name != old.canonical_name:
            # The next unknown dentist may be another one.
            if not is_placeholder(old.canonical_name):
                await queries.add_aliases(conn, old.id, [old.canonical_name])
            await queries.drop_alias(conn, old.id, new.canonical_name)
        await self._restate(conn, new, attributes)
        await queries.update_entity(conn, new.id, new.canonical_name, new.category)
        before, after = (f"{entity.canonical_name} ({entity.category})" for entity in (old, new))
        await queries_history.insert_revisions(conn, [NewRevision("entity", old.id, author, "edited", before, after)])
        await queries.bump_version(conn)

    async def _restate(self, conn: AsyncConnection, entity: Entity, attributes: dict[str, str]) -> None:
        await restate_entity(conn, self._spaces, entity, attributes)


async def restate_entity(
    conn: AsyncConnection,
    spaces: VectorSpaces,
    entity: Entity,
    attributes: dict[str, str],
) -> None:
    """Store the vectors and words of an entity's final text; the caller holds its row lock.

    Raises:
        EmbeddingError: the model of the active generation failed.
    """
    text = entity_text(entity.canonical_name, entity.category, attributes)
    current = await spaces.read(conn, hold=True)
    vectors = await spaces.embed_passages(current, [text])
    stale = [generation.id for generation in current.all if generation.id not in vectors]
    await queries_vectors.drop_entity_vectors(conn, entity.id, stale)
    for generation in current.all:
        if generation.id in vectors:
            await queries_vectors.put_entity_vector(conn, entity.id, generation.id, vectors[generation.id][0])
    await store_terms(conn, entity, attributes)


async def store_terms(conn: AsyncConnection, entity: Entity, attributes: dict[str, str]) -> None:
    """Store the words by which an entity is found: its text and its other names."""
    text = entity_text(entity.canonical_name, entity.category, attributes)
    terms, _ = terms_of("\n".join([text, *await queries.get_aliases(conn, entity.id)]))
    await queries.set_entity_terms(conn, entity.id, terms)


async def _find_known(conn: AsyncConnection, keys: Sequence[EntityKey]) -> dict[EntityKey, int]:
    known: dict[EntityKey, int] = {}
    for start in range(0, len(keys), LOOKUP_CHUNK):
        chunk = keys[start : start + LOOKUP_CHUNK]
        names, categories = [key.name for key in chunk], [key.category for key in chunk]
        found = await queries.find_entities_by_keys(conn, names, categories)
        known.update({EntityKey(name, category): entity_id for (name, category), entity_id in found.items()})
    return known


async def _lock(conn: AsyncConnection, entity_id: int) -> Entity:
    locked = await queries.lock_entities(conn, [entity_id])
    if entity_id not in locked:
        raise NotFoundError("entity", entity_id)
    return locked[entity_id]


async def _view(conn: AsyncConnection, entity_id: int) -> EntityView:
    view = (await queries_views.get_entity_views(conn, [entity_id])).get(entity_id)
    if view is None:
        raise NotFoundError("entity", entity_id)
    return view


async def _without_erased(conn: AsyncConnection, entity: Entity, attributes: dict[str, str]) -> dict[str, str]:
    statements = {key: attribute_statement(entity.canonical_name, key, value) for key, value in attributes.items()}
    erased = await find_kept_out(conn, statements.values())
    return {key: value for key, value in attributes.items() if statements[key] not in erased}


async def _record(
    conn: AsyncConnection,
    entity_id: int,
    author: Author,
    changes: Mapping[str, tuple[str | None, str | None]],
) -> None:
    if author == "import":
        # The file is the history of an import; thousands of first values would only bury what people changed.
        return
    revisions = [
        NewRevision(
            "entity",
            entity_id,
            author,
            "edited",
            None if before is None else f"{key}: {before}",
            None if after is None else f"{key}: {after}",
        )
        for key, (before, after) in changes.items()
    ]
    await queries_history.insert_revisions(conn, revisions)
