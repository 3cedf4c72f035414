"""What a finished turn leaves behind, in one transaction: history, dropped regions (kept and queued), given memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brain.chats import queries_drops
from brain.jobs.queue import enqueue_snapshot
from brain.turns import queries
from shared_protocol.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.catalog import ChatModel
    from brain.chats.store import ChatStore, StoredChat
    from brain.turns.injection import MemoryContext
    from brain.turns.live import LiveTurn
    from brain.turns.state import Conversation

from brain.turns.budget import estimate_parts, estimate_prompt
from shared_protocol.instants import now_instant

NOTHING_SAID = "(stopped)"
"""Stands for the answer of a turn that was stopped after its tools had run and before the model said anything."""


async def save_turn(
    pool: AsyncConnectionPool[AsyncConnection],
    store: ChatStore,
    turn: LiveTurn,
    loaded: StoredChat,
    conversation: Conversation,
    memory: MemoryContext,
) -> None:
    """Store a turn as a whole or not at all.

    Raises:
        ConflictError: the chat was changed by someone else since it was loaded.
        NotFoundError: it is gone.
    """
    request = turn.request
    remembers = request.remember and loaded.remember and request.persona.remember
    async with pool.connection() as conn, conn.transaction():
        await store.store(
            conn,
            loaded.id,
            messages=conversation.messages,
            eltm_version=memory.version,
            persona_id=request.persona.id,
            remember=None if request.remember else False,
            expected_revision=loaded.revision,
            unchanged=_count_unchanged(loaded.messages, conversation.messages),
        )
        for region in conversation.dropped:
            await store.add_drop(conn, loaded.id, region)
            if remembers:
                await enqueue_snapshot(conn, region, chat_id=loaded.id, chat_title=loaded.title)
        await _save_memories(conn, turn, conversation, memory)
        await queries.release_turn(conn, loaded.id, turn_id=turn.turn_id)


def _count_unchanged(before: Sequence[Message], after: Sequence[Message]) -> int:
    return next(
        (at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old is not new), min(len(before), len(after))
    )


async def _save_memories(conn: AsyncConnection, turn: LiveTurn, conversation: Conversation, memory: MemoryContext) -> None:
    asked = conversation.newest_user_message()
    if memory.recalled is None or asked is None or asked.created_at is None:
        return
    await queries_drops.insert_turn_memory(
        conn,
        turn.request.chat_id,
        turn.turn_id,
        message_created_at=asked.created_at,
        note_ids=[note.id for note in memory.recalled.notes],
        entity_ids=[entity.id for entity in memory.recalled.entities],
        degraded=memory.recalled.degraded,
    )


def close_partial(messages: list[Message], partial: tuple[AssistantPart, ...], model: ChatModel) -> list[Message] | None:
    """Return the history with a stopped answer as its completed end, or ``None`` if nothing was said or done since the question.

    Tool calls without a result are removed; whole tool rounds stay. Counts of the unfinished message are estimated.
    """
    kept = _without_unanswered_calls(messages)
    last = kept[-1]
    if not partial and isinstance(last, AssistantMessage) and last.parts:
        kept[-1] = msgspec.structs.replace(last, finish_reason="stop", interrupted=True)
        return kept
    if not partial and isinstance(last, UserMessage):
        return None
    parts = partial or (TextPart(NOTHING_SAID),)
    prompt = max(estimate_prompt(kept), 1)
    answer = max(estimate_parts(parts), 1)
    kept.append(
        AssistantMessage(
            parts=parts,
            created_at=now_instant(),
            meta=Usage(
                input_tokens=prompt,
                output_tokens=answer,
                total_tokens=prompt + answer,
                model_id=model.config.model_id,
            ),
            finish_reason="stop",
            interrupted=True,
        )
    )
    return kept


def _without_unanswered_calls(messages: Sequence[Message]) -> list[Message]:
    answered = {message.result.id for message in messages if isinstance(message, ToolResultMessage)}
    kept: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            parts = tuple(part for part in message.parts if not isinstance(part, ToolCallPart) or part.id in answered)
            if len(parts) != len(message.parts):
                if not parts:
                    continue
                message = msgspec.structs.replace(message, parts=parts)  # noqa: PLW2901 - the shortened message takes its place
        kept.append(message)
    return kept
