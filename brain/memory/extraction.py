"""Transcript to facts: asks the extraction model, checks its answer against the transcript, counts what goes (memory §8)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
import structlog

from brain.catalog import check_content
from brain.errors import HandRunError, StageError
from brain.memory.evidence import CheckedFacts, DropReason, Fact, check_facts, drop_echoes
from brain.memory.extractive import EXTRACTIVE_VERSION, extract_quotes
from brain.memory.facts import RawFact, RawFacts, facts_form
from brain.memory.regions import Piece, budget_bytes, clean_region, sources_of, split_region
from brain.prompts import read_prompt
from brain.runs.failures import causes
from brain.runs.ladder import Ladder, TextAsker
from shared_protocol.messages import TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.catalog import ChatModel
    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)

Flavour: TypeAlias = Literal["conversation", "digest"]
Way: TypeAlias = Literal["abstractive", "extractive"]
"""``abstractive``: the model words the facts. ``extractive``: facts are sentences of the person, for very small models."""

STAGE: Final = "extraction"
SMALLEST_PIECE_BYTES: Final = 1500
_PACKAGE: Final = "brain.memory"
_PROMPTS: Final[dict[Flavour, tuple[str, str]]] = {
    "conversation": ("extract", "extract_request"),
    "digest": ("digest", "digest_request"),
}


class Extraction(msgspec.Struct, frozen=True):
    """Facts of a region, what was dropped and why, and how the answer was got (``rung``: the lowest that was needed)."""

    facts: tuple[Fact, ...]
    dropped: dict[DropReason, int]
    rung: str
    prompt_version: str

    @property
    def dropped_count(self) -> int:
        """Items dropped in all."""
        return sum(self.dropped.values())


class Extractor:
    """Extracts the facts of a region of a chat, or of a submission, with one model."""

    def __init__(self, asker: TextAsker, model: ChatModel, *, way: Way | None = None) -> None:
        self._ladder = Ladder(asker)
        self.model = model
        self.way: Way = way or ("extractive" if model.config.demo else "abstractive")

    def prompt_version(self, flavour: Flavour) -> str:
        """Return the version of the instructions that facts of this flavour are got with."""
        return EXTRACTIVE_VERSION if self.way == "extractive" else read_prompt(_PACKAGE, _PROMPTS[flavour][0]).version

    def without_echoes(
        self, extraction: Extraction, messages: Sequence[Message], first_index: int, known_texts: Sequence[str]
    ) -> Extraction:
        """Return an extraction without what only repeats known memories; the person's own words always stay."""
        if not known_texts:
            return extraction
        kept = drop_echoes(extraction.facts, sources_of(clean_region(messages), first_index), known_texts)
        echoes = len(extraction.facts) - len(kept)
        dropped = extraction.dropped if not echoes else {**extraction.dropped, "echo": extraction.dropped.get("echo", 0) + echoes}
        return msgspec.structs.replace(extraction, facts=kept, dropped=dropped)

    async def extract(
        self,
        messages: Sequence[Message],
        *,
        flavour: Flavour = "conversation",
        first_index: int = 0,
        known_texts: Sequence[str] = (),
    ) -> Extraction:
        """Return the checked facts of a region; none when there is nothing worth keeping.

        ``known_texts`` are memories the conversation was given: what only repeats them is dropped.

        Raises:
            CapabilityError: the model cannot read the content.
            StageError: no rung of the ladder gave an answer, or the model is away.
        """
        region = clean_region(messages)
        sources = sources_of(region, first_index)
        if self.way == "abstractive" or flavour == "digest":
            check_content(self.model, region)
        if self.way == "extractive":
            checked = check_facts(extract_quotes(sources, flavour), sources, known_texts)
            return _extraction(checked, "extractive", self.prompt_version(flavour))
        rungs, raw = await self._ask_in_pieces(region, flavour)
        checked = check_facts(raw, sources, known_texts)
        if checked.dropped:
            logger.info("items of an extraction were dropped", **checked.dropped)
        _refuse_all_unsourced(raw, checked)
        return _extraction(checked, max(rungs, key=_RUNG_ORDER.index, default="text"), self.prompt_version(flavour))

    async def _ask_in_pieces(self, region: Sequence[Message], flavour: Flavour) -> tuple[list[str], RawFacts]:
        rungs: list[str] = []
        answers: list[RawFacts] = []
        waiting = [(piece, budget_bytes(self.model)) for piece in split_region(region, budget_bytes(self.model))]
        while waiting:
            piece, budget = waiting.pop(0)
            try:
                rung, answer = await self._ask(piece, flavour)
            except StageError as problem:
                smaller = _halves(piece, budget) if _is_too_long(problem) else None
                if smaller is None:
                    raise
                waiting[:0] = smaller
                continue
            rungs.append(rung)
            answers.append(answer)
        return rungs, _joined(answers)

    async def _ask(self, piece: Piece, flavour: Flavour) -> tuple[str, RawFacts]:
        system, request = _PROMPTS[flavour]
        answer = await self._ladder.ask(
            facts_form(),
            stage=STAGE,
            model=self.model,
            system_prompt=read_prompt(_PACKAGE, system).text,
            messages=(
                *piece.wire(native_tools=self.model.can("tool_calls")),
                UserMessage((TextPart(read_prompt(_PACKAGE, request).text),)),
            ),
        )
        return answer.rung, answer.value


_RUNG_ORDER: Final = ("schema", "object", "text")


def _refuse_all_unsourced(raw: RawFacts, checked: CheckedFacts) -> None:
    """An answer of which nothing rests on a message is a failure of the model, not an empty region: the region must not be lost.

    A single listed item is let through: a model that found one thing and miscounted did read the region.

    Raises:
        StageError: several items, or prose, and no message says any of it.
    """
    items = len(raw.items) + raw.malformed
    if checked.facts or not items or (items == 1 and not raw.plain):
        return
    unsourced = checked.dropped.get("no_message", 0) + checked.dropped.get("unknown_message", 0)
    if unsourced >= len(raw.items):
        raise StageError(STAGE, f"no message of the conversation says what the model answered ({items} items)")


def _extraction(checked: CheckedFacts, rung: str, version: str) -> Extraction:
    return Extraction(checked.facts, checked.dropped, rung, version)


def _is_too_long(problem: StageError) -> bool:
    kinds = {link.error_type for link in causes(problem) if isinstance(link, HandRunError)}
    return "context_exhausted" in kinds or "output_budget_exhausted" in kinds


def _halves(piece: Piece, budget: int) -> list[tuple[Piece, int]] | None:
    """Cut a piece that was too long for the model after all; ``None`` when it is already as small as makes sense."""
    half = budget // 2
    if half < SMALLEST_PIECE_BYTES:
        return None
    numbers = [number for number, _ in piece.messages]
    cut = split_region([message for _, message in piece.messages], half)
    return [(Piece(tuple((numbers[place - 1], message) for place, message in part.messages)), half) for part in cut]


def _joined(answers: Sequence[RawFacts]) -> RawFacts:
    counts: Counter[str] = Counter()
    items: list[RawFact] = []
    for answer in answers:
        items.extend(answer.items)
        counts["malformed"] += answer.malformed
        counts["excess"] += answer.excess
    first: dict[tuple[str, int | None], RawFact] = {}
    for item in items:
        first.setdefault((item.text.casefold(), item.message), item)
    distinct = tuple(first.values())
    counts["excess"] += len(items) - len(distinct)
    return RawFacts(
        distinct,
        plain=all(answer.plain for answer in answers if answer.items),
        malformed=counts["malformed"],
        excess=counts["excess"],
    )
