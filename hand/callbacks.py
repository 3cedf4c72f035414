"""The two calls back to the brain: which tools there are, and running them (sections 6, 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec
from msgspec import UNSET, Raw, UnsetType
from yarl import URL

from hand.assembly import FinishedCall
from hand.errors import RunError
from hand.textio import clean_document, compact
from hand.validation import ToolAddresses
from shared_protocol.codec import encode_json
from shared_protocol.tools import ToolRequest

TOKEN_HEADER = "x-daapu-token"  # noqa: S105  # the name of a header, no secret


class ToolResult(msgspec.Struct, frozen=True):
    """The brain's answer to one call; ``parts`` is a JSON array, as it came."""

    parts: bytes
    is_error: bool


class _Tool(msgspec.Struct):
    name: str
    description: str
    schema: Raw


class _Listing(msgspec.Struct):
    tools: list[_Tool]


class _Answer(msgspec.Struct, rename="camel"):
    parts: Raw | UnsetType = UNSET
    is_error: Raw | UnsetType = UNSET
    fatal: Raw | UnsetType = UNSET


class _Fatal(msgspec.Struct):
    message: str


_listing_decoder = msgspec.json.Decoder(_Listing)
_answer_decoder = msgspec.json.Decoder(_Answer)
_fatal_decoder = msgspec.json.Decoder(_Fatal)


class Callbacks:
    """Tool listing and execution of one run; no deadlines and no repetitions of our own."""

    def __init__(self, session: aiohttp.ClientSession, token: str, addresses: ToolAddresses, run_id: str) -> None:
        self._session = session
        self._headers = {TOKEN_HEADER: token}
        self._addresses = addresses
        self._run_id = run_id

    async def list_tools(self) -> bytes | None:
        """Return the ``tools`` array for the gateway, or ``None`` if there are none.

        Raises:
            RunError: ``tool_transport``, whatever the reason.
        """
        try:
            url = URL(self._addresses.list_url).update_query(runId=self._run_id)
            async with self._session.get(url, headers=self._headers, allow_redirects=False) as response:
                status, body = response.status, await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise RunError("tool_transport", f"tool listing failed: {problem or type(problem).__name__}") from problem
        if status != 200:
            raise RunError("tool_transport", f"tool listing returned HTTP {status}")
        tools = [_as_function(tool) for tool in _read_listing(body)]
        return msgspec.json.encode(tools) if tools else None

    async def execute(self, calls: Sequence[FinishedCall]) -> list[ToolResult]:
        """Run all calls of a round at the same time; results in call order.

        Raises:
            RunError: ``tool_transport``, the first failure in call order, once all calls have settled.
        """
        outcomes = await asyncio.gather(*(self._post(call) for call in calls), return_exceptions=True)
        results: list[ToolResult] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        return results

    async def _post(self, call: FinishedCall) -> ToolResult:
        body = encode_json(ToolRequest(run_id=self._run_id, id=call.id, name=call.name, args=Raw(call.args)))
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            async with self._session.post(
                self._addresses.callback_url, data=body, headers=headers, allow_redirects=False
            ) as response:
                status, answer = response.status, await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise RunError("tool_transport", f"tool callback failed: {problem or type(problem).__name__}") from problem
        if status != 200:
            raise RunError("tool_transport", f"tool callback returned HTTP {status}")
        return _read_answer(answer)


def _read_listing(body: bytes) -> list[_Tool]:
    try:
        tools = _listing_decoder.decode(_strict(body)).tools
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as problem:
        raise RunError("tool_transport", "tool listing returned invalid tools") from problem
    for tool in tools:
        if not tool.name.strip() or not tool.description.strip() or not bytes(tool.schema).startswith(b"{"):
            raise RunError("tool_transport", "tool listing returned invalid tools")
    return tools


def _as_function(tool: _Tool) -> object:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _read_answer(body: bytes) -> ToolResult:
    try:
        answer = _answer_decoder.decode(_strict(body))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as problem:
        raise RunError("tool_transport", "tool callback returned no JSON object") from problem
    if answer.fatal is not UNSET and bytes(answer.fatal) != b"null":
        raise RunError("tool_transport", _fatal_message(bytes(answer.fatal)))
    parts = b"" if answer.parts is UNSET else bytes(answer.parts)
    if not parts.startswith(b"["):
        raise RunError("tool_transport", "tool callback returned no parts")
    return ToolResult(compact(parts), answer.is_error is not UNSET and bytes(answer.is_error) == b"true")


def _fatal_message(fatal: bytes) -> str:
    try:
        return _fatal_decoder.decode(fatal).message
    except msgspec.DecodeError:
        return "the brain ended the run from a tool"


def _strict(body: bytes) -> bytes:
    """Return the body in a form that strict decoders take."""
    if body.isascii() and b"\\ud" not in body and b"\\uD" not in body:
        return body
    return clean_document(body)
