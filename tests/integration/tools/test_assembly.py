from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from brain.config.models import Config
from brain.errors import ConflictError, InvalidInputError, NotFoundError
from brain.tools import mcp_server
from brain.tools.assembly import open_tool_sets
from brain.tools.overview import ToolOverview
from brain.tools.provider import ToolSetupError
from tests.fakes import mcp_server as fake_module
from tests.fakes.mcp_server import FakeToolServer, running_server
from tests.fakes.tools import FakeTools

ARGS = Raw(b"{}")
STDIO = {"type": "stdio", "command": [sys.executable, str(Path(fake_module.__file__)), "stdio"], "toolExecutionTimeoutSeconds": 5}
DEAD = {"type": "http", "url": "http://127.0.0.1:9/mcp", "toolExecutionTimeoutSeconds": 5, "reconnectAttempts": 1}


def make_config(**sections: Any) -> Config:
    model = {
        "modelId": "m",
        "contextLength": 1000,
        "maxOutputTokens": 100,
        "compactionTriggerFraction": 0.8,
        "compactionKeepRounds": 2,
    }
    eltm = {
        "extractionModel": "p/m",
        "embeddingModel": "p/e",
        "writerModel": "p/m",
        "rewriteModel": "p/m",
        "rewriteRounds": 1,
        "relatedEntitiesLimit": 0,
        "relatedNotesLimit": 0,
    }
    values: dict[str, Any] = {
        "database": {"url": "postgresql://x"},
        "providers": {"p": {"apiKey": "k", "baseUrl": "http://x/v1", "llm": [{**model, "capabilities": []}]}},
        "memory": {"compactModel": "p/m", "eltm": eltm},
        "agent": {"investigator": {"model": "p/m", "allowedNamespaces": ["eltm"]}},
        "title": {"model": "p/m"},
        "hand": {"baseUrl": "http://x", "selfBaseUrl": "http://y", "token": "t"},
        **sections,
    }
    return msgspec.convert(values, Config)


def with_tools(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {"fs": {"enabled": True, "allowedDirs": [str(tmp_path)]}, "bash": {"enabled": True}, **changes}


async def test_chat_set_serves_servers_built_in_tools_and_sub_agent_in_this_order(tmp_path: Path) -> None:
    config = make_config(mcp={"customs": {"mine": STDIO}}, tool=with_tools(tmp_path))
    async with open_tool_sets(config) as sets:
        chats = sets.for_chats(FakeTools("gsg", investigate=FakeTools("x").answers["run"]))
        assert list(chats.namespaces) == ["mine", "fs", "bash", "gsg"]
        names = [spec.name for spec in await chats.select([]).list_tools()]
        assert names[0] == "mine__echo"
        assert names[-2:] == ["bash__run", "gsg__investigate"]
        assert chats.stale(["fs", "gone"]) == ["gone"]


async def test_persona_list_narrows_and_is_checked(tmp_path: Path) -> None:
    async with open_tool_sets(make_config(tool=with_tools(tmp_path))) as sets:
        gsg = FakeTools("gsg")
        chats = sets.for_chats(gsg)
        tools = chats.select(["bash"])
        assert [spec.name for spec in await tools.list_tools()] == ["bash__run"]
        assert (await tools.execute("c", "gsg__run", ARGS)).is_error
        assert (gsg.lists, gsg.calls) == (0, [])
        with pytest.raises(InvalidInputError, match="'gone'"):
            chats.select(["bash", "gone"])


async def test_without_a_sub_agent_its_namespace_can_still_be_named() -> None:
    async with open_tool_sets(make_config()) as sets:
        chats = sets.for_chats(None)
        assert chats.stale(["gsg"]) == []
        tools = chats.select(["gsg"])
        assert list(await tools.list_tools()) == []
        assert (await tools.execute("c", "gsg__investigate", ARGS)).is_error


async def test_persona_without_a_broken_server_is_not_held_up_by_it() -> None:
    async with open_tool_sets(make_config()) as sets:
        broken = FakeTools("gsg")
        broken.is_down = True
        chats = type(sets.for_chats(None))([FakeTools("fs"), broken], 100)
        assert [spec.name for spec in await chats.select(["fs"]).list_tools()] == ["fs__run"]


async def test_results_of_both_sets_are_capped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 5000)
    agent = {
        "investigator": {"model": "p/m", "allowedNamespaces": ["fs"], "toolResultLimit": 200},
        "main": {"toolResultLimit": 300},
    }
    async with open_tool_sets(make_config(tool=with_tools(tmp_path), agent=agent)) as sets:
        for tools, limit in ((sets.for_chats(None).select([]), 300), (sets.for_investigator(FakeTools("eltm")), 200)):
            (part,) = (await tools.execute("c", "fs__read_text_file", Raw(b'{"path":"a.txt"}'))).parts
            assert len(part.text) == limit  # type: ignore[union-attr] - text by construction


async def test_investigator_set_has_no_sub_agent_and_must_be_served(tmp_path: Path) -> None:
    agent = {"investigator": {"model": "p/m", "allowedNamespaces": ["eltm", "fs"]}}
    async with open_tool_sets(make_config(tool=with_tools(tmp_path), agent=agent)) as sets:
        tools = sets.for_investigator(FakeTools("eltm"))
        assert list(tools.namespaces) == ["fs", "eltm"]
        assert (await tools.execute("c", "gsg__investigate", ARGS)).is_error
    async with open_tool_sets(make_config(agent=agent)) as sets:
        with pytest.raises(ToolSetupError, match="allowedNamespaces"):
            sets.for_investigator(FakeTools("eltm"))


async def test_investigator_without_a_broken_tool_is_not_held_up_by_it(tmp_path: Path) -> None:
    config = make_config(mcp={"customs": {"mine": STDIO}}, tool=with_tools(tmp_path))
    async with open_tool_sets(config) as sets:
        (server,) = sets.servers
        tools = sets.for_investigator(FakeTools("eltm"))
        await server.stop()
        assert [spec.name for spec in await tools.list_tools()] == ["eltm__run"]


@pytest.mark.parametrize(("unattended", "expected"), [("allow", ["bash", "eltm"]), ("deny", ["eltm"])])
async def test_investigator_is_offered_what_asks_only_where_it_may_run_unattended(
    tmp_path: Path, unattended: str, expected: list[str]
) -> None:
    agent = {"investigator": {"model": "p/m", "allowedNamespaces": ["eltm", "bash"]}}
    config = make_config(tool=with_tools(tmp_path), agent=agent, approvals={"unattended": unattended})
    async with open_tool_sets(config) as sets:
        assert list(sets.for_investigator(FakeTools("eltm")).namespaces) == expected
        assert sets.approval_policy.ask == {"bash"}
        assert sets.approval_policy.unattended == unattended


async def test_all_unreachable_servers_are_named_and_the_others_closed() -> None:
    async with running_server(FakeToolServer()) as server:
        good = {"type": "http", "url": server.url, "toolExecutionTimeoutSeconds": 5}
        config = make_config(mcp={"exa": DEAD, "customs": {"good": good, "bad": DEAD}})
        with pytest.raises(ToolSetupError, match=r"'exa'.*'bad'"):
            async with open_tool_sets(config):
                pass


@pytest.mark.parametrize("namespace", ["gsg", "exa", "Upper", "a__b", "fs", "bash"])
async def test_unusable_server_namespace_aborts_the_start(tmp_path: Path, namespace: str) -> None:
    config = make_config(mcp={"customs": {namespace: DEAD}}, tool=with_tools(tmp_path))
    with pytest.raises(ToolSetupError, match="cannot be used"):
        async with open_tool_sets(config):
            pass


@pytest.mark.parametrize(
    "tool",
    [
        {"fs": {"enabled": True, "allowedDirs": []}},
        {"fs": {"enabled": True, "allowedDirs": ["/"], "blacklists": ["["]}},
        {"bash": {"enabled": True, "workdir": "/nowhere"}},
    ],
)
async def test_mistakes_of_built_in_tools_abort_the_start_only_when_enabled(tool: dict[str, Any]) -> None:
    with pytest.raises(ToolSetupError):
        async with open_tool_sets(make_config(tool=tool)):
            pass
    ((name, section),) = tool.items()
    async with open_tool_sets(make_config(tool={name: {**section, "enabled": False}})) as sets:
        assert list(sets.for_chats(None).namespaces) == ["gsg"]


async def test_overview_shows_everything_and_reconnects_servers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_server(FakeToolServer()) as server:
        mine = {"type": "http", "url": server.url, "toolExecutionTimeoutSeconds": 5, "approval": "ask", "reconnectAttempts": 1}
        tool = with_tools(tmp_path, bash={"enabled": False})
        async with open_tool_sets(make_config(mcp={"customs": {"mine": mine}}, tool=tool)) as sets:
            overview = ToolOverview(sets, None)
            statuses = {status.namespace: status for status in await overview.statuses()}
            assert {namespace: (s.kind, s.state, s.approval, s.budget_seconds) for namespace, s in statuses.items()} == {
                "mine": ("mcp", "ready", "ask", 5),
                "fs": ("fs", "ready", "never", 0),
                "bash": ("bash", "disabled", "ask", 0),
                "gsg": ("gsg", "disabled", "never", 0),
            }
            assert statuses["gsg"].last_error is not None
            assert "agent.investigator.model" in statuses["gsg"].last_error
            assert len(statuses["fs"].tools) == 9
            assert statuses["mine"].tools[0].name == "mine__echo"
            await server.stop()
            monkeypatch.setattr(mcp_server, "FRESH_SECONDS", 0)
            assert (await overview.statuses())[0].state == "down"
            overview.reconnect("mine")
            assert (await overview.statuses())[0].state == "down"
            with pytest.raises(ConflictError):
                overview.reconnect("fs")
            with pytest.raises(NotFoundError):
                overview.reconnect("nope")
