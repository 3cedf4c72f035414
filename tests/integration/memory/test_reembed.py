"""Changing the embedding model while the memory is in use."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from brain.errors import ConflictError
from brain.memory.embeddings import HandEmbedder
from brain.memory.forget import Corrections
from brain.memory.generations import VectorSpaces
from brain.memory.maintenance import Maintenance
from brain.memory.reembed import Reembedding
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.views import NewNote
from brain.runs.client import open_hand_client
from tests.fakes.embedder import FakeEmbeddingHand, embedding_model, fake_vector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DAY = date(2026, 8, 30)


class Changed:
    """A second brain, started with a new model on the store that the first one filled."""

    def __init__(self, store: EltmStore, reembedding: Reembedding, maintenance: Maintenance) -> None:
        self.store = store
        self.reembedding = reembedding
        self.maintenance = maintenance


@pytest_asyncio.fixture
async def changed(store: EltmStore, fake_hand: FakeEmbeddingHand) -> AsyncGenerator[Changed]:
    for name in ("ada", "eve"):
        entity = (await store.entities.create(name)).view.entity
        await store.notes.attach_to_entity(entity.id, [NewNote(DAY, f"{name} note {at}") for at in range(70)])
    async with open_hand_client(fake_hand.url, "token") as client:
        new, old = HandEmbedder(client, embedding_model("new", 64)), HandEmbedder(client, embedding_model("fake"))
        spaces = VectorSpaces(store.pool, new, {old.model_id: old})
        await spaces.prepare()
        maintenance = Maintenance(store.pool)
        yield Changed(EltmStore(store.pool, spaces), Reembedding(store.pool, spaces, maintenance), maintenance)


async def _vector(store: EltmStore, table: str, owner: str, owner_id: int) -> list[tuple[int, list[float]]]:
    async with store.pool.connection() as conn:
        cur = await conn.execute(f"SELECT generation, embedding FROM {table} WHERE {owner} = {owner_id} ORDER BY generation")  # type: ignore[arg-type]
        return [(row[0], row[1].to_list()) for row in await cur.fetchall()]


def _same(left: list[float], right: list[float]) -> bool:
    return all(abs(a - b) < 2e-3 for a, b in zip(left, right, strict=True))


async def test_it_needs_maintenance_and_runs_once(changed: Changed) -> None:
    with pytest.raises(ConflictError):
        await changed.reembedding.start()
    await changed.maintenance.set_enabled(enabled=True)
    assert (await changed.reembedding.start()).state == "running"
    with pytest.raises(ConflictError):
        await changed.reembedding.start()
    assert (await changed.reembedding.status()).notes == 0


async def test_the_old_generation_serves_until_the_new_one_is_full(changed: Changed, store: EltmStore) -> None:
    search = EltmSearch(changed.store.pool, changed.store.spaces)
    before = await search.search_notes("ada note 7", 1)
    assert before.notes[0].ranks.semantic == 1
    await changed.store.notes.attach_to_entity(1, [NewNote(DAY, "written by the new brain")])
    await store.notes.attach_to_entity(1, [NewNote(DAY, "written by the old brain")])
    version = int(await store.reads.version())
    await changed.maintenance.set_enabled(enabled=True)
    await changed.reembedding.start()
    assert await changed.reembedding.run_once()
    status = await changed.reembedding.status()
    assert (status.state, status.entities, status.notes, status.error) == ("finished", 2, 142, None)
    assert int(await store.reads.version()) == version + 1
    for text in ("written by the new brain", "written by the old brain"):
        assert (await search.search_notes(text, 1)).notes[0].note.note == text
    generations = [generation for generation, _ in await _vector(store, "eltm_note_vectors", "note_id", 1)]
    assert len(generations) == 1


async def test_a_failed_run_says_why_and_the_next_one_goes_on(changed: Changed, fake_hand: FakeEmbeddingHand) -> None:
    await changed.maintenance.set_enabled(enabled=True)
    await changed.reembedding.start()
    fake_hand.refuse_texts_over = 10
    await changed.reembedding.run_once()
    status = await changed.reembedding.status()
    assert (status.state, status.notes) == ("failed", 0)
    assert "too large" in str(status.error)
    fake_hand.refuse_texts_over = None
    await changed.reembedding.start()
    await changed.reembedding.run_once()
    assert (await changed.reembedding.status()).state == "finished"


async def test_a_killed_worker_is_replaced_and_nothing_is_embedded_twice(changed: Changed, fake_hand: FakeEmbeddingHand) -> None:
    await changed.maintenance.set_enabled(enabled=True)
    await changed.reembedding.start()
    fake_hand.gate = asyncio.Event()
    worker = asyncio.create_task(changed.reembedding.run_once())
    await asyncio.wait_for(fake_hand.waiting.wait(), 5)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    fake_hand.gate.set()
    fake_hand.gate = None
    assert (await changed.reembedding.status()).state == "running"
    fake_hand.requests.clear()
    assert await changed.reembedding.run_once()
    assert (await changed.reembedding.status()).state == "finished"
    texts = [text for text in fake_hand.texts if " note " in text]
    assert len(texts) == len(set(texts)) == 140


async def test_an_attribute_changed_meanwhile_is_embedded_as_it_is_now(changed: Changed, fake_hand: FakeEmbeddingHand) -> None:
    await changed.maintenance.set_enabled(enabled=True)
    await changed.reembedding.start()
    version = int(await changed.store.reads.version())
    fake_hand.gate = asyncio.Event()
    worker = asyncio.create_task(changed.reembedding.run_once())
    await asyncio.wait_for(fake_hand.waiting.wait(), 5)
    change = asyncio.create_task(changed.store.entities.set_attributes(1, {"city": "porto"}))
    fake_hand.gate.set()
    await asyncio.gather(worker, change)
    assert (await changed.reembedding.status()).state == "finished"
    assert int(await changed.store.reads.version()) == version + 2
    ((_, vector),) = await _vector(changed.store, "eltm_entity_vectors", "entity_id", 1)
    assert _same(vector, fake_vector("ada general\ncity: porto", 64, "new"))


async def test_an_empty_store_finishes_without_a_bump(store: EltmStore) -> None:
    maintenance = Maintenance(store.pool)
    reembedding = Reembedding(store.pool, store.spaces, maintenance)
    await maintenance.set_enabled(enabled=True)
    await reembedding.start()
    await reembedding.run_once()
    assert (await reembedding.status()).state == "finished"
    assert await store.reads.version() == "0"


async def test_a_forgotten_note_is_filled_too_and_stays_hidden(changed: Changed) -> None:
    corrections = Corrections(changed.store.pool, changed.store.spaces)
    await corrections.forget_note(1)
    await changed.maintenance.set_enabled(enabled=True)
    await changed.reembedding.start()
    await changed.reembedding.run_once()
    search = EltmSearch(changed.store.pool, changed.store.spaces)
    assert (await search.search_notes("ada note 0", 1)).notes[0].note.id != 1
    await corrections.restore_note(1)
    assert (await search.search_notes("ada note 0", 1)).notes[0].note.id == 1


async def test_a_model_that_is_gone_leaves_words_and_says_so(changed: Changed) -> None:
    gone = VectorSpaces(changed.store.pool, changed.store.spaces.current)
    result = await EltmSearch(changed.store.pool, gone).search_notes("ada note 7", 1)
    assert result.degraded == "embedding unavailable"
    assert result.notes[0].note.note == "ada note 7"
    store = EltmStore(changed.store.pool, gone)
    await store.notes.attach_to_entity(1, [NewNote(DAY, "still written")])
