"""The memory's tools as a model meets them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tools import EltmTools
from shared_protocol.messages import TextPart
from tests.fakes.embedder import FakeEmbeddingHand


class Caller:
    def __init__(self, tools: EltmTools) -> None:
        self.tools = tools

    async def __call__(self, name: str, /, **args: Any) -> str:
        outcome = await self.tools.execute("c1", name, Raw(json.dumps(args).encode()))
        part = outcome.parts[0]
        assert isinstance(part, TextPart)
        assert outcome.is_error == part.text.startswith("Error: ")
        return part.text


@pytest.fixture
def call(store: EltmStore) -> Caller:
    return Caller(EltmTools(store, EltmSearch(store.pool, store.spaces), read_only=False))


@pytest.fixture
def reader(store: EltmStore) -> Caller:
    return Caller(EltmTools(store, EltmSearch(store.pool, store.spaces), read_only=True, namespace="eltm"))


async def test_fourteen_tools_for_the_writer_and_six_for_readers(call: Caller, reader: Caller) -> None:
    assert len(await call.tools.list_tools()) == 14
    names = [spec.name for spec in await reader.tools.list_tools()]
    assert names == [
        f"eltm__{name}"
        for name in (
            "search_entities",
            "ls_entities",
            "get_relationships",
            "get_entity_notes",
            "get_relationship_notes",
            "search_notes",
        )
    ]


async def test_only_served_names_are_accepted(call: Caller, reader: Caller) -> None:
    assert (await call("eltm__ls_entities")).startswith("Error")
    assert (await reader("ls_entities")).startswith("Error")
    assert (await reader("eltm__create_entity", name="x")).startswith("Error")
    assert await reader("eltm__ls_entities") == "No entities match."


async def test_an_entity_is_printed_with_counts_attributes_and_latest_note(call: Caller) -> None:
    created = await call("create_entity", name=" Ada  Lovelace", category="  ")
    assert created == '# Entity 1 - "ada lovelace" (general) - notes 0, relations 0\nNo near matches.'
    assert await call("set_entity_attribute", entity_id="1", key="Real Name", value=7) == "Set attribute 'real_name' of entity 1."
    assert "already has" in await call("set_entity_attribute", entity_id=1, key="real name", value="7")
    assert (
        await call("add_entity_note", entity_id=1, event_date="2026-08-30", note="Text")
        == "Added note 1 (2026-08-30) to entity 1."
    )
    listed = await call("ls_entities", attr="REAL_NAME=7", limit="5")
    assert listed == (
        '# Entity 1 - "ada lovelace" (general) - notes 1, relations 0\nAttributes:\n  real_name: 7\nLatest note (2026-08-30): Text'
    )
    found = await call("search_entities", query="ada lovelace")
    assert found.startswith('# Entity 1 - "ada lovelace" (general) - similarity 0.')


async def test_relationships_and_their_notes(call: Caller) -> None:
    await call("create_entity", name="user", category="person")
    await call("create_entity", name="acme", category="company")
    made = await call("create_relationship", src_id=1, dst_id=2, verb="Works at")
    assert made == '# Relationship 1: "user"(#1) - works_at - "acme"(#2) (active, notes 0)'
    added = await call("add_relationship_note", relationship_id=1, event_date="2026-08-30", note="Left.", valid="false")
    assert added == "Added note 1 (2026-08-30) to relationship 1. The relationship 1 is invalidated."
    assert await call("get_relationships", entity_id=1) == "No relationships."
    shown = await call("get_relationships", entity_id=2, include_invalid=True)
    assert shown.endswith("(invalidated, notes 1)\nLatest note (2026-08-30): Left.")
    assert await call("get_relationship_notes", relationship_id=1) == "## 2026-08-30 (note 1)\nLeft."


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("search_notes", {"query": "x", "entity_id": 1, "relationship_id": 1}, "both"),
        ("search_notes", {"query": "x", "entity_id": 99}, "99"),
        ("search_notes", {"query": "x", "entity_id": "abc"}, "entity_id"),
        ("search_notes", {"query": "x", "from": "2026-02-30"}, "from"),
        ("search_notes", {"query": "x", "to": ["2026-02-03"]}, "to"),
        ("search_notes", {"query": "x", "from": "2026-02-03", "to": "2026-02-02"}, "from"),
        ("search_notes", {"query": "x", "limit": 1.5}, "limit"),
        ("search_notes", {"query": "x", "limit": 0}, "limit"),
        ("search_notes", {"query": " "}, "query"),
        ("ls_entities", {"name": "("}, "name"),
        ("ls_entities", {"offset": -1}, "offset"),
        ("get_entity_notes", {"entity_id": 99}, "99"),
        ("get_relationships", {"entity_id": 10**30}, "entity_id"),
        ("get_relationship_notes", {"relationship_id": 5}, "5"),
        ("add_entity_note", {"entity_id": 1, "event_date": "2026-01-01", "note": "x", "valid": None}, "relationship"),
        ("add_entity_note", {"entity_id": 1, "event_date": "20260101", "note": "x"}, "event_date"),
        ("add_entity_note", {"entity_id": 1, "note": "x"}, "event_date"),
        ("refine_entity", {"entity_id": 1}, "new_name"),
        ("merge_entities", {"winner_id": 1, "loser_id": 1}, "same"),
        ("set_entity_attribute", {"entity_id": 1, "key": "a", "value": "one\ntwo"}, "single line"),
        ("delete_entity_attribute", {"entity_id": 1, "key": "a"}, "a"),
        ("create_relationship", {"src_id": 7, "dst_id": 8, "verb": "x"}, "7"),
    ],
)
async def test_what_the_model_got_wrong_is_an_error_result(call: Caller, name: str, args: dict[str, Any], says: str) -> None:
    await call("create_entity", name="ada")
    answer = await call(name, **args)
    assert answer.startswith("Error: ")
    assert says in answer


async def test_a_content_too_large_says_what_to_do(call: Caller, fake_hand: FakeEmbeddingHand) -> None:
    await call("create_entity", name="ada")
    fake_hand.refuse_texts_over = 20
    answer = await call("add_entity_note", entity_id=1, event_date="2026-01-01", note="long " * 20)
    assert answer.startswith("Error: ")
    assert "smaller notes" in answer


async def test_a_repetition_is_answered_not_written(call: Caller, store: EltmStore) -> None:
    await call("create_entity", name="ada")
    await call("add_entity_note", entity_id=1, event_date="2026-01-01", note="Ada moved to the city of London for her new work.")
    again = await call(
        "add_entity_note", entity_id=1, event_date="2026-01-01", note="ada moved to the city of london for her new work"
    )
    assert again.startswith("Already recorded as note 1")
    near = await call(
        "add_entity_note", entity_id=1, event_date="2026-01-01", note="London new work: Ada moved to the city of for her"
    )
    assert near.startswith("Not recorded")
    forced = await call(
        "add_entity_note",
        entity_id=1,
        event_date="2026-01-01",
        note="London new work: Ada moved to the city of for her",
        force=True,
    )
    assert forced.startswith("Added note 2")
    other_day = await call(
        "add_entity_note", entity_id=1, event_date="2026-01-02", note="Ada moved to the city of London for her new work."
    )
    assert other_day.startswith("Added note 3")
