"""The HTTP surface of the hand (section 1) and the answers of refused requests, nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aiohttp
import structlog
from aiohttp import web

from hand import __version__, metrics
from hand.auth import is_authorised
from hand.embedding import embed
from hand.errors import HandError, RefusedError, RunError, TransientError, invalid_request
from hand.events import EventStream
from hand.runs import Run, RunServices
from hand.settings import Settings
from hand.textio import without_secrets
from hand.validation import read_embed_order, read_run_order
from shared_protocol.codec import encode_json
from shared_protocol.errors import STATUS_BY_TYPE, ErrorBody, ErrorInfo

BODY_CAP_BYTES = 50 * 1024 * 1024
REQUEST_ID_HEADER = "x-request-id"
_LONGEST_REQUEST_ID = 128
_LAST_EVENT_SECONDS = 2.0
_JSON = "application/json"
_HEALTH = b'{"ok":true,"version":"%b"}' % __version__.encode()


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Routes:
    """Handlers, and the runs that are in flight."""

    def __init__(self, settings: Settings, services: RunServices) -> None:
        self._settings = settings
        self._services = services
        self._runs: set[Run] = set()
        self._embeds = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_draining = False
        self._table: dict[tuple[str, str], Handler] = {
            ("GET", "/v1/health"): self._health,
            ("GET", "/metrics"): self._metrics,
            ("POST", "/v1/run"): self._run,
            ("POST", "/v1/embed"): self._embed,
        }
        self._open_routes = {("GET", "/v1/health")}
        if settings.metrics_public:
            self._open_routes.add(("GET", "/metrics"))

    @property
    def open_runs(self) -> int:
        """Runs in flight."""
        return len(self._runs)

    async def dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request: health first, then the token, then the route."""
        place = (request.method, request.path)
        _bind_request_id(request)
        try:
            if place not in self._open_routes:
                self._check_token(request)
            return await self._route(place)(request)
        except RefusedError as refusal:
            self._services.log.rejected(refusal.type, refusal.message)
            return answer_error(refusal, refusal.status)
        except HandError as problem:
            return answer_error(problem)
        except ConnectionError:
            # The brain hung up while its answer was being written; the server knows what to do.
            raise
        except Exception as problem:  # noqa: BLE001  # the edge of a request: nothing but our error body leaves
            self._services.log.unexpected("", problem)
            return answer_error(RunError("internal", f"unexpected {type(problem).__name__} in the hand"))

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take nothing new, let what is open finish up to the limit or until ``hurry``, then end runs with an error event."""
        self._is_draining = True
        self._services.log.stopping(len(self._runs), self._settings.drain_seconds)
        waits = {asyncio.create_task(event.wait()) for event in (self._idle, hurry)}
        try:
            _ = await asyncio.wait(waits, timeout=self._settings.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                _ = wait.cancel()
            _ = await asyncio.gather(*waits, return_exceptions=True)
        for run in list(self._runs):
            run.stop()
        # A run that has been told to stop only writes its last event; a brain that does not read it is not waited for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_EVENT_SECONDS):
                _ = await self._idle.wait()

    async def _run(self, request: web.BaseRequest) -> web.StreamResponse:
        self._refuse_when_draining()
        order = read_run_order(await read_body(request))
        out = EventStream(request, self._settings.heartbeat_seconds)
        run = Run(self._services, order, out)
        self._runs.add(run)
        self._idle.clear()
        try:
            response = await out.open()
            with structlog.contextvars.bound_contextvars(run=order.run_id):
                await run.execute()
            await out.close()
        finally:
            out.stop_heartbeat()
            self._runs.discard(run)
            self._note_end()
        return response

    async def _embed(self, request: web.BaseRequest) -> web.StreamResponse:
        self._refuse_when_draining()
        order = read_embed_order(await read_body(request))
        log, outcome = self._services.log, "aborted"
        log.embed_started(order.model_id, len(order.input))
        self._embeds += 1
        self._idle.clear()
        try:
            answer = await embed(self._services.gateway, order, self._count_retry)
            outcome = "done"
            log.embed_ended(order.model_id, answer.dimensions, len(answer.vectors))
            return web.Response(body=encode_json(answer), content_type=_JSON)
        except HandError as problem:
            outcome = f"error:{problem.type}"
            raise RunError(problem.type, without_secrets(problem.message, order.api_key)) from problem
        finally:
            self._embeds -= 1
            self._note_end()
            self._services.metrics.embedded(outcome)
            if outcome != "done":
                log.embed_failed(order.model_id, outcome)

    def _note_end(self) -> None:
        if not self._runs and not self._embeds:
            self._idle.set()

    def _count_retry(self, _attempt: int, _delay_ms: int, failure: TransientError) -> None:
        self._services.metrics.retried(failure.cause)

    def _check_token(self, request: web.BaseRequest) -> None:
        if not is_authorised(request, self._settings.token):
            raise RefusedError("auth", "missing or wrong x-daapu-token")

    def _route(self, place: tuple[str, str]) -> Handler:
        handler = self._table.get(place)
        if handler is None:
            method, path = place
            raise RefusedError("invalid_request", f"there is no {method} {path}", 404)
        return handler

    async def _health(self, _: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=_HEALTH, content_type=_JSON)

    async def _metrics(self, _: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=self._services.metrics.render(), headers={"Content-Type": metrics.CONTENT_TYPE})

    def _refuse_when_draining(self) -> None:
        if self._is_draining:
            raise RefusedError("internal", "the hand is shutting down and takes no new request", 503)


async def read_body(request: web.BaseRequest) -> bytearray:
    """Return the request body.

    Raises:
        RefusedError: it is larger than ``BODY_CAP_BYTES``.
    """
    length = request.content_length
    if length is not None and length > BODY_CAP_BYTES:
        raise _too_large()
    if request.headers.get("expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # One buffer that grows: pieces and their sum would be two.
    body = bytearray()
    try:
        async for piece in request.content.iter_any():
            if len(body) + len(piece) > BODY_CAP_BYTES:
                raise _too_large()
            body += piece
    except (aiohttp.ClientPayloadError, web.RequestPayloadError) as problem:
        raise invalid_request("the request body is incomplete") from problem
    return body


def answer_error(problem: HandError, status: int | None = None) -> web.Response:
    """Return the error body of section 1."""
    status = status or STATUS_BY_TYPE.get(problem.type, 500)
    body = encode_json(ErrorBody(error=ErrorInfo(problem.type, problem.message)))
    return web.Response(status=status, body=body, content_type=_JSON)


def _too_large() -> RefusedError:
    return invalid_request(f"the request body is larger than {BODY_CAP_BYTES} bytes")


def _bind_request_id(request: web.BaseRequest) -> None:
    structlog.contextvars.clear_contextvars()
    request_id = request.headers.get(REQUEST_ID_HEADER, "")[:_LONGEST_REQUEST_ID]
    if request_id:
        structlog.contextvars.bind_contextvars(request=request_id)
