"""Who may talk to the server, and what every answer carries."""

from __future__ import annotations

import pytest

from tests.fakes.hand import TOKEN
from tests.integration.api.conftest import Api, open_api

LIVE = "/api/health/live"


async def test_known_hosts_pass_and_others_are_told_the_setting(database_url: str) -> None:
    async with open_api(database_url, server={"allowedHosts": ["chat.example.org"]}) as api:
        for host in (
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "192.168.1.20",
            "brain.internal",
            "brain.internal:8080",
            "chat.example.org",
            "chat.example.org:443",
            "page.localhost",
        ):
            answer = await api.http.get(LIVE, headers={"host": host})
            assert answer.status_code == 200, host
        for host in (
            "evil.example.org",
            "localhost.evil.org",
            "127.0.0.1.evil.org",
            "notlocalhost",
            "",
            "[::1",
            "a@localhost",
            "localhost:x",
            "999.1.1.1",
            "chat.example.org.evil",
        ):
            for path in (LIVE, "/", "/api/nope", "/api/hand/tools"):
                answer = await api.http.get(path, headers={"host": host})
                assert answer.status_code == 400, (host, path)
                assert "server.allowedHosts" in answer.json()["error"]


async def test_writes_of_other_origins_are_refused(database_url: str) -> None:
    async with open_api(database_url, server={"allowedOrigins": ["https://friend.example.org"]}) as api:
        same: list[dict[str, str]] = [
            {},
            {"origin": "http://localhost"},
            {"origin": "http://localhost:80"},
            {"origin": "http://localhost:8080", "host": "localhost:8080"},
            {"origin": "https://localhost", "host": "localhost"},
            {"origin": "https://friend.example.org"},
            {"origin": "https://Friend.example.org"},
        ]
        for headers in same:
            assert (await api.http.post("/api/chats", headers=headers)).status_code == 201, headers
        other: list[dict[str, str]] = [
            {"origin": "http://evil.org"},
            {"origin": "null"},
            {"origin": "http://localhost:8081", "host": "localhost:8080"},
            {"origin": "http://127.0.0.1", "host": "localhost"},
            {"origin": "https://friend.example.org:444"},
            {"origin": "http://friend.example.org"},
            {"origin": "garbage"},
            {"origin": "http://[broken"},
        ]
        for headers in other:
            answer = await api.http.post("/api/chats", headers=headers)
            assert answer.status_code == 403, headers
            assert "server.allowedOrigins" in answer.json()["error"]
            assert (await api.http.get("/api/chats", headers=headers)).status_code == 200, headers
        # The origin is checked before anything about the request itself.
        assert (await api.http.put("/api/chats/%20", headers={"origin": "null"})).status_code == 403


async def test_a_token_guards_everything_but_health_and_login(database_url: str) -> None:
    async with open_api(database_url, server={"token": "päss wörd"}) as api:
        bearer = {"authorization": "Bearer päss wörd".encode()}
        for path in ("/api/chats", "/api/models", "/metrics", "/api/openapi.json", "/api/nope", "/api", "/api//chats"):
            answer = await api.http.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["error"]
        for path in (LIVE, "/api/health/ready", "/api/login"):
            assert (await api.http.get(path)).status_code == 200, path
        assert (await api.http.put("/api/chats/%20", content=b"")).status_code == 401  # before the path
        for wrong in ("Bearer x", "Basic x", "päss wörd", ""):
            assert (await api.http.get("/api/chats", headers={"authorization": wrong.encode()})).status_code == 401
        assert (await api.http.get("/api/chats", headers=bearer)).status_code == 200
        assert (await api.http.get("/api/login")).json() == {"required": True, "loggedIn": False}
        assert (await api.http.post("/api/login", json={"token": "wrong"})).status_code == 401
        answer = await api.http.post("/api/login", json={"token": "päss wörd"})
        assert (answer.status_code, answer.content) == (204, b"")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "päss" not in cookie
        assert (await api.http.get("/api/chats")).status_code == 200  # the client keeps the cookie
        assert (await api.http.get("/api/login")).json() == {"required": True, "loggedIn": True}
        await api.http.post("/api/logout")
        assert (await api.http.get("/api/chats")).status_code == 401


async def test_without_a_token_a_login_is_not_needed(api: Api) -> None:
    assert (await api.http.get("/api/login")).json() == {"required": False, "loggedIn": True}
    assert (await api.http.post("/api/login", json={"token": "x"})).status_code == 204


async def test_every_answer_has_an_id_and_its_policy(api: Api) -> None:
    given = await api.http.get(LIVE, headers={"x-request-id": "abc-123"})
    assert given.headers["x-request-id"] == "abc-123"
    strange = await api.http.get(LIVE, headers={"x-request-id": "a b\tc"})
    assert strange.headers["x-request-id"] != "a b\tc"
    for path, status in (("/api/chats", 200), ("/api/nope", 404), ("/nope", 404), ("/api/chats/%20/chat", 400)):
        answer = await api.http.get(path)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src")
        assert len(answer.headers["x-request-id"]) == 16
    assert (await api.http.get("/api/chats")).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nope", 404),
        ("GET", "/api", 404),
        ("PATCH", "/api/chats", 405),
        ("PUT", "/api/chats/import", 405),
        ("POST", "/nope", 404),
        ("GET", "/api/personas/export/x", 404),
    ],
)
async def test_unknown_paths_and_methods_have_the_error_body(api: Api, method: str, path: str, status: int) -> None:
    answer = await api.http.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


async def test_readiness_tells_what_is_missing(api: Api) -> None:
    good = await api.http.get("/api/health/ready")
    assert good.json() == {"ok": True, "checks": {"database": True, "migrations": True, "hand": True, "embedding": None}}
    assert (await api.http.get("/metrics")).text.startswith("# HELP daapu_")
    await api.services.pool.close()
    bad = await api.http.get("/api/health/ready")
    assert bad.status_code == 503
    assert bad.json()["checks"]["database"] is False
    assert (await api.http.get("/api/chats")).status_code == 503
    assert TOKEN not in bad.text


async def test_models_come_in_the_order_of_the_configuration(api: Api) -> None:
    body = (await api.http.get("/api/models")).json()
    assert [model["id"] for model in body] == ["gw/acme/large-1", "gw/small"]
    assert body[0] == {
        "id": "gw/acme/large-1",
        "vision": True,
        "contextLength": 131072,
        "maxOutputTokens": 8192,
        "capabilities": ["image", "tool_calls"],
        "embedding": False,
        "demo": False,
        "measured": None,
    }
