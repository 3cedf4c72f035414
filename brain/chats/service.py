"""What may be done with a chat as a whole: create, list, change, delete, cut, fork."""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec

from brain.chats import queries
from brain.chats.search.index import DEFAULT_TITLE, index_title
from brain.chats.store import decode_stored
from brain.chats.validation import STOP, InvalidHistoryError, check_stored_chat
from brain.errors import ConflictError, CorruptChatError, InvalidInputError, NotFoundError
from shared_protocol.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.chats.locks import ChatLocks
    from brain.chats.store import ChatStore

PAGE_SIZE: Final = 200
"""Chats per page (brain-api.md section 5.2)."""

Include: TypeAlias = Literal["archived", "all"]
_CURSOR: Final = re.compile(r"[0-9]+-[0-9]+")
_NUMBERED: Final = re.compile(r" \(([0-9]{1,3})\)$")
_RANDOM_BELOW: Final = 2**31 - 1


class SnapshotQueue(Protocol):
    """Puts messages into the extraction queue, in the transaction of the caller."""

    async def __call__(
        self,
        conn: AsyncConnection,
        chat_json: str | None,
        /,
        *,
        message_count: int,
        chat_id: str,
        chat_title: str,
    ) -> int:
        """Queue the JSON of a region (``None``: the chat's stored text) and return the id of the job."""
        ...


class LiveChats(Protocol):
    """Knows which chats are being answered, in any brain on the database."""

    async def __call__(self, conn: AsyncConnection, chat_ids: Sequence[str], /) -> AbstractSet[str]:
        """Return those of the chats that are live."""
        ...


class ChatPage(msgspec.Struct, frozen=True):
    """A page of the list; ``next_cursor`` is ``None`` on the last one."""

    chats: list[queries.ChatHead]
    live: AbstractSet[str]
    next_cursor: str | None


class ChatService:
    """The operations on chats. Those that change a history hold its lock."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        store: ChatStore,
        locks: ChatLocks,
        *,
        enqueue: SnapshotQueue,
        live: LiveChats,
    ) -> None:
        self._pool = pool
        self._store = store
        self._locks = locks
        self._enqueue = enqueue
        self._live = live

    async def list_page(self, cursor: str | None, include: Include | None = None) -> ChatPage:
        """Return a page of chats, newest first.

        Raises:
            InvalidInputError: the cursor has not the form of a chat id.
        """
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            raise InvalidInputError(f"cursor: {cursor!r} is not the nextCursor of a page")
        async with self._pool.connection() as conn:
            heads = await queries.list_chats(
                conn,
                before_id=cursor,
                limit=PAGE_SIZE + 1,
                with_archived=include is not None,
                with_temporary=include == "all",
            )
            page = heads[:PAGE_SIZE]
            live = await self._live(conn, [head.id for head in page])
        return ChatPage(page, live, page[-1].id if len(heads) > PAGE_SIZE else None)

    async def create(self, *, temporary: bool = False) -> str:
        """Insert an empty chat and return its id. A temporary one is never remembered."""
        async with self._pool.connection() as conn:
            head = await queries.insert_chat(
                conn,
                new_chat_id(),
                title=DEFAULT_TITLE,
                chat_json="[]",
                persona_id=0,
                temporary=temporary,
                remember=not temporary,
            )
        return head.id

    async def get_head(self, chat_id: str) -> queries.ChatHead:
        """Return a chat without its history.

        Raises:
            NotFoundError: there is no such chat.
        """
        async with self._pool.connection() as conn:
            head = await queries.find_chat_head(conn, chat_id)
        if head is None:
            raise NotFoundError("chat", chat_id)
        return head

    async def change(self, chat_id: str, changes: queries.ChatChanges) -> queries.ChatHead:
        """Set title (trimmed) and flags.

        Raises:
            InvalidInputError: nothing is given, or the title is blank.
            NotFoundError: there is no such chat.
        """
        if changes == queries.ChatChanges():
            raise InvalidInputError("give at least one of title, pinned, archived, remember")
        title = None if changes.title is None else clean_title(changes.title)
        async with self._pool.connection() as conn, conn.transaction():
            head = await queries.update_properties(conn, chat_id, msgspec.structs.replace(changes, title=title))
            if head is None:
                raise NotFoundError("chat", chat_id)
            if title is not None:
                await index_title(conn, chat_id, title)
        return head

    async def delete(self, chat_id: str, *, remember: bool = True) -> None:
        """Delete a chat; its history goes into the extraction queue in the same transaction, unless it is not to be remembered.

        A history that cannot be read is deleted all the same, and nothing of it is extracted.

        Raises:
            ChatBusyError: it is being answered or changed.
            UnavailableError: it cannot be locked now.
            NotFoundError: there is no such chat.
        """
        async with self._locks.hold(chat_id), self._pool.connection() as conn, conn.transaction():
            row = await queries.find_chat(conn, chat_id)
            if row is None:
                raise NotFoundError("chat", chat_id)
            if remember and row.remember and await queries.is_persona_remembering(conn, row.persona_id):
                await self._enqueue_readable(conn, row)
            await self._store.delete(conn, chat_id)

    async def truncate(self, chat_id: str, index: int, *, expected_length: int | None = None) -> None:
        """Cut the history at ``index``: that message and all later ones go away, without extraction.

        Raises:
            ChatBusyError: it is being answered or changed.
            UnavailableError: it cannot be locked now.
            NotFoundError: there is no such chat.
            ConflictError: the history has not the expected length.
            InvalidInputError: ``index`` is no place to cut, or what would be left is no complete chat.
        """
        async with self._locks.hold(chat_id), self._pool.connection() as conn, conn.transaction():
            chat = await self._store.load(conn, chat_id)
            if chat is None:
                raise NotFoundError("chat", chat_id)
            check_length(chat.messages, expected_length)
            check_cut(chat.messages, index)
            await self._store.store(
                conn,
                chat_id,
                messages=take_first(chat.messages, index),
                eltm_version="",
                persona_id=chat.persona_id,
                expected_revision=chat.revision,
            )

    async def fork(self, chat_id: str, index: int, *, expected_length: int | None = None) -> queries.ChatHead:
        """Copy the history up to and including an assistant message that ended with ``stop`` into a new chat.

        Raises:
            NotFoundError: there is no such chat.
            ConflictError: the history has not the expected length.
            InvalidInputError: ``index`` is no place to fork, or what would be copied is no complete chat.
        """
        async with self._pool.connection() as conn, conn.transaction():
            chat = await self._store.load(conn, chat_id)
            if chat is None:
                raise NotFoundError("chat", chat_id)
            check_length(chat.messages, expected_length)
            check_fork(chat.messages, index)
            title = await self._fork_title(conn, chat.title)
            head = await self._store.insert(
                conn,
                new_chat_id(),
                title=title,
                messages=take_first(chat.messages, index + 1),
                persona_id=chat.persona_id,
                temporary=chat.temporary,
                remember=chat.remember,
            )
            await index_title(conn, head.id, title)
        return head

    async def _fork_title(self, conn: AsyncConnection, source: str) -> str:
        base = _NUMBERED.sub("", source) or source
        taken = set(await queries.list_titles_like(conn, f"{base} ("))
        number = 2
        while f"{base} ({number})" in taken:
            number += 1
        return f"{base} ({number})"

    async def _enqueue_readable(self, conn: AsyncConnection, row: queries.ChatRow) -> None:
        try:
            text = await self._store.read_json(conn, row)
            messages = decode_stored(row.id, text)
        except CorruptChatError:
            return
        if messages:
            # Sending a long history to the database again would cost more than deleting it.
            given = None if text is row.chat_json else text
            await self._enqueue(conn, given, message_count=len(messages), chat_id=row.id, chat_title=row.title)


def new_chat_id() -> str:
    """Return a fresh id: milliseconds since 1970, a dash, a random number; sortable by time as text."""
    return f"{time.time_ns() // 1_000_000}-{secrets.randbelow(_RANDOM_BELOW)}"


def clean_title(title: str) -> str:
    """Return a title as it is stored, trimmed.

    Raises:
        InvalidInputError: nothing is left, or it contains U+0000, which the database cannot hold.
    """
    trimmed = title.strip()
    if not trimmed:
        raise InvalidInputError("title: must not be blank")
    if "\x00" in trimmed:
        raise InvalidInputError("title: must not contain the character U+0000")
    return trimmed


def check_length(messages: Sequence[Message], expected: int | None) -> None:
    """Refuse an edit made from a stale view.

    Raises:
        ConflictError: the history has another length.
    """
    if expected is not None and expected != len(messages):
        raise ConflictError(f"the history has {len(messages)} messages, not {expected}: load it again")


def check_cut(messages: Sequence[Message], index: int) -> None:
    """Check that a history may be cut before ``index`` (brain-api.md section 5.7).

    Raises:
        InvalidInputError: out of bounds, no user message, or not after an assistant message.
    """
    _check_bounds(messages, index)
    if not isinstance(messages[index], UserMessage):
        raise InvalidInputError(f"index: message {index} is not a user message")
    if index > 0 and not isinstance(messages[index - 1], AssistantMessage):
        raise InvalidInputError(f"index: the message before {index} is not an assistant message")


def check_fork(messages: Sequence[Message], index: int) -> None:
    """Check that a history may be forked after ``index`` (brain-api.md section 5.8).

    Raises:
        InvalidInputError: out of bounds, or not an assistant message that ended with ``stop``.
    """
    _check_bounds(messages, index)
    message = messages[index]
    if not isinstance(message, AssistantMessage) or message.finish_reason.lower() != STOP:
        raise InvalidInputError(f"index: message {index} is not an assistant message that ended with 'stop'")


def take_first(messages: Sequence[Message], count: int) -> Sequence[Message]:
    """Return the first messages as a history of their own.

    Raises:
        InvalidInputError: they are no complete chat: an answer that was cut off, a tool call whose result comes later.
    """
    kept = messages[:count]
    try:
        check_stored_chat(kept)
    except InvalidHistoryError as problem:
        raise InvalidInputError(f"index: the messages before it are no chat of their own: {problem}") from problem
    return kept


def _check_bounds(messages: Sequence[Message], index: int) -> None:
    if not 0 <= index < len(messages):
        raise InvalidInputError(f"index: {index} is out of bounds, the chat has {len(messages)} messages")
