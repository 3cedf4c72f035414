"""From a region of a chat to records in the memory: extraction, echo check, writer, and the run that all of it is filed under."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from uuid import UUID

import msgspec
import structlog

from brain.chats import queries as chat_queries
from brain.chats.validation import InvalidHistoryError, check_snapshot
from brain.errors import BrainError, failure_chain
from brain.jobs import queries as job_queries
from brain.memory import queries_history
from brain.memory.queries_history import NewRun
from shared_protocol.codec import decode_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.jobs.queries import JobRow
    from brain.memory.evidence import Fact
    from brain.memory.extraction import Extraction, Extractor, Flavour
    from brain.memory.recall import Searcher
    from brain.memory.writer import Writer
    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)

RunKind: TypeAlias = Literal["chat", "replay", "digest"]

REPLAY_KEY_PREFIX: Final = "replay:"
ECHO_LOOKUPS: Final = 50
"""Facts of one run that are looked up in the memory before they are believed."""
NOTES_PER_LOOKUP: Final = 5
NOTHING: Final = "nothing"
WRITTEN: Final = "written"
MAX_OUTCOME_CHARS: Final = 500


class CorruptSnapshotError(BrainError):
    """The messages of a job cannot be read; waiting will not help, but they are kept for a person to look at."""


class DroppedJobError(BrainError):
    """The job of a running extraction is not in the queue any more."""


class Origin(msgspec.Struct, frozen=True):
    """Where messages come from: what notes are filed under."""

    kind: RunKind
    job_id: int | None = None
    chat_id: str | None = None
    chat_title: str | None = None
    first_index: int = 0


class MemoryPipeline:
    """Remembers regions of chats and submissions. Remembering the same thing twice adds nothing."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        extractor: Extractor,
        writer: Writer,
        search: Searcher,
        *,
        today: Callable[[], date] = lambda: datetime.now().astimezone().date(),
    ) -> None:
        self._pool = pool
        self.extractor = extractor
        self._writer = writer
        self._search = search
        self._today = today

    async def work(self, job: JobRow) -> None:
        """Remember the region of a queued job.

        Raises:
            CorruptSnapshotError: its messages cannot be read.
            StageError: a model failed.
        """
        try:
            messages = decode_messages(job.chat_json)
            check_snapshot(messages)
        except (msgspec.DecodeError, InvalidHistoryError) as problem:
            raise CorruptSnapshotError(f"the messages of job {job.id} cannot be read") from problem
        kind: RunKind = "chat" if job.chat_id is not None else "replay"
        await self.remember(messages, Origin(kind, job.id, job.chat_id, job.chat_title, job.first_index))

    async def remember(self, messages: Sequence[Message], origin: Origin, *, flavour: Flavour = "conversation") -> None:
        """Extract the facts of messages and record them.

        Raises:
            CapabilityError: the extraction model cannot read the content.
            StageError: a model failed; what was written stays.
        """
        if not messages:
            return
        run_id = await self._begin(origin, len(messages), flavour)
        try:
            extraction = await self._extract(messages, origin, flavour)
            if extraction.facts:
                await self._refuse_dropped(origin)
                facts = await self._placed(extraction.facts, origin)
                await self._writer.write(facts, run_id=run_id, today=self._today())
        except Exception as problem:
            await self._finish(run_id, failure_chain(problem).replace("\n", " "), None)
            raise
        await self._finish(run_id, WRITTEN if extraction.facts else NOTHING, extraction)

    async def _extract(self, messages: Sequence[Message], origin: Origin, flavour: Flavour) -> Extraction:
        extract = self.extractor.extract
        first = await extract(messages, flavour=flavour, first_index=origin.first_index)
        if flavour == "digest":
            return first
        return self.extractor.without_echoes(first, messages, origin.first_index, await self._known_texts(first))

    async def _refuse_dropped(self, origin: Origin) -> None:
        """Write nothing of a job that a person dropped, or erased, while the model was reading it.

        Raises:
            DroppedJobError: the job is gone.
        """
        if origin.job_id is None:
            return
        async with self._pool.connection() as conn:
            if not await job_queries.job_exists(conn, origin.job_id):
                raise DroppedJobError(f"job {origin.job_id} was dropped while it was worked on")

    async def _placed(self, facts: Sequence[Fact], origin: Origin) -> Sequence[Fact]:
        """Take the positions off facts of a chat that still exists: what was queued from it was cut out of it by a compaction."""
        if origin.chat_id is None:
            return facts
        async with self._pool.connection() as conn:
            chat = await chat_queries.find_chat_head(conn, origin.chat_id)
        return facts if chat is None else [msgspec.structs.replace(fact, message_index=None) for fact in facts]

    async def _known_texts(self, extraction: Extraction) -> list[str]:
        """Return recorded notes that say something like what the assistant said: it may have said it out of memory."""
        known: dict[int, str] = {}
        for fact in [fact for fact in extraction.facts if fact.from_assistant][:ECHO_LOOKUPS]:
            found = await self._search.search(fact.text[:1000], note_limit=NOTES_PER_LOOKUP, entity_limit=0)
            known.update({hit.note.id: hit.note.note for hit in found.notes})
        return list(known.values())

    async def _begin(self, origin: Origin, count: int, flavour: Flavour) -> UUID:
        run = NewRun(
            kind=origin.kind,
            job_id=origin.job_id,
            chat_id=origin.chat_id,
            chat_title=origin.chat_title,
            first_message=origin.first_index,
            last_message=origin.first_index + count - 1,
            extraction_model=self.extractor.model.id,
            writer_model=self._writer.model.id,
            prompt_version=self.extractor.prompt_version(flavour),
        )
        async with self._pool.connection() as conn:
            return await queries_history.insert_run(conn, run)

    async def _finish(self, run_id: UUID, outcome: str, extraction: Extraction | None) -> None:
        async with self._pool.connection() as conn:
            await queries_history.finish_run(
                conn,
                run_id,
                outcome=outcome.replace("\x00", "")[:MAX_OUTCOME_CHARS],
                rung=None if extraction is None else extraction.rung,
                facts=0 if extraction is None else len(extraction.facts),
                facts_dropped=0 if extraction is None else extraction.dropped_count,
            )
