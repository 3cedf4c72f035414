"""What a chat is given of the memory: rewrite, search, the views for the injection. It degrades and says so, it never fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec
import psycopg
import structlog
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from brain.context import harness_xml as xml
from brain.errors import BrainError, failure_chain
from brain.memory.rewrite import newest_text
from brain.memory.views import EntitySubject
from shared_protocol.instants import Instant, now_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brain.memory.search import EntityHit, NoteHit, SearchResult
    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)

_TROUBLE = (BrainError, psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests, OSError)


class QueryRewriter(Protocol):
    """Turns the newest message into a query."""

    async def rewrite(self, messages: Sequence[Message], now: Instant) -> str | None:
        """Return the query, ``None`` when there is nothing to look up.

        Raises:
            StageError: the call failed.
        """
        ...


class Searcher(Protocol):
    """The search of the memory."""

    async def search(self, text: str, *, note_limit: int, entity_limit: int) -> SearchResult:
        """Return the best notes and entities; a limit of 0 skips that half."""
        ...


class Recollection(msgspec.Struct, frozen=True):
    """What was found for a message, in the order of the search; ``degraded`` says why a part is missing, if one is."""

    entities: tuple[xml.EntityView, ...] = ()
    notes: tuple[xml.NoteView, ...] = ()
    degraded: str | None = None


class Recaller:
    """Finds what belongs to the newest message of a chat (memory §12 and §13.4)."""

    def __init__(
        self,
        rewriter: QueryRewriter,
        search: Searcher,
        *,
        entity_limit: int,
        note_limit: int,
        now: Callable[[], Instant] = now_instant,
    ) -> None:
        self._rewriter = rewriter
        self._search = search
        self._entity_limit = entity_limit
        self._note_limit = note_limit
        self._now = now

    async def recall(self, messages: Sequence[Message]) -> Recollection:
        """Return what was found. A failed rewrite is replaced by the message itself, a failed search by nothing; both told."""
        if not self._entity_limit and not self._note_limit:
            return Recollection()
        degraded: list[str] = []
        try:
            query = await self._rewriter.rewrite(messages, self._now())
        except _TROUBLE as problem:
            logger.warning("the query rewrite failed, the message itself is searched for", error=failure_chain(problem))
            degraded.append("query rewrite failed")
            query = newest_text(messages)
        if query is None:
            return Recollection(degraded=_joined(degraded))
        try:
            found = await self._search.search(query, note_limit=self._note_limit, entity_limit=self._entity_limit)
        except _TROUBLE as problem:
            logger.warning("the memory could not be searched", error=failure_chain(problem))
            return Recollection(degraded=_joined([*degraded, "memory search failed"]))
        if found.degraded:
            degraded.append(found.degraded)
        return Recollection(
            entities=tuple(_entity(hit) for hit in found.entities),
            notes=tuple(_note(hit) for hit in found.notes),
            degraded=_joined(degraded),
        )


def _joined(reasons: Sequence[str]) -> str | None:
    return "; ".join(reasons) or None


def _entity(hit: EntityHit) -> xml.EntityView:
    entity = hit.view.entity
    return xml.EntityView(entity.id, entity.canonical_name, entity.category, tuple(hit.view.attributes.items()))


def _note(hit: NoteHit) -> xml.NoteView:
    subject = hit.subject
    if isinstance(subject, EntitySubject):
        shown: xml.EntitySubject | xml.RelationshipSubject = xml.EntitySubject(subject.name, subject.category)
    else:
        shown = xml.RelationshipSubject(subject.src_name, subject.verb, subject.dst_name)
    return xml.NoteView(hit.note.id, hit.note.event_date.isoformat(), shown, hit.note.note)
