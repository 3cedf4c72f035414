"""What an erasure of memories needs of the chats: hold one, delete it within the erasure's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection

    from brain.chats.locks import ChatLocks
    from brain.chats.store import ChatStore


class ChatEraser:
    """Deletes chats on behalf of an erasure; nothing of them is remembered."""

    def __init__(self, locks: ChatLocks, store: ChatStore) -> None:
        self._locks = locks
        self._store = store

    def hold(self, chat_id: str) -> AbstractAsyncContextManager[object]:
        """Hold the lock of a chat, so that no answer brings its text back; raises ``ChatBusyError``."""
        return self._locks.hold(chat_id)

    async def delete(self, conn: AsyncConnection, chat_id: str) -> bool:
        """Delete a chat with its attachments, search rows and dropped text; whether there was one."""
        return await self._store.delete(conn, chat_id)
