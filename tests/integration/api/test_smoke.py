from __future__ import annotations

from tests.integration.api.conftest import Api


async def test_smoke(api: Api) -> None:
    chat = await api.create_chat()
    r = await api.http.get("/api/chats")
    assert r.json()["chats"][0]["id"] == chat
    for p in (
        "/api/models",
        "/api/personas",
        "/api/health/live",
        "/api/health/ready",
        "/metrics",
        "/api/openapi.json",
        f"/api/chats/{chat}/chat",
        "/nope",
        "/api/nope",
    ):
        r = await api.http.get(p)
        print(p, r.status_code, r.text[:300])
    r = await api.http.put(f"/api/chats/{chat}", json={"title": "x"})
    print(r.status_code, r.text, r.headers)
