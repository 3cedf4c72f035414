"""Answers of broken models: each is read as far as it can be believed, or refused with a reason; nothing is ever made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brain.errors import StageError
from brain.memory.extraction import Extractor
from brain.memory.plan import plan_form
from brain.runs.ladder import Ladder, LadderError
from shared_protocol.instants import Instant
from shared_protocol.messages import AssistantMessage, TextPart, Usage, UserMessage
from tests.fakes.scripted_model import chat_model

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures/broken_answers/answers.jsonl").read_text("utf-8").splitlines()
]
FACTS = [case for case in CASES if case["form"] == "facts"]
PLANS = [case for case in CASES if case["form"] == "plan"]

USAGE = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
CHAT = (
    UserMessage((TextPart("I moved to Lisbon yesterday. My badge is 48213."),), Instant("2026-03-02T09:00:00Z")),
    AssistantMessage(parts=(TextPart("Welcome to Lisbon!"),), meta=USAGE, finish_reason="stop"),
    UserMessage((TextPart("My sister Ada works at Northwind."),), Instant("2026-03-02T09:01:00Z")),
    AssistantMessage(parts=(TextPart("Good to know."),), meta=USAGE, finish_reason="stop"),
)


class Recorded:
    """A model that always gives the recorded answer; what a collected run hands on is its trimmed text."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def text(self, *, stage, **_) -> str:
        if not self.answer.strip():
            raise StageError(stage, "the model did not end with a complete text answer")
        return self.answer.strip()


def test_corpus_is_large_enough():
    assert len(CASES) >= 60
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("structured", [False, True], ids=["text", "structured"])
@pytest.mark.parametrize("case", FACTS, ids=[case["name"] for case in FACTS])
async def test_extraction(case, structured):
    model = chat_model(*(["structured_output"] if structured else []))
    extractor = Extractor(Recorded(case["answer"]), model)
    if case.get("error"):
        with pytest.raises(StageError) as caught:
            await extractor.extract(CHAT)
        assert str(caught.value)
        return
    extraction = await extractor.extract(CHAT)
    texts = [fact.text for fact in extraction.facts]
    if "count" in case:
        assert len(texts) == case["count"]
        assert extraction.dropped.get("excess", 0) == case.get("excess", 0)
    elif not case.get("any"):
        assert texts == case["facts"]
        if not case.get("salvaged"):
            assert extraction.dropped == case["dropped"]
    assert all(0 <= fact.message_index < len(CHAT) for fact in extraction.facts)


@pytest.mark.parametrize("case", PLANS, ids=[case["name"] for case in PLANS])
async def test_plan(case):
    ladder = Ladder(Recorded(case["answer"]))
    ask = ladder.ask(plan_form(), stage="plan", model=chat_model(), system_prompt="plan", messages=())
    if case.get("error"):
        with pytest.raises(LadderError, match="text:"):
            await ask
        return
    plan = (await ask).value
    if case["entries"] is None:
        assert len(plan.entries) == 400
        return
    assert [[entry.fact, entry.kind, entry.entity] for entry in plan.entries] == case["entries"]
    assert plan.malformed == case["malformed"]
