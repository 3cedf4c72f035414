"""The store's operations against a real database."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest

from brain.errors import InvalidInputError, NotFoundError
from brain.memory.notes import NoteRules
from brain.memory.store import EltmStore
from brain.memory.views import NewNote
from tests.fakes.embedder import FakeEmbeddingHand

DAY = date(2026, 8, 30)


async def test_a_new_entity_is_found_again_under_any_spelling_of_its_key(store: EltmStore) -> None:
    first = await store.entities.create("  Ada   Lovelace ", "Person")
    again = await store.entities.create("ada lovelace", " person ")
    assert first.created
    assert not again.created
    assert first.view == again.view
    assert await store.reads.version() == "1"


async def test_two_concurrent_creations_yield_one_row_and_one_bump(store: EltmStore) -> None:
    outcomes = await asyncio.gather(*(store.entities.create("ada", "person") for _ in range(6)))
    assert len({outcome.view.entity.id for outcome in outcomes}) == 1
    assert sum(outcome.created for outcome in outcomes) == 1
    assert await store.reads.version() == "1"


async def test_setting_what_is_set_embeds_nothing_and_bumps_nothing(store: EltmStore, fake_hand: FakeEmbeddingHand) -> None:
    entity = (await store.entities.create("ada", "person")).view.entity
    assert await store.entities.set_attributes(entity.id, {"City": "london"}) == 1
    version = await store.reads.version()
    fake_hand.requests.clear()
    assert await store.entities.set_attributes(entity.id, {"city": " london "}) == 0
    assert fake_hand.requests == []
    assert await store.reads.version() == version


async def test_refining_onto_an_existing_key_names_the_other_and_changes_nothing(store: EltmStore) -> None:
    ada = (await store.entities.create("ada", "person")).view.entity
    eve = (await store.entities.create("eve", "person")).view.entity
    with pytest.raises(InvalidInputError, match=str(ada.id)):
        await store.entities.refine(eve.id, "Ada")
    assert (await store.reads.get_entity(eve.id)).entity == eve
    assert await store.reads.version() == "2"


async def test_opposite_merges_never_deadlock_and_lose_no_note(store: EltmStore) -> None:
    for attempt in range(5):
        a = (await store.entities.create(f"a{attempt}", "thing")).view.entity
        b = (await store.entities.create(f"b{attempt}", "thing")).view.entity
        edge = await store.relationships.create(a.id, b.id, "knows")
        await store.notes.attach_to_entity(a.id, [NewNote(DAY, "one")])
        await store.notes.attach_to_entity(b.id, [NewNote(DAY, "two")])
        await store.notes.attach_to_relationship(edge.relationship.id, [NewNote(DAY, "three")])
        outcomes = await asyncio.gather(store.merge(a.id, b.id), store.merge(b.id, a.id), return_exceptions=True)
        merged = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert len(merged) == 1
        assert isinstance(next(o for o in outcomes if isinstance(o, BaseException)), NotFoundError)
        survivor = merged[0].view
        assert survivor.note_count == 2
        loops = await store.reads.list_relationships_of(survivor.entity.id, include_invalid=True)
        assert [(loop.relationship.valid, loop.note_count) for loop in loops] == [(False, 1)]


async def test_a_merge_collision_keeps_the_edge_valid_if_either_was(store: EltmStore) -> None:
    ada, lady, acme = [(await store.entities.create(name)).view.entity.id for name in ("ada", "lady ada", "acme")]
    ended = await store.relationships.create(ada, acme, "works at")
    await store.notes.attach_to_relationship(ended.relationship.id, [NewNote(DAY, "left")], valid=False)
    running = await store.relationships.create(lady, acme, "works at")
    await store.notes.attach_to_relationship(running.relationship.id, [NewNote(DAY, "joined")])
    await store.merge(ada, lady)
    edges = await store.reads.list_relationships_of(ada)
    assert [(edge.relationship.id, edge.note_count) for edge in edges] == [(ended.relationship.id, 2)]


async def test_creating_an_ended_triple_leaves_it_ended_and_only_a_note_revives_it(store: EltmStore) -> None:
    ada, acme = [(await store.entities.create(name)).view.entity.id for name in ("ada", "acme")]
    edge = (await store.relationships.create(ada, acme, "works_at")).relationship
    await store.notes.attach_to_relationship(edge.id, [NewNote(DAY, "left")], valid=False)
    assert not (await store.relationships.create(ada, acme, "Works At")).relationship.valid
    attached = await store.notes.attach_to_relationship(edge.id, [NewNote(DAY, "came back")], valid=True)
    assert attached.valid
    assert (await store.reads.get_relationship(edge.id)).relationship.valid


async def test_a_failed_embedding_moves_nothing(store: EltmStore, fake_hand: FakeEmbeddingHand) -> None:
    from brain.memory.embeddings import EmbeddingError

    ada = (await store.entities.create("ada")).view.entity
    version = await store.reads.version()
    fake_hand.is_down = True
    with pytest.raises(EmbeddingError):
        await store.entities.create("eve")
    with pytest.raises(EmbeddingError):
        await store.entities.set_attributes(ada.id, {"city": "london"})
    with pytest.raises(EmbeddingError):
        await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "text")])
    assert await store.reads.version() == version
    view = await store.reads.get_entity(ada.id)
    assert (view.attributes, view.note_count) == ({}, 0)
    assert len(await store.reads.list_entities(10)) == 1


async def test_the_same_note_twice_is_recorded_once_also_by_two_writers(store: EltmStore) -> None:
    ada = (await store.entities.create("ada")).view.entity
    rules = NoteRules(skip_same=True)
    outcomes = await asyncio.gather(
        *(store.notes.attach_to_entity(ada.id, [NewNote(DAY, text)], rules) for text in ("Moved to London.", "moved to  london")),
    )
    assert sorted(outcome.written[0] for outcome in outcomes) == [False, True]
    assert len({outcome.notes[0].id for outcome in outcomes}) == 1
    assert (await store.reads.get_entity(ada.id)).note_count == 1


async def test_a_placeholder_is_no_other_name_of_what_it_turned_out_to_be(store: EltmStore) -> None:
    for rename in (True, False):
        unknown = (await store.entities.create("unknown dentist", "person")).view.entity
        if rename:
            await store.entities.refine(unknown.id, name="dr. smith")
        else:
            known = (await store.entities.create("dr. jones", "person")).view.entity
            await store.merge(known.id, unknown.id)
    again = await store.entities.create("unknown dentist", "person")
    assert again.created
    async with store.pool.connection() as conn:
        assert await (await conn.execute("SELECT alias FROM eltm_aliases")).fetchall() == []
