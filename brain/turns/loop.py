"""The order of work of one turn: load, compact, recall, inject, run, and store only what succeeded (chat-domain §11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from brain.catalog import check_content
from brain.chats.service import check_cut
from brain.context.harness_xml import HarnessedHistory, inject
from brain.errors import HandRunError, NotFoundError
from brain.observability.metrics import Metrics
from brain.turns.attempt import Attempt
from brain.turns.budget import measure_context
from brain.turns.compacting import Compactor
from brain.turns.errors import StoppedError, TurnError
from brain.turns.events import MemoryGiven, Retry, publish
from brain.turns.images import ImageScaler
from brain.turns.injection import MemoryContext
from brain.turns.saving import close_partial, save_turn
from brain.turns.state import Conversation
from brain.turns.system_prompt import MEMORY_NAMESPACE, render_system_prompt
from shared_protocol.codec import encode_json
from shared_protocol.instants import now_instant
from shared_protocol.run import ErrorEvent, RunRequest

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.catalog import ChatModel
    from brain.chats.store import ChatStore, StoredChat
    from brain.config.models import HandConfig
    from brain.runs.client import HandClient
    from brain.runs.oneshot import RunCollector
    from brain.runs.registry import RunRegistry
    from brain.tools.provider import ToolProvider
    from brain.turns.injection import MemoryRecall
    from brain.turns.live import LiveTurn
    from brain.turns.tooling import TurnTooling
    from shared_protocol.messages import Message

_OVERFLOW: Final = "context_exhausted"


class TurnParts(msgspec.Struct, frozen=True, kw_only=True):
    """What every turn needs; built once by the composition root."""

    pool: AsyncConnectionPool[AsyncConnection]
    store: ChatStore
    client: HandClient
    registry: RunRegistry
    collector: RunCollector
    compact_model: ChatModel
    hand: HandConfig
    run_request_bytes: int
    memory: MemoryRecall
    tooling: TurnTooling
    images: ImageScaler = msgspec.field(default_factory=lambda: ImageScaler(None))
    metrics: Metrics = msgspec.field(default_factory=Metrics)


class TurnLoop:
    """Runs one turn to its end. ``run`` returns when everything is stored; any exception means that nothing is."""

    def __init__(self, parts: TurnParts, turn: LiveTurn) -> None:
        self._parts = parts
        self._turn = turn
        self._request = turn.request
        self._model = turn.request.model
        self._with_memory = turn.request.persona.serves(MEMORY_NAMESPACE)
        self._system_prompt = render_system_prompt(turn.request.persona.system_prompt, with_memory=self._with_memory)
        self._compactor = Compactor(parts.collector, parts.compact_model, self._model, turn.log)
        self._loaded: StoredChat | None = None
        self._conversation = Conversation((), turn.request.parts)
        self._memory = MemoryContext("", "", None)
        self._attempt: Attempt | None = None
        self._rounds = 0

    async def load(self, conn: AsyncConnection) -> None:
        """Read the chat; with ``replaceFrom`` only what lies before it counts.

        Raises:
            NotFoundError: the chat is gone.
            CorruptChatError: the stored history is not valid.
            InvalidInputError: ``replaceFrom`` names no message that may be replaced.
        """
        self._loaded = await self._parts.store.load(conn, self._request.chat_id)
        loaded = self._get_loaded()
        messages, fingerprint = loaded.messages, loaded.eltm_version
        if self._request.replace_from is not None:
            check_cut(messages, self._request.replace_from)
            messages, fingerprint = messages[: self._request.replace_from], ""
        self._conversation = Conversation(messages, self._request.parts)
        self._memory = MemoryContext(fingerprint, "", None)

    async def run(self) -> None:
        """Answer the message and store the result.

        Raises:
            BrainError: the turn failed; nothing was stored.
        """
        await self._compactor.compact_before_run(self._conversation, self._request.parts)
        version = await self._parts.memory.version()
        self._conversation.ask()
        # Before any spending on the model or on embeddings.
        check_content(self._model, self._conversation.messages)
        recalled = await self._parts.memory.recall(self._conversation.messages) if self._with_memory else None
        self._memory = MemoryContext(self._memory.fingerprint, version, recalled)
        self._tell_memory()
        tools = self._parts.tooling.open(self._turn) if self._model.can("tool_calls") else None
        try:
            await self._converse(tools)
        finally:
            if self._turn.gate is not None:
                self._turn.gate.close()
        self._turn.raise_if_ended()
        await self._store()

    async def keep_stopped(self) -> None:
        """Store what a stopped turn has said so far.

        Raises:
            StoppedError: it has said nothing.
        """
        partial = () if self._attempt is None else self._attempt.partial_parts()
        messages = close_partial(self._conversation.messages, partial, self._model) if self._attempt is not None else None
        if messages is None:
            raise StoppedError("The answer was stopped before anything of it had arrived.")
        self._conversation.messages = messages
        await self._store()

    def _get_loaded(self) -> StoredChat:
        if self._loaded is None:
            raise NotFoundError("chat", self._request.chat_id)
        return self._loaded

    async def _converse(self, tools: ToolProvider | None) -> None:
        while True:
            self._turn.raise_if_ended()
            check_content(self._model, self._conversation.messages)
            now = now_instant()
            injection = self._memory.render(now)
            history = inject(self._conversation.messages, now, injection)
            self._conversation.take_over(history)
            await self._tell_context(tools, injection)
            error = await self._perform(history, tools)
            if error is None:
                return
            failure = HandRunError(error.type, error.message)
            if error.type != _OVERFLOW:
                raise failure
            await self._compactor.compact_after_overflow(self._conversation, failure)
            version = await self._parts.memory.version()
            self._memory = msgspec.structs.replace(self._memory, version=version)
            publish(self._turn.log, Retry("The context was full: the conversation was compacted, and the answer starts again."))

    async def _perform(self, history: HarnessedHistory, tools: ToolProvider | None) -> ErrorEvent | None:
        minutes = self._parts.hand.run_timeout_minutes
        limit = asyncio.timeout(minutes * 60 if minutes else None)
        try:
            async with limit:
                return await self._perform_run(history, tools)
        except TimeoutError as problem:
            if not limit.expired():
                raise
            raise TurnError(f"The run took longer than {minutes} minutes (hand.runTimeoutMinutes) and was ended.") from problem

    async def _perform_run(self, history: HarnessedHistory, tools: ToolProvider | None) -> ErrorEvent | None:
        attempt = self._attempt = Attempt(self._turn, self._conversation.messages, self._rounds, self._parts.metrics)
        with self._parts.registry.register(tools or self._parts.tooling.none, self._model) as run_id:
            messages = await self._parts.images.scale(history.wire())
            body = encode_json(self._run_request(run_id, messages, with_tools=tools is not None))
            if len(body) > self._parts.run_request_bytes:
                return ErrorEvent(
                    _OVERFLOW,
                    f"the request has {len(body)} bytes, over limits.runRequestBytes ({self._parts.run_request_bytes})",
                )
            try:
                return await attempt.follow(self._parts.client, body, self._request.request_id)
            finally:
                self._rounds = attempt.rounds

    def _run_request(self, run_id: str, messages: tuple[Message, ...], *, with_tools: bool) -> RunRequest:
        hand = self._parts.hand
        return RunRequest(
            model=self._model.run_model(),
            messages=messages,
            system_prompt=self._system_prompt,
            max_tokens=self._model.max_output_tokens,
            run_id=run_id,
            tool_list_url=f"{hand.self_base_url}/api/hand/tools" if with_tools else None,
            tool_callback_url=f"{hand.self_base_url}/api/hand/tool" if with_tools else None,
            max_rounds=hand.max_rounds,
            max_retries=hand.max_retries,
            stream_idle_timeout_ms=hand.stream_idle_timeout_ms,
        )

    async def _store(self) -> None:
        self._turn.phase = "storing"
        await save_turn(self._parts.pool, self._parts.store, self._turn, self._get_loaded(), self._conversation, self._memory)
        self._turn.phase = "stored"

    def _tell_memory(self) -> None:
        recalled = self._memory.recalled
        notes = tuple(note.id for note in recalled.notes) if recalled else ()
        entities = tuple(entity.id for entity in recalled.entities) if recalled else ()
        degraded = recalled.degraded if recalled else None
        if degraded is not None:
            self._parts.metrics.degraded.labels(degraded).inc()
        publish(self._turn.log, MemoryGiven(notes, entities, degraded))

    async def _tell_context(self, tools: ToolProvider | None, injection: str) -> None:
        publish(
            self._turn.log,
            measure_context(
                self._model,
                system_prompt=self._system_prompt,
                tool_tokens=await self._parts.tooling.estimate(tools),
                injection=injection,
                messages=self._conversation.messages,
                counts_hold=self._conversation.counts_hold,
            ),
        )
