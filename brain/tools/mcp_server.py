"""One MCP server as a tool provider (chat-domain 15): a single owner task connects and disconnects, others use the connection.

The library wants a client entered and left in the same task and cancels that task when the transport dies, so the owner does
nothing else. Only the listing reconnects: a failed call drops the connection and tells the model.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias, cast

import anyio
import httpx2
import msgspec
import structlog
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from msgspec import Raw
from pydantic import ValidationError

from brain.config.models import McpServerConfig
from brain.tools.mcp_connect import McpConnector
from brain.tools.mcp_offer import ServerOffer, fetch_tools
from brain.tools.mcp_result import read_result
from brain.tools.provider import ToolOutcome, ToolTransportError, error_outcome
from shared_protocol.tools import ToolSpec

LISTING_SECONDS: Final = 20
"""For one listing; then the connection counts as dead."""
ROUND_SECONDS: Final = 30
"""For which a listing may hold up a round in all, reconnecting included; more if ``initializationTimeoutSeconds`` is longer."""
KNOWN_DOWN_SECONDS: Final = 3
"""The same while the server is known to be down: connecting goes on without the round, and a later one has the benefit."""
CHECK_SECONDS: Final = 5
FRESH_SECONDS: Final = 10
"""Who was heard of so recently is not asked whether it is there."""
CONNECT_SECONDS: Final = 120
"""For one try, unless ``initializationTimeoutSeconds`` says otherwise."""
CLOSE_SECONDS: Final = 8
"""The library gives a child process 6 s to end."""

ServerState: TypeAlias = Literal["ready", "down"]

_TRANSPORT_FAILURES: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, OSError)
# RuntimeError and ValueError (pydantic's included): an answer that breaks the protocol or the tool's own output schema.
_ANSWER_FAILURES: Final = (RuntimeError, ValueError)
_LISTING_FAILURES: Final = (MCPError, TimeoutError, *_TRANSPORT_FAILURES, *_ANSWER_FAILURES)
# Codes are shared with servers' own errors; these are the texts with which the library says that no answer will come.
_LOST_MESSAGES: Final = ("Connection closed", "SSE stream")

# Keys of hosted servers travel in the query.
_ADDRESS_SECRETS: Final = re.compile(r"(https?://[^\s'\"?]+)\?[^\s'\"]*")

logger = structlog.get_logger(__name__)

_args_decoder: Final = msgspec.json.Decoder(dict[str, object])


class _Connection:
    """A connected client, until somebody finds it dead."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.dropped = asyncio.Event()


class McpServer:
    """The tools of one server, between ``start`` and ``stop``."""

    def __init__(self, namespace: str, config: McpServerConfig, connector: McpConnector) -> None:
        self.namespace = namespace
        self.last_error: str | None = None
        self._config = config
        self._connector = connector
        self._owner: asyncio.Task[None] | None = None
        self._stopping = False
        self._live: _Connection | None = None
        self._attempt: asyncio.Future[_Connection] | None = None
        self._attempts: asyncio.Queue[asyncio.Future[_Connection]] = asyncio.Queue()
        self._offer = ServerOffer(namespace)
        self._is_known_down = False
        self._at_work = 0
        self._heard_at = 0.0

    @property
    def namespaces(self) -> Sequence[str]:
        """The one namespace."""
        return (self.namespace,)

    @property
    def state(self) -> ServerState:
        """Whether there is a connection that nobody found dead."""
        return "ready" if self._usable() is not None else "down"

    @property
    def listed(self) -> Sequence[ToolSpec]:
        """The tools of the last listing that worked."""
        return self._offer.specs

    @property
    def tool_budget_seconds(self) -> int:
        """The configured budget of every tool, 0 for none."""
        return self._config.tool_execution_timeout_seconds

    def budget_seconds(self, name: str) -> int:
        """Return the configured budget for an advertised tool, 0 for other names."""
        return self.tool_budget_seconds if self._offer.find_raw_name(name) is not None else 0

    def start(self) -> None:
        """Start the owner task; ``stop`` ends it."""
        self._owner = asyncio.create_task(self._own(), name=f"tool server {self.namespace}")

    async def stop(self) -> None:
        """Disconnect and end the owner task, within bounds."""
        self._stopping = True
        if self._owner is None:
            return
        self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS + 1)
        if not self._owner.done():
            logger.error("tool server does not close", namespace=self.namespace)
        elif not self._owner.cancelled() and (problem := self._owner.exception()) is not None:
            logger.error("tool server ended badly", namespace=self.namespace, exc_info=problem)

    async def _own(self) -> None:
        """Connect whenever somebody asks, hold the connection until it is dropped."""
        try:
            # The library swallows a cancellation that arrives while it ends by itself: hence the flag.
            while not self._stopping:
                await self._serve(await self._attempts.get())
        finally:
            if self._attempt is not None and not self._attempt.done():
                self._attempt.set_exception(ToolTransportError(f"the tool server '{self.namespace}' is being closed"))

    async def connect(self) -> None:
        """Make sure that there is a connection, with the configured number of tries.

        Raises:
            ToolTransportError: none of them worked.
        """
        await self._connected()

    def reconnect(self) -> None:
        """Drop the connection and start to connect anew; ``state`` and ``last_error`` tell how that went."""
        if (live := self._usable()) is not None:
            live.dropped.set()
        self._begin_attempt()

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Ask the server; after a failure reconnect and ask once more. Bounded, see ``ROUND_SECONDS``.

        Raises:
            ToolTransportError: still no answer, or two tools with one advertised name.
        """
        seconds = self._patience_seconds()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._list()
        except TimeoutError as problem:
            if not limit.expired():
                raise
            self._is_known_down = True
            if (live := self._usable()) is not None:
                self._drop(live, "listing the tools took too long")
            self._begin_attempt()
            raise ToolTransportError(
                f"the tool server '{self.namespace}' did not answer within {seconds} seconds, it is reconnected meanwhile: "
                f"{self.last_error or 'connecting takes long'}"
            ) from problem

    async def check(self) -> None:
        """Ask an idle server whether it is still there, so that ``state`` is true. One that is at work is left alone."""
        connection = self._usable()
        if connection is None or self._at_work or time.monotonic() - self._heard_at < FRESH_SECONDS:
            return
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                # Not a ping: the protocol has given that up.
                await connection.client.list_tools(cache_mode="bypass")
        except (MCPError, TimeoutError, *_TRANSPORT_FAILURES) as problem:
            is_alive = isinstance(problem, MCPError) and not _means_lost(problem)
            if not is_alive and not self._at_work:
                self._drop(connection, f"it is gone: {_reason(problem)}")
                return
        except _ANSWER_FAILURES:
            logger.warning("tool server answered out of protocol", namespace=self.namespace)
        self._heard_at = time.monotonic()

    def _patience_seconds(self) -> float:
        if self._is_known_down and self._usable() is None:
            return KNOWN_DOWN_SECONDS
        return max(ROUND_SECONDS, self._config.initialization_timeout_seconds or 0)

    async def _list(self) -> Sequence[ToolSpec]:
        for _ in range(2):
            connection = await self._connected()
            try:
                with self._working():
                    async with asyncio.timeout(LISTING_SECONDS):
                        tools = await fetch_tools(connection.client)
            except _LISTING_FAILURES as problem:
                self._drop(connection, f"listing the tools failed: {_reason(problem)}")
                continue
            try:
                return self._offer.replace(tools)
            except ToolTransportError as problem:
                self.last_error = str(problem)
                raise
        raise ToolTransportError(f"the tool server '{self.namespace}' cannot be used: {self.last_error}")

    @contextmanager
    def _working(self) -> Generator[None]:
        self._at_work += 1
        try:
            yield
            self._heard_at = time.monotonic()
        finally:
            self._at_work -= 1

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run one call; whatever goes wrong is a failure that the model sees."""
        raw_name = self._offer.find_raw_name(name)
        if raw_name is None:
            return error_outcome(f"there is no tool named '{name}'")
        connection = self._usable()
        if connection is None:
            return self._transport_outcome("it is not connected")
        try:
            arguments = _args_decoder.decode(args)
            with self._working():
                result = await connection.client.call_tool(raw_name, arguments)
            return read_result(result)
        except msgspec.DecodeError as problem:
            return error_outcome(f"the arguments are not a JSON object: {problem}")
        except (MCPError, *_TRANSPORT_FAILURES, *_ANSWER_FAILURES) as problem:
            return self._failed_call(connection, call_id, name, problem)

    def _failed_call(self, connection: _Connection, call_id: str, name: str, problem: Exception) -> ToolOutcome:
        is_lost = _means_lost(problem) if isinstance(problem, MCPError) else isinstance(problem, _TRANSPORT_FAILURES)
        if is_lost:
            self._drop(connection, f"the connection was lost during a call: {_reason(problem)}")
            logger.warning("tool server lost", namespace=self.namespace, call_id=call_id, error=_reason(problem))
            return self._transport_outcome(_reason(problem))
        if isinstance(problem, MCPError):
            return error_outcome(problem.message)
        logger.warning("tool server answered out of protocol", namespace=self.namespace, tool=name, error=_reason(problem))
        return error_outcome(f"the tool '{name}' gave an answer that cannot be read: {_reason(problem)}")

    def _usable(self) -> _Connection | None:
        return None if self._live is None or self._live.dropped.is_set() else self._live

    def _drop(self, connection: _Connection, reason: str) -> None:
        self.last_error = reason
        connection.dropped.set()

    def _transport_outcome(self, reason: str) -> ToolOutcome:
        return error_outcome(
            f"transport failure of the tool server '{self.namespace}' ({reason}); it is not known whether the call took effect. "
            "The server is reconnected before the next call."
        )

    def _begin_attempt(self) -> asyncio.Future[_Connection]:
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_future()
            # Whoever asked may be gone; `last_error` has the reason too.
            self._attempt.add_done_callback(lambda attempt: None if attempt.cancelled() else attempt.exception())
            if self._owner is None or self._owner.done():
                self._attempt.set_exception(ToolTransportError(f"the tool server '{self.namespace}' is closed"))
            else:
                self._attempts.put_nowait(self._attempt)
        return self._attempt

    async def _connected(self) -> _Connection:
        # Shielded: the attempt belongs to all who wait for it.
        return self._usable() or await asyncio.shield(self._begin_attempt())

    async def _serve(self, attempt: asyncio.Future[_Connection]) -> None:
        """Try to connect; once connected, hold the connection until it is dropped or dies."""
        tries = self._config.reconnect_attempts
        for number in range(1, tries + 1):
            try:
                await self._hold(attempt)
            except asyncio.CancelledError:
                if self._stopping:
                    raise
                self._note("the connection ended", attempt)  # the library cancelled its host task, nobody cancelled us
            except Exception as problem:  # noqa: BLE001 - the edge of the owner task: the library raises groups of anything
                self._note(_reason(problem), attempt)
            finally:
                self._live = None
            if attempt.done() or self._stopping:
                return
            logger.warning("tool server cannot be reached", namespace=self.namespace, attempt=number, error=self.last_error)
            if number < tries:
                await asyncio.sleep(self._config.reconnect_delay_ms / 1000)
        self._is_known_down = True
        message = f"the tool server '{self.namespace}' cannot be reached after {tries} attempts: {self.last_error}"
        attempt.set_exception(ToolTransportError(message))

    def _note(self, reason: str, attempt: asyncio.Future[_Connection]) -> None:
        # Why a connection was dropped says more than what its end looked like.
        if not attempt.done() or self.last_error is None:
            self.last_error = reason

    async def _hold(self, attempt: asyncio.Future[_Connection]) -> None:
        seconds = self._config.initialization_timeout_seconds or CONNECT_SECONDS
        async with asyncio.timeout(seconds) as deadline, self._connector() as client:
            deadline.reschedule(None)
            connection = self._live = _Connection(client)
            self.last_error = None
            self._is_known_down = False
            self._heard_at = time.monotonic()
            logger.info("tool server connected", namespace=self.namespace)
            attempt.set_result(connection)
            try:
                await connection.dropped.wait()
            finally:
                connection.dropped.set()
                # A server that hangs must not keep its successor waiting.
                deadline.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)


def _means_lost(error: MCPError) -> bool:
    if error.code == CONNECTION_CLOSED:
        return error.message.startswith(_LOST_MESSAGES)
    return error.code == REQUEST_TIMEOUT or error.__cause__ is not None


def _reason(problem: BaseException) -> str:
    """Return the innermost messages of a group, else the message or the kind of an error, without keys in addresses."""
    if isinstance(problem, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", problem).exceptions
        return "; ".join(map(_reason, inner))
    if isinstance(problem, ValidationError):
        return f"{problem.error_count()} violations of the protocol"
    return _ADDRESS_SECRETS.sub(r"\1", str(problem)) or type(problem).__name__
