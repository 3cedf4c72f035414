"""The sub-agent behind ``gsg__investigate``: searches memory and other sources with its own tools and returns one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Raw

from brain.context.harness_xml import local_time
from brain.errors import BrainError, failure_chain
from brain.prompts import read_prompt
from brain.runs.ladder import ask_text
from brain.tools.arguments import ArgumentError, LenientArguments
from brain.tools.provider import ToolOutcome, ToolTransportError, error_outcome
from shared_protocol.messages import AssistantMessage, Message, TextPart, ToolCallPart, UserMessage, text_of
from shared_protocol.tools import ToolSpec

if TYPE_CHECKING:
    from brain.catalog import ChatModel
    from brain.runs.oneshot import CollectedRun, RunCollector
    from brain.tools.provider import ToolProvider

logger = structlog.get_logger(__name__)

STAGE: Final = "investigator"
NAMESPACE: Final = "gsg"
TOOL_NAME: Final = "gsg__investigate"
MAX_TRACE_CHARS: Final = 8000
MAX_TRACE_ARGUMENT_CHARS: Final = 300
ADVICE: Final = "Ask again with a narrower question, or with several smaller ones."

_PACKAGE: Final = "brain.memory"
_SPEC: Final = ToolSpec(
    name=TOOL_NAME,
    description=(
        "Start a temporary sub-agent that searches the long-term memory, the web and the other configured sources, and returns "
        "one report. Use it for deep recall and for research that needs several steps. The sub-agent sees nothing of this "
        "conversation, and nothing is shared between two calls: the query must contain everything it needs - names, dates, "
        "what is known already and what is asked."
    ),
    schema=Raw(
        b'{"type":"object","properties":{"query":{"type":"string","description":"The complete, self-contained question."}},'
        b'"required":["query"],"additionalProperties":false}'
    ),
)


def _now() -> datetime:
    return datetime.now().astimezone()


class Investigator:
    """Serves ``gsg__investigate``. Whatever goes wrong inside is an error result; the chat's run always goes on.

    ``tools`` is the sub-agent's own set, already filtered and capped.
    """

    def __init__(
        self,
        collector: RunCollector,
        model: ChatModel,
        tools: ToolProvider,
        *,
        max_rounds: int,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._collector = collector
        self._model = model
        self._tools = tools
        self._max_rounds = max_rounds
        self._now = now

    @property
    def namespaces(self) -> Sequence[str]:
        """The one namespace."""
        return (NAMESPACE,)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the one tool."""
        return (_SPEC,)

    def budget_seconds(self, name: str) -> int:
        """Return 0: the sub-agent is bounded by its rounds."""
        del name
        return 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Answer one question with a report, or with what can be told of a run that failed (memory §15.3)."""
        del call_id
        if name != TOOL_NAME:
            return error_outcome(f"unknown tool {name!r}")
        try:
            query = LenientArguments(args).required_text("query")
        except ArgumentError as problem:
            return error_outcome(str(problem))
        try:
            return await self._investigate(query)
        except (BrainError, ToolTransportError) as problem:
            return error_outcome(f"the investigation failed: {failure_chain(problem)}")
        except Exception:  # a bug in here must not end the person's run; it is logged with its stack
            logger.exception("the investigator failed")
            return error_outcome("the investigation failed because of an internal error")

    async def _investigate(self, query: str) -> ToolOutcome:
        question = UserMessage((TextPart(f"{local_time(self._now())}\n\n{query}"),))
        run = await self._collector.collect(
            stage=STAGE,
            model=self._model,
            system_prompt=read_prompt(_PACKAGE, "investigate").text,
            messages=(question,),
            tools=self._tools,
            max_rounds=self._max_rounds,
        )
        if run.error is None:
            return _finished(run)
        match run.error.type:
            case "round_limit":
                return ToolOutcome((TextPart(await self._partial_report(question, run)),))
            case "context_exhausted":
                header = (
                    "The investigation collected more than the model can read at once and had to stop. These tools were called:"
                )
                return ToolOutcome((TextPart(f"{header}\n{_trace(run.messages)}\n\n{ADVICE}"),))
            case _:
                return error_outcome(f"the investigation failed: {run.error.type}: {run.error.message}")

    async def _partial_report(self, question: UserMessage, run: CollectedRun) -> str:
        header = (
            f"The investigation reached its limit of {self._max_rounds} rounds before it was finished. What was found until then:"
        )
        request = UserMessage((TextPart(read_prompt(_PACKAGE, "investigate_summary_request").text),))
        try:
            summary = await ask_text(
                self._collector,
                stage="investigator summary",
                model=self._model,
                system_prompt=read_prompt(_PACKAGE, "investigate_summary").text,
                messages=(question, *run.messages, request),
            )
        except BrainError as problem:
            logger.warning("the summary of an investigation failed", error=failure_chain(problem))
            said = [text_of(message.parts).strip() for message in run.messages if isinstance(message, AssistantMessage)]
            summary = "\n\n".join(text for text in said if text) or "Nothing was recorded."
        return f"{header}\n\n{summary}\n\n{ADVICE}"


def _finished(run: CollectedRun) -> ToolOutcome:
    last = run.messages[-1] if run.messages else None
    if isinstance(last, AssistantMessage):
        parts = tuple(part for part in last.parts if isinstance(part, TextPart) and part.text.strip())
        if parts:
            return ToolOutcome(parts)
    header = "The investigation ended without a report. These tools were called:"
    return ToolOutcome((TextPart(f"{header}\n{_trace(run.messages)}\n\n{ADVICE}"),), is_error=True)


def _trace(messages: Sequence[Message]) -> str:
    """Return one line for each tool call, cut where it grows long."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            lines.extend(_call(part) for part in message.parts if isinstance(part, ToolCallPart))
    text = "\n".join(lines) or "(none)"
    return text if len(text) <= MAX_TRACE_CHARS else f"{text[:MAX_TRACE_CHARS]}\n…"


def _call(part: ToolCallPart) -> str:
    arguments = bytes(part.args).decode()
    shown = arguments if len(arguments) <= MAX_TRACE_ARGUMENT_CHARS else f"{arguments[:MAX_TRACE_ARGUMENT_CHARS]}…"
    return f"{part.tool}({shown})"
