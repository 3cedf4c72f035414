"""A hand without a model: speaks the real protocol over real HTTP, and plays the script that a test gives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from aiohttp import web

from shared_protocol.codec import encode_run_event, tool_listing_decoder
from shared_protocol.errors import STATUS_BY_TYPE, ErrorBody, ErrorInfo
from shared_protocol.headers import AUTH_HEADER, REQUEST_ID_HEADER
from shared_protocol.messages import AssistantMessage, AssistantPart, TextPart, ToolCallPart, Usage
from shared_protocol.run import (
    AssistantMessageEvent,
    DoneEvent,
    ErrorEvent,
    ReasoningDelta,
    RetryEvent,
    RunEvent,
    RunRequest,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
)
from shared_protocol.tools import FatalAnswer, ToolAnswer, ToolRequest, ToolSpec

TOKEN = "hand-token"
Script = Callable[["FakeRun"], Awaitable[None]]
_request_decoder = msgspec.json.Decoder(RunRequest)


class FakeRun:
    """One run as a script sees it."""

    def __init__(self, request: RunRequest, raw: bytes, response: web.StreamResponse, session: aiohttp.ClientSession) -> None:
        self.request = request
        self.raw = raw
        self.cancelled = asyncio.Event()
        self._response = response
        self._session = session

    async def send(self, *events: RunEvent) -> None:
        await self._response.write(b"".join(encode_run_event(event) for event in events))

    async def text(self, *pieces: str) -> None:
        for piece in pieces:
            await self.send(TextDelta(piece))

    async def reasoning(self, *pieces: str) -> None:
        for piece in pieces:
            await self.send(ReasoningDelta(piece))

    async def message(
        self, *parts: AssistantPart, finish_reason: str = "stop", input_tokens: int = 100, output_tokens: int = 10
    ) -> None:
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            model_id="raw/model",
        )
        await self.send(AssistantMessageEvent(AssistantMessage(parts=parts, meta=usage, finish_reason=finish_reason)))

    async def retry(self, message: str = "hiccup") -> None:
        await self.send(RetryEvent(1, 10, message))

    async def done(self) -> None:
        await self.send(DoneEvent())

    async def error(self, error_type: str, message: str = "it failed") -> None:
        await self.send(ErrorEvent(error_type, message))  # type: ignore[arg-type]

    async def answer(self, text: str, **counts: int) -> None:
        """A whole run of one text."""
        await self.text(text)
        await self.message(TextPart(text), **counts)
        await self.done()

    async def list_tools(self) -> tuple[ToolSpec, ...]:
        assert self.request.tool_list_url is not None
        url = f"{self.request.tool_list_url}?runId={self.request.run_id}"
        async with self._session.get(url, headers={AUTH_HEADER: TOKEN}) as response:
            assert response.status == 200, await response.text()
            return tool_listing_decoder.decode(await response.read()).tools

    async def call(self, call_id: str, name: str, args: str = "{}") -> ToolAnswer | FatalAnswer:
        assert self.request.tool_callback_url is not None
        body = msgspec.json.encode(ToolRequest(self.request.run_id, call_id, name, msgspec.Raw(args.encode())))
        headers = {AUTH_HEADER: TOKEN, "content-type": "application/json"}
        async with self._session.post(self.request.tool_callback_url, data=body, headers=headers) as response:
            content = await response.read()
            assert response.status == 200, content
            return msgspec.json.decode(content, type=FatalAnswer if b'"fatal"' in content else ToolAnswer)

    async def tool_round(self, *calls: tuple[str, str, str], text: str = "") -> None:
        """One round with tool calls, given as (id, name, args), executed in parallel as the real hand does."""
        parts: list[AssistantPart] = [TextPart(text)] if text else []
        if text:
            await self.text(text)
        parts += [ToolCallPart(call_id, name, msgspec.Raw(args.encode())) for call_id, name, args in calls]
        await self.message(*parts, finish_reason="tool_calls")
        for call_id, name, args in calls:
            await self.send(ToolCallEvent(call_id, name, msgspec.Raw(args.encode())))
        answers = await asyncio.gather(*(self.call(*call) for call in calls))
        for (call_id, name, _), answer in zip(calls, answers, strict=True):
            if isinstance(answer, FatalAnswer):
                await self.error("tool_transport", answer.fatal.message)
                raise web.HTTPOk  # ends the script
            await self.send(ToolResultEvent(call_id, name, answer.parts, answer.is_error))


async def default_script(run: FakeRun) -> None:
    await run.answer("Hello there.")


class FakeHand:
    """Plays ``scripts`` in order, one per run, then the default; runs of the summariser get ``summary``."""

    def __init__(self) -> None:
        self.scripts: deque[Script] = deque()
        self.summary: str | Script = "A short summary."
        self.requests: list[RunRequest] = []
        self.runs: list[FakeRun] = []
        self.request_ids: list[str | None] = []
        self.url = ""
        self._session: aiohttp.ClientSession | None = None

    @property
    def chat_requests(self) -> list[RunRequest]:
        """Requests without those of the summariser."""
        return [request for request in self.requests if not is_summary(request)]

    async def handle_run(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get(AUTH_HEADER) != TOKEN:
            return refuse("auth", "wrong token")
        raw = await request.read()
        run_request = _request_decoder.decode(raw)
        self.requests.append(run_request)
        self.request_ids.append(request.headers.get(REQUEST_ID_HEADER))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": connected\n\n")
        assert self._session is not None
        run = FakeRun(run_request, raw, response, self._session)
        self.runs.append(run)
        try:
            await self._play(run)
        except (asyncio.CancelledError, ConnectionResetError):
            run.cancelled.set()
            raise
        except web.HTTPOk:
            pass
        return response

    async def _play(self, run: FakeRun) -> None:
        if is_summary(run.request):
            if isinstance(self.summary, str):
                await run.answer(self.summary)
            else:
                await self.summary(run)
        else:
            await (self.scripts.popleft() if self.scripts else default_script)(run)

    async def handle_health(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[FakeHand]:
        app = web.Application(client_max_size=100 * 2**20)
        app.router.add_post("/v1/run", self.handle_run)
        app.router.add_get("/v1/health", self.handle_health)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        async with aiohttp.ClientSession() as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                with contextlib.suppress(asyncio.CancelledError):
                    await runner.cleanup()


def is_summary(request: RunRequest) -> bool:
    return (request.system_prompt or "").startswith("You maintain the working memory")


def refuse(error_type: str, message: str) -> web.Response:
    body = msgspec.json.encode(ErrorBody(error=ErrorInfo(error_type, message)))  # type: ignore[arg-type]
    return web.Response(body=body, status=STATUS_BY_TYPE[error_type], content_type="application/json")  # type: ignore[index]
