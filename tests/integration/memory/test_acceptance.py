"""The acceptance list of memory.md section 26, by its numbers; what runs through models stands in ``test_acceptance_pipelines``."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from brain.errors import InvalidInputError, NotFoundError
from brain.memory.embeddings import EmbeddingError
from brain.memory.maintenance import Maintenance
from brain.memory.reembed import Reembedding
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tools import EltmTools
from brain.memory.transfer import Transfer
from brain.memory.views import NewNote
from shared_protocol.messages import TextPart
from tests.fakes.embedder import FakeEmbeddingHand, fake_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = date(2026, 8, 30)


async def _ids(store: EltmStore, *names: str) -> Sequence[int]:
    return [(await store.entities.create(name)).view.entity.id for name in names]


async def test_01_two_concurrent_creates_of_one_key_yield_one_row_and_one_bump(store: EltmStore) -> None:
    outcomes = await asyncio.gather(*(store.entities.create(" Ada", "person") for _ in range(8)))
    assert len({outcome.view.entity.id for outcome in outcomes}) == 1
    assert len(await store.reads.list_entities(10)) == 1
    assert await store.reads.version() == "1"


async def test_02_setting_an_identical_attribute_makes_no_embed_call_and_no_bump(
    store: EltmStore, fake_hand: FakeEmbeddingHand
) -> None:
    (ada,) = await _ids(store, "ada")
    await store.entities.set_attributes(ada, {"city": "london"})
    version, calls = await store.reads.version(), len(fake_hand.requests)
    await store.entities.set_attributes(ada, {"City": "london "})
    assert (await store.reads.version(), len(fake_hand.requests)) == (version, calls)


async def test_03_refining_onto_an_existing_key_fails_and_names_the_other_id(store: EltmStore) -> None:
    ada, eve = await _ids(store, "ada", "eve")
    before = await store.reads.list_entities(10)
    with pytest.raises(InvalidInputError, match=rf"\b{ada}\b"):
        await store.entities.refine(eve, name="ADA ")
    assert await store.reads.list_entities(10) == before
    assert await store.reads.version() == "2"


async def test_04_opposite_merges_never_deadlock_and_end_as_an_invalid_self_loop(store: EltmStore) -> None:
    for attempt in range(4):
        a, b = await _ids(store, f"a{attempt}", f"b{attempt}")
        edge = (await store.relationships.create(a, b, "knows")).relationship.id
        await store.notes.attach_to_entity(a, [NewNote(DAY, "of a")])
        await store.notes.attach_to_entity(b, [NewNote(DAY, "of b")])
        await store.notes.attach_to_relationship(edge, [NewNote(DAY, "of both")])
        outcomes = await asyncio.wait_for(asyncio.gather(store.merge(a, b), store.merge(b, a), return_exceptions=True), 20)
        assert sum(isinstance(outcome, NotFoundError) for outcome in outcomes) == 1
        survivor = next(outcome for outcome in outcomes if not isinstance(outcome, BaseException)).view
        loop = await store.reads.get_relationship(edge)
        assert survivor.note_count == 2
        assert (loop.relationship.src_id, loop.relationship.dst_id) == (survivor.entity.id, survivor.entity.id)
        assert (loop.relationship.valid, loop.note_count) == (False, 1)


@pytest.mark.parametrize(("first", "second", "after"), [(True, False, True), (False, True, True), (False, False, False)])
async def test_05_a_merge_collision_keeps_the_edge_valid_if_either_was(
    store: EltmStore, first: bool, second: bool, after: bool
) -> None:
    ada, lady, acme = await _ids(store, "ada", "lady", "acme")
    for source, valid in ((ada, first), (lady, second)):
        edge = (await store.relationships.create(source, acme, "works_at")).relationship.id
        await store.notes.attach_to_relationship(edge, [NewNote(DAY, f"note of {source}")], valid)
    await store.merge(ada, lady)
    (edge,) = await store.reads.list_relationships_of(ada, include_invalid=True)
    assert (edge.relationship.valid, edge.note_count) == (after, 2)


async def test_06_an_ended_triple_stays_ended_until_a_note_revives_it(store: EltmStore) -> None:
    ada, acme = await _ids(store, "ada", "acme")
    edge = (await store.relationships.create(ada, acme, "works at")).relationship.id
    await store.notes.attach_to_relationship(edge, [NewNote(DAY, "left")], valid=False)
    assert not (await store.relationships.create(ada, acme, "works at")).relationship.valid
    await store.notes.attach_to_relationship(edge, [NewNote(DAY, "said hello")])
    assert not (await store.reads.get_relationship(edge)).relationship.valid
    await store.notes.attach_to_relationship(edge, [NewNote(DAY, "came back")], valid=True)
    assert (await store.reads.get_relationship(edge)).relationship.valid


@pytest.mark.parametrize(
    "args", [{"entity_id": 1, "relationship_id": 1}, {"entity_id": 99}, {"relationship_id": 99}, {"from": "2026-02-30"}]
)
async def test_07_search_notes_answers_bad_arguments_with_an_error_result(store: EltmStore, args: dict[str, Any]) -> None:
    await _ids(store, "ada")
    tools = EltmTools(store, EltmSearch(store.pool, store.spaces), read_only=True)
    outcome = await tools.execute("c", "search_notes", Raw(json.dumps({"query": "x", **args}).encode()))
    assert outcome.is_error
    assert isinstance(outcome.parts[0], TextPart)


async def test_14_import_is_idempotent_and_resumes_after_a_failure_midway(store: EltmStore, fake_hand: FakeEmbeddingHand) -> None:
    notes = [{"date": "2026-08-30", "note": f"note {at}"} for at in range(200)]
    file = {
        "entities": {
            "a": {"name": "ada", "category": "person", "attributes": {"city": "rome"}, "notes": notes},
            "b": {"name": "acme", "category": "company", "attributes": {}, "notes": [{"date": "2026-08-30", "note": "x" * 300}]},
        },
        "relationships": [{"srcUuid": "a", "verb": "works_at", "dstUuid": "b", "valid": False, "notes": notes[:1]}],
    }
    transfer = Transfer(store)
    fake_hand.refuse_texts_over = 200
    with pytest.raises(EmbeddingError):
        await transfer.take_in(json.dumps(file).encode())
    assert (await store.reads.list_relationships(10))[0].relationship.valid
    fake_hand.refuse_texts_over = None
    resumed = await transfer.take_in(json.dumps(file).encode())
    assert (resumed.entities_created, resumed.notes_inserted, resumed.notes_skipped) == (0, 2, 200)
    assert not (await store.reads.list_relationships(10))[0].relationship.valid
    again = await transfer.take_in(json.dumps(file).encode())
    assert (again.entities_created, again.relationships_created, again.notes_inserted, again.attributes_written) == (0, 0, 0, 0)


async def test_16_reembedding_stores_the_vector_of_the_new_text_and_moves_the_counter_once(
    store: EltmStore, fake_hand: FakeEmbeddingHand
) -> None:
    (ada,) = await _ids(store, "ada")
    maintenance = Maintenance(store.pool)
    await maintenance.set_enabled(enabled=True)
    reembedding = Reembedding(store.pool, store.spaces, maintenance)
    await reembedding.start()
    version = int(await store.reads.version())
    fake_hand.gate = asyncio.Event()
    working = asyncio.create_task(reembedding.run_once())
    await asyncio.wait_for(fake_hand.waiting.wait(), 5)
    changing = asyncio.create_task(store.entities.set_attributes(ada, {"city": "porto"}))
    fake_hand.gate.set()
    await asyncio.gather(working, changing)
    assert int(await store.reads.version()) == version + 2
    async with store.pool.connection() as conn:
        cur = await conn.execute("SELECT embedding FROM eltm_entity_vectors WHERE entity_id = %s", (ada,))
        ((vector,),) = await cur.fetchall()
    wanted = fake_vector("ada general\ncity: porto", store.spaces.current.dimensions, "fake")
    assert all(abs(left - right) < 2e-3 for left, right in zip(vector.to_list(), wanted, strict=True))


async def test_18_a_full_width_space_inside_a_name_stays_and_at_the_ends_goes(store: EltmStore) -> None:
    created = await store.entities.create("\u3000山田\u3000太郎\u3000")
    assert created.view.entity.canonical_name == "山田\u3000太郎"
    assert not (await store.entities.create("山田\u3000太郎")).created
