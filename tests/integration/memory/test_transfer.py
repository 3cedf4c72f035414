"""Export and import against a real database."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from brain.errors import InvalidInputError
from brain.memory.embeddings import EmbeddingError
from brain.memory.erase import Eraser, EraseTarget
from brain.memory.store import EltmStore
from brain.memory.transfer import ImportSummary, Transfer
from brain.memory.views import NewNote
from tests.fakes.embedder import FakeEmbeddingHand

DAY = date(2026, 8, 30)


@pytest.fixture
def transfer(store: EltmStore) -> Transfer:
    return Transfer(store)


def _file() -> dict[str, Any]:
    return {
        "entities": {
            "u1": {
                "name": " User ",
                "category": "Person",
                "attributes": {"City": "london", "real name": "Ada"},
                "notes": [
                    {"date": "2026-08-30", "note": "Moved to London."},
                    {"date": "2026-08-30", "note": " Moved to London. "},
                ],
                "more": 1,
            },
            "u2": {"name": "acme", "category": "company", "attributes": {}, "notes": []},
        },
        "relationships": [
            {
                "srcUuid": "u1",
                "verb": "Works at",
                "dstUuid": "u2",
                "valid": False,
                "notes": [{"date": "2026-08-31", "note": "Left Acme."}],
            },
            {"srcUuid": "u2", "verb": "knows", "dstUuid": "u1", "valid": False, "notes": []},
        ],
    }


async def _export(transfer: Transfer) -> dict[str, Any]:
    return json.loads(b"".join([piece async for piece in transfer.export()]))


def _content(exported: dict[str, Any]) -> Any:
    names = {uuid: (entity["name"], entity["category"]) for uuid, entity in exported["entities"].items()}
    edges = [{**edge, "srcUuid": names[edge["srcUuid"]], "dstUuid": names[edge["dstUuid"]]} for edge in exported["relationships"]]
    return list(exported["entities"].values()), edges


async def test_a_file_is_taken_in_and_a_second_time_changes_nothing(store: EltmStore, transfer: Transfer) -> None:
    body = json.dumps(_file()).encode()
    assert await transfer.take_in(body) == ImportSummary(2, 0, 2, 0, 2, 1, 2, 0)
    version = await store.reads.version()
    for overwrite in (False, True):
        assert await transfer.take_in(body, overwrite_attributes=overwrite) == ImportSummary(0, 2, 0, 2, 0, 3, 0, 2)
    assert await store.reads.version() == version
    edges = await store.reads.list_relationships(10)
    assert [(edge.relationship.verb, edge.relationship.valid, edge.note_count) for edge in edges] == [
        ("works_at", False, 1),
        ("knows", False, 0),
    ]


async def test_export_wipe_import_gives_the_same_content(store: EltmStore, transfer: Transfer) -> None:
    await transfer.take_in(json.dumps(_file()).encode())
    first = await _export(transfer)
    async with store.pool.connection() as conn:
        await conn.execute("TRUNCATE eltm_entities CASCADE")
    await transfer.take_in(json.dumps(first).encode())
    assert _content(await _export(transfer)) == _content(first)
    assert next(iter(first["entities"].values())) == {
        "name": "user",
        "category": "person",
        "attributes": {"city": "london", "real_name": "Ada"},
        "notes": [{"date": "2026-08-30", "note": "Moved to London."}],
    }


async def test_present_attributes_are_kept_unless_asked(store: EltmStore, transfer: Transfer) -> None:
    user = (await store.entities.create("user", "person")).view.entity
    await store.entities.set_attributes(user.id, {"city": "porto", "own": "x"})
    summary = await transfer.take_in(json.dumps(_file()).encode())
    assert (summary.attributes_written, summary.attributes_kept) == (1, 1)
    assert (await store.reads.get_entity(user.id)).attributes == {"city": "porto", "own": "x", "real_name": "Ada"}
    summary = await transfer.take_in(json.dumps(_file()).encode(), overwrite_attributes=True)
    assert (summary.attributes_written, summary.attributes_kept) == (1, 1)
    assert (await store.reads.get_entity(user.id)).attributes["city"] == "london"


@pytest.mark.parametrize(
    ("own_date", "own_valid", "file_date", "after"),
    [("2026-08-30", True, "2026-08-31", False), ("2026-08-31", True, "2026-08-31", True), (None, True, "2020-01-01", False)],
)
async def test_the_file_decides_validity_only_with_strictly_newer_notes(
    store: EltmStore, transfer: Transfer, own_date: str | None, own_valid: bool, file_date: str, after: bool
) -> None:
    user = (await store.entities.create("user", "person")).view.entity
    acme = (await store.entities.create("acme", "company")).view.entity
    edge = (await store.relationships.create(user.id, acme.id, "works_at")).relationship
    if own_date:
        await store.notes.attach_to_relationship(edge.id, [NewNote(date.fromisoformat(own_date), "own")], own_valid)
    file = _file()
    file["relationships"][0]["notes"][0]["date"] = file_date
    await transfer.take_in(json.dumps(file).encode())
    assert (await store.reads.get_relationship(edge.id)).relationship.valid is after


async def test_a_failed_embedding_leaves_what_was_written_and_a_rerun_resumes(
    store: EltmStore, transfer: Transfer, fake_hand: FakeEmbeddingHand
) -> None:
    file = _file()
    file["entities"]["u2"]["notes"] = [{"date": "2026-01-01", "note": "x" * 500}]
    fake_hand.refuse_texts_over = 400
    with pytest.raises(EmbeddingError):
        await transfer.take_in(json.dumps(file).encode())
    assert len(await store.reads.list_entities(10)) == 2
    fake_hand.refuse_texts_over = None
    summary = await transfer.take_in(json.dumps(file).encode())
    assert (summary.entities_created, summary.attributes_written, summary.notes_inserted) == (0, 0, 2)


async def test_large_subjects_before_a_failure_are_written(
    store: EltmStore, transfer: Transfer, fake_hand: FakeEmbeddingHand
) -> None:
    file = _file()
    file["entities"]["u1"]["notes"] = [{"date": "2026-01-01", "note": f"note {at}"} for at in range(130)]
    file["entities"]["u2"]["notes"] = [{"date": "2026-01-01", "note": f"note {at}"} for at in range(60)] + [
        {"date": "2026-01-01", "note": "x" * 500}
    ]
    fake_hand.refuse_texts_over = 400
    with pytest.raises(EmbeddingError):
        await transfer.take_in(json.dumps(file).encode())
    assert [view.note_count for view in await store.reads.list_entities(10)] == [130, 0]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["entities", "u1", "name"], " ", "entities[u1].name"),
        (["entities", "u1", "category"], "", "entities[u1].category"),
        (["entities", "u1", "category"], None, "entities[u1].category"),
        (["entities", "u1", "notes", 1, "date"], "2026-02-30", "entities[u1].notes[1].date"),
        (["entities", "u1", "notes", 0, "note"], "\n", "entities[u1].notes[0].note"),
        (["entities", "u1", "notes", 0], 7, "entities[u1].notes[0]"),
        (["entities", "u1", "attributes"], {"a b": "1", "A_b": "2"}, "entities[u1].attributes[A_b]"),
        (["entities", "u1", "attributes"], {"a": "1\n"}, "entities[u1].attributes[a]"),
        (["entities", "u1", "attributes"], {" ": "1"}, "entities[u1].attributes[ ]"),
        (["entities", "u2"], {"name": "USER", "category": "person", "attributes": {}, "notes": []}, "entities[u2].name"),
        (["relationships", 0, "srcUuid"], "u9", "relationships[0].srcUuid"),
        (["relationships", 0, "dstUuid"], "", "relationships[0].dstUuid"),
        (["relationships", 0, "dstUuid"], 7, "relationships[0].dstUuid"),
        (["relationships", 0, "notes", 0, "date"], "20260831", "relationships[0].notes[0].date"),
        (["relationships", 0, "notes", 0, "date"], "2026-W35-1", "relationships[0].notes[0].date"),
        (["relationships", 0, "notes", 0, "note"], " \u3000 ", "relationships[0].notes[0].note"),
        (["relationships", 0, "notes"], None, "relationships[0].notes"),
        (["relationships", 1], {"srcUuid": "u1", "verb": "knows", "dstUuid": "u2", "notes": []}, "relationships[1]"),
        (["relationships", 1], "knows", "relationships[1]"),
        (["relationships"], {}, "the file"),
        (["entities"], [], "the file"),
        (["entities", "u1", "name"], "\x00", "entities[u1].name"),
        (["entities", "u1", "attributes"], {"a": "1\r2"}, "entities[u1].attributes[a]"),
        (["entities", "u1", "attributes"], {"a": "  "}, "entities[u1].attributes[a]"),
        (["entities", "u1", "attributes"], {"a": None}, "entities[u1].attributes"),
        (["entities", "u1", "attributes"], {"a": 1}, "entities[u1].attributes"),
        (["entities", "u2"], {"name": "acme", "category": "company", "attributes": {}}, "entities[u2]"),
        (["entities", "u2"], {"name": "acme", "category": "company", "notes": []}, "entities[u2]"),
        (["entities", "u2"], None, "entities[u2]"),
        (["relationships", 1, "verb"], " ", "relationships[1].verb"),
        (["relationships", 1, "valid"], "yes", "relationships[1].valid"),
        (
            ["relationships", 1],
            {"srcUuid": "u1", "verb": "works_at", "dstUuid": "u2", "valid": True, "notes": []},
            "relationships[1]",
        ),
    ],
)
async def test_a_mistake_is_named_by_its_path_and_nothing_is_written(
    store: EltmStore, transfer: Transfer, path: list[Any], value: Any, says: str
) -> None:
    file = _file()
    at: Any = file
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(InvalidInputError) as refused:
        await transfer.take_in(json.dumps(file).encode())
    assert str(refused.value).startswith(says)
    assert await store.reads.list_entities(1) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"entities":{}}',
        b'{"relationships":[]}',
        b"\xff\xfe",
        b'{"entities":{},"relationships":[]',
        b"[" * 100_000,
    ],
)
async def test_what_is_no_memory_file_is_refused(store: EltmStore, transfer: Transfer, body: bytes) -> None:
    with pytest.raises(InvalidInputError):
        await transfer.take_in(body)
    assert await store.reads.version() == "0"


async def test_a_note_that_is_there_with_other_signs_is_another_note(store: EltmStore, transfer: Transfer) -> None:
    """An import compares day and trimmed text, nothing looser."""
    file = _file()
    await transfer.take_in(json.dumps(file).encode())
    file["entities"]["u1"]["notes"] = [
        {"date": "2026-08-30", "note": "moved to london"},
        {"date": "2026-08-29", "note": "Moved to London."},
    ]
    assert (await transfer.take_in(json.dumps(file).encode())).notes_inserted == 2


@pytest.mark.slow
async def test_a_file_of_100_megabytes_is_taken_in(store: EltmStore, transfer: Transfer) -> None:
    long = "All work and no play makes a dull day. " * 25
    notes = [{"date": "2026-01-01", "note": f"{number}: {long}"} for number in range(100)]
    file = _file()
    file["entities"]["u2"]["notes"] = notes * 1050
    body = json.dumps(file).encode()
    assert len(body) > 100 * 2**20
    summary = await transfer.take_in(body)
    assert (summary.notes_inserted, summary.notes_skipped) == (102, 1049 * 100 + 1)


async def test_what_was_erased_or_forgotten_does_not_come_back_with_a_file(store: EltmStore, transfer: Transfer) -> None:
    body = json.dumps(_file()).encode()
    await transfer.take_in(body)
    eraser = Eraser(store.pool, store.spaces)
    acme = next(view.entity.id for view in await store.reads.list_entities(10) if view.entity.canonical_name == "acme")
    await eraser.erase(EraseTarget(text="london"))
    await eraser.erase(EraseTarget(entity_id=acme))
    summary = await transfer.take_in(body)
    assert (summary.entities_created, summary.relationships_created, summary.notes_inserted, summary.notes_skipped) == (
        0,
        0,
        0,
        3,
    )
    assert [view.entity.canonical_name for view in await store.reads.list_entities(10)] == ["user"]
