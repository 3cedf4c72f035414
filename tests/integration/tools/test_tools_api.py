from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio
from litestar import Litestar
from litestar.di import Provide

from brain.api.errors import exception_handlers
from brain.api.guards import RequestGuard
from brain.api.tools import ToolController
from brain.config.models import LimitsConfig
from brain.tools.assembly import open_tool_sets
from brain.tools.overview import ToolOverview
from tests.fakes.mcp_server import RICH_SCHEMA, FakeToolServer, running_server
from tests.integration.tools.test_assembly import make_config


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    async with running_server(FakeToolServer()) as server:
        mine = {"type": "http", "url": server.url, "toolExecutionTimeoutSeconds": 9}
        config = make_config(mcp={"customs": {"mine": mine}}, tool={"fs": {"enabled": True, "allowedDirs": [str(tmp_path)]}})
        async with open_tool_sets(config) as sets:
            overview = ToolOverview(sets, None)
            app = Litestar(
                [ToolController],
                dependencies={"tool_overview": Provide(lambda: overview, sync_to_thread=False)},
                guards=[RequestGuard(LimitsConfig(), None)],
                exception_handlers=exception_handlers(),
                logging_config=None,
            )
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
                yield client


async def test_tools_are_listed_with_their_state(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/tools")
    assert answer.status_code == 200
    entries: list[dict[str, Any]] = answer.json()
    assert [entry["namespace"] for entry in entries] == ["mine", "fs", "bash", "gsg"]
    mine = entries[0]
    assert mine["tools"][0] == {"name": "mine__echo", "description": "Does echo", "schema": RICH_SCHEMA}
    assert {key: mine[key] for key in mine if key != "tools"} == {
        "namespace": "mine",
        "kind": "mcp",
        "state": "ready",
        "lastError": None,
        "budgetSeconds": 9,
        "approval": "never",
    }
    assert entries[2] == {
        "namespace": "bash",
        "kind": "bash",
        "state": "disabled",
        "lastError": None,
        "tools": [],
        "budgetSeconds": 0,
        "approval": "ask",
    }


async def test_reconnect_is_accepted_for_tool_servers_only(http: httpx2.AsyncClient) -> None:
    assert (await http.post("/api/tools/mine/reconnect")).status_code == 202
    for path, status in (("nope", 404), ("fs", 409), ("%20", 400)):
        answer = await http.post(f"/api/tools/{path}/reconnect")
        assert answer.status_code == status
        assert answer.json()["error"]
    assert (await http.get("/api/tools/fs/reconnect")).status_code == 405
