"""Starts turns, finds them again, ends them with the process: the owner of their tasks and rows (spec README decision 7)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import psycopg
import structlog

from brain.errors import BrainError, ConflictError, HandRunError, NotFoundError, UnavailableError
from brain.turns import queries
from brain.turns.errors import StoppedError, TurnError, describe_failure
from brain.turns.events import Done, Failed, Stopped, finish, publish
from brain.turns.leftovers import Leftovers
from brain.turns.live import LiveTurn, TurnRequest
from brain.turns.loop import TurnLoop, TurnParts
from brain.turns.tokens import load_vocabulary
from shared_protocol.instants import now_instant

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from psycopg import AsyncConnection

    from brain.chats.locks import ChatLocks, HeldLock
    from brain.turns.queries import LiveTurnRow

logger = structlog.get_logger(__name__)

HEARTBEAT_SECONDS: Final = 5.0
STALE_SECONDS: Final = 20.0
"""A turn whose owner was not seen for so long is dead."""

_CUT_SHORT: Final = "output_budget_exhausted"
_CLIENT_GONE: Final = "the client that had sent the message went away"
_SHUTDOWN: Final = "the brain is shutting down"
_LOCK_LOST: Final = "the lock of the chat was lost: the database connection broke"


class TurnService:
    """The live turns of this process. Open it with ``open_turn_service``."""

    def __init__(self, parts: TurnParts, locks: ChatLocks, *, address: str) -> None:
        self._parts = parts
        self._locks = locks
        self._address = address
        self._live: dict[str, LiveTurn] = {}
        self._turns: dict[LiveTurn, asyncio.Task[None]] = {}
        self._is_serving = False
        self._leftovers = Leftovers()
        self.owner = str(uuid4())

    def find(self, chat_id: str) -> LiveTurn | None:
        """Return the live turn of a chat if it runs in this process."""
        return self._live.get(chat_id)

    def get(self, chat_id: str) -> LiveTurn:
        """Return the live turn of a chat.

        Raises:
            ConflictError: nothing runs here.
        """
        turn = self._live.get(chat_id)
        if turn is None:
            raise ConflictError(f"nothing runs in chat {chat_id!r}")
        return turn

    async def find_elsewhere(self, chat_id: str) -> LiveTurnRow | None:
        """Return the replica that runs a chat's turn, if another one does."""
        async with self._parts.pool.connection() as conn:
            row = await queries.find_live_turn(conn, chat_id, stale_seconds=STALE_SECONDS)
        return None if row is None or row.owner == self.owner else row

    async def start(self, request: TurnRequest) -> LiveTurn:
        """Start a turn and return once it holds the chat: from then on, everything is told by its events.

        Raises:
            ChatBusyError: another turn or edit holds the chat.
            UnavailableError: no free place, or the database does not answer, or the process ends.
            NotFoundError: the chat does not exist.
            InvalidInputError: ``replace_from`` names no message that may be replaced.
        """
        if not self._is_serving:
            raise UnavailableError(_SHUTDOWN)
        turn = LiveTurn(uuid4().hex, request, now_instant())
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._supervise(turn, ready), name=f"turn-{turn.turn_id}")
        self._turns[turn] = task
        task.add_done_callback(lambda _: self._turns.pop(turn))
        turn.attach(task)
        try:
            await ready
        except asyncio.CancelledError:
            turn.abandon(_CLIENT_GONE)
            raise
        return turn

    async def keep_leftover(self, chat_id: str) -> bool:
        """Store the answer of a turn that ended at the output limit a while ago; false if there is none.

        Raises:
            ChatBusyError: the chat is held.
            ConflictError: the chat was changed since.
            StoppedError: the model had said nothing.
        """
        loop = self._leftovers.take(chat_id)
        if loop is None:
            return False
        async with self._locks.hold(chat_id):
            await loop.keep_stopped()
        return True

    def release_client(self, turn: LiveTurn) -> None:
        """Say that the client which had sent the message is gone: its turn ends unless it was detached."""
        if not turn.request.detach:
            turn.abandon(_CLIENT_GONE)

    async def _supervise(self, turn: LiveTurn, ready: asyncio.Future[None]) -> None:
        outcome: Done | Failed = Failed("The turn ended unexpectedly.", "CancelledException")
        metrics = self._parts.metrics
        metrics.live_turns.inc()
        try:
            async with self._locks.hold(turn.request.chat_id) as held:
                outcome = await self._hold_turn(turn, held, ready)
        except asyncio.CancelledError:
            if _was_stopped(turn):
                outcome = _stopped_early(turn)
                return
            outcome = Failed(f"The turn was cancelled: {turn.end_reason or _SHUTDOWN}.", "CancelledException")
            raise
        except Exception as problem:  # noqa: BLE001 - the edge of the task: told to whoever waits, and logged there
            outcome = self._fail(turn, problem, ready)
        finally:
            turn.phase = "ended"
            if not ready.done():
                ready.set_exception(UnavailableError(_SHUTDOWN))
            metrics.live_turns.dec()
            metrics.runs.labels(turn.outcome).inc()
            # After the lock was given back: who reads the last event may send the next message at once.
            finish(turn.log, outcome)

    async def _hold_turn(self, turn: LiveTurn, held: HeldLock, ready: asyncio.Future[None]) -> Done | Failed:
        loop = TurnLoop(self._parts, turn)
        chat_id = turn.request.chat_id
        try:
            async with self._parts.pool.connection() as conn:
                if not await queries.claim_turn(conn, chat_id, turn_id=turn.turn_id, owner=self.owner, address=self._address):
                    raise NotFoundError("chat", chat_id)
                self._live[chat_id] = turn
                self._leftovers.discard(chat_id)
                if turn.request.replace_from is None:
                    # All checks are done. What the load finds wrong is told in the stream.
                    ready.set_result(None)
                await loop.load(conn)
            if not ready.done():
                ready.set_result(None)
            return await self._run(turn, loop, held)
        finally:
            self._live.pop(chat_id, None)
            await self._release_row(turn)

    async def _run(self, turn: LiveTurn, loop: TurnLoop, held: HeldLock) -> Done | Failed:
        watch = asyncio.create_task(_abandon_when_lost(turn, held))
        try:
            turn.phase = "running"
            await loop.run()
        except asyncio.CancelledError:
            if not _was_stopped(turn):
                raise
            return await self._after_stop(turn, loop)
        except HandRunError as problem:
            if problem.error_type == _CUT_SHORT:
                self._leftovers.keep(turn.request.chat_id, loop)
            raise
        finally:
            watch.cancel()
        turn.outcome = "stored"
        return Done()

    async def _after_stop(self, turn: LiveTurn, loop: TurnLoop) -> Done | Failed:
        turn.outcome = "stopped"
        publish(turn.log, Stopped())
        if turn.stop_request == "discard":
            return describe_failure(StoppedError())
        await loop.keep_stopped()
        return Done()

    def _fail(self, turn: LiveTurn, problem: Exception, ready: asyncio.Future[None]) -> Failed:
        if isinstance(problem, StoppedError):
            return describe_failure(problem)
        turn.outcome = problem.error_type if isinstance(problem, HandRunError) else "failed"
        if not ready.done():
            turn.outcome = "refused"
            ready.set_exception(problem)
            return describe_failure(problem)
        chat_id = turn.request.chat_id
        if isinstance(problem, BrainError):
            logger.warning("a turn failed", chat_id=chat_id, turn_id=turn.turn_id, reason=str(problem))
        else:
            logger.error("a turn failed unexpectedly", chat_id=chat_id, turn_id=turn.turn_id, exc_info=problem)
        if isinstance(problem, psycopg.Error):
            return describe_failure(TurnError("The database does not answer; nothing was stored.", "DatabaseException"))
        return describe_failure(problem)

    async def _release_row(self, turn: LiveTurn) -> None:
        # A finished turn removed its row in the transaction of the store; this is for all others. A row that stays is stale soon.
        if turn.phase == "stored":
            return
        try:
            async with self._parts.pool.connection() as conn:
                await queries.release_turn(conn, turn.request.chat_id, turn_id=turn.turn_id)
        except (psycopg.Error, OSError) as problem:
            logger.warning("the row of an ended turn stays until it is stale", reason=str(problem))

    async def _heartbeat(self) -> None:
        # Not for ever: the cancellation may be swallowed on its way, see LiveTurn.raise_if_ended.
        while self._is_serving:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self._live:
                continue
            try:
                async with self._parts.pool.connection() as conn:
                    await queries.touch_turns(conn, owner=self.owner)
            except (psycopg.Error, OSError) as problem:
                logger.warning("the heartbeat of live turns failed", reason=str(problem))

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None]:
        """Own the tasks of all turns for the time of the ``with`` block; at its end they are cancelled and waited for."""
        # No TaskGroup: it would wrap every error of the block in a group of one.
        await asyncio.to_thread(load_vocabulary)
        self._is_serving = True
        heartbeat = asyncio.create_task(self._heartbeat(), name="turns-heartbeat")
        try:
            yield
        finally:
            self._is_serving = False
            for turn in list(self._turns):
                turn.abandon(_SHUTDOWN)
            heartbeat.cancel()
            await asyncio.wait({heartbeat, *self._turns.values()})


async def find_live_chats(conn: AsyncConnection, chat_ids: Sequence[str]) -> frozenset[str]:
    """Return those of the chats that have a live turn on any replica: what the list of chats asks."""
    return frozenset(await queries.list_live_chats(conn, stale_seconds=STALE_SECONDS)).intersection(chat_ids)


@asynccontextmanager
async def open_turn_service(parts: TurnParts, locks: ChatLocks, *, address: str) -> AsyncGenerator[TurnService]:
    """Yield the service; ``address`` is where other replicas reach this one (``hand.selfBaseUrl``)."""
    service = TurnService(parts, locks, address=address)
    async with service.serve():
        yield service


def _was_stopped(turn: LiveTurn) -> bool:
    """Whether a cancellation is a person's stop and nothing else; it is then taken back, and the task goes on."""
    if turn.stop_request is None or turn.end_reason is not None:
        return False
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return True


def _stopped_early(turn: LiveTurn) -> Failed:
    turn.outcome = "stopped"
    publish(turn.log, Stopped())
    return describe_failure(StoppedError())


async def _abandon_when_lost(turn: LiveTurn, held: HeldLock) -> None:
    await held.lost.wait()
    turn.abandon(_LOCK_LOST)
