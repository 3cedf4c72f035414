"""What memory goes with the newest message (chat-domain §10, memory §13). The memory itself is behind ``MemoryRecall``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from brain.context.harness_xml import EntityView, Memories, NoteView, find_injection_shape, render_injection
from shared_protocol.instants import Instant, datetime_from_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)


class Recalled(msgspec.Struct, frozen=True):
    """What was found for a turn; ``degraded`` says why a part was left out, if one was."""

    entities: tuple[EntityView, ...] = ()
    notes: tuple[NoteView, ...] = ()
    degraded: str | None = None


class MemoryRecall(Protocol):
    """The long-term memory as a turn needs it."""

    async def version(self) -> str:
        """Return the global version of the memory, as text."""
        ...

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        """Search for what belongs to the newest user message; ``messages`` is the clean history including it.

        Trouble inside is no error: it is told in ``degraded``, and the turn goes on without memories.
        """
        ...


class MemoryContext(msgspec.Struct, frozen=True):
    """What a turn knows of the memory: the chat's fingerprint, the version read, and what was recalled (``None``: no access)."""

    fingerprint: str
    version: str
    recalled: Recalled | None

    def render(self, now: Instant) -> str:
        """Return the injection: full with access, else the time only."""
        memories = None
        if self.recalled is not None:
            memories = Memories(self.fingerprint != self.version, self.recalled.entities, self.recalled.notes)
        moment = datetime_from_instant(now)
        text = render_injection(moment, memories)
        if find_injection_shape(text) is None:
            # The persona's introduction describes this shape; anything else would be taken for the user's words.
            logger.error("an injection does not have its shape and is sent without memories", chars=len(text))
            return render_injection(moment, None)
        return text
