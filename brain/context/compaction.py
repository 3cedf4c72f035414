"""The compaction stage: replace the oldest rounds by one summary that is checked to be smaller (chat-domain §12).

When to compact, and how often to try again, is decided by the callers (``brain.turns.compacting``, the replay of memory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from brain.catalog import check_content
from brain.context.harness_xml import anchor
from brain.context.rounds import count_rounds, split_for_compaction
from brain.errors import StageError
from brain.prompts import read_prompt
from shared_protocol.codec import encode_messages
from shared_protocol.messages import Message, TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel
    from brain.runs.oneshot import RunCollector
    from shared_protocol.instants import Instant

STAGE: Final = "compaction"
SUMMARY_PREFIX: Final = "CONTEXT COMPACTION: "
_PACKAGE: Final = "brain.context"
_BYTES_PER_WORD: Final = 8
"""Only for telling the model a length: generous for European languages, and a word limit means little in others."""
_FEWEST_WORDS: Final = 20


class Compaction(msgspec.Struct, frozen=True):
    """What was dropped, the summary that stands for it, what was preserved verbatim, and the new history."""

    dropped: tuple[Message, ...]
    summary: str
    preserved: tuple[Message, ...]
    messages: tuple[Message, ...]


class _ShorterFields(msgspec.Struct, frozen=True):
    words: int


async def compact(
    collector: RunCollector,
    model: ChatModel,
    messages: Sequence[Message],
    keep_rounds: int,
    now: Instant,
) -> Compaction:
    """Summarise all but the last ``keep_rounds`` rounds; the newest round goes too if it is the only one.

    ``messages`` are clean (no harness parts). A summary that is not smaller than what it replaces is asked for again once.

    Raises:
        CapabilityError: the compaction model cannot read the content.
        StageError: there is nothing to compact, the call failed, or the summary stayed too long.
    """
    if count_rounds(messages) == 0:
        raise StageError(STAGE, "there is no round to compact")
    check_content(model, messages)
    dropped, preserved = split_for_compaction(messages, keep_rounds)
    room = len(encode_messages(dropped))
    request = read_prompt(_PACKAGE, "compact_request").text
    shorter = read_prompt(_PACKAGE, "compact_shorter").fill(_ShorterFields(max(_FEWEST_WORDS, room // (2 * _BYTES_PER_WORD))))
    for instruction in (request, shorter):
        summary = await _summarise(collector, model, dropped, preserved, instruction)
        message = UserMessage((TextPart(SUMMARY_PREFIX + summary),), created_at=now)
        if len(encode_messages((message,))) < room:
            return Compaction(dropped, summary, preserved, (message, *preserved))
    raise StageError(STAGE, "the summary is longer than the messages it would replace")


async def _summarise(
    collector: RunCollector,
    model: ChatModel,
    dropped: tuple[Message, ...],
    preserved: tuple[Message, ...],
    instruction: str,
) -> str:
    border = UserMessage((TextPart(read_prompt(_PACKAGE, "compact_border").text),))
    ask = UserMessage((TextPart(instruction),))
    text = await collector.text(
        stage=STAGE,
        model=model,
        system_prompt=read_prompt(_PACKAGE, "compact").text,
        messages=anchor((*dropped, border, *preserved, ask)).wire(),
    )
    # A small model likes to repeat the marker that it was told to leave out.
    summary = text.removeprefix(SUMMARY_PREFIX.strip()).strip()
    if not summary:
        raise StageError(STAGE, "the summary is empty")
    return summary
