"""Generated titles: what the model is shown, what is made of its answer, and that a rename made meanwhile wins."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brain.catalog import check_content
from brain.chats import queries
from brain.chats.search.index import index_title
from brain.errors import NotFoundError, StageError
from shared_protocol.instants import now_instant
from shared_protocol.messages import Message, TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.catalog import ChatModel
    from brain.chats.store import ChatStore
    from brain.runs.oneshot import RunCollector

MAX_TITLE_CHARS: Final = 200
STAGE: Final = "title"
REQUEST: Final = "Write the title of this conversation now: one line, nothing else."

_QUOTES: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "‘": "’",
    "«": "»",
    "»": "«",
    "„": "“",
    "「": "」",
    "『": "』",
    "《": "》",
}
_MARKERS: Final = re.compile(r"^(?:#{1,6}\s+|[-*+>]\s+)+")
_EMPHASIS: Final = re.compile(r"^(\*\*|__|\*|_|~~)(.+)\1$")


class TitleGenerator:
    """Asks the title model for a title of a stored chat."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection],
        store: ChatStore,
        collector: RunCollector,
        model: ChatModel,
        last_n_rounds: int,
    ) -> None:
        self._pool = pool
        self._store = store
        self._collector = collector
        self._model = model
        self._last_n_rounds = last_n_rounds

    async def generate(self, chat_id: str) -> queries.ChatHead:
        """Give the chat a generated title; an empty chat, and one that was renamed meanwhile, keeps its own.

        Raises:
            NotFoundError: there is no such chat, or it was deleted meanwhile.
            CorruptChatError: the stored history is not valid.
            CapabilityError: the title model cannot read what the chat contains.
            StageError: the model gave no title.
        """
        async with self._pool.connection() as conn:
            chat = await self._store.load(conn, chat_id)
            if chat is None:
                raise NotFoundError("chat", chat_id)
            if not chat.messages:
                return await self._head(conn, chat_id)
        shown = last_rounds(chat.messages, self._last_n_rounds) if self._last_n_rounds > 0 else chat.messages
        check_content(self._model, shown)
        answer = await self._collector.text(
            stage=STAGE,
            model=self._model,
            system_prompt=read_prompt(),
            messages=(*shown, UserMessage((TextPart(REQUEST),), now_instant())),
        )
        title = sanitise_title(answer)
        if not title:
            raise StageError(STAGE, "nothing readable is left of the model's answer")
        async with self._pool.connection() as conn, conn.transaction():
            head = await queries.replace_title(conn, chat_id, old=chat.title, new=title)
            if head is None:
                return await self._head(conn, chat_id)
            await index_title(conn, chat_id, title)
            return head

    @staticmethod
    async def _head(conn: AsyncConnection, chat_id: str) -> queries.ChatHead:
        head = await queries.find_chat_head(conn, chat_id)
        if head is None:
            raise NotFoundError("chat", chat_id)
        return head


def last_rounds(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """Return everything from the ``count``-th-from-last user message on; all of it if there are fewer."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    return tuple(messages) if len(starts) <= count else tuple(messages[starts[-count] :])


def sanitise_title(answer: str) -> str:
    """Return the first readable line of an answer without quotes, Markdown and control characters; empty if there is none."""
    for raw in answer.splitlines():
        line = "".join(" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in raw)
        line = _unwrap(" ".join(line.split()))
        if line:
            return line[:MAX_TITLE_CHARS].rstrip()
    return ""


def _unwrap(line: str) -> str:
    while True:
        bare = _MARKERS.sub("", line).strip()
        if (match := _EMPHASIS.match(bare)) is not None:
            bare = match.group(2).strip()
        if len(bare) >= 2 and _QUOTES.get(bare[0]) == bare[-1]:
            bare = bare[1:-1].strip()
        if bare == line:
            # A line of nothing but marks is no title.
            return line if any(char.isalnum() or unicodedata.category(char) == "So" for char in line) else ""
        line = bare


def read_prompt() -> str:
    """Return the system prompt of the title stage, without its version line."""
    text = (Path(__file__).parent / "prompts" / "title.en.md").read_text(encoding="utf-8")
    return text.partition("\n")[2].strip()
