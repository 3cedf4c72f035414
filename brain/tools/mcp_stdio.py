"""A tool server as a child process: messages as lines over its input and output, each of bounded length.

The library's own transport joins a line piece by piece without a limit, so that one endless line would stop the whole brain.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

FLUSH_SECONDS: Final = 0.5
END_SECONDS: Final = 2
"""After its input is closed, and again after SIGTERM."""
POLL_SECONDS: Final = 0.01
NOISE_LINES: Final = 100
"""Lines that are no messages, between two turns of the loop."""

Incoming: TypeAlias = SessionMessage | Exception

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def stdio_streams(
    command: Sequence[str], environment: Mapping[str, str], *, errors: int, limit_bytes: int
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server in a process group of its own and yield the streams of its messages; end the group afterwards.

    ``errors`` is the descriptor of its error output. A line over ``limit_bytes`` ends the connection.

    Raises:
        OSError: the process cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        env=dict(environment),
        start_new_session=True,
        limit=limit_bytes,
    )
    incoming, read_stream = anyio.create_memory_object_stream[Incoming](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    written = asyncio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read_lines, process, incoming)
        group.start_soon(_write_lines, process, outgoing, incoming, written)
        try:
            yield read_stream, write_stream
        finally:
            with anyio.CancelScope(shield=True):
                read_stream.close()
                write_stream.close()
                with suppress(TimeoutError):
                    await asyncio.wait_for(written.wait(), FLUSH_SECONDS)
                await _end(process)
            group.cancel_scope.cancel()


async def _read_lines(process: asyncio.subprocess.Process, incoming: MemoryObjectSendStream[Incoming]) -> None:
    stdout = process.stdout
    assert stdout is not None
    noise = 0
    async with incoming:
        # The other end may be gone: then there is nobody to read for.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            while line := await _next_line(stdout):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    noise += 1
                    if noise % NOISE_LINES == 1:
                        logger.warning("tool server writes lines that are no messages", lines=noise)
                        await asyncio.sleep(0)
                    continue
                await incoming.send(SessionMessage(message))


async def _next_line(stdout: asyncio.StreamReader) -> bytes:
    try:
        return await stdout.readline()
    except ValueError:
        logger.warning("tool server wrote a line over the limit")
        return b""


async def _write_lines(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[Incoming],
    written: asyncio.Event,
) -> None:
    stdin = process.stdin
    assert stdin is not None
    try:
        async with outgoing:
            async for message in outgoing:
                stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
    except OSError:
        # Whoever waits for an answer has to learn that none will come.
        await incoming.aclose()
    finally:
        written.set()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _has_ended(process):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    if not await _has_ended(process):
        logger.error("tool server does not end", pid=process.pid)
    # Descendants that outlived it; then the pipes, which they may still hold.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process._transport.close()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType] - nothing public closes the pipes


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait()`, which also waits for whoever holds the output open.
    for _ in range(int(END_SECONDS / POLL_SECONDS)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(POLL_SECONDS)
    return process.returncode is not None
