from __future__ import annotations

from typing import Any

from tests.integration.api.conftest import Api


async def test_tools_are_listed_with_their_state(api: Api) -> None:
    answer = await api.http.get("/api/tools")
    assert answer.status_code == 200
    entries: dict[str, Any] = {entry["namespace"]: entry for entry in answer.json()}
    assert set(entries["fs"]) == {"namespace", "kind", "state", "lastError", "tools", "budgetSeconds", "approval"}
    assert entries["bash"]["state"] == "disabled"
    assert entries["bash"]["lastError"] is None
    for entry in entries.values():
        for tool in entry["tools"]:
            assert set(tool) == {"name", "description", "schema"}
            assert tool["schema"]["type"] == "object"


async def test_reconnect_is_for_tool_servers(api: Api) -> None:
    assert (await api.http.post("/api/tools/nope/reconnect")).status_code == 404
    assert (await api.http.post("/api/tools/fs/reconnect")).status_code == 409
    assert (await api.http.post("/api/tools/%20/reconnect")).status_code == 400
    assert (await api.http.get("/api/tools/fs/reconnect")).status_code == 405
