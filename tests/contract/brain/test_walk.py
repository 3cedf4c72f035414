"""Every route of the wire contract in the order in which a client meets them, against a started system seen from outside only.

``daapu up`` runs the real brain and the real hand; only the gateway with its models is a script.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.system import RunningSystem, free_port, running_system
from tests.fakes.embedder import fake_vector
from tests.fakes.gateway import FakeGateway, Received, Reply, answers_json, chunk, running_gateway, says, sse

MODEL = "gw/acme/large-1"
HAND_TOKEN = "the-token-of-the-hand"
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
INSTANT = "2026-03-01T08:00:00Z"
JSON_TYPE = {"content-type": "application/json"}
HAND = {"x-daapu-token": HAND_TOKEN}

DOCUMENTED = """
GET /api/models
GET /api/chats
POST /api/chats
POST /api/chats/import
PUT /api/chats/{}
POST /api/chats/{}/title
DELETE /api/chats/{}
DELETE /api/chats/{}/messages/{}
POST /api/chats/{}/fork/{}
GET /api/chats/{}/chat
GET /api/chats/{}/export
POST /api/chats/{}/messages
GET /api/personas
POST /api/personas
GET /api/personas/export
POST /api/personas/import
PUT /api/personas/{}
DELETE /api/personas/{}
GET /api/eltm/entities
GET /api/eltm/entities/{}
GET /api/eltm/entities/{}/relationships
GET /api/eltm/entities/{}/notes
GET /api/eltm/relationships
GET /api/eltm/relationships/{}
GET /api/eltm/relationships/{}/notes
POST /api/eltm/digest
GET /api/eltm/replay
POST /api/eltm/replay
GET /api/eltm/export
POST /api/eltm/import
GET /api/maintenance
PUT /api/maintenance
GET /api/maintenance/reembed
POST /api/maintenance/reembed
GET /api/hand/tools
POST /api/hand/tool
"""
"""The table of routes that clients of the reference rely on."""

ADDED = """
GET /api/chats/{}/run
POST /api/chats/{}/stop
POST /api/chats/{}/approvals/{}
GET /api/chats/{}/messages
GET /api/attachments/{}
GET /api/chats/{}/compactions
GET /api/chats/{}/compactions/{}
GET /api/search
GET /api/eltm/search
GET /api/eltm/notes/{}
PATCH /api/eltm/notes/{}
PATCH /api/eltm/entities/{}
PUT /api/eltm/entities/{}/attributes/{}
DELETE /api/eltm/entities/{}/attributes/{}
PATCH /api/eltm/relationships/{}
POST /api/eltm/entities/{}/merge
DELETE /api/eltm/notes/{}
DELETE /api/eltm/entities/{}
DELETE /api/eltm/relationships/{}
POST /api/eltm/notes/{}/restore
POST /api/eltm/entities/{}/restore
POST /api/eltm/relationships/{}/restore
POST /api/eltm/erase
GET /api/eltm/duplicates
GET /api/eltm/health
GET /api/eltm/jobs
POST /api/eltm/jobs/{}/retry
DELETE /api/eltm/jobs/{}
GET /api/tools
POST /api/tools/{}/reconnect
GET /api/health/live
GET /api/health/ready
"""
"""What this product has beyond it."""


def routes_of(table: str) -> set[str]:
    return set(table.strip().splitlines())


# --- the script of the models ----------------------------------------------------------------------------------------------


def reply_to(request: Received) -> Reply:  # noqa: PLR0911 - one line per model
    body = request.body
    if request.path == "/v1/embeddings":
        vectors = [fake_vector(text, body["dimensions"]) for text in body["input"]]
        return answers_json({"data": [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]})
    last = body["messages"][-1]
    match body["model"]:
        case "title":
            return says('"Weather in Lisbon"')
        case "extract":
            told = "born on 1990-05-04" in json.dumps(body["messages"])
            return says('[1] The user was born on 1990-05-04. | "born on 1990-05-04"' if told else "Nothing worth remember.")
        case "write":
            return says("NOTE | 1 | user (person) |")
        case "acme/large-1" if last["role"] == "tool":
            return says("Sunny and 24 degrees.")
        case "acme/large-1" if "weather" in json.dumps(last):
            call = {"name": "fs__read_text_file", "arguments": '{"path": "weather.txt"}'}
            asked = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}]}
            return Reply(
                sse(chunk({"reasoning_content": "Need the weather."}), chunk(asked), chunk(finish="tool_calls", usage=(20, 7)))
            )
        case "acme/large-1":
            return says("Lisbon.")
    raise AssertionError(f"nobody should ask {body['model']}")


def make_config(database_url: str, gateway: str, port: int, folder: Path) -> dict[str, Any]:
    def model(model_id: str, *capabilities: str) -> dict[str, Any]:
        window = {"contextLength": 131072, "maxOutputTokens": 8192, "compactionTriggerFraction": 0.8, "compactionKeepRounds": 2}
        return {"modelId": model_id, "capabilities": list(capabilities), **window}

    models = [model("acme/large-1", "image", "tool_calls"), model("title", "image"), model("extract"), model("write")]
    provider = {"apiKey": "k", "baseUrl": gateway, "llm": models, "embedding": [{"modelId": "e", "dimensions": 32}]}
    return {
        "database": {"url": database_url},
        "providers": {"gw": provider},
        "server": {"port": port},
        "tool": {"fs": {"enabled": True, "allowedDirs": [str(folder)]}},
        "memory": {
            "compactModel": "gw/extract",
            "eltm": {
                "extractionModel": "gw/extract",
                "embeddingModel": "gw/e",
                "writerModel": "gw/write",
                "rewriteModel": "gw/extract",
                "rewriteRounds": 1,
                "relatedEntitiesLimit": 0,
                "relatedNotesLimit": 0,
            },
        },
        "agent": {"investigator": {"model": "gw/acme/large-1", "allowedNamespaces": ["eltm"]}},
        "title": {"model": "gw/title"},
        "hand": {
            "baseUrl": f"http://127.0.0.1:{free_port()}",
            "selfBaseUrl": f"http://127.0.0.1:{port}",
            "token": HAND_TOKEN,
            "maxRetries": 1,
        },
    }


# --- the client ------------------------------------------------------------------------------------------------------------


class Walker:
    """A client that remembers which routes it has used with success."""

    def __init__(self, http: httpx2.AsyncClient, gateway: FakeGateway) -> None:
        self.http = http
        self.gateway = gateway
        self.walked: set[str] = set()

    async def ask(self, route: str, *ids: object, status: int = 200, query: str = "", **options: Any) -> httpx2.Response:
        """Send ``METHOD /path/{}`` with the ids in place; a route counts as walked once it succeeded."""
        method, _, template = route.partition(" ")
        path = template.format(*ids) + (f"?{query}" if query else "")
        answer = await self.http.request(method, path, **options)
        assert answer.status_code == status, (route, ids, answer.status_code, answer.text)
        if status < 400:
            self.walked.add(route)
        elif "x-daapu-token" not in str(options):
            assert list(answer.json()) == ["error"], (route, answer.text)
            assert answer.json()["error"]
        return answer

    async def read(self, route: str, *ids: object, **options: Any) -> Any:
        return (await self.ask(route, *ids, **options)).json()

    async def send(self, chat: str, **body: Any) -> list[tuple[str, Any]]:
        """Send a message and return the events that the reference knows, its text in one piece; the bytes have its form."""
        answer = await self.ask("POST /api/chats/{}/messages", chat, json=body)
        assert answer.headers["content-type"] == "text/event-stream"
        blocks = answer.text.split("\n\n")
        assert blocks.pop() == ""
        events: list[tuple[str, Any]] = []
        for block in blocks:
            found = re.fullmatch(r"event: ([a-z_]+)\ndata: (.*)", block)
            assert found, block
            name, data = found.groups()
            if name not in {"memory", "context", "usage"}:
                events.append((name, data if name == "comment" else json.loads(data)))
        return joined(events)


def joined(events: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return events with neighbouring deltas of a kind as one: how a text is cut is nobody's promise."""
    merged: list[tuple[str, Any]] = []
    for name, data in events:
        if name in {"text", "reasoning"} and merged and merged[-1][0] == name:
            merged[-1] = (name, {"delta": merged[-1][1]["delta"] + data["delta"]})
        else:
            merged.append((name, data))
    return merged


def pattern_of(expected: str) -> str:
    """Return a pattern for a body to the letter, in which NOW is any instant."""
    return re.escape(expected).replace("NOW", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?Z")


@pytest.fixture
async def walker(database_url: str, data_home: Path, tmp_path: Path) -> AsyncGenerator[Walker]:
    (tmp_path / "weather.txt").write_text("Sunny, 24C\n")
    async with running_gateway(by=reply_to) as gateway:
        config = make_config(database_url, gateway.base_url, free_port(), tmp_path)
        async with started(data_home, config) as system, httpx2.AsyncClient(base_url=system.url, timeout=60) as http:
            yield Walker(http, gateway)


@asynccontextmanager
async def started(home: Path, config: dict[str, Any]) -> AsyncGenerator[RunningSystem]:
    context = running_system(home, config=config, environ={"SERVER__PORT": str(config["server"]["port"])})
    system = await asyncio.to_thread(context.__enter__)
    try:
        yield system
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


# --- the walk --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_every_documented_route_answers_as_documented(walker: Walker) -> None:
    document = await walker.read("GET /api/openapi.json")
    described = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}" for path, methods in document["paths"].items() for method in methods
    }
    assert routes_of(DOCUMENTED) - described == set()
    assert routes_of(ADDED) - described == set()
    await walk_models_and_personas(walker)
    await walk_chats(walker)
    await walk_memory(walker)
    await walk_maintenance(walker)
    await walk_hand(walker)
    await walk_additions(walker)
    assert (routes_of(DOCUMENTED) | routes_of(ADDED)) - walker.walked == NEED_MORE_THAN_A_WALK


NEED_MORE_THAN_A_WALK = {
    "POST /api/chats/{}/stop",
    "POST /api/chats/{}/approvals/{}",
    "GET /api/chats/{}/compactions/{}",
    "POST /api/eltm/jobs/{}/retry",
    "DELETE /api/eltm/jobs/{}",
    "POST /api/tools/{}/reconnect",
}
"""Answer with success only in the middle of something; their refusals are walked, the rest has tests of its own."""


async def walk_models_and_personas(walker: Walker) -> None:
    assert await walker.read("GET /api/health/live") == {"ok": True}
    ready = await walker.read("GET /api/health/ready")
    assert (ready["ok"], ready["checks"]["hand"]) == (True, True)
    models = await walker.read("GET /api/models")
    assert [model["id"] for model in models] == ["gw/acme/large-1", "gw/title", "gw/extract", "gw/write"]
    reference = {"id": MODEL, "vision": True, "contextLength": 131072, "maxOutputTokens": 8192}
    assert dict(list(models[0].items())[:4]) == reference

    default = (await walker.read("GET /api/personas"))[0]
    assert (default["id"], default["name"], default["allowedNamespaces"]) == (0, "Default (GSG)", [])
    coder = {"name": "Coder", "systemPrompt": "You write code.", "allowedNamespaces": ["fs"]}
    made = await walker.read("POST /api/personas", json={**coder, "name": " Coder "}, status=201)
    assert dict(list(made.items())[:4]) == {"id": 1, **coder}
    await walker.ask("POST /api/personas", json={**coder, "allowedNamespaces": ["nope"]}, status=400)
    exported = await walker.ask("GET /api/personas/export")
    assert exported.json() == [coder]
    assert exported.headers["content-disposition"] == 'attachment; filename="personas.json"'
    again = await walker.read("POST /api/personas/import", json=[*exported.json(), {**coder, "name": "Translator"}])
    assert again == {"created": ["Translator"], "skipped": ["Coder"]}
    changed = await walker.read("PUT /api/personas/{}", 2, json={"name": "T", "systemPrompt": "p", "x": 1})
    assert (changed["id"], changed["name"], changed["allowedNamespaces"]) == (2, "T", [])
    assert [persona["id"] for persona in await walker.read("GET /api/personas")] == [0, 1, 2]
    assert (await walker.ask("DELETE /api/personas/{}", 2, status=204)).content == b""
    await walker.ask("DELETE /api/personas/{}", 2, status=404)
    await walker.ask("DELETE /api/personas/{}", 0, status=400)
    await walker.ask("PUT /api/personas/{}", "x", json={}, status=400)


async def walk_chats(walker: Walker) -> None:
    assert await walker.read("GET /api/chats") == {"chats": []}
    await walker.ask("GET /api/chats", query="cursor=null", status=400)
    created = await walker.read("POST /api/chats", status=201)
    chat = created["id"]
    assert list(created) == ["id"]
    assert re.fullmatch(r"\d{13}-\d{1,10}", chat)
    assert (await walker.ask("GET /api/chats/{}/chat", chat)).content == b"[]"

    ask = {"text": " What is on this picture? ", "images": [{"dataUrl": f"data:image/png;base64,{PICTURE}"}]}
    events = await walker.send(chat, model=MODEL, personaId=0, **ask)
    assert events == [("comment", "connected"), ("text", {"delta": "Lisbon."}), ("done", {})]
    events = await walker.send(chat, text="And the weather there?", model=MODEL, personaId=1)
    name = "fs__read_text_file"
    assert events == [
        ("comment", "connected"),
        ("reasoning", {"delta": "Need the weather."}),
        ("tool_call", {"id": "c1", "name": name, "args": {"path": "weather.txt"}}),
        ("tool_result", {"id": "c1", "name": name, "content": "Sunny, 24C\n", "isError": False}),
        ("text", {"delta": "Sunny and 24 degrees."}),
        ("done", {}),
    ]
    stored = await walker.ask("GET /api/chats/{}/chat", chat)
    assert re.fullmatch(pattern_of(STORED), stored.text), stored.text

    body = {"text": "x", "model": MODEL, "personaId": 0}
    for changes, status in (({"text": " "}, 400), ({"model": "gw/none"}, 400), ({"personaId": 99}, 400), ({"images": None}, 400)):
        await walker.ask("POST /api/chats/{}/messages", chat, json={**body, **changes}, status=status)
    await walker.ask("POST /api/chats/{}/messages", "1755500000000-42", json=body, status=404)
    await walker.ask("POST /api/chats/{}/messages", "nonsense", json=body, status=400)
    await walker.ask("POST /api/chats/{}/messages", chat, content=json.dumps(body), status=415)

    listed = await walker.read("GET /api/chats")
    assert list(listed) == ["chats"]
    assert [dict(list(entry.items())[:3]) for entry in listed["chats"]] == [{"id": chat, "title": "New chat", "personaId": 1}]
    titled = await walker.read("POST /api/chats/{}/title", chat)
    assert dict(list(titled.items())[:3]) == {"id": chat, "title": "Weather in Lisbon", "personaId": 1}
    renamed = await walker.read("PUT /api/chats/{}", chat, json={"title": " Trip plan "})
    assert dict(list(renamed.items())[:3]) == {"id": chat, "title": "Trip plan", "personaId": 1}
    exported = await walker.ask("GET /api/chats/{}/export", chat)
    assert exported.content == b'{"title":"Trip plan","messages":%b}' % stored.content
    assert exported.headers["content-disposition"] == f'attachment; filename="{chat}.json"'
    taken = await walker.read("POST /api/chats/import", content=exported.content, headers=JSON_TYPE, status=201)
    assert (taken["title"], taken["personaId"]) == ("Trip plan", 0)
    assert (await walker.ask("GET /api/chats/{}/chat", taken["id"])).content == stored.content
    forked = await walker.read("POST /api/chats/{}/fork/{}", chat, 1, status=201)
    assert (forked["title"], forked["personaId"]) == ("Trip plan (2)", 1)
    await walker.ask("POST /api/chats/{}/fork/{}", chat, 3, status=400)
    assert (await walker.ask("DELETE /api/chats/{}/messages/{}", chat, 2, status=204)).content == b""
    first_two = (await walker.ask("GET /api/chats/{}/chat", chat)).content
    assert first_two == (await walker.ask("GET /api/chats/{}/chat", forked["id"])).content
    assert stored.content.startswith(first_two[:-1] + b",")
    for index, status in (("x", 400), (-1, 400), (1, 400), (2, 400)):
        await walker.ask("DELETE /api/chats/{}/messages/{}", chat, index, status=status)
    assert (await walker.ask("DELETE /api/chats/{}", taken["id"], status=204)).content == b""
    await walker.ask("DELETE /api/chats/{}", taken["id"], status=404)
    for route in ("GET /api/chats/{}/export", "POST /api/chats/{}/title", "POST /api/chats/{}/fork/1"):
        await walker.ask(route, taken["id"], status=404)


STORED = (
    '[{"role":"user","parts":[{"type":"text","text":"What is on this picture?"},{"type":"attachment","kind":"image",'
    f'"content":{{"type":"base64","base64":"{PICTURE}"}},"mimeType":"image/png"}}],"createdAt":"NOW"}},'
    '{"role":"assistant","parts":[{"type":"text","text":"Lisbon."}],"createdAt":"NOW",'
    '"meta":{"inputTokens":10,"outputTokens":5,"totalTokens":15,"modelId":"acme/large-1"},"finishReason":"stop"},'
    '{"role":"user","parts":[{"type":"text","text":"And the weather there?"}],"createdAt":"NOW"},'
    '{"role":"assistant","parts":[{"type":"reasoning","content":"Need the weather."},'
    '{"type":"tool_call","id":"c1","tool":"fs__read_text_file","args":{"path":"weather.txt"}}],"createdAt":"NOW",'
    '"meta":{"inputTokens":20,"outputTokens":7,"totalTokens":27,"modelId":"acme/large-1"},"finishReason":"tool_calls"},'
    '{"role":"tool_result","parts":[{"type":"tool_result","id":"c1","tool":"fs__read_text_file",'
    '"parts":[{"type":"text","text":"Sunny, 24C\\n"}],"isError":false}]},'
    '{"role":"assistant","parts":[{"type":"text","text":"Sunny and 24 degrees."}],"createdAt":"NOW",'
    '"meta":{"inputTokens":10,"outputTokens":5,"totalTokens":15,"modelId":"acme/large-1"},"finishReason":"stop"}]'
)
ADA = "0b8f2c1e-5d1e-4a56-9f0e-2f8e0c6f7a11"
FILE = {
    "entities": {
        ADA: {
            "name": "Ada",
            "category": "person",
            "attributes": {"city": "Porto"},
            "notes": [{"date": "2026-02-01", "note": "Moved to Porto."}],
        }
    },
    "relationships": [{"srcUuid": ADA, "verb": "knows", "dstUuid": ADA, "valid": True, "notes": []}],
}


async def walk_memory(walker: Walker) -> None:
    assert await walker.read("GET /api/eltm/entities") == []
    body = {"parts": [{"type": "text", "text": "I was born on 1990-05-04."}], "date": "2026-01-02"}
    assert (await walker.ask("POST /api/eltm/digest", json=body, status=201)).content == b""
    for broken in ({"parts": []}, {**body, "date": "2026-13-01"}, {**body, "date": "2999-01-01"}):
        await walker.ask("POST /api/eltm/digest", json=broken, status=400)
    (born,) = await walker.read("GET /api/eltm/entities/{}/notes", 1)
    assert (born["note"], born["entityId"], born["relationshipId"]) == ("The user was born on 1990-05-04.", 1, None)
    counts = {
        "entitiesCreated": 1,
        "entitiesMatched": 0,
        "relationshipsCreated": 1,
        "relationshipsMatched": 0,
        "notesInserted": 1,
    }
    counts |= {"notesSkipped": 0, "attributesWritten": 1, "attributesKept": 0}
    assert await walker.read("POST /api/eltm/import", json=FILE) == counts
    assert (await walker.read("POST /api/eltm/import", json=FILE, query="overwriteAttr=true"))["attributesKept"] == 1
    await walker.ask("POST /api/eltm/import", json=FILE, query="overwriteAttr=yes", status=400)
    entities = await walker.read("GET /api/eltm/entities", query="limit=500&offset=0")
    assert [entity["entity"]["canonicalName"] for entity in entities] == ["user", "ada"]
    entity = await walker.read("GET /api/eltm/entities/{}", 2)
    note = {"id": 2, "entityId": 2, "relationshipId": None, "eventDate": "2026-02-01", "note": "Moved to Porto."}
    assert entity == entities[1]
    assert list(entity) == ["entity", "noteCount", "relationshipCount", "latestNote", "attributes"]
    assert dict(list(entity["latestNote"].items())[:5]) == note
    assert (entity["noteCount"], entity["relationshipCount"], entity["attributes"]) == (1, 1, {"city": "Porto"})
    edge = {
        "relationship": {"id": 1, "srcId": 2, "dstId": 2, "verb": "knows", "valid": True},
        "srcName": "ada",
        "dstName": "ada",
        "noteCount": 0,
        "latestNote": None,
    }
    assert await walker.read("GET /api/eltm/relationships") == [edge]
    assert await walker.read("GET /api/eltm/relationships/{}", 1) == edge
    assert await walker.read("GET /api/eltm/entities/{}/relationships", 2, query="includeInvalid=false") == [edge]
    assert await walker.read("GET /api/eltm/relationships/{}/notes", 1, query="from=2026-01-01&to=2026-12-31") == []
    for route, status in (
        ("GET /api/eltm/entities/99", 404),
        ("GET /api/eltm/entities/x", 400),
        ("GET /api/eltm/entities?limit=0", 400),
        ("GET /api/eltm/entities/99/relationships?includeInvalid=TRUE", 400),
        ("GET /api/eltm/entities/99/notes?from=2026-02-01&to=2026-01-01", 400),
        ("GET /api/eltm/relationships/99", 404),
        ("GET /api/eltm/relationships/99/notes", 404),
    ):
        await walker.ask(route, status=status)
    exported = await walker.ask("GET /api/eltm/export")
    assert exported.headers["content-disposition"] == 'attachment; filename="eltm.json"'
    ada = next(entity for entity in exported.json()["entities"].values() if entity["name"] == "ada")
    assert ada == {**FILE["entities"][ADA], "name": "ada"}

    idle = {"state": "idle", "messagesTotal": 0, "windowsCompacted": 0, "jobsQueued": 0, "error": None}
    assert await walker.read("GET /api/eltm/replay") == idle
    (old,) = [chat for chat in (await walker.read("GET /api/chats"))["chats"] if chat["title"] == "Trip plan"]
    chat = (await walker.ask("GET /api/chats/{}/export", old["id"])).json()
    chat["messages"][0]["parts"].pop()  # no model of the memory can see
    for query in ("compactionRounds=1", "contextRounds=0", "contextRounds=x"):
        await walker.ask("POST /api/eltm/replay", json=chat, query=query, status=400)
    started_walk = await walker.read("POST /api/eltm/replay", json=chat, query="compactionRounds=8&contextRounds=3", status=202)
    assert started_walk == {**idle, "state": "running"}
    finished = {"state": "finished", "messagesTotal": 2, "windowsCompacted": 0, "jobsQueued": 1, "error": None}
    await until_equal(walker, "GET /api/eltm/replay", finished)


async def walk_maintenance(walker: Walker) -> None:
    assert await walker.read("GET /api/maintenance") == {"enabled": False}
    idle = {"state": "idle", "entities": 0, "notes": 0, "error": None}
    assert await walker.read("GET /api/maintenance/reembed") == idle
    await walker.ask("POST /api/maintenance/reembed", status=409)
    await walker.ask("PUT /api/maintenance", json={"enabled": "yes"}, status=400)
    for _ in range(2):
        assert await walker.read("PUT /api/maintenance", json={"enabled": True}) == {"enabled": True}
    for route in (
        "POST /api/chats/%20/messages",
        "DELETE /api/chats/%20",
        "POST /api/eltm/digest",
        "POST /api/eltm/import",
        "POST /api/eltm/replay",
    ):
        await walker.ask(route, content=b"\xff", status=503)
    chats = await walker.read("GET /api/chats")
    await walker.ask("POST /api/chats/{}/fork/{}", chats["chats"][0]["id"], 1, status=201)
    running = await walker.read("POST /api/maintenance/reembed", status=202)
    assert running == {**idle, "state": "running"}
    await until_equal(walker, "GET /api/maintenance/reembed", {"state": "finished", "entities": 2, "notes": 2, "error": None})
    assert await walker.read("PUT /api/maintenance", json={"enabled": False}) == {"enabled": False}


async def walk_hand(walker: Walker) -> None:
    """A run that lives is walked by the answer with a tool; here are the answers to everybody else."""
    for headers in ({}, {"x-daapu-token": "wrong"}):
        await walker.ask("GET /api/hand/tools", headers=headers, status=401)
        await walker.ask("POST /api/hand/tool", headers=headers, content=b"\xff", status=401)
    await walker.ask("GET /api/hand/tools", headers=HAND, status=400)
    await walker.ask("GET /api/hand/tools", headers=HAND, query="runId=gone", status=404)
    given = [tool["function"]["name"] for asked in walker.gateway.requests for tool in asked.body.get("tools", ())]
    assert "fs__read_text_file" in given
    walker.walked.add("GET /api/hand/tools")  # the hand did: where else would it know the tools from
    call = {"runId": "gone", "id": "c1", "name": "fs__list_allowed_directories", "args": {}}
    await walker.ask("POST /api/hand/tool", headers=HAND, content=json.dumps(call), status=415)
    await walker.ask("POST /api/hand/tool", headers=HAND, json={**call, "args": None}, status=400)
    answer = await walker.read("POST /api/hand/tool", headers=HAND, json=call)
    assert list(answer) == ["isError", "fatal"]
    assert (answer["isError"], list(answer["fatal"])) == (False, ["message"])


async def walk_additions(walker: Walker) -> None:
    await walk_chat_additions(walker)
    await walk_memory_additions(walker)
    tools = await walker.read("GET /api/tools")
    assert [(entry["namespace"], entry["state"]) for entry in tools] == [("fs", "ready"), ("bash", "disabled"), ("gsg", "ready")]
    await walker.ask("POST /api/tools/{}/reconnect", "fs", status=409)
    await walker.ask("POST /api/tools/{}/reconnect", "nope", status=404)
    assert isinstance(await walker.read("GET /api/eltm/jobs"), list)
    await walker.ask("GET /api/eltm/jobs", query="state=lost", status=400)
    await walker.ask("POST /api/eltm/jobs/{}/retry", 999, status=404)
    await walker.ask("DELETE /api/eltm/jobs/{}", 999, status=404)


async def walk_chat_additions(walker: Walker) -> None:
    chat = next(chat["id"] for chat in (await walker.read("GET /api/chats"))["chats"] if chat["title"] == "Trip plan")
    assert await walker.read("GET /api/chats/{}/run", chat) == {"state": "idle"}
    stream = {"accept": "text/event-stream"}
    assert (await walker.ask("GET /api/chats/{}/run", chat, headers=stream, status=204)).content == b""
    await walker.ask("POST /api/chats/{}/stop", chat, json={"keepPartial": True}, status=409)
    await walker.ask("POST /api/chats/{}/approvals/{}", chat, "c1", json={"decision": "approve"}, status=404)
    assert await walker.read("GET /api/chats/{}/compactions", chat) == []
    await walker.ask("GET /api/chats/{}/compactions/{}", chat, 1, status=404)
    page = await walker.read("GET /api/chats/{}/messages", chat, query="limit=100")
    assert (page["firstIndex"], page["total"], len(page["messages"])) == (0, 2, 2)
    digest = hashlib.sha256(base64.b64decode(PICTURE)).hexdigest()
    reference = {"type": "ref", "sha256": digest, "url": f"/api/attachments/{digest}", "bytes": 8}
    assert page["messages"][0]["parts"][1]["content"] == reference
    assert (await walker.ask("GET /api/attachments/{}", digest)).content == base64.b64decode(PICTURE)
    found = await walker.read("GET /api/search", query="q=LISBON&limit=1")
    assert found["hits"][0]["snippet"] == "\ue000Lisbon\ue001."
    assert list(found["hits"][0]) == ["chatId", "title", "messageIndex", "role", "createdAt", "snippet"]
    await walker.ask("GET /api/search", query="q=%20", status=400)
    flags = {"pinned": True, "archived": True, "remember": False}
    changed = await walker.read("PUT /api/chats/{}", chat, json=flags)
    assert {key: changed[key] for key in flags} == flags
    listed = [entry["id"] for entry in (await walker.read("GET /api/chats"))["chats"]]
    assert chat not in listed
    await walker.ask("DELETE /api/chats/{}/messages/{}", chat, 0, query="expectedLength=3", status=409)
    assert (await walker.ask("DELETE /api/chats/{}", chat, query="remember=false", status=204)).content == b""


async def walk_memory_additions(walker: Walker) -> None:
    found = await walker.read("GET /api/eltm/search", query="q=Porto")
    assert list(found) == ["notes", "entities", "degraded"]
    assert found["notes"][0]["subject"] == {"type": "entity", "id": 2, "name": "ada", "category": "person"}
    edited = await walker.read("PATCH /api/eltm/notes/{}", 2, json={"note": "Lives in Porto.", "eventDate": "2026-02-02"})
    assert (edited["note"], edited["eventDate"], edited["edited"]) == ("Lives in Porto.", "2026-02-02", True)
    detail = await walker.read("GET /api/eltm/notes/{}", 2)
    assert list(detail) == ["note", "subject", "sources", "history"]
    assert [(step["by"], step["change"]) for step in detail["history"]] == [("import", "created"), ("person", "edited")]
    assert (await walker.read("GET /api/eltm/notes/{}", 1))["sources"][0]["excerpt"]
    renamed = await walker.read("PATCH /api/eltm/entities/{}", 2, json={"name": "Ada Lovelace"})
    assert renamed["entity"] == {"id": 2, "canonicalName": "ada lovelace", "category": "person"}
    put = await walker.read("PUT /api/eltm/entities/{}/attributes/{}", 2, "job", json={"value": "engineer"})
    assert put["attributes"] == {"city": "Porto", "job": "engineer"}
    kept = await walker.read("DELETE /api/eltm/entities/{}/attributes/{}", 2, "job")
    assert kept["attributes"] == {"city": "Porto"}
    ended = await walker.read("PATCH /api/eltm/relationships/{}", 1, json={"valid": False})
    assert ended["relationship"]["valid"] is False
    for kind, number in (("notes", 2), ("relationships", 1), ("entities", 2)):
        assert (await walker.ask(f"DELETE /api/eltm/{kind}/{{}}", number, status=204)).content == b""
        await walker.ask(f"GET /api/eltm/{kind}/{{}}", number, status=404)
        await walker.ask(f"POST /api/eltm/{kind}/{{}}/restore", number)
        await walker.ask(f"GET /api/eltm/{kind}/{{}}", number)
    assert await walker.read("GET /api/eltm/duplicates") == []
    assert (await walker.read("GET /api/eltm/health"))["notes"] == 2
    merged = await walker.read("POST /api/eltm/entities/{}/merge", 1, json={"loserId": 2})
    assert (merged["entity"]["id"], merged["noteCount"]) == (1, 2)
    counts = {"notes": 1, "attributes": 1, "relationships": 0, "entities": 0, "jobs": 0, "sources": 0, "chats": []}
    for query in ("dryRun=true", "dryRun=false"):
        assert await walker.read("POST /api/eltm/erase", json={"text": "porto"}, query=query) == counts
    await walker.ask("POST /api/eltm/erase", json={}, status=400)


async def until_equal(walker: Walker, route: str, expected: Any) -> None:
    """Ask until the answer is what is expected, at most 10 s; nothing tells a client from outside when work has ended."""
    found = None
    async with asyncio.timeout(10):
        while found != expected:
            found = await walker.read(route)
            assert found["state"] in {"running", expected["state"]}, found
            await asyncio.sleep(0.05)
