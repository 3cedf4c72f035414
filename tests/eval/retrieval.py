"""Asks the gold questions of a memory that holds exactly the gold facts, and ablates the lists that the search fuses."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import date
from typing import Literal

import msgspec

from brain.memory import queries_vectors, queries_views
from brain.memory.note_search import NoteQuery, NoteSearch
from brain.memory.queries_search import NoteFilter
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tokens import query_terms
from brain.memory.views import NewNote
from tests.eval.corpus import Chat, Gold

Way = Literal["fused", "meaning", "words"]
WAYS: tuple[Way, ...] = ("fused", "meaning", "words")
DEPTH = 10


class Retrieval(msgspec.Struct, frozen=True):
    """Figures of one way of searching, over all questions or those of one kind."""

    questions: int
    recall_at_5: float
    recall_at_10: float
    mrr: float
    p95_ms: float


async def insert_gold(chats: list[Chat], store: EltmStore) -> dict[Gold, int]:
    """Record every gold fact as a note and return their ids."""
    ids: dict[Gold, int] = {}
    for chat in chats:
        for session in chat.sessions:
            for fact in session.gold:
                entity = (await store.entities.create(fact.name, fact.category)).view.entity.id
                day = date.fromisoformat(fact.date or session.day)
                attached = await store.notes.attach_to_entity(entity, [NewNote(day, fact.text)])
                ids[fact] = attached.notes[0].id
    return ids


async def measure(gold: dict[Gold, int], store: EltmStore, search: EltmSearch) -> dict[tuple[Way, str], Retrieval]:
    """Return figures by way and kind of question; the kind ``all`` is everything."""
    figures: dict[tuple[Way, str], Retrieval] = {}
    for way in WAYS:
        places: dict[str, list[int]] = defaultdict(list)
        times: list[float] = []
        for fact, note_id in gold.items():
            started = time.perf_counter()
            found = await _search(way, fact.ask, store, search)
            times.append((time.perf_counter() - started) * 1000)
            place = found.index(note_id) + 1 if note_id in found else 0
            for kind in ("all", fact.kind, f"language {fact.chat.partition('-')[0]}"):
                places[kind].append(place)
        p95 = sorted(times)[int(len(times) * 0.95)]
        for kind, found_at in places.items():
            count = len(found_at)
            figures[way, kind] = Retrieval(
                questions=count,
                recall_at_5=sum(0 < place <= 5 for place in found_at) / count,
                recall_at_10=sum(0 < place <= DEPTH for place in found_at) / count,
                mrr=sum(1 / place for place in found_at if place) / count,
                p95_ms=p95,
            )
    return figures


async def _search(way: Way, text: str, store: EltmStore, search: EltmSearch) -> list[int]:
    if way == "fused":
        return [hit.note.id for hit in (await search.search_notes(text, DEPTH)).notes]
    async with store.pool.connection() as conn, conn.transaction():
        if way == "words":
            found = await NoteSearch().find(conn, NoteQuery(None, query_terms(text), [], [], []), NoteFilter(), DEPTH)
            return [hit.id for hit in found.ranked]
    query = await store.spaces.embed_queries([text])
    async with store.pool.connection() as conn, conn.transaction():
        near = await queries_vectors.find_near_notes(conn, query.generation, query.vectors[0], DEPTH, exact=True)
        notes = await queries_views.get_notes(conn, [hit.id for hit in near])
        return [hit.id for hit in near if hit.id in notes]
