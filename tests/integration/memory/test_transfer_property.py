"""Any valid content survives export, wipe and import; importing again changes nothing."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brain.memory.normalise import normalise_category, normalise_key, normalise_name, normalise_verb
from brain.memory.store import EltmStore
from brain.memory.transfer import Transfer

_text = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30).filter(str.strip)
_line = _text.filter(lambda text: "\n" not in text and "\r" not in text)
_day = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
_notes = st.lists(st.fixed_dictionaries({"date": _day, "note": _text}), max_size=4)
_entity = st.fixed_dictionaries(
    {
        "name": _text,
        "category": _text,
        "attributes": st.dictionaries(_text, _line, max_size=3).filter(
            lambda own: len({normalise_key(key) for key in own}) == len(own)
        ),
        "notes": _notes,
    }
)
_entities = st.lists(
    _entity,
    min_size=1,
    max_size=4,
    unique_by=lambda entity: (normalise_name(entity["name"]), normalise_category(entity["category"])),
)


@st.composite
def _files(draw: st.DrawFn) -> dict[str, Any]:
    entities = {f"u{at}": entity for at, entity in enumerate(draw(_entities))}
    ends = st.sampled_from(sorted(entities))
    edge = st.fixed_dictionaries({"srcUuid": ends, "verb": _text, "dstUuid": ends, "valid": st.booleans(), "notes": _notes})
    edges = draw(
        st.lists(edge, max_size=4, unique_by=lambda each: (each["srcUuid"], each["dstUuid"], normalise_verb(each["verb"])))
    )
    return {"entities": entities, "relationships": edges}


async def _export(transfer: Transfer) -> dict[str, Any]:
    return json.loads(b"".join([piece async for piece in transfer.export()]))


def _content(exported: dict[str, Any]) -> Any:
    names = {uuid: (entity["name"], entity["category"]) for uuid, entity in exported["entities"].items()}
    edges = [{**edge, "srcUuid": names[edge["srcUuid"]], "dstUuid": names[edge["dstUuid"]]} for edge in exported["relationships"]]
    return list(exported["entities"].values()), edges


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(file=_files())
async def test_round_trip(store: EltmStore, file: dict[str, Any]) -> None:
    transfer = Transfer(store)
    await _wipe(store)
    await transfer.take_in(json.dumps(file).encode())
    first = await _export(transfer)
    again = await transfer.take_in(json.dumps(first).encode(), overwrite_attributes=True)
    assert (again.entities_created, again.relationships_created, again.notes_inserted, again.attributes_written) == (0, 0, 0, 0)
    await _wipe(store)
    await transfer.take_in(json.dumps(first).encode())
    assert _content(await _export(transfer)) == _content(first)


async def _wipe(store: EltmStore) -> None:
    async with store.pool.connection() as conn:
        await conn.execute("TRUNCATE eltm_entities CASCADE")
