"""When a turn compacts its history: before the run if it would be too long, and after an overflow, a bounded number of times.

Each attempt must make the history smaller, or the turn fails; the stage itself is ``brain.context.compaction``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from brain.context.compaction import compact
from brain.context.rounds import count_rounds
from brain.errors import HandRunError
from brain.turns.budget import estimate_parts, estimate_prompt, find_last_answer
from brain.turns.errors import TurnError
from brain.turns.events import Compacted, publish
from shared_protocol.instants import now_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel
    from brain.runs.oneshot import RunCollector
    from brain.turns.run_log import RunLog
    from brain.turns.state import Conversation
    from shared_protocol.messages import ContentPart, Message

MAX_REACTIVE: Final = 3
"""Compactions after an overflow within one turn: as configured, keeping one round, keeping none."""


def next_keep_rounds(configured: int, preserved: int | None) -> int:
    """Return how many rounds to keep after an overflow; ``preserved`` is what the compaction before kept, if there was one.

    Fewer than before, down to none: to keep as many again would only summarise the summary.
    """
    if preserved is None:
        return configured
    return 1 if preserved > 1 else 0


def needs_compaction(model: ChatModel, messages: Sequence[Message], new_parts: Sequence[ContentPart]) -> bool:
    """Whether to compact before the run (chat-domain §11 step 3).

    The configured fraction is compared with the last prompt alone, as clients of the reference expect; the new input
    counts where it would not fit into the window at all. A fraction of 0 switches both off.
    """
    fraction = model.config.compaction_trigger_fraction
    last = find_last_answer(messages)
    if fraction <= 0 or last is None or count_rounds(messages) == 0:
        return False
    if last.meta.input_tokens > model.context_length * fraction:
        return True
    return estimate_prompt(messages) + estimate_parts(new_parts) > model.context_length


class Compactor:
    """Compacts the conversation of one turn and tells its clients."""

    def __init__(self, collector: RunCollector, compact_model: ChatModel, run_model: ChatModel, log: RunLog) -> None:
        self._collector = collector
        self._compact_model = compact_model
        self._run_model = run_model
        self._log = log
        self._reactive = 0
        self._preserved: int | None = None

    async def compact_before_run(self, conversation: Conversation, new_parts: Sequence[ContentPart]) -> bool:
        """Compact if the history would be too long; whether it was done."""
        if not needs_compaction(self._run_model, conversation.messages, new_parts):
            return False
        await self._compact(conversation, self._run_model.config.compaction_keep_rounds, "proactive")
        return True

    async def compact_after_overflow(self, conversation: Conversation, overflow: HandRunError) -> None:
        """Compact after the model refused the prompt as too long; completed tool rounds of the attempt are kept.

        Raises:
            HandRunError: the overflow itself: nothing is left that could be dropped.
            TurnError: too many attempts, or the history did not become smaller.
        """
        kept = conversation.keep_completed_rounds()
        if self._reactive >= MAX_REACTIVE:
            raise TurnError(
                f"The conversation does not fit into the context window of {self._run_model.id!r}, "
                f"even after it was compacted {self._reactive} times."
            ) from overflow
        if count_rounds(conversation.messages) == 1 and not kept:
            # Only the new message is left: it would be summarised and then appended again, longer than before.
            raise overflow
        before = conversation.size()
        keep_rounds = next_keep_rounds(self._run_model.config.compaction_keep_rounds, self._preserved)
        self._reactive += 1
        self._preserved = await self._compact(conversation, keep_rounds, "reactive")
        conversation.ask()
        if conversation.size() >= before:
            raise TurnError(
                f"The conversation does not fit into the context window of {self._run_model.id!r}, "
                "and compacting it does not make it smaller. Shorten the message, or choose a model with a larger window."
            ) from overflow

    async def _compact(self, conversation: Conversation, keep_rounds: int, reason: Literal["proactive", "reactive"]) -> int:
        result = await compact(self._collector, self._compact_model, conversation.messages, keep_rounds, now_instant())
        conversation.accept(result)
        publish(self._log, Compacted(len(result.dropped), count_rounds(result.dropped), len(result.summary), reason))
        return count_rounds(result.preserved)
