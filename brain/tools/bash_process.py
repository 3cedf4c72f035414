"""One shell command as a process group: bounded capture, time limit, and an end that leaves nothing behind.

Children normally share the group. One that moved to a session of its own is found by a variable in its environment that all
descendants inherit (Linux; elsewhere only the group is reached).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

MARKER_VARIABLE: Final = "DAAPU_TOOL_CALL"

TERMINATE_SECONDS: Final = 5
"""Between SIGTERM and SIGKILL (chat-domain 17)."""
PIPE_SECONDS_AFTER_EXIT: Final = 1
PIPE_SECONDS_AFTER_KILL: Final = 10
REAP_SECONDS: Final = 5
KILL_SWEEPS: Final = 5
"""A process that forks while it is being looked for is caught by the next sweep."""


class CommandResult(msgspec.Struct, frozen=True):
    """What a command left. ``exit_code`` follows the shell's convention: 128 + n for signal n; ``None`` after a timeout."""

    output: bytes
    is_cut: bool
    exit_code: int | None


async def run_command(
    argv: list[str], *, directory: str | None, environment: Mapping[str, str], timeout_seconds: float, max_bytes: int
) -> CommandResult:
    """Run a command without input; stdout and stderr are one stream, of which the first ``max_bytes`` are kept.

    Cancelling kills everything at once.

    Raises:
        OSError: it cannot be started.
        ValueError: it contains a NUL character.
    """
    marker = uuid4().hex
    capture = _Capture(max_bytes)
    async with _started(argv, directory, {**environment, MARKER_VARIABLE: marker}, capture) as process:
        try:
            async with asyncio.timeout(timeout_seconds):
                await process.wait()
        except TimeoutError:
            await _terminate(process, marker)
            await capture.wait_closed(PIPE_SECONDS_AFTER_KILL)
            return CommandResult(bytes(capture.content), capture.is_cut, None)
        except BaseException:
            await _kill(process, marker)
            raise
        await capture.wait_closed(PIPE_SECONDS_AFTER_EXIT)
        code = await process.wait()
        return CommandResult(bytes(capture.content), capture.is_cut, code if code >= 0 else 128 - code)


class _Capture(asyncio.Protocol):
    """Keeps the first bytes of a pipe and throws the rest away, so that the writer never blocks."""

    def __init__(self, max_bytes: int) -> None:
        self.content = bytearray()
        self.is_cut = False
        self._max_bytes = max_bytes
        self._closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        left = self._max_bytes - len(self.content)
        self.content += data[:left]
        self.is_cut = self.is_cut or len(data) > left

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the interface; however it ends, it has ended
        self._closed.set()

    async def wait_closed(self, seconds: float) -> None:
        """Wait for the end of the pipe, which a background child may hold open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()


@asynccontextmanager
async def _started(
    argv: list[str], directory: str | None, environment: dict[str, str], capture: _Capture
) -> AsyncGenerator[asyncio.subprocess.Process]:
    # A pipe of our own: with asyncio's, waiting for the process would also wait for whoever else holds its output open.
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb", buffering=0)
    # Shielded: a start that is cancelled half-way can leave a process that nobody knows.
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
        # From here the transport owns the file; closing it here too would hit whoever got the number next.
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: capture, source)
    except BaseException:
        source.close()
        with suppress(OSError, ValueError):  # it did not start
            await _kill(await starting, environment[MARKER_VARIABLE])
        raise
    finally:
        os.close(writing)
    try:
        yield process
    finally:
        transport.close()


async def _terminate(process: asyncio.subprocess.Process, marker: str) -> None:
    """Ask everything to end, give the shell a moment, then kill."""
    try:
        _signal_all(process.pid, marker, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_SECONDS):
                await process.wait()
    finally:
        await _kill(process, marker)


async def _kill(process: asyncio.subprocess.Process, marker: str) -> None:
    for _ in range(KILL_SWEEPS):
        if not _signal_all(process.pid, marker, signal.SIGKILL):
            break
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await process.wait()


def _signal_all(group: int, marker: str, number: signal.Signals) -> bool:
    """Signal the group and whatever left it; return whether there was anything outside the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    escaped = list(_marked_outside(group, marker))
    for pid in escaped:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(escaped)


def _marked_outside(group: int, marker: str) -> Iterator[int]:
    wanted = f"{MARKER_VARIABLE}={marker}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        # Gone meanwhile, or of another user: not ours to signal.
        with suppress(OSError):
            pid = int(entry.parent.name)
            if wanted in entry.read_bytes() and os.getpgid(pid) != group:
                yield pid
