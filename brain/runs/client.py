"""The brain's client of the hand: streams the events of a run, and embeds texts."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec

from brain.errors import HandRunError, HandUnavailableError
from brain.runs.event_stream import RunEventReader
from brain.runs.pacing import Gathering, Pacing, open_pacing
from shared_protocol.codec import embed_answer_decoder, encode_json, error_body_decoder
from shared_protocol.headers import AUTH_HEADER, REQUEST_ID_HEADER
from shared_protocol.run import DoneEvent, ErrorEvent, RunEvent, RunRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from shared_protocol.embed import EmbedAnswer, EmbedRequest

HEALTH_TIMEOUT_SECONDS: Final = 5.0


class HandClient:
    """Talks to one hand over HTTP. A lost connection is never retried: the hand cannot resume a run."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, token: str, pacing: Pacing | None = None) -> None:
        self._session = session
        self._pacing = pacing or Pacing()
        self._base_url = base_url
        self._headers = {AUTH_HEADER: token}

    async def run(self, request: RunRequest, *, request_id: str = "") -> AsyncGenerator[RunEvent]:
        """Yield the events of a run up to and including the terminal ``done`` or ``error``.

        Close the generator to cancel the run; the hand notices within a second.

        Raises:
            HandRunError: the hand refused the request.
            HandUnavailableError: it could not be reached, or the stream ended without a terminal event.
        """
        async with aclosing(self.run_batches(encode_json(request), request_id=request_id)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def run_batches(self, body: bytes, *, request_id: str = "") -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of an encoded run request, those that arrived together as one list, up to the terminal one.

        Close the generator to cancel the run; the hand notices within a second.

        Raises:
            HandRunError: the hand refused the request.
            HandUnavailableError: it could not be reached, or the stream ended without a terminal event.
        """
        reader = RunEventReader()
        gathering = Gathering(self._pacing)
        async with self._post("/v1/run", body, request_id) as response:
            response.content.on_eof(gathering.end)
            while chunk := await response.content.readany():
                try:
                    batch = reader.feed(chunk)
                except msgspec.DecodeError as problem:
                    raise HandUnavailableError(f"the hand sent an event that cannot be read: {problem}") from problem
                if not batch:
                    continue
                yield batch
                # Nothing follows a terminal event.
                if isinstance(batch[-1], DoneEvent | ErrorEvent):
                    return
                await gathering.pause()
        raise HandUnavailableError("the hand closed the stream before the run had ended")

    async def embed(self, request: EmbedRequest, *, request_id: str = "") -> EmbedAnswer:
        """Return one vector per input.

        Raises:
            HandRunError: the gateway or the hand refused; ``invalid_request`` means that the content is too large.
            HandUnavailableError: the hand could not be reached or answered nonsense.
        """
        async with self._post("/v1/embed", encode_json(request), request_id) as response:
            try:
                return embed_answer_decoder.decode(await response.read())
            except msgspec.DecodeError as problem:
                raise HandUnavailableError(f"the hand's embedding answer cannot be read: {problem}") from problem

    async def is_healthy(self) -> bool:
        """Whether the hand answers its health route."""
        timeout = aiohttp.ClientTimeout(total=HEALTH_TIMEOUT_SECONDS)
        try:
            async with self._session.get(f"{self._base_url}/v1/health", timeout=timeout) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    @asynccontextmanager
    async def _post(self, path: str, body: bytes, request_id: str) -> AsyncGenerator[aiohttp.ClientResponse]:
        headers = {**self._headers, "content-type": "application/json"}
        if request_id:
            headers[REQUEST_ID_HEADER] = request_id
        try:
            async with self._session.post(f"{self._base_url}{path}", data=body, headers=headers) as response:
                if response.status != 200:
                    raise _refusal(response.status, await response.read())
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            reason = str(problem) or type(problem).__name__
            raise HandUnavailableError(f"the hand at {self._base_url} failed: {reason}") from problem


@asynccontextmanager
async def open_hand_client(base_url: str, token: str) -> AsyncGenerator[HandClient]:
    """Open a client with no limit on connections and no total timeout: runs last as long as they last."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False, read_bufsize=2**18) as session,
        open_pacing() as pacing,
    ):
        yield HandClient(session, base_url, token, pacing)


def _refusal(status: int, body: bytes) -> HandRunError | HandUnavailableError:
    try:
        error = error_body_decoder.decode(body).error
    except msgspec.DecodeError:
        return HandUnavailableError(f"the hand answered status {status} without an error body")
    return HandRunError(error.type, error.message)
