"""The only module that speaks through the openai SDK: how a request is addressed, authorised and refused.

The bytes of a stream do not pass through the SDK: its transport is ours (``hand.wire``), and a stream is read from the socket
straight into a sink.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, cast

from hand.classify import judge_http_failure
from hand.errors import RunError, TransientError
from hand.textio import without_secrets

if TYPE_CHECKING:
    import httpx2
    import openai

    from hand.pool import ConnectionPool
    from hand.sockets import Connection


_MOST_CLIENTS = 32


class GatewayStream:
    """An answer whose head has come."""

    def __init__(self, connection: Connection, content_encoding: str) -> None:
        self.connection = connection
        self.content_encoding = content_encoding


class StatusFailure(Exception):  # noqa: N818  # not an error yet: embeddings and runs judge it differently
    """The gateway answered with something else than 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body


class Gateway:
    """Requests to any number of gateways over one pool of sockets."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None
        self._pool: ConnectionPool | None = None
        self._ready: asyncio.Task[None] | None = None
        self._clients: dict[tuple[str, str], openai.AsyncOpenAI] = {}

    @property
    def open_sockets(self) -> int:
        """Sockets to gateways, idle ones included."""
        return 0 if self._pool is None else self._pool.open_sockets

    @property
    def idle_sockets(self) -> int:
        """Sockets that wait for the next request."""
        return 0 if self._pool is None else self._pool.idle_sockets

    def warm_up(self) -> None:
        """Begin to load the SDK, which takes longer than everything else at start; the first request waits for it."""
        if self._ready is None:
            self._ready = asyncio.create_task(self._load())

    async def ready(self) -> None:
        """Wait until requests can be made."""
        self.warm_up()
        assert self._ready is not None
        if not self._ready.done():
            await asyncio.shield(self._ready)
        self._ready.result()

    async def open_chat(self, base_url: str, api_key: str, body: bytes) -> GatewayStream:
        """Post a chat completion and return as soon as the head of a 2xx answer is there.

        Raises:
            RunError: the gateway refuses the request for good.
            TransientError: it fails, or cannot be reached.
        """
        try:
            response = await self._post(base_url, api_key, "/chat/completions", body, stream=True)
        except StatusFailure as failure:
            raise judge_http_failure(failure.status, failure.body) from failure
        import httpx2

        from hand.wire import EXTENSION

        connection: Connection = response.extensions[EXTENSION]
        # Response and stream hold each other, and with them the request: up to 50 MB until the collector comes by.
        response.stream = httpx2.ByteStream(b"")
        return GatewayStream(connection, response.headers.get("content-encoding", ""))

    async def post_embeddings(self, base_url: str, api_key: str, body: bytes) -> bytes:
        """Post an embedding request and return the whole body of a 2xx answer.

        Raises:
            StatusFailure: another status.
            TransientError: no answer.
            RunError: the address or the key can never work.
        """
        response = await self._post(base_url, api_key, "/embeddings", body, stream=False)
        if response.status_code != 200:
            raise StatusFailure(response.status_code, without_secrets(response.text, api_key))
        return response.content

    async def close(self) -> None:
        """Close all sockets."""
        if self._ready is not None:
            _ = self._ready.cancel()
            _ = await asyncio.gather(self._ready, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()

    async def _post(self, base_url: str, api_key: str, path: str, body: bytes, *, stream: bool) -> httpx2.Response:
        import httpx2
        import openai

        try:
            client = await self._client(base_url, api_key)
            # With the raw response as the wanted type the SDK hands it over unread when asked to stream.
            return cast(
                "httpx2.Response",
                await client.post(
                    path,
                    cast_to=httpx2.Response,
                    content=body,
                    options={"headers": {"Content-Type": "application/json"}},
                    stream=stream,
                    stream_cls=openai.AsyncStream[object],
                ),
            )
        except openai.APIStatusError as problem:
            # Before anything is cut: half a key at the cut would be found by nobody.
            raise StatusFailure(problem.status_code, without_secrets(problem.response.text, api_key)) from problem
        except openai.APIConnectionError as problem:
            raise TransientError("connection", f"connection to the gateway failed: {_reason(problem)}") from problem
        except httpx2.HTTPError as problem:
            raise TransientError("connection", f"the gateway's answer cannot be read: {problem}") from problem
        except (httpx2.InvalidURL, ValueError) as problem:
            # Such as a key with characters that no header can hold. Its text may quote the key.
            raise RunError("upstream", f"the gateway's address or key cannot be used: {type(problem).__name__}") from problem

    async def _client(self, base_url: str, api_key: str) -> openai.AsyncOpenAI:
        await self.ready()
        import openai

        place = (base_url, api_key)
        client = self._clients.pop(place, None) or openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            http_client=self._http,
            max_retries=0,
            timeout=None,
        )
        # The one used last stays longest.
        self._clients[place] = client
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return client

    async def _load(self) -> None:
        _forget_environment()
        await asyncio.to_thread(_import_sdk)
        # What has been loaded stays: the collector need not walk through it again and again.
        gc.freeze()
        import httpx2

        from hand.pool import ConnectionPool
        from hand.wire import WireTransport

        self._pool = ConnectionPool()
        self._http = httpx2.AsyncClient(
            transport=WireTransport(self._pool),
            trust_env=False,
            timeout=None,  # idle timer
            follow_redirects=True,
            # A gateway's cookie must not travel from one run, and one key, to the next.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )


@asynccontextmanager
async def open_gateway() -> AsyncGenerator[Gateway]:
    """Yield the gateway client and close its sockets afterwards."""
    gateway = Gateway()
    try:
        yield gateway
    finally:
        await gateway.close()


def _import_sdk() -> None:
    _ = importlib.import_module("openai")


def _forget_environment() -> None:
    """Everything a call needs comes with the request: organisation, project, extra headers of the environment must not."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        del os.environ[name]


def _reason(problem: BaseException) -> str:
    cause = problem.__cause__
    return str(cause) if cause is not None and str(cause) else str(problem)
