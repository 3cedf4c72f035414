"""The long-term memory behind the interface that turns know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brain.turns.injection import Recalled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.memory.reads import EltmReads
    from brain.memory.recall import Recaller
    from shared_protocol.messages import Message


class EltmRecall:
    """``MemoryRecall`` over the memory's reads and its recaller."""

    def __init__(self, reads: EltmReads, recaller: Recaller) -> None:
        self._reads = reads
        self._recaller = recaller

    async def version(self) -> str:
        """Return the global version of the memory, as text."""
        return await self._reads.version()

    async def recall(self, messages: Sequence[Message]) -> Recalled:
        """Search for what belongs to the newest user message; trouble is told in ``degraded``."""
        found = await self._recaller.recall(messages)
        return Recalled(found.entities, found.notes, found.degraded)
