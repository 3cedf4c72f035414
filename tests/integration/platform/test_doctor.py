"""The doctor against a real database, a small model server, and what is missing."""

from __future__ import annotations

from typing import Any

import psycopg
from aiohttp import web

from brain.config.load import check
from brain.config.models import Config
from brain.doctor import Finding, examine
from brain.local.profile import complete
from tests.fakes.model_server import model_server


def config(database_url: str, models: str, hand: str = "http://127.0.0.1:1") -> Config:
    data: dict[str, Any] = complete({}, token="t", hand_port=1, models_port=1)
    provider = data["providers"]["local"]
    provider["baseUrl"] = models
    provider["llm"][0] |= {"modelId": "m", "contextLength": 8000, "capabilities": ["image"]}
    provider["embedding"][0] |= {"modelId": "e", "dimensions": 3}
    text_roles = {"compactModel": "local/m"}
    data["memory"] |= text_roles
    data["memory"]["eltm"] |= {
        "extractionModel": "local/m",
        "writerModel": "local/m",
        "rewriteModel": "local/m",
        "embeddingModel": "local/e",
    }
    data["agent"]["investigator"]["model"] = data["title"]["model"] = "local/m"
    data["hand"]["baseUrl"] = hand
    data["database"]["url"] = database_url
    return check(data, {}, source="test")


async def findings(settings: Config, url: str, *, is_running: bool = True, local: str | None = None) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    async for finding in examine(settings, url, is_running=is_running, local_provider=local):
        found.setdefault(finding.what, []).append(finding)
    return found


async def test_a_healthy_system_is_described_and_its_measurements_are_kept(database_url: str) -> None:
    async def health(request: web.Request) -> web.Response:
        return web.json_response({"ok": request.headers["x-daapu-token"] == "t"})

    app = web.Application()
    app.router.add_get("/v1/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hand = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with model_server() as server:
            found = await findings(config(database_url, server.address, hand), database_url)
    finally:
        await runner.cleanup()
    assert {name: entries[0].state for name, entries in found.items()} == {
        "configuration": "ok",
        "database": "ok",
        "pgvector": "ok",
        "schema": "ok",
        "hand": "ok",
        "local/m": "ok",
        "local/e": "ok",
        "memory.eltm.writerModel": "note",
        "agent.investigator.model": "note",
    }
    assert found["configuration"][0].detail == "1 provider"
    assert [entry.detail for entry in found["local/m"]] == [
        "window 4096, tools yes, JSON yes, images yes",
        "contextLength is 8000, the server was started with 4096: lower it or start it with more",
        "tool calls work: add 'tool_calls' to capabilities",
        "JSON by schema work: add 'structured_output' to capabilities",
    ]
    with psycopg.connect(database_url) as conn:
        rows = conn.execute("SELECT model_id FROM model_measurements ORDER BY model_id").fetchall()
    assert rows == [("local/e",), ("local/m",)]


async def test_everything_that_is_missing_is_reported_with_what_to_do(empty_database_url: str) -> None:
    found = await findings(config(empty_database_url, "http://127.0.0.1:1/v1"), empty_database_url)
    assert found["schema"][0].state == "note"
    assert "daapu migrate" in found["schema"][0].detail
    assert found["hand"][0].state == "fail"
    assert [found[model][0].state for model in ("local/m", "local/e")] == ["fail", "fail"]
    assert "baseUrl" in found["local/m"][0].detail


async def test_a_dead_database_does_not_hide_the_rest(database_url: str) -> None:
    async with model_server() as server:
        found = await findings(config(database_url, server.address), "postgresql://nobody@127.0.0.1:1/none")
    assert found["database"][0].state == "fail"
    assert "database.url" in found["database"][0].detail
    assert found["local/m"][0].state == "ok"


async def test_what_up_would_start_is_not_missed(database_url: str) -> None:
    found = await findings(config(database_url, "http://127.0.0.1:1/v1"), database_url, is_running=False, local="local")
    assert found["hand"][0].state == "note"
    assert found["bundled models"][0].state == "note"
    assert "local/m" not in found
