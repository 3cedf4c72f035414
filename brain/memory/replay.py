"""Old chats through the memory, window by window: state in the database, resumable, one walk over all brains (memory §17)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID, uuid4

import msgspec
import psycopg
import structlog
from psycopg.errors import UniqueViolation
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from brain.catalog import check_content
from brain.chats.validation import InvalidHistoryError, check_round_locality, check_snapshot, check_stored_chat
from brain.context.compaction import compact
from brain.context.rounds import count_rounds, round_starts
from brain.errors import BrainError, ConflictError, InvalidInputError, failure_chain
from brain.jobs.queue import enqueue_snapshot
from brain.memory import queries_replay as queries
from brain.memory.pipeline import REPLAY_KEY_PREFIX
from shared_protocol.codec import decode_messages, encode_messages
from shared_protocol.instants import now_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.catalog import ChatModel
    from brain.memory.queries_replay import ReplayRow
    from brain.runs.oneshot import RunCollector
    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)

LEASE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 10.0
DEFAULT_COMPACTION_ROUNDS: Final = 8
DEFAULT_CONTEXT_ROUNDS: Final = 3
MAX_ERROR_CHARS: Final = 2000

_DATABASE_TROUBLE = (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests, OSError)


class ReplayStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How the latest walk stands; ``messagesTotal`` is 0 until it is finished."""

    state: Literal["idle", "running", "finished", "failed"]
    messages_total: int = 0
    windows_compacted: int = 0
    jobs_queued: int = 0
    error: str | None = None


class ReplayService:
    """Starts walks, tells how they stand, and walks. Every step is one transaction: what it queued and where it stands."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        collector: RunCollector,
        compact_model: ChatModel,
        extraction_model: ChatModel,
        *,
        lease_seconds: float = LEASE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._pool = pool
        self._collector = collector
        self._compact_model = compact_model
        self._extraction_model = extraction_model
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()

    async def status(self) -> ReplayStatus:
        """Return how the latest walk stands."""
        async with self._pool.connection() as conn:
            row = await queries.find_latest_replay(conn)
        if row is None:
            return ReplayStatus("idle")
        total = row.messages_total if row.state == "finished" else 0
        return ReplayStatus(row.state, total, row.windows_compacted, row.jobs_queued, row.error)

    async def start(
        self,
        messages: Sequence[Message],
        *,
        title: str = "",
        compaction_rounds: int = DEFAULT_COMPACTION_ROUNDS,
        context_rounds: int = DEFAULT_CONTEXT_ROUNDS,
    ) -> ReplayStatus:
        """Check an upload and start its walk.

        Raises:
            InvalidInputError: a knob or the chat breaks a rule.
            CapabilityError: a model of the pipeline cannot read the content.
            ConflictError: a walk is running.
        """
        self._check(messages, compaction_rounds, context_rounds)
        upload = encode_messages(messages).decode()
        try:
            async with self._pool.connection() as conn:
                await queries.insert_replay(
                    conn,
                    title=title.replace("\x00", ""),
                    compaction_rounds=compaction_rounds,
                    context_rounds=context_rounds,
                    messages_total=len(messages),
                    upload_json=upload,
                )
        except UniqueViolation as problem:
            if problem.diag.constraint_name != queries.SINGLE_FLIGHT:
                raise
            raise ConflictError("a replay is running: wait until it is finished") from problem
        self._wake.set()
        return ReplayStatus("running")

    def _check(self, messages: Sequence[Message], compaction_rounds: int, context_rounds: int) -> None:
        try:
            # The stricter rules of an import are for chats that are stored and sent to a provider again.
            check_stored_chat(messages)
            check_round_locality(messages)
        except InvalidHistoryError as problem:
            raise InvalidInputError(str(problem)) from problem
        if context_rounds < 1:
            raise InvalidInputError("contextRounds must be at least 1")
        if compaction_rounds < 2:
            raise InvalidInputError("compactionRounds must be at least 2")
        if count_rounds(messages) == 0:
            raise InvalidInputError("the chat has no user message")
        check_content(self._compact_model, messages)
        check_content(self._extraction_model, messages)

    async def run(self) -> None:
        """Walk whatever walk has no brain, until cancelled; a walk in hand is then given back at once."""
        while True:
            try:
                worked = await self.walk_one()
            except _DATABASE_TROUBLE as problem:
                logger.warning("replays cannot be read", error=str(problem))
                worked = False
            if not worked:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll_seconds):
                        await self._wake.wait()
                self._wake.clear()

    async def walk_one(self) -> bool:
        """Claim the running walk and go through it to its end; false if there is none, or another brain has it."""
        lease = uuid4()
        async with self._pool.connection() as conn:
            row = await queries.claim_replay(conn, lease=lease, lease_seconds=self._lease_seconds)
        if row is None:
            return False
        keeper = asyncio.ensure_future(self._keep_lease(row.id, lease))
        try:
            await self._walk(row, lease)
        except asyncio.CancelledError:
            await self._release(row.id, lease)
            raise
        except (BrainError, msgspec.DecodeError, InvalidHistoryError) as problem:
            logger.warning("a replay failed", replay_id=row.id, error=failure_chain(problem))
            await self._end(row.id, lease, failure_chain(problem))
        except _DATABASE_TROUBLE:
            await self._release(row.id, lease)
            raise
        except Exception:  # the edge of a walk: a bug ends it with a reason instead of starting it over and over
            logger.exception("a replay failed", replay_id=row.id)
            await self._end(row.id, lease, "an internal error; the log has the details")
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        return True

    async def _walk(self, row: ReplayRow, lease: UUID) -> None:
        upload = decode_messages(row.upload_json)
        summary = () if row.summary_json is None else decode_messages(row.summary_json)
        next_index = row.next_index
        limit = max(row.compaction_rounds, row.context_rounds + 1)
        while True:
            # The summary is a user message and counts as a round.
            remaining = (*summary, *upload[next_index:])
            if count_rounds(remaining) <= limit:
                break
            feed = _leading_rounds(remaining, row.compaction_rounds + row.context_rounds)
            result = await compact(self._collector, self._compact_model, feed, row.context_rounds, now_instant())
            first_index = max(next_index - len(summary), 0)
            next_index += len(result.dropped) - len(summary)
            summary = result.messages[:1]
            async with self._pool.connection() as conn, conn.transaction():
                await self._enqueue(conn, row, result.dropped, first_index)
                kept = encode_messages(summary).decode()
                if not await queries.advance_replay(conn, row.id, lease=lease, next_index=next_index, summary_json=kept):
                    raise _LostLeaseError(f"replay {row.id} is walked by another brain")
        async with self._pool.connection() as conn, conn.transaction():
            await self._enqueue(conn, row, remaining, max(next_index - len(summary), 0))
            jobs = 1 if remaining else 0
            if not await queries.end_replay(conn, row.id, lease=lease, state="finished", jobs=jobs, error=None):
                raise _LostLeaseError(f"replay {row.id} is walked by another brain")

    async def _enqueue(self, conn: AsyncConnection, row: ReplayRow, region: Sequence[Message], first_index: int) -> None:
        if not region:
            return
        check_snapshot(region)
        await enqueue_snapshot(
            conn, region, chat_id=None, chat_title=row.title, first_index=first_index, serial_key=f"{REPLAY_KEY_PREFIX}{row.id}"
        )

    async def _keep_lease(self, replay_id: int, lease: UUID) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                async with self._pool.connection() as conn:
                    await queries.extend_replay_lease(conn, replay_id, lease=lease, lease_seconds=self._lease_seconds)
            except _DATABASE_TROUBLE as problem:
                # A lost lease shows at the next step, which then writes nothing.
                logger.warning("the lease of a replay could not be prolonged", replay_id=replay_id, error=str(problem))

    async def _end(self, replay_id: int, lease: UUID, error: str) -> None:
        async with self._pool.connection() as conn:
            text = error.replace("\x00", "")[:MAX_ERROR_CHARS]
            await queries.end_replay(conn, replay_id, lease=lease, state="failed", jobs=0, error=text)

    async def _release(self, replay_id: int, lease: UUID) -> None:
        try:
            async with asyncio.timeout(5), self._pool.connection() as conn:
                await queries.release_replay(conn, replay_id, lease=lease)
        except (*_DATABASE_TROUBLE, TimeoutError) as problem:
            logger.warning("a replay could not be given back; it goes on when its lease ends", error=str(problem))


class _LostLeaseError(BrainError):
    """Another brain has taken the walk over; this one has written nothing since."""


def _leading_rounds(messages: Sequence[Message], rounds: int) -> Sequence[Message]:
    """Return the first rounds, with what comes before the first of them."""
    starts = round_starts(messages)
    return messages if len(starts) <= rounds else messages[: starts[rounds]]
