"""The persona routes: rules, order of checks, transfer."""

from __future__ import annotations

from typing import Any

from tests.integration.api.conftest import Api

JSON_TYPE = {"content-type": "application/json"}
CODER = {"name": "Coder", "systemPrompt": "You write code.", "allowedNamespaces": ["fs", "my-server"]}


async def create(api: Api, **changes: Any) -> dict[str, Any]:
    answer = await api.http.post("/api/personas", json={**CODER, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_the_default_persona_comes_first_and_rows_start_at_1(api: Api) -> None:
    await create(api)
    second = await create(api, name="Other", allowedNamespaces=[])
    body = (await api.http.get("/api/personas")).json()
    assert [persona["id"] for persona in body] == [0, 1, 2]
    assert body[0]["name"] == "Default (GSG)"
    assert body[0]["allowedNamespaces"] == []
    assert body[0]["systemPrompt"].strip() == body[0]["systemPrompt"] != ""
    assert body[2] == second
    assert body[1]["remember"] is True
    assert body[1]["staleNamespaces"] == []


async def test_a_whitelist_that_became_stale_is_shown_and_refuses_sends(api: Api) -> None:
    made = await create(api, allowedNamespaces=["fs"])
    await api.run_sql("UPDATE personas SET allowed_namespaces = %s", '["fs","gone"]')
    body = (await api.http.get("/api/personas")).json()
    assert body[1]["staleNamespaces"] == ["gone"]
    chat_id = await api.create_chat()
    send = {"text": "x", "model": "gw/small", "personaId": made["id"]}
    answer = await api.http.post(f"/api/chats/{chat_id}/messages", json=send)
    assert answer.status_code == 400
    assert "'gone'" in answer.json()["error"]
    async with api.services.locks.hold(chat_id):
        assert (await api.http.post(f"/api/chats/{chat_id}/messages", json=send)).status_code == 400, "checked before the lock"


async def test_texts_are_trimmed_and_namespaces_optional(api: Api) -> None:
    made = await create(api, name="  A ", systemPrompt="\n  inner\n   indent \n", allowedNamespaces=[" fs "], remember=False)
    assert (made["name"], made["systemPrompt"], made["allowedNamespaces"]) == ("A", "inner\n   indent", ["fs"])
    assert made["remember"] is False
    answer = await api.http.post("/api/personas", json={"name": "B", "systemPrompt": "p"})
    assert answer.json()["allowedNamespaces"] == []


BROKEN: list[dict[str, Any]] = [
    {"name": " "},
    {"name": None},
    {"name": 5},
    {"systemPrompt": "\n"},
    {"systemPrompt": None},
    {"name": "a\x00"},
    {"systemPrompt": "a\x00"},
    {"allowedNamespaces": None},
    {"allowedNamespaces": "fs"},
    {"allowedNamespaces": [""]},
    {"allowedNamespaces": ["FS"]},
    {"allowedNamespaces": ["_fs"]},
    {"allowedNamespaces": ["my__server"]},
    {"allowedNamespaces": ["fs", " fs"]},
    {"allowedNamespaces": ["eltm"]},
    {"allowedNamespaces": ["unserved"]},
    {"allowedNamespaces": [1]},
]


async def test_what_breaks_a_rule_is_400(api: Api) -> None:
    made = await create(api)
    for changes in BROKEN:
        for method, path in (("POST", "/api/personas"), ("PUT", f"/api/personas/{made['id']}")):
            answer = await api.http.request(method, path, json={**CODER, **changes})
            assert answer.status_code == 400, changes
            assert list(answer.json()) == ["error"]
    assert (await api.http.get("/api/personas")).json()[1:] == [made]


async def test_checks_of_a_replacement_come_in_order(api: Api) -> None:
    made = await create(api)
    for persona_id in ("x", "1.5", "%20", "9223372036854775808"):
        answer = await api.http.put(f"/api/personas/{persona_id}", content=b"{", headers={"content-type": "text/plain"})
        assert answer.status_code == 400, persona_id
    assert (await api.http.put("/api/personas/0", content=b"{")).status_code == 415
    assert (await api.http.put("/api/personas/99", content=b"{", headers=JSON_TYPE)).status_code == 400
    default = await api.http.put("/api/personas/0", json={**CODER, "name": " "})
    assert default.status_code == 400
    assert "default persona" in default.json()["error"]
    assert (await api.http.put("/api/personas/99", json={**CODER, "name": " "})).status_code == 400
    assert (await api.http.put("/api/personas/99", json=CODER)).status_code == 404
    assert (await api.http.put("/api/personas/-1", json=CODER)).status_code == 404
    answer = await api.http.put(f"/api/personas/{made['id']}", json={"name": "New", "systemPrompt": "p"})
    assert answer.status_code == 200
    assert answer.json()["allowedNamespaces"] == []


async def test_a_persona_is_deleted_once_and_the_default_one_never(api: Api) -> None:
    made = await create(api)
    assert (await api.http.delete("/api/personas/0")).status_code == 400
    assert (await api.http.delete("/api/personas/x")).status_code == 400
    answer = await api.http.delete(f"/api/personas/{made['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await api.http.delete(f"/api/personas/{made['id']}")).status_code == 404
    assert (await create(api))["id"] == made["id"] + 1


async def test_an_export_comes_back_as_nothing_new(api: Api) -> None:
    await create(api)
    await create(api, name="Other", allowedNamespaces=[])
    export = await api.http.get("/api/personas/export")
    assert export.headers["content-disposition"] == 'attachment; filename="personas.json"'
    assert export.json() == [CODER, {**CODER, "name": "Other", "allowedNamespaces": []}]
    again = await api.http.post("/api/personas/import", content=export.content, headers=JSON_TYPE)
    assert again.status_code == 200
    assert again.json() == {"created": [], "skipped": ["Coder", "Other"]}


async def test_an_import_compares_names_prompts_and_sets_of_namespaces(api: Api) -> None:
    await create(api)
    file = [
        {**CODER, "name": " Coder ", "allowedNamespaces": ["my-server", "fs"]},
        {**CODER, "systemPrompt": "Another."},
        {**CODER, "allowedNamespaces": []},
        {**CODER, "systemPrompt": "Another. "},
    ]
    answer = await api.http.post("/api/personas/import", json=file)
    assert answer.json() == {"created": ["Coder", "Coder"], "skipped": ["Coder", "Coder"]}
    assert len((await api.http.get("/api/personas")).json()) == 4


async def test_the_first_invalid_entry_ends_an_import_and_earlier_ones_stay(api: Api) -> None:
    file = [CODER, {**CODER, "name": "B", "allowedNamespaces": ["unserved"]}, {**CODER, "name": "C"}]
    answer = await api.http.post("/api/personas/import", json=file)
    assert answer.status_code == 400
    assert "entry 2" in answer.json()["error"]
    assert [persona["name"] for persona in (await api.http.get("/api/personas")).json()] == ["Default (GSG)", "Coder"]
    retry = await api.http.post("/api/personas/import", json=[CODER, {**CODER, "name": "C"}])
    assert retry.json() == {"created": ["C"], "skipped": ["Coder"]}


async def test_an_import_needs_all_three_keys(api: Api) -> None:
    for missing in CODER:
        entry = {key: value for key, value in CODER.items() if key != missing}
        assert (await api.http.post("/api/personas/import", json=[entry])).status_code == 400
    for body in (b"{}", b"[1]", b"", b"null"):
        assert (await api.http.post("/api/personas/import", content=body, headers=JSON_TYPE)).status_code == 400
    assert (await api.http.post("/api/personas/import", content=b"[]")).status_code == 415
    assert (await api.http.post("/api/personas/import", json=[])).json() == {"created": [], "skipped": []}
