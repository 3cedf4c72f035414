"""The search against a real database and an embedder behind HTTP."""

from __future__ import annotations

from datetime import date

import pytest

from brain.errors import InvalidInputError
from brain.memory.queries_search import NoteFilter
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.views import NewNote
from tests.fakes.embedder import FakeEmbeddingHand

DAY = date(2026, 8, 30)


@pytest.fixture
def search(store: EltmStore) -> EltmSearch:
    return EltmSearch(store.pool, store.spaces)


async def _plant(store: EltmStore, name: str, *texts: str, day: date = DAY) -> int:
    entity = (await store.entities.create(name, "person")).view.entity
    await store.notes.attach_to_entity(entity.id, [NewNote(day, text) for text in texts])
    return entity.id


async def test_a_note_is_found_right_after_it_was_written(store: EltmStore, search: EltmSearch) -> None:
    await _plant(store, "ada", "Ada bought a red bicycle in Porto.", "The parser refuses trailing commas.")
    result = await search.search_notes("red bicycle", 1)
    assert [hit.note.note for hit in result.notes] == ["Ada bought a red bicycle in Porto."]
    assert result.notes[0].ranks.semantic == 1
    assert result.notes[0].ranks.lexical == 1
    assert result.degraded is None


async def test_without_an_embedder_words_and_names_still_answer(
    store: EltmStore,
    search: EltmSearch,
    fake_hand: FakeEmbeddingHand,
) -> None:
    ada = await _plant(store, "ada lovelace", "会議は火曜日に東京で開かれた。", "Build 4711-b failed.")
    fake_hand.is_down = True
    result = await search.search("東京の会議", note_limit=5, entity_limit=5)
    assert result.degraded == "embedding unavailable"
    assert next(hit.note.note for hit in result.notes) == "会議は火曜日に東京で開かれた。"
    assert [hit.note.note for hit in (await search.search_notes("what about 4711-B?", 5)).notes] == ["Build 4711-b failed."]
    named = await search.search_entities("who is Ada Lovelace", 5)
    assert [(hit.view.entity.id, hit.ranks.name, hit.similarity) for hit in named.entities] == [(ada, 1, None)]


async def test_a_name_alone_finds_what_is_noted_of_it(store: EltmStore, search: EltmSearch, fake_hand: FakeEmbeddingHand) -> None:
    await _plant(store, "tomas", "Tomas prefers to be written to.", "Tomas cycles to the office.")
    fake_hand.is_down = True
    by_name = await search.search_notes("How should one contact Tomas?", 5)
    assert {hit.note.note for hit in by_name.notes} == {"Tomas prefers to be written to.", "Tomas cycles to the office."}
    asked = await search.search_notes("Where does Tomas' office lie?", 5)
    assert asked.notes[0].note.note == "Tomas cycles to the office."


async def test_a_misspelt_name_finds_its_entity(store: EltmStore, search: EltmSearch, fake_hand: FakeEmbeddingHand) -> None:
    ada = await _plant(store, "lovelace", "x")
    fake_hand.is_down = True
    result = await search.search_entities("what about lovelance?", 5)
    assert [hit.view.entity.id for hit in result.entities] == [ada]


async def test_filters_hold_for_every_list(store: EltmStore, search: EltmSearch) -> None:
    ada = await _plant(store, "ada", "red bicycle one")
    await _plant(store, "eve", "red bicycle two")
    await _plant(store, "ada", "red bicycle three", day=date(2025, 1, 1))
    found = await search.search_notes("red bicycle", 10, NoteFilter(entity_id=ada, start=date(2026, 1, 1)))
    assert [hit.note.note for hit in found.notes] == ["red bicycle one"]
    assert (await search.search_notes("red bicycle", 10, NoteFilter(category="place"))).notes == []


async def test_a_blank_text_and_two_subjects_are_refused(search: EltmSearch) -> None:
    with pytest.raises(InvalidInputError):
        await search.search_notes("  ", 5)
    with pytest.raises(InvalidInputError):
        await search.search_notes("x", 5, NoteFilter(entity_id=1, relationship_id=2))


async def test_limits_of_zero_ask_nobody(search: EltmSearch, fake_hand: FakeEmbeddingHand) -> None:
    result = await search.search("anything", note_limit=0, entity_limit=0)
    assert (result.notes, result.entities, fake_hand.requests) == ([], [], [])
