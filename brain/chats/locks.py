"""One run per chat, over all brains on a database: advisory locks held by one database session per process.

Advisory locks are re-entrant within a session, so a set of the chats held here keeps runs of this process apart; the session
keeps processes apart. When the session is lost, so are all its locks: every holder is told and has to end.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import AsyncConnection

from brain.chats import queries_locks
from brain.errors import ChatBusyError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

logger = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 1.0
"""How often the session is proved alive while locks are held."""


def lock_key(chat_id: str) -> int:
    """Return the key of a chat's lock (chat-domain.md section 6): stable, shared by every brain on the database."""
    digest = hashlib.sha256(b"daapu-chat-lock:" + chat_id.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class HeldLock:
    """A lock that is held, until ``lost`` is set: then another process may have taken it."""

    def __init__(self, chat_id: str, locks: ChatLocks) -> None:
        self.chat_id = chat_id
        self.lost = asyncio.Event()
        self._locks = locks

    async def confirm(self) -> None:
        """Prove with a question to the database that the lock is held at this moment.

        Raises:
            UnavailableError: it was lost.
        """
        await self._locks.prove(self)


class ChatLocks:
    """Hands out the locks of chats. Open it with ``open_chat_locks``."""

    def __init__(self, conninfo: str, *, capacity: int, wait_ms: int) -> None:
        self._conninfo = conninfo
        self._wait_ms = wait_ms
        self._places = asyncio.Semaphore(capacity)
        self._reserved: set[str] = set()
        self._held: set[HeldLock] = set()
        self._session: AsyncConnection | None = None
        self._opening = asyncio.Lock()
        self._something_held = asyncio.Event()

    @property
    def held_chats(self) -> frozenset[str]:
        """The chats that are held in this process."""
        return frozenset(lock.chat_id for lock in self._held)

    @asynccontextmanager
    async def hold(self, chat_id: str) -> AsyncGenerator[HeldLock]:
        """Hold a chat for the time of the ``with`` block. Not re-entrant.

        Raises:
            ChatBusyError: it is held already, here or elsewhere; at once.
            UnavailableError: no free place within ``database.lockConnectionTimeout``, or the database does not answer.
        """
        if chat_id in self._reserved:
            raise ChatBusyError(chat_id)
        self._reserved.add(chat_id)
        try:
            await self._take_place()
            try:
                held = await self._acquire(chat_id)
                try:
                    yield held
                finally:
                    await _finish(self._release(held))
            finally:
                self._places.release()
        finally:
            self._reserved.discard(chat_id)

    async def prove(self, held: HeldLock) -> None:
        """Ask the session whether it lives.

        Raises:
            UnavailableError: the lock was lost.
        """
        session = self._session
        if not held.lost.is_set() and session is not None:
            try:
                async with asyncio.timeout(self._wait_ms / 1000):
                    await queries_locks.ping(session)
            except (psycopg.Error, TimeoutError) as problem:
                await self._lose(session, problem)
        if held.lost.is_set():
            raise UnavailableError(f"the lock of chat {held.chat_id!r} was lost: the database connection broke; try again")

    async def watch(self) -> None:
        """Prove the session alive for ever while locks are held, so that its loss is noticed without a question of theirs."""
        while True:
            await self._something_held.wait()
            await asyncio.sleep(WATCH_SECONDS)
            session = self._session
            if session is None or not self._held:
                continue
            try:
                async with asyncio.timeout(self._wait_ms / 1000):
                    await queries_locks.ping(session)
            except (psycopg.Error, TimeoutError) as problem:
                await self._lose(session, problem)

    async def open(self) -> None:
        """Try a connection, so that a wrong address fails at the start.

        Raises:
            UnavailableError: the database does not answer.
        """
        await self._get_session()

    async def close(self) -> None:
        """Close the session; locks still held are gone with it."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _take_place(self) -> None:
        try:
            async with asyncio.timeout(self._wait_ms / 1000):
                await self._places.acquire()
        except TimeoutError as problem:
            raise UnavailableError(
                "too many chats are running (database.lockPoolSize); try again when one of them has finished",
            ) from problem

    async def _acquire(self, chat_id: str) -> HeldLock:
        acquisition = asyncio.create_task(self._try_acquire(chat_id))
        try:
            return await asyncio.shield(acquisition)
        except asyncio.CancelledError:
            # The lock may be taken at this moment: wait for the answer and give it back.
            await _finish(self._give_back(acquisition))
            raise

    async def _give_back(self, acquisition: asyncio.Task[HeldLock]) -> None:
        await asyncio.wait([acquisition])
        if not acquisition.cancelled() and acquisition.exception() is None:
            await self._release(acquisition.result())

    async def _try_acquire(self, chat_id: str) -> HeldLock:
        session = await self._get_session()
        try:
            async with asyncio.timeout(self._wait_ms / 1000):
                taken = await queries_locks.try_lock(session, lock_key(chat_id))
        except (psycopg.Error, TimeoutError) as problem:
            await self._lose(session, problem)
            raise UnavailableError("the database does not answer: the chat cannot be locked") from problem
        if not taken:
            raise ChatBusyError(chat_id)
        held = HeldLock(chat_id, self)
        if session is not self._session:  # lost between the answer and now
            held.lost.set()
            raise UnavailableError("the database connection broke while the chat was being locked; try again")
        self._held.add(held)
        self._something_held.set()
        return held

    async def _release(self, held: HeldLock) -> None:
        self._held.discard(held)
        if not self._held:
            self._something_held.clear()
        session = self._session
        if held.lost.is_set() or session is None:
            return
        try:
            async with asyncio.timeout(self._wait_ms / 1000):
                released = await queries_locks.unlock(session, lock_key(held.chat_id))
        except (psycopg.Error, TimeoutError) as problem:
            # The session may still hold the lock: only closing it is sure.
            await self._lose(session, problem)
            return
        if not released:
            logger.error("a chat lock was not held by the session that gave it back", chat_id=held.chat_id)

    async def _get_session(self) -> AsyncConnection:
        async with self._opening:
            if self._session is not None and not self._session.closed:
                return self._session
            try:
                async with asyncio.timeout(self._wait_ms / 1000):
                    session = await AsyncConnection.connect(
                        self._conninfo,
                        autocommit=True,
                        application_name="daapu-chat-locks",
                    )
                    await queries_locks.prepare_lock_session(session, self._wait_ms)
            except (psycopg.Error, TimeoutError) as problem:
                raise UnavailableError("the database does not answer: chats cannot be locked") from problem
            if self._session is not None:
                self._tell_holders()
            self._session = session
            return session

    async def _lose(self, session: AsyncConnection, problem: BaseException) -> None:
        if session is not self._session:
            return
        self._session = None
        logger.warning("the session of the chat locks was lost", reason=str(problem), held=len(self._held))
        self._tell_holders()
        await session.close()

    def _tell_holders(self) -> None:
        for held in self._held:
            held.lost.set()


@asynccontextmanager
async def open_chat_locks(conninfo: str, *, capacity: int, wait_ms: int) -> AsyncGenerator[ChatLocks]:
    """Open the locks of this process, watch over their session, and close it at the end.

    Raises:
        UnavailableError: the database does not answer.
    """
    locks = ChatLocks(conninfo, capacity=capacity, wait_ms=wait_ms)
    await locks.open()
    watcher = asyncio.create_task(locks.watch(), name="chat-locks-watch")
    try:
        yield locks
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])
        await locks.close()


async def _finish(work: Coroutine[object, object, None]) -> None:
    """Run ``work`` to its end even if the caller is cancelled meanwhile; the cancellation is delivered afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as request:
            if task.cancelled():
                raise
            cancelled = request
    task.result()
    if cancelled is not None:
        raise cancelled
