from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from brain.config.models import BashToolConfig
from brain.tools import bash, bash_process
from brain.tools.bash import BashTool, scrub
from brain.tools.provider import ToolOutcome, ToolSetupError
from shared_protocol.messages import TextPart


async def run(
    command: object, *, environment: dict[str, str] | None = None, workdir: str | None = None, **config: Any
) -> ToolOutcome:
    args = {"command": command} if workdir is None else {"command": command, "workdir": workdir}
    return await BashTool(BashToolConfig(**config), environment).execute("c", "bash__run", Raw(msgspec.json.encode(args)))


def text_of(outcome: ToolOutcome) -> str:
    (part,) = outcome.parts
    assert isinstance(part, TextPart)
    return part.text


async def wait_until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.02)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo out; echo err >&2", "out\nerr"),
        ("printf 'a\\n\\n'", "a\n"),
        ("true", "(no output)"),
        ("printf ' \\n'", "(no output)"),
        ("cat", "(no output)"),
        ("echo x; exit 3", "x\n[exit code: 3]"),
        ("false", "[exit code: 1]"),
        ("kill -TERM $$", "[exit code: 143]"),
        ("printf '\\377a'", "\ufffda"),
        ("nosuchcommand 2>/dev/null", "[exit code: 127]"),
    ],
)
async def test_result_text(command: str, expected: str) -> None:
    outcome = await run(command)
    assert (text_of(outcome), outcome.is_error) == (expected, False)


@pytest.mark.parametrize("command", [None, "", "  ", 3, ["ls"], "echo \0"])
async def test_command_must_be_a_text(command: object) -> None:
    assert (await run(command)).is_error


async def test_output_beyond_the_cap_is_thrown_away_without_blocking_the_command() -> None:
    text = text_of(await run("head -c 3000000 /dev/zero | tr '\\0' x; exit 2", max_capture_bytes=10_000))
    kept, note, code = text.split("\n")
    assert kept == "x" * 10_000
    assert "10000" in note
    assert code == "[exit code: 2]"


async def test_timeout_ends_the_whole_tree_and_shows_what_there_was(tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"
    command = f"echo started; sleep 100 & echo $! >> {pid_file}; (setsid sleep 101 & echo $! >> {pid_file}); wait"
    started = time.monotonic()
    outcome = await run(command, timeout_seconds=1)
    assert outcome.is_error
    assert text_of(outcome).startswith("Error: the command timed out after 1 seconds")
    assert text_of(outcome).endswith("started")
    assert time.monotonic() - started < 5
    pids = [int(line) for line in pid_file.read_text().split()]
    assert len(pids) == 2
    await wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("command", ["kill -STOP $$", "trap '' TERM; while :; do sleep 0.1; done"])
async def test_shell_that_cannot_be_asked_to_end_is_killed(command: str) -> None:
    started = time.monotonic()
    assert (await run(command, timeout_seconds=1)).is_error
    assert 5 < time.monotonic() - started < 10


async def test_timeout_shows_at_most_4000_characters() -> None:
    text = text_of(await run("head -c 9000 /dev/zero | tr '\\0' x; sleep 60", timeout_seconds=1))
    assert text.count("x") == 4000
    assert "[Truncated" in text


async def test_background_child_that_holds_the_pipe_delays_the_answer_by_a_second_at_most(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    outcome = await run(f"sleep 60 & echo $! > {pid_file}; echo x")
    assert text_of(outcome) == "x"
    assert time.monotonic() - started < 3
    os.kill(int(pid_file.read_text()), 9)


async def test_fork_bomb_within_limits_ends_with_the_timeout(tmp_path: Path) -> None:
    command = f"n=0; bomb() {{ n=$((n+1)); [ $n -gt 6 ] && exec sleep 300.{os.getpid()}; bomb & bomb & wait; }}; bomb; touch {tmp_path}/done"
    assert (await run(command, timeout_seconds=2)).is_error
    mark = f"300.{os.getpid()}".encode()

    def survivors() -> list[Path]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark in entry.read_bytes():
                    found.append(entry)
            except OSError:
                continue
        return found

    await wait_until(lambda: not survivors())


async def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    call = asyncio.create_task(run(f"echo $$ > {pid_file}; sleep 100"))
    await wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
    call.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < 1
    assert not is_alive(int(pid_file.read_text()))


def test_the_waits_of_a_command() -> None:
    assert bash_process.TERMINATE_SECONDS == 5
    assert (bash_process.PIPE_SECONDS_AFTER_EXIT, bash_process.PIPE_SECONDS_AFTER_KILL) == (1, 10)
    assert (bash.BUDGET_MARGIN_SECONDS, bash.TIMEOUT_OUTPUT_CHARS) == (30, 4000)


async def test_descendant_that_cannot_be_found_delays_the_answer_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash_process, "PIPE_SECONDS_AFTER_KILL", 0.5)
    pid_file = tmp_path / "pid"
    command = f"env -i setsid /bin/sh -c 'echo $$ > {pid_file}; sleep 30' & sleep 30"
    started = time.monotonic()
    assert (await run(command, timeout_seconds=1)).is_error
    assert time.monotonic() - started < 4
    with suppress(ProcessLookupError):
        os.killpg(int(pid_file.read_text()), 9)


async def test_many_commands_leave_no_descriptor_open() -> None:
    await run("true")
    before = open_descriptors()
    await asyncio.gather(*(run("true") for _ in range(20)))
    await wait_until(lambda: open_descriptors() <= before)


async def test_secrets_do_not_reach_the_environment_of_commands() -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "OPENAI_API_KEY": "sk",
        "DATABASE__PASSWORD": "p",
        "HAND_TOKEN": "t",
    }
    names = {line.partition("=")[0] for line in text_of(await run("env", environment=environment)).splitlines()}
    assert {"PATH", "LANG", "LC_ALL"} <= names
    assert not names & {"OPENAI_API_KEY", "DATABASE__PASSWORD", "HAND_TOKEN"}


def test_scrubbed_environment_always_has_a_path() -> None:
    assert scrub({}) == {"PATH": os.defpath}


async def test_commands_are_logged_by_length_only(capsys: pytest.CaptureFixture[str]) -> None:
    await run("echo s3cret")
    assert "s3cret" not in "".join(capsys.readouterr())


async def test_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert text_of(await run("pwd")) == str(Path.cwd())
    assert text_of(await run("pwd", workdir=str(tmp_path))) == str(tmp_path)
    assert text_of(await run("pwd", workdir="~/sub")) == str(tmp_path / "sub")
    tool = BashTool(BashToolConfig(workdir=str(tmp_path)))
    assert text_of(await tool.execute("c", "bash__run", Raw(b'{"command":"pwd"}'))) == str(tmp_path)


@pytest.mark.parametrize("workdir", ["/nowhere", __file__, "~nobody-at-all/x"])
async def test_working_directory_must_exist(workdir: str) -> None:
    outcome = await run("pwd", workdir=workdir)
    assert outcome.is_error
    assert "workdir" in text_of(outcome)


@pytest.mark.parametrize("config", [{"shell_path": "/nowhere/sh"}, {"shell_path": "/tmp"}, {"workdir": "/nowhere"}])
def test_bad_configuration_aborts_the_start(config: dict[str, str]) -> None:
    with pytest.raises(ToolSetupError, match=r"tool\.bash"):
        BashTool(BashToolConfig(**config))


async def test_budget_is_a_backstop_behind_the_timeout() -> None:
    tool = BashTool(BashToolConfig(timeout_seconds=10))
    assert (tool.budget_seconds("bash__run"), tool.budget_seconds("bash__x")) == (40, 0)
    assert [spec.name for spec in await tool.list_tools()] == ["bash__run"]
    assert (await tool.execute("c", "bash__x", Raw(b"{}"))).is_error
