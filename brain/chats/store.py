"""Loading and storing whole histories: decoding, validation, attachments kept apart and joined again."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from brain.chats import queries, queries_contents, queries_drops
from brain.chats.attachments import attachments_of
from brain.chats.search.index import index_history
from brain.chats.stored_text import StoredText, from_stored_text, hashes_in, to_stored_text
from brain.chats.validation import InvalidHistoryError, check_snapshot, check_stored_chat
from brain.errors import ConflictError, CorruptChatError, NotFoundError
from shared_protocol.codec import decode_messages
from shared_protocol.messages import Message, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

THREAD_FROM_CHARS: Final = 2**18
"""From this much text on, hashing and base64 leave the loop."""


class StoredChat(msgspec.Struct, frozen=True):
    """A chat as loaded: valid, attachments in place."""

    id: str
    title: str
    messages: tuple[Message, ...]
    eltm_version: str
    persona_id: int
    revision: int
    created_at: datetime
    updated_at: datetime
    pinned: bool
    archived: bool
    temporary: bool
    remember: bool


class ChatStore:
    """Reads and writes histories on a connection of the caller, who owns the transaction."""

    async def load(self, conn: AsyncConnection, chat_id: str) -> StoredChat | None:
        """Return a chat, or ``None`` if there is none.

        Raises:
            CorruptChatError: the stored history cannot be read or breaks a rule.
        """
        row = await queries.find_chat(conn, chat_id)
        if row is None:
            return None
        text = await self._join(conn, chat_id, row.chat_json)
        messages = decode_stored(chat_id, text)
        return StoredChat(
            id=row.id,
            title=row.title,
            messages=messages,
            eltm_version=row.eltm_version,
            persona_id=row.persona_id,
            revision=row.revision,
            created_at=row.created_at,
            updated_at=row.updated_at,
            pinned=row.pinned,
            archived=row.archived,
            temporary=row.temporary,
            remember=row.remember,
        )

    async def store(
        self,
        conn: AsyncConnection,
        chat_id: str,
        *,
        messages: Sequence[Message],
        eltm_version: str,
        persona_id: int,
        remember: bool | None = None,
        expected_revision: int | None = None,
        unchanged: int | None = None,
    ) -> int:
        """Replace the history of an existing chat, its search rows and its attachments; return the new revision.

        Must run inside a transaction. The title is never touched. Give the ``revision`` of the loaded chat as
        ``expected_revision``: then a change made by someone else meanwhile (after a lost lock) is never overwritten. The first
        ``unchanged`` messages, if given, are those of that revision, which spares comparing their search rows.

        Raises:
            InvalidHistoryError: a rule of stored chats is broken; a bug of the caller.
            NotFoundError: the chat is gone.
            ConflictError: the chat has another revision.
        """
        check_stored_chat(messages)
        stored = await _encode(messages)
        await self.keep_contents(conn, stored)
        revision = await queries.update_history(
            conn,
            chat_id,
            chat_json=stored.text,
            eltm_version=eltm_version,
            persona_id=persona_id,
            remember=remember,
            expected_revision=expected_revision,
        )
        if revision is None:
            if await queries.find_chat_head(conn, chat_id) is None:
                raise NotFoundError("chat", chat_id)
            raise ConflictError(f"chat {chat_id!r} was changed by someone else meanwhile; load it again")
        removed = await queries_contents.replace_links(conn, chat_id, 0, sorted(stored.contents))
        await self.drop_unused(conn, removed)
        await index_history(conn, chat_id, messages, unchanged=unchanged)
        return revision

    async def insert(
        self,
        conn: AsyncConnection,
        chat_id: str,
        *,
        title: str,
        messages: Sequence[Message] = (),
        persona_id: int = 0,
        temporary: bool = False,
        remember: bool = True,
    ) -> queries.ChatHead:
        """Insert a chat with a history. Must run inside a transaction.

        Raises:
            InvalidHistoryError: a rule of stored chats is broken.
        """
        check_stored_chat(messages)
        stored = await _encode(messages)
        await self.keep_contents(conn, stored)
        head = await queries.insert_chat(
            conn,
            chat_id,
            title=title,
            chat_json=stored.text,
            persona_id=persona_id,
            temporary=temporary,
            remember=remember,
        )
        if stored.contents:
            await queries_contents.replace_links(conn, chat_id, 0, sorted(stored.contents))
        await index_history(conn, chat_id, messages)
        return head

    async def add_drop(self, conn: AsyncConnection, chat_id: str, messages: Sequence[Message]) -> int:
        """Keep a region that a compaction dropped and return its number within the chat, from 1.

        Must run in the transaction of the store, while the chat's lock is held.

        Raises:
            InvalidHistoryError: a rule of extraction snapshots is broken.
        """
        check_snapshot(messages)
        stored = await _encode(messages)
        await self.keep_contents(conn, stored)
        number = await queries_drops.insert_drop(
            conn,
            chat_id,
            dropped_messages=len(messages),
            rounds=sum(isinstance(message, UserMessage) for message in messages),
            messages_json=stored.text,
        )
        if stored.contents:
            await queries_contents.replace_links(conn, chat_id, number, sorted(stored.contents))
        return number

    async def read_drop(self, conn: AsyncConnection, chat_id: str, n: int) -> str | None:
        """Return the JSON array of a dropped region, attachments in place.

        Raises:
            CorruptChatError: an attachment is missing.
        """
        text = await queries_drops.find_drop(conn, chat_id, n)
        return None if text is None else await self._join(conn, chat_id, text)

    async def read_json(self, conn: AsyncConnection, row: queries.ChatRow) -> str:
        """Return the JSON array of a row with attachments in place, not validated.

        Raises:
            CorruptChatError: an attachment is missing.
        """
        return await self._join(conn, row.id, row.chat_json)

    async def delete(self, conn: AsyncConnection, chat_id: str) -> bool:
        """Delete a chat and the contents that only it used; whether there was one. Must run inside a transaction."""
        hashes = await queries_contents.list_links(conn, chat_id)
        deleted = await queries.delete_chat(conn, chat_id)
        await self.drop_unused(conn, hashes)
        return deleted

    async def keep_contents(self, conn: AsyncConnection, stored: StoredText) -> None:
        """Make sure that the contents exist and stay until the transaction ends."""
        missing = set(stored.contents)
        # A content that was there may be deleted by another transaction before it is held: then it is added again.
        while missing:
            missing -= await queries_contents.hold_contents(conn, sorted(missing))
            for digest in sorted(missing):
                await queries_contents.insert_content(conn, digest, stored.contents[digest])

    async def drop_unused(self, conn: AsyncConnection, hashes: Sequence[bytes]) -> None:
        """Delete contents that no chat uses any more. Two statements: the second must see links committed meanwhile."""
        if hashes:
            await queries_contents.lock_contents(conn, hashes)
            await queries_contents.delete_unlinked_contents(conn, hashes)

    async def _join(self, conn: AsyncConnection, chat_id: str, text: str) -> str:
        hashes = hashes_in(text)
        if not hashes:
            return text
        contents = await queries_contents.fetch_contents(conn, sorted(hashes))
        if missing := hashes - contents.keys():
            raise CorruptChatError(chat_id, f"the attachment {min(missing).hex()} is missing")
        if sum(map(len, contents.values())) < THREAD_FROM_CHARS:
            return from_stored_text(text, contents)
        return await asyncio.to_thread(from_stored_text, text, contents)


def decode_stored(chat_id: str, text: str) -> tuple[Message, ...]:
    """Decode and validate a stored history.

    Raises:
        CorruptChatError: it cannot be read or breaks a rule.
    """
    try:
        messages = decode_messages(text)
        check_stored_chat(messages)
    except (msgspec.DecodeError, InvalidHistoryError, RecursionError) as problem:
        raise CorruptChatError(chat_id, str(problem)) from problem
    return messages


async def _encode(messages: Sequence[Message]) -> StoredText:
    if _attachment_chars(messages) < THREAD_FROM_CHARS:
        return to_stored_text(messages)
    return await asyncio.to_thread(to_stored_text, messages)


def _attachment_chars(messages: Sequence[Message]) -> int:
    return sum(len(part.content.base64) for message in messages for part in attachments_of(message))
