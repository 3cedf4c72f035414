"""Structured answers from models of any size: strict schema, then JSON object, then tagged text, then a failure that says why.

Also the retry that thinking models need: an answer that is empty after much thought is asked for once more without thought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec
import structlog
from msgspec import Raw

from brain.errors import HandRunError, StageError
from brain.runs.failures import causes, is_outage
from brain.runs.model_json import find_json, looks_like_json, salvage_objects, strip_thinking
from shared_protocol.run import JsonObjectFormat, JsonSchemaFormat, ResponseFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brain.catalog import ChatModel
    from shared_protocol.messages import Message

logger = structlog.get_logger(__name__)

T = TypeVar("T")

Rung: TypeAlias = Literal["schema", "object", "text"]

STRUCTURED_OUTPUT: Final = "structured_output"
EMPTY_JSON: Final = frozenset({"{}", "[]"})
NO_THINKING: Final = {"chat_template_kwargs": Raw(b'{"enable_thinking":false}')}
"""Understood by llama.cpp, vLLM and SGLang; others ignore or refuse it, and then the first failure stands."""


class TextAsker(Protocol):
    """The part of ``RunCollector`` that is used here: one text answer out of one run."""

    async def text(
        self,
        *,
        stage: str,
        model: ChatModel,
        system_prompt: str,
        messages: Sequence[Message],
        response_format: ResponseFormat | None = None,
        model_overrides: dict[str, Raw] | None = None,
    ) -> str:
        """Return the answer of one run without tools.

        Raises:
            StageError: the run did not end with ``stop`` and text.
        """
        ...


class AnswerForm(msgspec.Struct, Generic[T], frozen=True):
    """One kind of answer in its two spellings. The readers raise ``ValueError`` for what they cannot accept.

    ``list_key`` names the field that holds the items, so that complete items of a cut answer can be saved.
    """

    name: str
    schema: Raw
    list_key: str
    describe_json: str
    describe_text: str
    read_json: Callable[[object], T]
    read_text: Callable[[str], T]


class RungFailure(msgspec.Struct, frozen=True):
    """Why one rung gave no answer."""

    rung: Rung
    reason: str


class LadderAnswer(msgspec.Struct, Generic[T], frozen=True):
    """An answer and how it was got. ``salvaged``: the text was cut, only its complete items are here."""

    value: T
    rung: Rung
    failures: tuple[RungFailure, ...] = ()
    salvaged: bool = False


class LadderError(StageError):
    """No rung gave an answer that can be used; the message names each with its reason."""

    def __init__(self, stage: str, failures: Sequence[RungFailure]) -> None:
        super().__init__(stage, "; ".join(f"{failure.rung}: {failure.reason}" for failure in failures))
        self.failures = tuple(failures)


class Ladder:
    """Asks a model for a structured answer in the strictest way it is said to support, then in simpler ways."""

    def __init__(self, asker: TextAsker) -> None:
        self._asker = asker

    async def ask(
        self,
        form: AnswerForm[T],
        *,
        stage: str,
        model: ChatModel,
        system_prompt: str,
        messages: Sequence[Message],
    ) -> LadderAnswer[T]:
        """Return the first usable answer, from the top rung down.

        Raises:
            LadderError: every rung failed on the content of its answer.
            StageError: an outage; lower rungs would meet the same.
        """
        failures: list[RungFailure] = []
        saved: LadderAnswer[T] | None = None
        last: StageError | None = None
        for rung in rungs_for(model):
            prompt = f"{system_prompt}\n\n{form.describe_text if rung == 'text' else form.describe_json}"
            try:
                text = await ask_text(
                    self._asker,
                    stage=stage,
                    model=model,
                    system_prompt=prompt,
                    messages=messages,
                    response_format=_response_format(form, rung),
                )
            except StageError as problem:
                if is_outage(problem):
                    raise
                last = problem
                failures.append(RungFailure(rung, _reason(problem)))
                continue
            try:
                return LadderAnswer(read_answer(form, rung, text), rung, tuple(failures))
            except ValueError as problem:
                failures.append(RungFailure(rung, str(problem)))
                saved = _better(saved, _salvage(form, rung, text))
        if saved is not None:
            logger.warning("only the complete items of a cut answer could be read", stage=stage, rung=saved.rung)
            return msgspec.structs.replace(saved, failures=tuple(failures))
        raise LadderError(stage, failures) from last


async def ask_text(
    asker: TextAsker,
    *,
    stage: str,
    model: ChatModel,
    system_prompt: str,
    messages: Sequence[Message],
    response_format: ResponseFormat | None = None,
) -> str:
    """Return one text answer without thinking tags; a model that only thought is asked once more with thinking off.

    Raises:
        StageError: the run did not end with ``stop`` and text beside the thoughts.
    """
    first: StageError
    try:
        answer = await asker.text(
            stage=stage, model=model, system_prompt=system_prompt, messages=messages, response_format=response_format
        )
        if clean := strip_thinking(answer):
            return clean
        first = StageError(stage, "the model thought and did not answer")
    except StageError as problem:
        if not _only_thought(problem, model):
            raise
        first = problem
    try:
        answer = await asker.text(
            stage=stage,
            model=msgspec.structs.replace(model, reasoning_effort=None),
            system_prompt=system_prompt,
            messages=messages,
            response_format=response_format,
            model_overrides=dict(NO_THINKING),
        )
    except StageError as second:
        if is_outage(second):
            raise
        raise first from second
    if not (clean := strip_thinking(answer)):
        raise first
    return clean


def rungs_for(model: ChatModel) -> tuple[Rung, ...]:
    """Return the rungs that the model's capabilities allow, best first."""
    return ("schema", "object", "text") if model.can(STRUCTURED_OUTPUT) else ("text",)


def read_answer(form: AnswerForm[T], rung: Rung, text: str) -> T:
    """Read an answer as the rung wants it; on the last one JSON is accepted too, since many models answer with it anyway.

    Raises:
        ValueError: it cannot be read.
    """
    is_json = looks_like_json(text)
    reasons: list[str] = []
    for value in find_json(text):
        if rung == "text" and not is_json and not _is_list_of(form, value):
            continue  # brackets in a sentence are not the answer
        try:
            return form.read_json(value)
        except (ValueError, msgspec.ValidationError) as problem:
            reasons.append(str(problem))
    if rung == "text" and (not is_json or strip_thinking(text) in EMPTY_JSON):
        return form.read_text(strip_thinking(text))
    raise ValueError(reasons[0] if reasons else "no complete JSON in the answer")


def _is_list_of(form: AnswerForm[T], value: object) -> bool:
    if isinstance(value, dict):
        return form.list_key in value
    items = cast("list[object]", value) if isinstance(value, list) else []
    return bool(items) and all(isinstance(item, dict) for item in items)


def _salvage(form: AnswerForm[T], rung: Rung, text: str) -> LadderAnswer[T] | None:
    objects = [item for item in salvage_objects(text) if form.list_key not in item]
    if not objects:
        return None
    try:
        return LadderAnswer(form.read_json({form.list_key: objects}), rung, salvaged=True)
    except (ValueError, msgspec.ValidationError):
        return None


def _better(saved: LadderAnswer[T] | None, found: LadderAnswer[T] | None) -> LadderAnswer[T] | None:
    return saved if found is None else found


def _response_format(form: AnswerForm[T], rung: Rung) -> ResponseFormat | None:
    match rung:
        case "schema":
            return JsonSchemaFormat(name=form.name, schema=form.schema)
        case "object":
            return JsonObjectFormat()
        case "text":
            return None


def _only_thought(problem: StageError, model: ChatModel) -> bool:
    kinds = {link.error_type for link in causes(problem) if isinstance(link, HandRunError)}
    return "empty_response" in kinds or ("output_budget_exhausted" in kinds and model.reasoning_effort is not None)


def _reason(problem: StageError) -> str:
    last = list(causes(problem))[-1]
    return str(last)
