"""Correcting, forgetting and erasing against a real database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING

import pytest

from brain.chats.store import ChatStore
from brain.errors import ConflictError, InvalidInputError, NotFoundError
from brain.memory.erase import Eraser, EraseTarget
from brain.memory.forget import Corrections
from brain.memory.notes import NoteRules
from brain.memory.provenance import Provenance
from brain.memory.queries_history import NewRun
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.views import NewNote, NoteSource
from tests.fakes.embedder import FakeEmbeddingHand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import AsyncConnection

DAY = date(2026, 8, 30)


class Chats:
    """The chats as the eraser needs them, on the real tables."""

    def __init__(self) -> None:
        self.held: list[str] = []

    @asynccontextmanager
    async def hold(self, chat_id: str) -> AsyncGenerator[None]:
        self.held.append(chat_id)
        yield

    async def delete(self, conn: AsyncConnection, chat_id: str) -> bool:
        return await ChatStore().delete(conn, chat_id)


@pytest.fixture
def corrections(store: EltmStore) -> Corrections:
    return Corrections(store.pool, store.spaces)


@pytest.fixture
def eraser(store: EltmStore) -> Eraser:
    return Eraser(store.pool, store.spaces, Chats())


@pytest.fixture
def search(store: EltmStore) -> EltmSearch:
    return EltmSearch(store.pool, store.spaces)


async def _dump(store: EltmStore) -> str:
    """Return every text in the database."""
    async with store.pool.connection() as conn:
        cur = await conn.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
        texts: list[str] = []
        for (table,) in await cur.fetchall():
            rows = await conn.execute(f'SELECT t::text FROM "{table}" AS t')  # type: ignore[arg-type]
            texts.extend(str(row[0]) for row in await rows.fetchall())
    return "\n".join(texts).lower()


async def _run(store: EltmStore, chat_id: str | None) -> NoteSource:
    run = NewRun(
        kind="chat", extraction_model="m", writer_model="m", prompt_version="1", chat_id=chat_id, chat_title="about quokkas"
    )
    return NoteSource(await Provenance(store.pool).start_run(run), 1, 0, None, "I saw a Quokka on the beach yesterday.")


async def test_an_edited_note_is_found_by_its_new_text_and_keeps_its_history(
    store: EltmStore, corrections: Corrections, search: EltmSearch
) -> None:
    ada = (await store.entities.create("ada")).view.entity
    source = await _run(store, None)
    note = (await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "Ada lives in Rome.")], NoteRules(sources=(source,)))).notes[
        0
    ]
    version = int(await store.reads.version())
    edited = await corrections.edit_note(note.id, " Ada lives in Porto. ")
    assert (edited.note, edited.edited, edited.sources) == ("Ada lives in Porto.", True, 1)
    assert int(await store.reads.version()) == version + 1
    await corrections.edit_note(note.id, "Ada lives in Porto.", DAY)
    assert int(await store.reads.version()) == version + 1
    assert (await search.search_notes("Porto", 1)).notes[0].note.id == note.id
    detail = await Provenance(store.pool).note_detail(note.id)
    assert [(step.change, step.before, step.after) for step in detail.history] == [
        ("created", None, "2026-08-30: Ada lives in Rome."),
        ("edited", "2026-08-30: Ada lives in Rome.", "2026-08-30: Ada lives in Porto."),
    ]
    assert [(found.excerpt, found.chat_id, found.message_index) for found in detail.sources] == [
        ("I saw a Quokka on the beach yesterday.", None, None)
    ]


async def test_what_is_forgotten_is_gone_everywhere_and_comes_back_whole(
    store: EltmStore, corrections: Corrections, search: EltmSearch
) -> None:
    ada, acme = [(await store.entities.create(name)).view.entity for name in ("ada", "acme")]
    edge = (await store.relationships.create(ada.id, acme.id, "works_at")).relationship
    await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "Ada likes quokkas.")])
    await store.notes.attach_to_relationship(edge.id, [NewNote(DAY, "Ada joined Acme with quokkas.")])
    await corrections.forget_entity(ada.id)
    assert (await search.search("quokkas", note_limit=5, entity_limit=5)).notes == []
    assert [view.entity.id for view in await store.reads.list_entities(10)] == [acme.id]
    assert (await store.reads.get_entity(acme.id)).relationship_count == 0
    with pytest.raises(NotFoundError):
        await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "more")])
    with pytest.raises(NotFoundError):
        await corrections.forget_entity(ada.id)
    await corrections.restore_entity(ada.id)
    assert len((await search.search_notes("quokkas", 5)).notes) == 2
    assert (await store.reads.get_entity(acme.id)).relationship_count == 1


async def test_the_writer_does_not_bring_back_what_was_forgotten(store: EltmStore, corrections: Corrections) -> None:
    ada = (await store.entities.create("ada")).view.entity
    note = (await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "Ada likes quokkas.")])).notes[0]
    await corrections.forget_note(note.id)
    again = await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "ada likes QUOKKAS")])
    assert (again.notes, again.kept_out) == ([], 1)


async def test_two_acts_of_forgetting_are_undone_one_by_one(store: EltmStore, corrections: Corrections) -> None:
    ada, eve = [(await store.entities.create(name)).view.entity for name in ("ada", "eve")]
    edge = (await store.relationships.create(ada.id, eve.id, "knows")).relationship
    note = (await store.notes.attach_to_relationship(edge.id, [NewNote(DAY, "They met.")])).notes[0]
    await corrections.forget_entity(ada.id)
    await corrections.forget_entity(eve.id)
    await corrections.restore_entity(ada.id)
    with pytest.raises(NotFoundError):
        await store.reads.get_relationship(edge.id)
    with pytest.raises(ConflictError):
        await corrections.restore_note(note.id)
    with pytest.raises(ConflictError):
        await corrections.restore_relationship(edge.id)
    await corrections.restore_entity(eve.id)
    assert (await store.reads.get_relationship(edge.id)).note_count == 1


async def test_restoring_onto_a_taken_name_is_a_conflict(store: EltmStore, corrections: Corrections) -> None:
    old = (await store.entities.create("ada")).view.entity
    await corrections.forget_entity(old.id)
    new = (await store.entities.create("ada")).view.entity
    assert new.id != old.id
    with pytest.raises(ConflictError):
        await corrections.restore_entity(old.id)


async def test_a_planted_word_erased_with_its_chats_is_nowhere(store: EltmStore, eraser: Eraser) -> None:
    async with store.pool.connection() as conn:
        await conn.execute("INSERT INTO chats (id, title, chat_json) VALUES ('1-1', 'x', '[{\"text\": \"I saw a Quokka\"}]')")
        await conn.execute(
            "INSERT INTO chat_drops (chat_id, n, dropped_messages, rounds, messages_json) VALUES ('1-1', 1, 1, 1, '\"Quokka\"')"
        )
        await conn.execute('INSERT INTO pending_extractions (chat_json) VALUES (\'[{"text": "more about the quokka"}]\')')
    user = (await store.entities.create("user", "person")).view.entity
    quokka = (await store.entities.create("quokka", "animal")).view.entity
    edge = (await store.relationships.create(user.id, quokka.id, "saw")).relationship
    source = await _run(store, "1-1")
    rules = NoteRules(sources=(source,))
    await store.notes.attach_to_relationship(edge.id, [NewNote(DAY, "The user saw one.")], rules=rules)
    await store.notes.attach_to_entity(user.id, [NewNote(DAY, "Talked about a Quokka."), NewNote(DAY, "Likes tea.")])
    await store.entities.set_attributes(user.id, {"favourite animal": "the quokka", "city": "perth"}, author="person")
    dry = await eraser.erase(EraseTarget(text="Quokka"), include_chats=True, dry_run=True)
    assert "quokka" in await _dump(store)
    done = await eraser.erase(EraseTarget(text="Quokka"), include_chats=True)
    assert done == dry
    assert (done.notes, done.attributes, done.relationships, done.entities, done.jobs) == (2, 1, 1, 1, 1)
    assert [chat.id for chat in done.chats] == ["1-1"]
    assert "quokka" not in await _dump(store)
    view = await store.reads.get_entity(user.id)
    assert (view.attributes, view.note_count) == ({"city": "perth"}, 1)


async def test_an_erased_statement_does_not_come_back(store: EltmStore, eraser: Eraser) -> None:
    ada, eve = [(await store.entities.create(name)).view.entity for name in ("ada", "eve")]
    edge = (await store.relationships.create(ada.id, eve.id, "envies")).relationship
    await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "Ada has a secret.")])
    await store.entities.set_attributes(ada.id, {"secret": "yes"})
    await eraser.erase(EraseTarget(text="secret"))
    await eraser.erase(EraseTarget(relationship_id=edge.id))
    again = await store.notes.attach_to_entity(eve.id, [NewNote(date(2020, 1, 1), "ada has a  SECRET")])
    assert (again.notes, again.kept_out) == ([], 1)
    assert (await store.entities.set_attribute(ada.id, "secret", "Yes")).erased
    with pytest.raises(InvalidInputError):
        await store.relationships.create(ada.id, eve.id, "envies")
    assert (await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "Ada has a secret.")], NoteRules(author="person"))).notes


async def test_erasing_a_chat_takes_only_what_rests_on_it_alone(store: EltmStore, eraser: Eraser) -> None:
    ada = (await store.entities.create("ada")).view.entity
    first, second = await _run(store, "1-1"), await _run(store, "2-2")
    await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "only one")], NoteRules(sources=(first,)))
    both = await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "both")], NoteRules(sources=(first, second)))
    await store.notes.attach_to_entity(ada.id, [NewNote(DAY, "neither")])
    done = await eraser.erase(EraseTarget(chat_id="1-1"))
    assert (done.notes, done.sources) == (1, 2)
    assert sorted(note.note for note in await store.reads.list_entity_notes(ada.id)) == ["both", "neither"]
    assert len((await Provenance(store.pool).note_detail(both.notes[0].id)).sources) == 1


async def test_erasing_a_chat_takes_along_what_only_its_notes_stood_for(store: EltmStore, eraser: Eraser) -> None:
    user, bird, acme = [(await store.entities.create(name)).view.entity for name in ("user", "zaunkoenig", "acme")]
    saw = (await store.relationships.create(user.id, bird.id, "saw")).relationship
    await store.relationships.create(user.id, acme.id, "works_at")
    rules = NoteRules(sources=(await _run(store, "1-1"),))
    await store.notes.attach_to_relationship(saw.id, [NewNote(DAY, "The user saw it.")], rules=rules)
    await store.notes.attach_to_entity(user.id, [NewNote(DAY, "The code is heliotrope, the city Porto.")], rules)
    await store.notes.attach_to_entity(user.id, [NewNote(DAY, "Lives in Porto.")])
    await store.entities.set_attributes(user.id, {"code": "Heliotrope", "city": "porto", "badge": "7"})
    done = await eraser.erase(EraseTarget(chat_id="1-1"))
    assert (done.notes, done.relationships, done.entities, done.attributes) == (2, 1, 1, 1)
    dump = await _dump(store)
    assert "zaunkoenig" not in dump
    assert "heliotrope" not in dump
    assert [view.entity.canonical_name for view in await store.reads.list_entities(10)] == ["user", "acme"]
    assert (await store.reads.get_entity(user.id)).attributes == {"badge": "7", "city": "porto"}


async def test_erasing_does_not_wait_for_an_embedder(store: EltmStore, eraser: Eraser, fake_hand: FakeEmbeddingHand) -> None:
    ada = (await store.entities.create("ada")).view.entity
    await store.entities.set_attributes(ada.id, {"city": "quokkaville"})
    fake_hand.is_down = True
    assert (await eraser.erase(EraseTarget(text="quokka"))).attributes == 1
    assert "quokka" not in await _dump(store)


@pytest.mark.parametrize(
    "target", [EraseTarget(), EraseTarget(text="x"), EraseTarget(text="ab", entity_id=1), EraseTarget(start=DAY)]
)
async def test_an_unclear_target_is_refused(eraser: Eraser, target: EraseTarget) -> None:
    with pytest.raises(InvalidInputError):
        await eraser.erase(target)
