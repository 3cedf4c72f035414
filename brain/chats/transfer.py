"""Histories that leave or enter as JSON: reading, paging, export, import, dropped regions, attachments."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from brain.chats import queries, queries_contents, queries_drops
from brain.chats.search.index import index_title
from brain.chats.service import clean_title, new_chat_id
from brain.chats.store import decode_stored
from brain.chats.stored_text import hashes_in
from brain.chats.validation import InvalidHistoryError, check_import, strip_white_space
from brain.errors import CorruptChatError, InvalidInputError, NotFoundError
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    ContentPart,
    Message,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.chats.store import ChatStore

MAX_PAGE: Final = 500
KNOWN_VERSIONS: Final = 1024

_MARKED_CONTENT: Final = re.compile(r'\{"type":"base64","base64": "sha256:([0-9a-f]{64})"\}')
_raw_list = msgspec.json.Decoder(list[Raw])


class MessagePage(msgspec.Struct, frozen=True):
    """Consecutive messages of a history, attachments by reference."""

    messages: list[Raw]
    first_index: int
    total: int


class _KnownVersions:
    """Remembers which versions of rows were found valid, so that an unchanged history is not decoded for every reader."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._versions: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, row: queries.ChatRow) -> None:
        """Validate a stored history unless this version of it is known.

        Raises:
            CorruptChatError: it is not valid.
        """
        key = (row.id, row.version)
        if key in self._versions:
            self._versions.move_to_end(key)
            return
        decode_stored(row.id, row.chat_json)
        self._versions[key] = None
        if len(self._versions) > self._capacity:
            self._versions.popitem(last=False)


class ChatReader:
    """Reads histories for clients, and takes exported ones in."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], store: ChatStore) -> None:
        self._pool = pool
        self._store = store
        self._known = _KnownVersions(KNOWN_VERSIONS)

    async def read_history(self, chat_id: str) -> bytes:
        """Return the message array as JSON; an unknown chat has an empty one.

        Raises:
            CorruptChatError: the stored history is not valid.
        """
        async with self._pool.connection() as conn:
            row = await queries.find_chat(conn, chat_id)
            if row is None:
                return b"[]"
            # Valid with marks is valid with contents: a rule about base64 holds for imports only.
            self._known.check(row)
            text = await self._store.read_json(conn, row)
        return text.encode()

    async def read_page(self, chat_id: str, before: int | None, limit: int) -> MessagePage:
        """Return up to ``limit`` messages that end before index ``before`` (the end of the history if not given).

        Raises:
            NotFoundError: there is no such chat.
            CorruptChatError: the stored history is not valid.
        """
        async with self._pool.connection() as conn:
            row = await queries.find_chat(conn, chat_id)
            if row is None:
                raise NotFoundError("chat", chat_id)
            self._known.check(row)
            messages = _raw_list.decode(row.chat_json)
            end = len(messages) if before is None else min(before, len(messages))
            start = max(0, end - limit)
            page = [bytes(message).decode() for message in messages[start:end]]
            hashes = {digest for text in page for digest in hashes_in(text)}
            sizes = await queries_contents.fetch_content_sizes(conn, sorted(hashes)) if hashes else {}
        if missing := hashes - sizes.keys():
            raise CorruptChatError(chat_id, f"the attachment {min(missing).hex()} is missing")
        return MessagePage([Raw(_with_references(text, sizes).encode()) for text in page], start, len(messages))

    async def export(self, chat_id: str) -> bytes:
        """Return the export file of a chat; a history that is not valid is given as it is.

        Raises:
            NotFoundError: there is no such chat.
        """
        async with self._pool.connection() as conn:
            row = await queries.find_chat(conn, chat_id)
            if row is None:
                raise NotFoundError("chat", chat_id)
            try:
                self._known.check(row)
                text = await self._store.read_json(conn, row)
            except CorruptChatError:
                text = _raw_content(row.chat_json)
        return b'{"title":%b,"messages":%b}' % (msgspec.json.encode(row.title), text.encode())

    async def take_in(self, title: str, messages: Sequence[Message]) -> queries.ChatHead:
        """Create a chat from an export file.

        Raises:
            InvalidInputError: the title is blank, or the messages break a rule of imports.
        """
        cleaned = clean_title(title)
        history = tuple(_without_white_space(message) for message in messages)
        try:
            check_import(history)
        except InvalidHistoryError as problem:
            raise InvalidInputError(str(problem)) from problem
        async with self._pool.connection() as conn, conn.transaction():
            head = await self._store.insert(conn, new_chat_id(), title=cleaned, messages=history)
            await index_title(conn, head.id, cleaned)
        return head

    async def list_drops(self, chat_id: str) -> list[queries_drops.DropHead]:
        """Return what compactions of a chat dropped, oldest first.

        Raises:
            NotFoundError: there is no such chat.
        """
        async with self._pool.connection() as conn:
            if await queries.find_chat_head(conn, chat_id) is None:
                raise NotFoundError("chat", chat_id)
            return await queries_drops.list_drops(conn, chat_id)

    async def read_drop(self, chat_id: str, n: int) -> bytes:
        """Return the messages of one dropped region as JSON.

        Raises:
            NotFoundError: there is no such chat or region.
        """
        # Numbers are stored as 32 bits and start at 1: the guard lets no larger ones through.
        async with self._pool.connection() as conn:
            text = await self._store.read_drop(conn, chat_id, n)
        if text is None:
            raise NotFoundError("compaction", n)
        return text.encode()

    async def read_attachment(self, sha256: str) -> bytes:
        """Return the content of an attachment.

        Raises:
            NotFoundError: no chat has it.
        """
        digest = bytes.fromhex(sha256)
        async with self._pool.connection() as conn:
            contents = await queries_contents.fetch_contents(conn, [digest])
        if digest not in contents:
            raise NotFoundError("attachment", sha256)
        return contents[digest]


def _with_references(text: str, sizes: dict[bytes, int]) -> str:
    return _MARKED_CONTENT.sub(lambda match: _reference(match.group(1), sizes), text)


def _reference(digest: str, sizes: dict[bytes, int]) -> str:
    size = sizes[bytes.fromhex(digest)]
    return f'{{"type":"ref","sha256":"{digest}","url":"/api/attachments/{digest}","bytes":{size}}}'


def _raw_content(chat_json: str) -> str:
    """Return a broken history as JSON: itself where it is JSON at all, otherwise its text as a string."""
    try:
        msgspec.json.decode(chat_json, type=Raw)
        msgspec.json.decode(chat_json)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode(chat_json).decode()
    return chat_json


def _without_white_space(message: Message) -> Message:
    """Return the message with the base64 of its attachments as it is stored."""
    if isinstance(message, UserMessage) and _has_white_space(message.parts):
        return msgspec.structs.replace(message, parts=tuple(map(_strip_part, message.parts)))
    if isinstance(message, ToolResultMessage) and _has_white_space(message.result.parts):
        result = msgspec.structs.replace(message.result, parts=tuple(map(_strip_part, message.result.parts)))
        return ToolResultMessage((result,))
    return message


def _has_white_space(parts: Sequence[ContentPart]) -> bool:
    return any(
        isinstance(part, AttachmentPart) and strip_white_space(part.content.base64) != part.content.base64 for part in parts
    )


def _strip_part(part: ContentPart) -> ContentPart:
    if not isinstance(part, AttachmentPart):
        return part
    return msgspec.structs.replace(part, content=Base64Content(strip_white_space(part.content.base64)))
