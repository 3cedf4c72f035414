"""Routes under ``/api/eltm`` that read: browsing, search, sources, figures."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from brain.api.errors import error_answers
from brain.memory.assembly import MemoryParts
from brain.memory.health import EntityPair, MemoryHealth, NotePair
from brain.memory.normalise import check_range, parse_date
from brain.memory.provenance import NoteDetail
from brain.memory.queries_search import NoteFilter
from brain.memory.ranking import Ranks
from brain.memory.search import SearchResult
from brain.memory.views import Entity, EntityView, Note, RelationshipView, Subject

Flag = Literal["true", "false"]
PageLimit = Annotated[int, QueryParameter(ge=1, le=500)]
SearchLimit = Annotated[int, QueryParameter(ge=1, le=100)]
Offset = Annotated[int, QueryParameter(ge=0, le=2**53)]
FromDay = Annotated[str | None, QueryParameter(name="from", description="Earliest event date, YYYY-MM-DD, inclusive")]
ToDay = Annotated[str | None, QueryParameter(name="to", description="Latest event date, YYYY-MM-DD, inclusive")]
OfEntity = Annotated[int | None, QueryParameter(name="entityId")]
OfRelationship = Annotated[int | None, QueryParameter(name="relationshipId")]
IncludeInvalid = Annotated[Flag, QueryParameter(name="includeInvalid")]

ROOT: Final = "/api/eltm"


class FoundNote(msgspec.Struct, frozen=True, rename="camel"):
    """A note that was found, with the parts of its score."""

    note: Note
    subject: Subject
    score: float
    ranks: Ranks
    similarity: float | None


class FoundEntity(msgspec.Struct, frozen=True, rename="camel"):
    """An entity that was found, with the parts of its score."""

    entity: Entity
    score: float
    ranks: Ranks
    similarity: float | None


class MemorySearch(msgspec.Struct, frozen=True, rename="camel"):
    """Hits, best first; ``degraded`` says why a part of the search was left out."""

    notes: list[FoundNote]
    entities: list[FoundEntity]
    degraded: str | None


class MemoryReading(Controller):
    """The long-term memory, read."""

    path = ROOT
    tags = ("memory",)

    @get("/entities", operation_id="listEntities", summary="List entities", responses=error_answers(400))
    async def list_entities(
        self,
        memory: NamedDependency[MemoryParts],
        limit: PageLimit = 100,
        offset: Offset = 0,
    ) -> list[EntityView]:
        """Return a page of entities by id."""
        return await memory.store.reads.list_entities(limit, offset)

    @get("/entities/{entity_id:str}", operation_id="getEntity", summary="Get an entity", responses=error_answers(400, 404))
    async def get_entity(self, entity_id: FromPath[int], memory: NamedDependency[MemoryParts]) -> EntityView:
        """Return an entity with counts, attributes and newest note."""
        return await memory.store.reads.get_entity(entity_id)

    @get(
        "/entities/{entity_id:str}/relationships",
        operation_id="listEntityRelationships",
        summary="List the relationships of an entity",
        responses=error_answers(400, 404),
    )
    async def list_entity_relationships(
        self,
        entity_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        include_invalid: IncludeInvalid = "false",
    ) -> list[RelationshipView]:
        """Return relationships in both directions, newest id first; ended ones only if asked for."""
        return await memory.store.reads.list_relationships_of(entity_id, include_invalid=include_invalid == "true")

    @get(
        "/entities/{entity_id:str}/notes",
        operation_id="listEntityNotes",
        summary="List the notes of an entity",
        responses=error_answers(400, 404),
    )
    async def list_entity_notes(
        self,
        entity_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        limit: PageLimit = 100,
        offset: Offset = 0,
        start: FromDay = None,
        end: ToDay = None,
    ) -> list[Note]:
        """Return notes, newest first."""
        days = read_range(start, end)
        return await memory.store.reads.list_entity_notes(entity_id, days.start, days.end, limit, offset)

    @get("/relationships", operation_id="listRelationships", summary="List relationships", responses=error_answers(400))
    async def list_relationships(
        self,
        memory: NamedDependency[MemoryParts],
        limit: PageLimit = 100,
        offset: Offset = 0,
    ) -> list[RelationshipView]:
        """Return a page of relationships by id, ended ones included."""
        return await memory.store.reads.list_relationships(limit, offset)

    @get(
        "/relationships/{relationship_id:str}",
        operation_id="getRelationship",
        summary="Get a relationship",
        responses=error_answers(400, 404),
    )
    async def get_relationship(
        self,
        relationship_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
    ) -> RelationshipView:
        """Return a relationship with the names of its ends."""
        return await memory.store.reads.get_relationship(relationship_id)

    @get(
        "/relationships/{relationship_id:str}/notes",
        operation_id="listRelationshipNotes",
        summary="List the notes of a relationship",
        responses=error_answers(400, 404),
    )
    async def list_relationship_notes(
        self,
        relationship_id: FromPath[int],
        memory: NamedDependency[MemoryParts],
        limit: PageLimit = 100,
        offset: Offset = 0,
        start: FromDay = None,
        end: ToDay = None,
    ) -> list[Note]:
        """Return notes, newest first."""
        days = read_range(start, end)
        return await memory.store.reads.list_relationship_notes(relationship_id, days.start, days.end, limit, offset)

    @get("/search", operation_id="searchMemory", summary="Search notes and entities", responses=error_answers(400))
    async def search_memory(
        self,
        memory: NamedDependency[MemoryParts],
        q: FromQuery[str],
        limit: SearchLimit = 10,
        start: FromDay = None,
        end: ToDay = None,
        entity_id: OfEntity = None,
        relationship_id: OfRelationship = None,
        category: FromQuery[str | None] = None,
    ) -> MemorySearch:
        """Return what fits best by meaning, words and names; ``limit`` holds for each of the two lists."""
        days = read_range(start, end)
        note_filter = NoteFilter(entity_id, relationship_id, days.start, days.end, (category or "").strip().lower() or None)
        return _found(await memory.search.search(q, note_limit=limit, entity_limit=limit, note_filter=note_filter))

    @get("/notes/{note_id:str}", operation_id="getNote", summary="Get a note", responses=error_answers(400, 404))
    async def get_note(self, note_id: FromPath[int], memory: NamedDependency[MemoryParts]) -> NoteDetail:
        """Return a note with its subject, its sources and its history."""
        return await memory.provenance.note_detail(note_id)

    @get("/duplicates", operation_id="listDuplicates", summary="List likely duplicates", responses=error_answers(400))
    async def list_duplicates(
        self,
        memory: NamedDependency[MemoryParts],
        limit: PageLimit = 100,
    ) -> list[EntityPair | NotePair]:
        """Return pairs that are likely the same entity or note, the closest first."""
        return await memory.figures.find_duplicates(limit)

    @get("/health", operation_id="getMemoryHealth", summary="Figures about the memory")
    async def get_health(self, memory: NamedDependency[MemoryParts]) -> MemoryHealth:
        """Return counts, unsupported and repeated notes, how extractions end, and the queue."""
        return await memory.figures.read()


def read_range(start: str | None, end: str | None) -> NoteFilter:
    """Return a range of event dates.

    Raises:
        InvalidInputError: a malformed date, or a range out of order.
    """
    first = None if start is None else parse_date(start, "from")
    last = None if end is None else parse_date(end, "to")
    check_range(first, last)
    return NoteFilter(start=first, end=last)


def _found(result: SearchResult) -> MemorySearch:
    return MemorySearch(
        notes=[FoundNote(hit.note, hit.subject, hit.score, hit.ranks, hit.similarity) for hit in result.notes],
        entities=[FoundEntity(hit.view.entity, hit.score, hit.ranks, hit.similarity) for hit in result.entities],
        degraded=result.degraded,
    )
