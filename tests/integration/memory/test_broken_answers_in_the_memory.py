"""The recorded answers of broken models through the whole pipeline: what ends in the memory was said, or nothing does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brain.errors import BrainError
from brain.memory.evidence import overlap
from brain.memory.pipeline import Origin
from brain.memory.tokens import query_terms
from shared_protocol.messages import text_of
from tests.fakes.scripted_model import Say
from tests.integration.memory.pipelines import FACTS, answered, open_memory, said

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures/broken_answers/answers.jsonl").read_text("utf-8").splitlines()
]
CHAT = (
    said("I moved to Lisbon yesterday. My badge is 48213."),
    answered("Welcome to Lisbon!"),
    said("My sister Ada works at Northwind."),
    answered("Good to know."),
)
SAID = query_terms("\n".join(text_of(message.parts) for message in CHAT))
SUBJECTS = {"user", "ada", "lisbon", "northwind"}


async def remember(memory, number: int) -> bool:
    try:
        await memory.pipeline.remember(CHAT, Origin("chat", None, f"1755500000000-{number}", "x"))
    except BrainError:
        return False
    return True


@pytest.mark.parametrize("structured", [False, True], ids=["text", "structured"])
async def test_broken_extractions_leave_nothing_that_was_not_said(store, structured):
    extraction = ("structured_output",) if structured else ()
    async with open_memory(store, extraction=extraction) as memory:
        outcomes: dict[str, bool] = {}
        for number, case in enumerate(case for case in CASES if case["form"] == "facts"):
            await clear(store)
            memory.model.script = lambda prompt, case=case: (
                Say(case["answer"]) if prompt.stage == "extraction" else "NOTE | 1 | user (person) |\nNOTE | 2 | ada (person) |"
            )
            outcomes[case["name"]] = await remember(memory, number)
            assert outcomes[case["name"]] is not bool(case.get("error")), case["name"]
            notes = await memory.notes()
            if not outcomes[case["name"]]:
                assert notes == [], case["name"]
            for note in notes:
                # A true quote proves a note in another language.
                assert note in case.get("facts", ()) or overlap(note, SAID) >= 0.2, (case["name"], note)
            if "count" in case:
                assert len(notes) == case["count"], case["name"]
            elif "facts" in case and not case.get("any"):
                assert sorted(notes) == sorted(set(case["facts"])), case["name"]
        assert sum(outcomes.values()) > 40
        assert len(outcomes) - sum(outcomes.values()) > 10
    outcomes_kept = await store_outcomes(store)
    assert len(outcomes_kept) == len(outcomes)


async def test_broken_plans_record_the_facts_and_nothing_else(store):
    async with open_memory(store) as memory:
        for number, case in enumerate(case for case in CASES if case["form"] == "plan"):
            await clear(store)
            memory.model.script = lambda prompt, case=case: FACTS if prompt.stage == "extraction" else Say(case["answer"])
            written = await remember(memory, number)
            assert written is not bool(case.get("error")), case["name"]
            names = {view.entity.canonical_name for view in await store.reads.list_entities(100)}
            assert names <= SUBJECTS, case["name"]
            assert set(await memory.notes()) <= {line.split("] ")[1].split(" | ")[0] for line in FACTS.splitlines()}, case["name"]
            assert len(await memory.notes()) == (2 if written else 0), case["name"]


async def clear(store) -> None:
    async with store.pool.connection() as conn:
        await conn.execute("TRUNCATE eltm_entities CASCADE")


async def store_outcomes(store) -> list[tuple]:
    async with store.pool.connection() as conn:
        return await (await conn.execute("SELECT outcome FROM eltm_extraction_runs WHERE outcome IS NOT NULL")).fetchall()
