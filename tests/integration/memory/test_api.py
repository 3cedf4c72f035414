"""The memory's routes over the whole application: statuses, shapes, order of checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import pytest_asyncio

from brain.app import create_app
from brain.services import Services, open_services
from tests.fakes.embedder import FakeEmbeddingHand
from tests.integration.api.conftest import make_config

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@pytest_asyncio.fixture
async def services(database_url: str, fake_hand: FakeEmbeddingHand) -> AsyncGenerator[Services]:
    agent = {"investigator": {"model": "gw/small", "allowedNamespaces": ["eltm"]}}
    config = make_config(database_url, fake_hand.url, agent=agent)
    async with open_services(config) as opened:
        await opened.memory.spaces.prepare()
        yield opened


@pytest_asyncio.fixture
async def client(services: Services) -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest_asyncio.fixture
async def planted(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    answer = await client.post("/api/eltm/import", json=FILE)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "entitiesCreated": 2,
        "entitiesMatched": 0,
        "relationshipsCreated": 1,
        "relationshipsMatched": 0,
        "notesInserted": 3,
        "notesSkipped": 0,
        "attributesWritten": 1,
        "attributesKept": 0,
    }
    return client


FILE: dict[str, Any] = {
    "entities": {
        "u1": {
            "name": "User",
            "category": "person",
            "attributes": {"city": "london"},
            "notes": [{"date": "2026-08-30", "note": "Moved to London."}, {"date": "2026-08-29", "note": "Packed."}],
        },
        "u2": {"name": "acme", "category": "company", "attributes": {}, "notes": []},
    },
    "relationships": [
        {
            "srcUuid": "u1",
            "verb": "works_at",
            "dstUuid": "u2",
            "valid": True,
            "notes": [{"date": "2026-08-31", "note": "Joined."}],
        }
    ],
}
NOTE = {
    "id": 1,
    "entityId": 1,
    "relationshipId": None,
    "eventDate": "2026-08-30",
    "note": "Moved to London.",
    "sources": 0,
    "edited": False,
}


async def test_browsing_has_the_shapes_of_the_contract(planted: httpx2.AsyncClient) -> None:
    entities = (await planted.get("/api/eltm/entities")).json()
    assert entities[0] == {
        "entity": {"id": 1, "canonicalName": "user", "category": "person"},
        "noteCount": 2,
        "relationshipCount": 1,
        "latestNote": NOTE,
        "attributes": {"city": "london"},
    }
    assert (await planted.get("/api/eltm/entities/2")).json()["latestNote"] is None
    assert (await planted.get("/api/eltm/entities/1/notes?from=2026-08-30")).json() == [NOTE]
    assert len((await planted.get("/api/eltm/entities/1/notes?limit=1&offset=1")).json()) == 1
    edge = {
        "relationship": {"id": 1, "srcId": 1, "dstId": 2, "verb": "works_at", "valid": True},
        "srcName": "user",
        "dstName": "acme",
        "noteCount": 1,
        "latestNote": {**NOTE, "id": 3, "entityId": None, "relationshipId": 1, "eventDate": "2026-08-31", "note": "Joined."},
    }
    for path in ("relationships", "entities/2/relationships?includeInvalid=true"):
        assert (await planted.get(f"/api/eltm/{path}")).json() == [edge]
    assert (await planted.get("/api/eltm/relationships/1")).json() == edge
    assert (await planted.get("/api/eltm/relationships/1/notes")).json()[0]["note"] == "Joined."


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("entities?limit=0", 400),
        ("entities?limit=501", 400),
        ("entities?limit=x", 400),
        ("entities?offset=-1", 400),
        ("entities/x", 400),
        ("entities/99", 404),
        ("entities/99/notes?from=2026-1-1", 400),
        ("entities/99/notes?from=2026-02-01&to=2026-01-01", 400),
        ("entities/99/notes", 404),
        ("entities/99/relationships?includeInvalid=True", 400),
        ("entities/99/relationships", 404),
        ("entities/99/notes?limit=501", 400),
        ("entities/99/notes?offset=-1", 400),
        ("entities/99/notes?to=2026-02-30", 400),
        ("entities/99/relationships?includeInvalid=", 400),
        ("entities/9223372036854775808", 400),
        ("relationships?limit=0", 400),
        ("relationships?offset=x", 400),
        ("relationships/x", 400),
        ("relationships/x/notes", 400),
        ("relationships/99/notes?from=2026-02-01&to=2026-01-01", 400),
        ("relationships/99/notes?from=", 400),
        ("relationships/99", 404),
        ("relationships/99/notes?limit=0", 400),
        ("relationships/99/notes", 404),
        ("notes/99", 404),
        ("search", 400),
        ("search?q=%20", 400),
        ("search?q=x&limit=101", 400),
        ("search?q=x&entityId=1&relationshipId=1", 400),
        ("search?q=x&entityId=99999999999999999999", 400),
        ("search?q=x&relationshipId=-99999999999999999999", 400),
    ],
)
async def test_bad_reads_are_refused_with_a_reason(client: httpx2.AsyncClient, path: str, status: int) -> None:
    answer = await client.get(f"/api/eltm/{path}")
    assert answer.status_code == status
    assert answer.json()["error"]


async def test_the_search_shows_the_parts_of_each_score(planted: httpx2.AsyncClient) -> None:
    found = (await planted.get("/api/eltm/search", params={"q": "Moved to London", "limit": 1})).json()
    assert found["degraded"] is None
    assert found["notes"][0]["note"] == NOTE
    assert found["notes"][0]["subject"] == {"type": "entity", "id": 1, "name": "user", "category": "person"}
    assert found["notes"][0]["ranks"]["lexical"] == 1
    assert set(found["entities"][0]) >= {"entity", "score", "ranks"}
    joined = (await planted.get("/api/eltm/search", params={"q": "joined", "relationshipId": 1})).json()
    assert joined["notes"][0]["subject"] == {
        "type": "relationship",
        "id": 1,
        "srcName": "user",
        "verb": "works_at",
        "dstName": "acme",
        "valid": True,
    }


async def test_correcting_forgetting_and_erasing(planted: httpx2.AsyncClient) -> None:
    edited = await planted.patch("/api/eltm/notes/2", json={"note": "Packed boxes.", "eventDate": "2026-08-28"})
    assert (edited.status_code, edited.json()["edited"]) == (200, True)
    detail = (await planted.get("/api/eltm/notes/2")).json()
    assert [step["change"] for step in detail["history"]] == ["created", "edited"]
    assert detail["history"][1]["by"] == "person"
    assert detail["history"][1]["at"].endswith("Z")
    assert (await planted.patch("/api/eltm/notes/2", json={})).status_code == 400
    assert (await planted.put("/api/eltm/entities/1/attributes/real%20name", json={"value": "Ada"})).json()["attributes"] == {
        "city": "london",
        "real_name": "Ada",
    }
    assert (await planted.delete("/api/eltm/entities/1/attributes/city")).json()["attributes"] == {"real_name": "Ada"}
    assert (await planted.patch("/api/eltm/relationships/1", json={"valid": False})).json()["relationship"]["valid"] is False
    assert (await planted.patch("/api/eltm/entities/2", json={"name": "Acme Corp"})).json()["entity"][
        "canonicalName"
    ] == "acme corp"
    assert (await planted.delete("/api/eltm/entities/2")).status_code == 204
    assert (await planted.get("/api/eltm/entities/2")).status_code == 404
    assert (await planted.post("/api/eltm/entities/2/restore")).json()["noteCount"] == 0
    for kind, number in (("notes", 2), ("entities", 1), ("relationships", 1)):
        only_counted = await planted.delete(f"/api/eltm/{kind}/{number}?erase=true&dryRun=true")
        assert (only_counted.status_code, only_counted.json()["notes"] >= 1) == (200, True)
        assert (await planted.delete(f"/api/eltm/{kind}/{number}?dryRun=true")).status_code == 400
        assert (await planted.delete(f"/api/eltm/{kind}/{number}?erase=true&dryRun=yes")).status_code == 400
        assert (await planted.get(f"/api/eltm/{kind}/{number}")).status_code == 200
    erased = await planted.delete("/api/eltm/notes/2?erase=true")
    assert (erased.status_code, erased.json()["notes"]) == (200, 1)
    counted = await planted.post("/api/eltm/erase?dryRun=true", json={"text": "london"})
    assert counted.json() == {
        "notes": 1,
        "attributes": 0,
        "relationships": 0,
        "entities": 0,
        "jobs": 0,
        "sources": 0,
        "chats": [],
    }
    assert (await planted.post("/api/eltm/erase", json={})).status_code == 400
    merged = await planted.post("/api/eltm/entities/1/merge", json={"loserId": 2})
    assert merged.json()["entity"]["id"] == 1


async def test_export_is_a_file_that_import_takes_back(planted: httpx2.AsyncClient) -> None:
    exported = await planted.get("/api/eltm/export")
    assert exported.headers["content-disposition"] == 'attachment; filename="eltm.json"'
    again = await planted.post(
        "/api/eltm/import?overwriteAttr=true", content=exported.content, headers={"content-type": "application/json"}
    )
    assert (again.json()["notesInserted"], again.json()["notesSkipped"]) == (0, 3)


async def test_imports_are_refused_in_the_order_of_the_contract(client: httpx2.AsyncClient, fake_hand: FakeEmbeddingHand) -> None:
    body = json.dumps(FILE)
    assert (await client.post("/api/eltm/import", content=body)).status_code == 415
    assert (await client.post("/api/eltm/import?overwriteAttr=yes", json=FILE)).status_code == 400
    assert (await client.post("/api/eltm/import", json={"entities": {}})).status_code == 400
    fake_hand.is_down = True
    failed = await client.post("/api/eltm/import", json=FILE)
    assert failed.status_code == 502
    assert "Caused by: " in failed.json()["error"]
    assert (await client.put("/api/maintenance", json={"enabled": True})).json() == {"enabled": True}
    for method, path in (
        ("POST", "import"),
        ("PATCH", "notes/x"),
        ("DELETE", "entities/1"),
        ("POST", "erase"),
        ("POST", "notes/1/restore"),
    ):
        assert (await client.request(method, f"/api/eltm/{path}", content="{")).status_code == 503
    assert (await client.get("/api/eltm/export")).status_code == 200


async def test_the_switch_takes_a_boolean_and_nothing_else(client: httpx2.AsyncClient) -> None:
    for body in ({}, {"enabled": None}, {"enabled": 1}, {"enabled": "true"}, [], "true"):
        answer = await client.put("/api/maintenance", json=body)
        assert answer.status_code == 400, body
        assert answer.json()["error"]
    assert (await client.put("/api/maintenance", content=b'{"enabled":true}')).status_code == 415
    assert (await client.get("/api/maintenance")).json() == {"enabled": False}
    assert (await client.put("/api/maintenance", json={"enabled": True, "x": 1})).json() == {"enabled": True}
    assert (await client.put("/api/maintenance", json={"enabled": True})).json() == {"enabled": True}


async def test_reembedding_over_http(planted: httpx2.AsyncClient) -> None:
    assert (await planted.get("/api/maintenance/reembed")).json() == {"state": "idle", "entities": 0, "notes": 0, "error": None}
    assert (await planted.post("/api/maintenance/reembed")).status_code == 409
    await planted.put("/api/maintenance", json={"enabled": True})
    started = await planted.post("/api/maintenance/reembed")
    assert (started.status_code, started.json()["state"]) == (202, "running")


async def test_figures_and_duplicates(planted: httpx2.AsyncClient) -> None:
    health = (await planted.get("/api/eltm/health")).json()
    assert (health["notes"], health["unsourced"], health["duplicates"], health["queueDepth"]) == (3, 3, 0, 0)
    file = {
        "entities": {
            "x": {
                "name": "acme corp",
                "category": "company",
                "attributes": {},
                "notes": [{"date": "2026-01-01", "note": "Same thing."}, {"date": "2026-01-01", "note": "same thing"}],
            }
        },
        "relationships": [],
    }
    await planted.post("/api/eltm/import", json=file)
    pairs = (await planted.get("/api/eltm/duplicates")).json()
    assert [(pair["kind"], pair["first"].get("id")) for pair in pairs] == [("note", 4)]
    assert (await planted.get("/api/eltm/health")).json()["duplicates"] == 1
