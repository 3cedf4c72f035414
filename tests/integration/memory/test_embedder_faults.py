"""An embedder that is slow, or answers another number or width of vectors: nothing is written, and reading goes on by words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date

import pytest

from brain.memory import embeddings
from brain.memory.embeddings import EmbeddingError, HandEmbedder
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.transfer import Transfer
from brain.memory.views import NewNote
from brain.runs.client import open_hand_client
from tests.fakes.embedder import FakeEmbeddingHand, embedding_model

DAY = date(2026, 8, 30)

FAULTS: dict[str, Callable[[FakeEmbeddingHand], None]] = {
    "too narrow": lambda hand: setattr(hand, "answer_dimensions", 8),
    "too wide": lambda hand: setattr(hand, "answer_dimensions", 2001),
    "one vector short": lambda hand: setattr(hand, "drop_vectors", 1),
    "away": lambda hand: setattr(hand, "is_down", True),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_written_and_words_still_answer(store: EltmStore, fake_hand: FakeEmbeddingHand, fault: str) -> None:
    ada, eve = [(await store.entities.create(name)).view.entity.id for name in ("ada", "eve")]
    await store.entities.set_attributes(eve, {"city": "porto"})
    edge = (await store.relationships.create(ada, eve, "knows")).relationship.id
    await store.notes.attach_to_entity(ada, [NewNote(DAY, "Ada plays the cello.")])
    before, version = await everything(store), await store.reads.version()
    FAULTS[fault](fake_hand)
    for write in (
        lambda: store.entities.create("bob"),
        lambda: store.entities.refine(ada, name="lady ada"),
        lambda: store.entities.set_attributes(ada, {"city": "london"}),
        lambda: store.entities.delete_attribute(eve, "city"),
        lambda: store.notes.attach_to_entity(ada, [NewNote(DAY, "one"), NewNote(DAY, "two")]),
        lambda: store.notes.attach_to_relationship(edge, [NewNote(DAY, "they fell out")], valid=False),
        lambda: store.merge(ada, eve),
    ):
        with pytest.raises(EmbeddingError):
            await write()
    assert (await everything(store), await store.reads.version()) == (before, version)
    found = await EltmSearch(store.pool, store.spaces).search("cello", note_limit=5, entity_limit=5)
    assert [hit.note.note for hit in found.notes] == ["Ada plays the cello."]
    assert found.degraded == "embedding unavailable"


async def everything(store: EltmStore) -> bytes:
    exported = b"".join([piece async for piece in Transfer(store).export()])
    # The ids of an export are drawn anew each time.
    for at, view in enumerate(sorted(set(_uuids(exported)), key=exported.index)):
        exported = exported.replace(view, str(at).encode())
    return exported


def _uuids(exported: bytes) -> list[bytes]:
    return [piece for piece in exported.split(b'"') if len(piece) == 36 and piece.count(b"-") == 4]


async def test_a_slow_embedder_is_left_out_of_a_search(store: EltmStore, fake_hand: FakeEmbeddingHand) -> None:
    ada = (await store.entities.create("ada")).view.entity.id
    await store.notes.attach_to_entity(ada, [NewNote(DAY, "Ada plays the cello.")])
    fake_hand.gate = asyncio.Event()
    search = EltmSearch(store.pool, store.spaces, embed_seconds=0.2)
    found = await asyncio.wait_for(search.search("cello", note_limit=5, entity_limit=5), 5)
    assert [hit.note.note for hit in found.notes] == ["Ada plays the cello."]
    assert found.degraded == "embedding unavailable"


async def test_a_hand_that_hangs_ends_a_write_with_the_reason(
    store: EltmStore, fake_hand: FakeEmbeddingHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "EMBED_GRACE_SECONDS", 0.1)
    fake_hand.gate = asyncio.Event()
    async with open_hand_client(fake_hand.url, "token") as client:
        hanging = EltmStore(store.pool, HandEmbedder(client, embedding_model(), max_retries=1, timeout_ms=100))
        with pytest.raises(EmbeddingError, match=r"no answer within 0\.2 s"):
            await asyncio.wait_for(hanging.entities.create("ada"), 5)
    assert await store.reads.list_entities(10) == []
