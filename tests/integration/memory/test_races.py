"""Two writers at once, on every operation: no deadlock, no torn row, one bump for each change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest

from brain.errors import BrainError
from brain.memory.erase import Eraser, EraseTarget
from brain.memory.forget import Corrections
from brain.memory.notes import NoteRules
from brain.memory.store import EltmStore
from brain.memory.transfer import Transfer
from brain.memory.views import NewNote

DAY = date(2026, 8, 30)
FILE = {
    "entities": {
        "a": {
            "name": "a",
            "category": "general",
            "attributes": {"k": "f"},
            "notes": [{"date": "2026-08-30", "note": "from a file"}],
        },
        "b": {"name": "b", "category": "general", "attributes": {}, "notes": []},
    },
    "relationships": [
        {"srcUuid": "a", "verb": "knows", "dstUuid": "b", "valid": False, "notes": [{"date": "2027-01-01", "note": "ended"}]}
    ],
}
Operation = Callable[[EltmStore, int, int, int], Awaitable[Any]]

OPERATIONS: dict[str, Operation] = {
    "create": lambda store, a, b, edge: store.entities.create("new"),
    "refine": lambda store, a, b, edge: store.entities.refine(a, name="new"),
    "set": lambda store, a, b, edge: store.entities.set_attributes(a, {"k": "v", "l": "w"}),
    "delete": lambda store, a, b, edge: store.entities.delete_attribute(a, "old"),
    "merge": lambda store, a, b, edge: store.merge(b, a),
    "merge back": lambda store, a, b, edge: store.merge(a, b),
    "relate": lambda store, a, b, edge: store.relationships.create(a, b, "likes"),
    "note": lambda store, a, b, edge: store.notes.attach_to_entity(a, [NewNote(DAY, "same text")], NoteRules(skip_same=True)),
    "edge note": lambda store, a, b, edge: store.notes.attach_to_relationship(edge, [NewNote(DAY, "met")], valid=False),
    "valid": lambda store, a, b, edge: store.relationships.set_valid(edge, valid=False),
    "edit note": lambda store, a, b, edge: _edit_first_note(store, a),
    "forget": lambda store, a, b, edge: Corrections(store.pool, store.spaces).forget_entity(a),
    "erase": lambda store, a, b, edge: Eraser(store.pool, store.spaces).erase(EraseTarget(entity_id=a)),
    "import": lambda store, a, b, edge: Transfer(store).take_in(json.dumps(FILE).encode()),
}


async def _edit_first_note(store: EltmStore, a: int) -> Any:
    (note, *_) = await store.reads.list_entity_notes(a)
    return await Corrections(store.pool, store.spaces).edit_note(note.id, "corrected")


@pytest.mark.parametrize("first", OPERATIONS)
async def test_any_two_writers_leave_a_sound_store(store: EltmStore, first: str) -> None:
    for second, other in OPERATIONS.items():
        async with store.pool.connection() as conn:
            await conn.execute("TRUNCATE eltm_entities, eltm_revisions, eltm_kept_out, eltm_forgets CASCADE")
        a, b = [(await store.entities.create(name)).view.entity.id for name in ("a", "b")]
        await store.entities.set_attributes(a, {"old": "1"})
        edge = (await store.relationships.create(a, b, "knows")).relationship.id
        await store.notes.attach_to_entity(a, [NewNote(DAY, "kept")])
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                OPERATIONS[first](store, a, b, edge),
                other(store, a, b, edge),
                return_exceptions=True,
            ),
            20,
        )
        for outcome in outcomes:
            assert not isinstance(outcome, BaseException) or isinstance(outcome, BrainError), (first, second, outcome)
        await _check(store, (first, second))


async def _check(store: EltmStore, pair: tuple[str, str]) -> None:
    async with store.pool.connection() as conn:
        cur = await conn.execute(
            """
            SELECT (SELECT count(*) FROM eltm_notes AS n LEFT JOIN eltm_note_vectors AS v ON v.note_id = n.id WHERE v.note_id IS NULL),
                   (SELECT count(*) FROM eltm_entities AS e LEFT JOIN eltm_entity_vectors AS v ON v.entity_id = e.id
                     WHERE v.entity_id IS NULL),
                   (SELECT count(*) FROM eltm_notes AS n JOIN eltm_entities AS e ON e.id = n.entity_id
                     WHERE n.forget_id IS NULL AND e.forget_id IS NOT NULL),
                   (SELECT count(*) FROM eltm_relationships AS r JOIN eltm_entities AS e ON e.id IN (r.src_id, r.dst_id)
                     WHERE r.forget_id IS NULL AND e.forget_id IS NOT NULL),
                   (SELECT count(*) FROM eltm_notes AS n JOIN eltm_note_vectors AS v ON v.note_id = n.id
                     WHERE v.hidden <> (n.forget_id IS NOT NULL)),
                   (SELECT count(*) FROM (SELECT 1 FROM eltm_notes WHERE note = 'same text' GROUP BY entity_id HAVING count(*) > 1) AS t)
            """,
        )
        row = await cur.fetchone()
    assert row == (0, 0, 0, 0, 0, 0), pair


async def test_every_visible_change_moves_the_version_by_one(store: EltmStore) -> None:
    (a, b) = [(await store.entities.create(name)).view.entity.id for name in ("a", "b")]
    before = int(await store.reads.version())
    await asyncio.gather(
        *(store.notes.attach_to_entity(a, [NewNote(DAY, f"note {at}")]) for at in range(6)),
        *(store.entities.set_attributes(b, {f"k{at}": "v"}) for at in range(4)),
        store.relationships.create(a, b, "knows"),
    )
    assert int(await store.reads.version()) == before + 11
