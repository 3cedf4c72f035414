"""Facts to records: by the tool loop, by a plan that our code carries out, or directly for very small models (memory §9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from uuid import UUID

import msgspec
import structlog
from msgspec import Raw

from brain.errors import HandRunError, StageError
from brain.memory import queries, queries_names
from brain.memory.placing import Placement, Placer
from brain.memory.plan import Plan, plan_form
from brain.memory.tokens import name_candidates
from brain.memory.writer_tools import WriterTools
from brain.prompts import read_prompt
from brain.runs.ladder import NO_THINKING, Ladder
from shared_protocol.messages import TextPart, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from brain.catalog import ChatModel
    from brain.memory.evidence import Fact
    from brain.memory.search import EltmSearch
    from brain.memory.store import EltmStore
    from brain.runs.oneshot import CollectedRun, RunCollector
    from brain.tools.provider import ToolProvider

logger = structlog.get_logger(__name__)

WritingWay: TypeAlias = Literal["tools", "plan", "direct"]

STAGE: Final = "memory writer"
PLAN_STAGE: Final = "memory plan"
FACTS_PER_PLAN: Final = 12
"""Few enough for the attention, and the output budget, of a small model."""
KNOWN_ENTITIES: Final = 40

_PACKAGE: Final = "brain.memory"


class Written(msgspec.Struct, frozen=True):
    """How facts were recorded: the way, the lowest rung a plan needed, and counts where our code did the recording."""

    way: WritingWay
    prompt_version: str
    rung: str | None = None
    placement: Placement | None = None


class _WriteInput(msgspec.Struct, frozen=True):
    today: str
    facts: str


class _PlanInput(msgspec.Struct, frozen=True):
    today: str
    known: str
    facts: str


class Writer:
    """Records facts with one model, in the way that its capabilities allow."""

    def __init__(
        self,
        store: EltmStore,
        search: EltmSearch,
        collector: RunCollector,
        model: ChatModel,
        *,
        max_rounds: int,
        way: WritingWay | None = None,
    ) -> None:
        self._store = store
        self._search = search
        self._collector = collector
        self._ladder = Ladder(collector)
        self._placer = Placer(store)
        self.model = model
        self._max_rounds = max_rounds
        self.way: WritingWay = way or _way_of(model)

    async def write(self, facts: Sequence[Fact], *, run_id: UUID, today: date) -> Written:
        """Record the facts. What was written stays when it fails half way; writing the same facts again adds nothing.

        Raises:
            StageError: the writer did not come to a clean end.
        """
        if not facts:
            raise ValueError("there are no facts to write")
        match self.way:
            case "tools":
                return await self._write_with_tools(facts, run_id, today)
            case "plan":
                return await self._write_by_plan(facts, run_id, today)
            case "direct":
                placement = await self._placer.place(facts, Plan(()), run_id=run_id, today=today)
                return Written("direct", "direct-1", None, placement)

    async def _write_with_tools(self, facts: Sequence[Fact], run_id: UUID, today: date) -> Written:
        prompt = read_prompt(_PACKAGE, "write")
        text = read_prompt(_PACKAGE, "write_input").fill(_WriteInput(today.isoformat(), list_facts(facts)))
        tools = WriterTools(self._store, self._search, facts, run_id)
        run = await self._run(self.model, prompt.text, text, tools)
        if run.error is not None and run.error.type == "empty_response":
            # The work may be done already; a model that only thought at the end gets one more chance without thinking.
            quiet = msgspec.structs.replace(self.model, reasoning_effort=None)
            run = await self._run(quiet, prompt.text, text, tools, overrides=dict(NO_THINKING))
        if run.error is not None:
            raise StageError(STAGE, "the run ended early") from HandRunError(run.error.type, run.error.message)
        if run.answer() is None:
            raise StageError(STAGE, "the model did not end with a complete text answer")
        if tools.unfinished:
            away = HandRunError("upstream", f"{tools.unfinished} records could not be written")
            raise StageError(STAGE, "a service that the memory needs was away") from away
        return Written("tools", prompt.version)

    async def _run(
        self, model: ChatModel, system: str, text: str, tools: ToolProvider, overrides: dict[str, Raw] | None = None
    ) -> CollectedRun:
        return await self._collector.collect(
            stage=STAGE,
            model=model,
            system_prompt=system,
            messages=(UserMessage((TextPart(text),)),),
            tools=tools,
            max_rounds=self._max_rounds,
            model_overrides=overrides,
        )

    async def _write_by_plan(self, facts: Sequence[Fact], run_id: UUID, today: date) -> Written:
        prompt = read_prompt(_PACKAGE, "plan")
        rung = "schema"
        total = Placement()
        for start in range(0, len(facts), FACTS_PER_PLAN):
            batch = facts[start : start + FACTS_PER_PLAN]
            known = "\n".join(await self._known_entities(batch)) or "(none)"
            text = read_prompt(_PACKAGE, "plan_input").fill(_PlanInput(today.isoformat(), known, list_facts(batch)))
            answer = await self._ladder.ask(
                plan_form(),
                stage=PLAN_STAGE,
                model=self.model,
                system_prompt=prompt.text,
                messages=(UserMessage((TextPart(text),)),),
            )
            rung = max(rung, answer.rung, key=("schema", "object", "text").index)
            total = _sum(total, await self._placer.place(batch, answer.value, run_id=run_id, today=today))
        return Written("plan", prompt.version, rung, total)

    async def _known_entities(self, facts: Sequence[Fact]) -> list[str]:
        """Return the entities that the facts name, so that the plan uses the records there are."""
        candidates = list(dict.fromkeys(name for fact in facts for name in name_candidates(fact.text)))
        async with self._store.pool.connection() as conn:
            named = await queries_names.find_named(conn, candidates, KNOWN_ENTITIES)
            entities = await queries.get_entities(conn, [entity_id for entity_id, _ in named])
        return [f"- {entity.canonical_name} ({entity.category})" for entity in entities.values()]


def list_facts(facts: Sequence[Fact]) -> str:
    """Return facts as the numbered lines that the writer gets; a line break inside a fact does not start a new one."""
    return "\n".join(f"{fact.number}. {fact.text.replace('````', '```')}" for fact in facts)


def _way_of(model: ChatModel) -> WritingWay:
    if model.config.demo:
        return "direct"
    return "tools" if model.can("tool_calls") else "plan"


def _sum(left: Placement, right: Placement) -> Placement:
    return Placement(*(getattr(left, name) + getattr(right, name) for name in Placement.__struct_fields__))
