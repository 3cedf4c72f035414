"""Requests about a turn that another replica runs go to that replica (spec README decision 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import aiohttp
import msgspec
import structlog
from litestar import Request, Response
from litestar.datastructures import State

from brain.api.events import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from brain.turns.queries import LiveTurnRow
    from brain.turns.service import TurnService

logger = structlog.get_logger(__name__)

FORWARDED_HEADER: Final = "x-daapu-forwarded"
"""Marks a forwarded request: it is answered where it arrives, so that two replicas cannot send it back and forth."""
_PASSED_HEADERS: Final = ("authorization", "cookie", "accept", "last-event-id", "x-request-id")
_TIMEOUT_SECONDS: Final = 10.0


class TurnForwarder:
    """Finds the owner of a turn and asks it. An owner that cannot be reached is gone, and its turn with it."""

    def __init__(self, session: aiohttp.ClientSession, turns: TurnService) -> None:
        self._session = session
        self._turns = turns

    async def find_owner(self, request: Request[object, object, State], chat_id: str) -> LiveTurnRow | None:
        """Return the other replica that runs a chat's turn, if there is one and the request comes from a client."""
        if FORWARDED_HEADER in request.headers:
            return None
        return await self._turns.find_elsewhere(chat_id)

    async def forward_run(
        self,
        request: Request[object, object, State],
        owner: LiveTurnRow,
        chat_id: str,
        *,
        wants_events: bool,
    ) -> Response[object] | None:
        """Return the owner's answer to ``GET run``, or ``None`` if it cannot be reached."""
        # The stream lasts as long as the turn: only connecting is bounded.
        timeout = aiohttp.ClientTimeout(total=None if wants_events else _TIMEOUT_SECONDS, sock_connect=_TIMEOUT_SECONDS)
        try:
            response = await self._session.get(_address(owner, f"{chat_id}/run"), headers=_headers(request), timeout=timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return _unreachable(owner, problem)
        if not wants_events or response.status != 200:
            return await _answer(response)
        return EventStream(_pass_on(response))

    async def forward_post(
        self,
        request: Request[object, object, State],
        owner: LiveTurnRow,
        path: str,
        body: msgspec.Struct,
    ) -> Response[object] | None:
        """Return the owner's answer to a ``POST`` below ``/api/chats/``, or ``None`` if it cannot be reached."""
        headers = {**_headers(request), "content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            response = await self._session.post(
                _address(owner, path), data=msgspec.json.encode(body), headers=headers, timeout=timeout
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return _unreachable(owner, problem)
        return await _answer(response)


def _address(owner: LiveTurnRow, path: str) -> str:
    return f"{owner.address}/api/chats/{quote(path)}"


def _headers(request: Request[object, object, State]) -> dict[str, str]:
    passed = {name: value for name in _PASSED_HEADERS if (value := request.headers.get(name)) is not None}
    return {**passed, FORWARDED_HEADER: "1"}


def _unreachable(owner: LiveTurnRow, problem: BaseException) -> None:
    logger.warning("the replica that owns a turn cannot be reached", address=owner.address, reason=str(problem))


async def _answer(response: aiohttp.ClientResponse) -> Response[object]:
    async with response:
        body = await response.read()
    if not body:
        return Response(None, status_code=response.status)
    return Response(msgspec.Raw(body), status_code=response.status, media_type=response.content_type)


async def _pass_on(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    async with response:
        while chunk := await response.content.readany():
            yield chunk
