from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec import Raw

from brain.config.models import McpHttpServerConfig, McpServerConfig, McpStdioServerConfig, ProxyConfig
from brain.tools import mcp_connect, mcp_offer, mcp_server
from brain.tools.budget import execute_within_budget
from brain.tools.mcp_connect import connector_for
from brain.tools.mcp_server import McpServer
from brain.tools.provider import ToolOutcome, ToolTransportError
from shared_protocol.messages import AttachmentPart, TextPart
from tests.fakes import mcp_server as fake_module
from tests.fakes.mcp_server import PIXEL, RICH_SCHEMA, FakeToolServer, RunningServer, running_server

PROGRAM = str(Path(fake_module.__file__))


@asynccontextmanager
async def connected(config: McpServerConfig, proxy: ProxyConfig | None = None) -> AsyncGenerator[McpServer]:
    server = McpServer("srv", config, connector_for("srv", config, proxy))
    server.start()
    try:
        await server.connect()
        yield server
    finally:
        await server.stop()


def http_config(url: str, **changes: Any) -> McpHttpServerConfig:
    values: dict[str, Any] = {"tool_execution_timeout_seconds": 5, "reconnect_attempts": 2, "reconnect_delay_ms": 10, **changes}
    return McpHttpServerConfig(url=url, **values)


def stdio_config(**changes: Any) -> McpStdioServerConfig:
    values: dict[str, Any] = {"tool_execution_timeout_seconds": 5, "reconnect_attempts": 1, "reconnect_delay_ms": 10, **changes}
    return McpStdioServerConfig(command=[sys.executable, PROGRAM, "stdio"], **values)


def rude_config(kind: str) -> McpStdioServerConfig:
    command = [sys.executable, PROGRAM, "rude", kind]
    return McpStdioServerConfig(command=command, tool_execution_timeout_seconds=5, reconnect_attempts=1)


async def call(server: McpServer, tool: str, **args: Any) -> ToolOutcome:
    return await server.execute("c", f"srv__{tool}", Raw(msgspec.json.encode(args)))


def text_of(outcome: ToolOutcome) -> str:
    return "\n".join(part.text for part in outcome.parts if isinstance(part, TextPart))


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def fake() -> FakeToolServer:
    return FakeToolServer()


@pytest_asyncio.fixture
async def listening(fake: FakeToolServer) -> AsyncGenerator[RunningServer]:
    async with running_server(fake) as server:
        yield server


@pytest_asyncio.fixture
async def server(listening: RunningServer) -> AsyncGenerator[McpServer]:
    async with connected(http_config(listening.url)) as opened:
        await opened.list_tools()
        yield opened


@contextmanager
def free_port() -> Generator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    yield port


class Program:
    """The fake server as a child process over HTTP."""

    def __init__(self, port: int, mode: str = "stateless") -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._arguments = [sys.executable, PROGRAM, "http", str(port), mode]
        self._port = port
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self._arguments, **streams)  # noqa: ASYNC220 - it must be killable without the loop
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest_asyncio.fixture(params=["stateless", "stateful"])
async def program(request: pytest.FixtureRequest) -> AsyncGenerator[Program]:
    with free_port() as port:
        started = Program(port, request.param)
        await started.start()
        yield started
        started.kill()


# listing


async def test_tools_are_advertised_with_the_schema_of_the_server(server: McpServer) -> None:
    specs = await server.list_tools()
    assert [spec.name for spec in specs][:3] == ["srv__echo", "srv__image", "srv__hang"]
    assert msgspec.json.decode(specs[0].schema) == RICH_SCHEMA
    assert specs[0].description == "Does echo"


async def test_pages_of_a_listing_are_followed(server: McpServer, fake: FakeToolServer) -> None:
    fake.page_size = 3
    assert len(await server.list_tools()) == len(fake.tools)


async def test_separators_inside_names_are_collapsed_and_calls_use_the_raw_name(server: McpServer, fake: FakeToolServer) -> None:
    fake.tools = ["deep____name__x", "_y"]
    assert [spec.name for spec in await server.list_tools()] == ["srv__deep_name_x", "srv___y"]
    assert text_of(await call(server, "deep_name_x", text="hi")) == "deep____name__x: hi"
    assert (await call(server, "deep____name__x")).is_error


async def test_two_tools_with_one_advertised_name_fail_the_listing(server: McpServer, fake: FakeToolServer) -> None:
    fake.tools = ["a__b", "a_b"]
    with pytest.raises(ToolTransportError, match="srv__a_b"):
        await server.list_tools()


async def test_list_may_change_between_rounds_and_known_tools_keep_their_place(server: McpServer, fake: FakeToolServer) -> None:
    fake.tools = ["b", "a", "c"]
    await server.list_tools()
    fake.tools = ["d", "c", "b"]
    assert [spec.name for spec in await server.list_tools()] == ["srv__b", "srv__c", "srv__d"]
    assert (await call(server, "a")).is_error
    assert not (await call(server, "d")).is_error


async def test_failed_listing_reconnects_and_lists_once_more(server: McpServer, fake: FakeToolServer) -> None:
    fake.list_failures = 1
    assert len(await server.list_tools()) == len(fake.tools)
    fake.list_failures = 2
    with pytest.raises(ToolTransportError, match="no list today"):
        await server.list_tools()
    assert len(await server.list_tools()) == len(fake.tools)


async def test_listing_that_hangs_is_given_up(server: McpServer, fake: FakeToolServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "LISTING_SECONDS", 0.2)
    fake.list_delay.clear()
    with pytest.raises(ToolTransportError):
        await server.list_tools()
    fake.list_delay.set()
    assert len(await server.list_tools()) == len(fake.tools)


async def test_simultaneous_listings_share_one_reconnect(server: McpServer, fake: FakeToolServer) -> None:
    server.reconnect()
    results = await asyncio.gather(*(server.list_tools() for _ in range(5)))
    assert {len(specs) for specs in results} == {len(fake.tools)}


# calls


async def test_text_and_image_are_passed_on(server: McpServer) -> None:
    assert text_of(await call(server, "echo", text="hi")) == "echo: hi"
    text, image = (await call(server, "image")).parts
    assert text == TextPart("a picture")
    assert isinstance(image, AttachmentPart)
    assert (image.kind, image.mime_type, image.content.base64) == ("image", "image/png", PIXEL)


async def test_failure_told_by_the_tool_is_passed_through(server: McpServer) -> None:
    outcome = await call(server, "fail")
    assert (outcome.is_error, text_of(outcome)) == (True, "it broke")


async def test_protocol_error_keeps_the_connection(server: McpServer) -> None:
    outcome = await call(server, "refuse")
    assert (outcome.is_error, text_of(outcome)) == (True, "Error: the server refuses this")
    assert server.state == "ready"
    assert not (await call(server, "echo")).is_error


async def test_content_that_cannot_be_shown_keeps_the_connection(server: McpServer) -> None:
    outcome = await call(server, "link")
    assert outcome.is_error
    assert "file:///doc" in text_of(outcome)
    assert server.state == "ready"


async def test_empty_result_becomes_a_placeholder(server: McpServer) -> None:
    outcome = await call(server, "nothing")
    assert not outcome.is_error
    assert text_of(outcome)


async def test_flood_of_text_arrives_whole(server: McpServer) -> None:
    assert len(text_of(await call(server, "flood"))) == 3_000_000


async def test_unknown_tool_is_not_sent(server: McpServer, fake: FakeToolServer) -> None:
    fake.calls.clear()
    assert (await call(server, "nope")).is_error
    assert (await server.execute("c", "srv__echo", Raw(b"[1]"))).is_error
    assert fake.calls == []


async def test_call_over_its_budget_is_cancelled_at_the_server_and_the_connection_kept(
    listening: RunningServer, fake: FakeToolServer
) -> None:
    async with connected(http_config(listening.url, tool_execution_timeout_seconds=1)) as server:
        await server.list_tools()
        assert server.budget_seconds("srv__hang") == 1
        assert server.budget_seconds("srv__nope") == 0
        outcome = await execute_within_budget(server, "c", "srv__hang", Raw(b"{}"))
        assert outcome.is_error
        assert "timed out after 1 seconds" in text_of(outcome)
        async with asyncio.timeout(5):
            await fake.cancelled.wait()
        assert server.state == "ready"
        assert not (await call(server, "echo")).is_error


async def test_calls_run_at_the_same_time(server: McpServer, fake: FakeToolServer) -> None:
    hanging = asyncio.create_task(call(server, "hang"))
    async with asyncio.timeout(5):
        await fake.hanging.wait()
        assert not (await call(server, "echo")).is_error
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging


async def test_configured_headers_are_sent(listening: RunningServer, fake: FakeToolServer) -> None:
    async with connected(http_config(listening.url, headers={"X-Key": "abc"})) as server:
        await server.list_tools()
        await call(server, "echo")
    assert fake.headers[-1]["x-key"] == "abc"


# connections that break


async def test_server_that_dies_in_a_call(program: Program) -> None:
    async with connected(http_config(program.url, reconnect_attempts=1)) as server:
        await server.list_tools()
        outcome = await call(server, "die")
        assert outcome.is_error
        assert "transport failure" in text_of(outcome)
        assert server.state == "down"
        assert server.last_error is not None
        again = await call(server, "echo")
        assert again.is_error
        assert "transport failure" in text_of(again)
        program.kill()
        with pytest.raises(ToolTransportError, match="srv"):
            await server.list_tools()
        await program.start()
        assert await server.list_tools()
        assert server.state == "ready"
        assert not (await call(server, "echo")).is_error


async def test_server_that_restarts_while_idle_is_found_by_the_next_listing(program: Program) -> None:
    async with connected(http_config(program.url)) as server:
        await server.list_tools()
        program.kill()
        await program.start()
        assert await server.list_tools()
        assert not (await call(server, "echo")).is_error


async def test_server_that_died_while_idle_is_down_once_somebody_looks(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "FRESH_SECONDS", 0)
    async with connected(http_config(program.url)) as server:
        await server.list_tools()
        await server.check()
        assert server.state == "ready"
        program.kill()
        await server.check()
        assert server.state == "down"
        assert server.last_error is not None
        assert server.last_error.startswith("it is gone: ")
        await server.check()
        await program.start()
        assert await server.list_tools()
        assert (server.state, server.last_error) == ("ready", None)


async def test_server_that_was_heard_of_a_moment_ago_is_not_asked(server: McpServer, fake: FakeToolServer) -> None:
    assert mcp_server.FRESH_SECONDS == 10
    asked = fake.lists
    await server.check()
    await call(server, "echo")
    await server.check()
    assert fake.lists == asked


async def test_idle_server_that_hangs_is_down_but_not_one_that_is_at_work(
    server: McpServer, fake: FakeToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "FRESH_SECONDS", 0)
    monkeypatch.setattr(mcp_server, "CHECK_SECONDS", 0.2)
    fake.list_delay.clear()
    working = asyncio.create_task(call(server, "hang"))
    await fake.hanging.wait()
    await server.check()
    assert server.state == "ready"
    working.cancel()
    await asyncio.wait({working})
    await server.check()
    assert server.state == "down"


async def test_call_that_begins_during_the_check_keeps_its_connection(
    server: McpServer, fake: FakeToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "FRESH_SECONDS", 0)
    monkeypatch.setattr(mcp_server, "CHECK_SECONDS", 0.3)
    fake.list_delay.clear()
    check = asyncio.create_task(server.check())
    working = asyncio.create_task(call(server, "hang"))
    await fake.hanging.wait()
    await check
    assert server.state == "ready"
    working.cancel()
    await asyncio.wait({working})


@asynccontextmanager
async def swallowing(port: int) -> AsyncGenerator[None]:
    """A listener that takes connections and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    listener = await asyncio.start_server(swallow, "127.0.0.1", port)
    try:
        yield
    finally:
        listener.close()
        for writer in writers:
            writer.close()


async def test_server_that_hangs_holds_up_one_round_and_comes_back_without_one(
    listening: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("LISTING_SECONDS", 0.2), ("ROUND_SECONDS", 1.5), ("KNOWN_DOWN_SECONDS", 0.1)):
        monkeypatch.setattr(mcp_server, name, seconds)
    config = http_config(listening.url, initialization_timeout_seconds=1, reconnect_attempts=20, reconnect_delay_ms=200)
    async with connected(config) as server:
        await server.list_tools()
        await listening.stop()
        async with swallowing(listening.port):
            for longest in (3, 0.5, 0.5):
                begin = time.monotonic()
                with pytest.raises(ToolTransportError, match="reconnected meanwhile"):
                    await server.list_tools()
                assert time.monotonic() - begin < longest
                assert server.state == "down"
        await listening.start()
        async with asyncio.timeout(5):
            while server.state == "down":
                await asyncio.sleep(0.02)
        assert await server.list_tools()


async def test_a_long_initialization_timeout_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "ROUND_SECONDS", 0.1)
    monkeypatch.setattr(mcp_server, "KNOWN_DOWN_SECONDS", 0.2)
    with free_port() as port:
        async with swallowing(port):
            config = http_config(f"http://127.0.0.1:{port}/mcp", initialization_timeout_seconds=1, reconnect_attempts=9)
            server = McpServer("srv", config, connector_for("srv", config, None))
            server.start()
            for shortest, longest in ((0.9, 2), (0.1, 0.6)):
                begin = time.monotonic()
                with pytest.raises(ToolTransportError):
                    await server.list_tools()
                assert shortest < time.monotonic() - begin < longest
            await server.stop()


def test_the_limits_of_a_listing() -> None:
    assert (mcp_server.LISTING_SECONDS, mcp_server.ROUND_SECONDS, mcp_server.KNOWN_DOWN_SECONDS) == (20, 30, 3)
    assert mcp_server.CONNECT_SECONDS == 120
    assert mcp_offer.MAX_PAGES == 100
    assert (mcp_connect.READ_SECONDS, mcp_connect.MESSAGE_LIMIT_BYTES) == (300, 64 * 2**20)


async def test_stopping_beside_a_dead_server_is_quick(program: Program) -> None:
    async with connected(http_config(program.url)) as server:
        await server.list_tools()
        program.kill()
        await call(server, "echo")
        started = time.monotonic()
    assert time.monotonic() - started < 3


async def test_reconnect_replaces_the_connection_and_tells_what_went_wrong(program: Program) -> None:
    async with connected(http_config(program.url)) as server:
        await server.list_tools()
        program.kill()
        server.reconnect()
        with pytest.raises(ToolTransportError):
            await server.connect()
        assert server.state == "down"
        assert server.last_error
        assert server.listed
        await program.start()
        server.reconnect()
        await server.connect()
        assert server.state == "ready"
        assert server.last_error is None


async def test_unreachable_server_is_tried_as_often_as_configured() -> None:
    with free_port() as port:
        server = McpServer(
            "srv",
            http_config(f"http://127.0.0.1:{port}/mcp", reconnect_attempts=3),
            connector_for("srv", http_config(f"http://127.0.0.1:{port}/mcp"), None),
        )
        server.start()
        with pytest.raises(ToolTransportError, match="after 3 attempts"):
            await server.connect()
        await server.stop()
        with pytest.raises(ToolTransportError):
            await server.connect()


async def test_server_that_accepts_and_never_answers_is_given_up() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    listener = await asyncio.start_server(swallow, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    config = http_config(url, initialization_timeout_seconds=1, reconnect_attempts=1)
    server = McpServer("srv", config, connector_for("srv", config, None))
    server.start()
    with pytest.raises(ToolTransportError):
        await server.connect()
    await server.stop()
    for writer in writers:
        writer.close()
    listener.close()


# a child process


async def test_child_process_serves_and_ends_with_us() -> None:
    async with connected(stdio_config()) as server:
        assert len(await server.list_tools()) == len(FakeToolServer().tools)
        assert text_of(await call(server, "echo", text="hi")) == "echo: hi"
        pid = int(text_of(await call(server, "pid")))
        assert exists(pid)
    assert not exists(pid)


async def test_child_process_that_dies_is_started_again_by_the_listing() -> None:
    async with connected(stdio_config()) as server:
        await server.list_tools()
        outcome = await call(server, "die")
        assert outcome.is_error
        assert "transport failure" in text_of(outcome)
        await server.list_tools()
        assert not (await call(server, "echo")).is_error


async def test_child_process_that_died_while_idle_is_down_once_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "FRESH_SECONDS", 0)
    async with connected(stdio_config()) as server:
        await server.list_tools()
        os.kill(int(text_of(await call(server, "pid"))), signal.SIGKILL)
        await server.check()
        assert server.state == "down"
        assert server.last_error
        assert await server.list_tools()


async def test_child_process_sees_configured_variables_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAND__TOKEN", "secret")
    async with connected(stdio_config(environment={"SEARCH_KEY": "k"})) as server:
        await server.list_tools()
        lines = text_of(await call(server, "environment")).splitlines()
    assert "SEARCH_KEY=k" in lines
    assert any(line.startswith("PATH=") for line in lines)
    assert not any("secret" in line for line in lines)


async def test_program_that_does_not_exist_is_a_transport_failure() -> None:
    config = McpStdioServerConfig(command=["/nowhere/server"], tool_execution_timeout_seconds=0, reconnect_attempts=1)
    server = McpServer("srv", config, connector_for("srv", config, None))
    server.start()
    with pytest.raises(ToolTransportError, match="No such file"):
        await server.connect()
    await server.stop()


async def test_stopped_child_process_does_not_hold_up_the_end() -> None:
    async with connected(stdio_config()) as server:
        await server.list_tools()
        pid = int(text_of(await call(server, "pid")))
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
    assert time.monotonic() - started < 9
    assert not exists(pid)


async def test_lines_that_are_no_messages_are_passed_over() -> None:
    async with connected(rude_config("garbage")) as server:
        await server.list_tools()
        assert text_of(await call(server, "do")) == "done"


async def test_line_over_the_limit_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connect, "MESSAGE_LIMIT_BYTES", 1_000_000)
    async with connected(rude_config("endless")) as server:
        await server.list_tools()
        outcome = await call(server, "do")
        assert outcome.is_error
        assert "transport failure" in text_of(outcome)
        assert await server.list_tools()


# the proxy


async def test_all_requests_go_through_the_proxy_and_environment_proxies_are_ignored(
    listening: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            return
        finally:
            sink.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", listening.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        tasks.update(asyncio.create_task(coro) for coro in (pipe(reader, upstream), pipe(upstream_reader, writer)))

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port: int = proxy.sockets[0].getsockname()[1]
    async with connected(http_config(listening.url), ProxyConfig(host="127.0.0.1", port=port)) as server:
        await server.list_tools()
        assert not (await call(server, "echo")).is_error
    assert set(seen) == {f"CONNECT 127.0.0.1:{listening.port} HTTP/1.1"}
    seen.clear()
    async with connected(http_config(listening.url)) as server:
        assert await server.list_tools()
    assert seen == []
    await asyncio.wait(tasks, timeout=5)
    proxy.close()


async def test_proxy_that_refuses_is_named(listening: RunningServer) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port: int = proxy.sockets[0].getsockname()[1]
    with pytest.raises(ToolTransportError, match="403 Forbidden"):
        async with connected(http_config(listening.url), ProxyConfig(host="127.0.0.1", port=port)):
            pass
    proxy.close()
