"""``daapu serve-local``: one OpenAI-compatible server on loopback in front of the bundled chat and embedding models."""

from __future__ import annotations

import asyncio
import base64
import signal
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import aiohttp
import msgspec
from aiohttp import web

from brain.local.chat_engine import CHAT_MODEL, CONTEXT_LENGTH, REQUEST_DEFAULTS, ChatEngine
from brain.local.embedding_engine import DIMENSIONS, EMBEDDING_MODEL, EmbeddingEngine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_CHAT_PATHS: Final = ("/v1/chat/completions", "/v1/completions")
_CHAT: Final = web.AppKey("chat", ChatEngine)
_EMBEDDING: Final = web.AppKey("embedding", EmbeddingEngine)
_CLIENT: Final = web.AppKey("client", aiohttp.ClientSession)
_EXECUTOR: Final = web.AppKey("executor", ThreadPoolExecutor)


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """Body of ``POST /v1/embeddings``; ``input_type`` tells a question from a stored text."""

    input: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    model: str = EMBEDDING_MODEL
    input_type: Literal["query", "search_query", "passage", "document", "search_document"] = "passage"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


class _ChatHead(msgspec.Struct, frozen=True):
    model: str = CHAT_MODEL


def create_app(chat: ChatEngine, embedding: EmbeddingEngine) -> web.Application:
    """Return the application in front of two loaded models."""
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app[_CHAT] = chat
    app[_EMBEDDING] = embedding
    app.cleanup_ctx.append(_resources)
    app.router.add_get("/health", _health)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/embeddings", _embeddings)
    for path in _CHAT_PATHS:
        app.router.add_post(path, _forward)
    return app


async def serve(host: str, port: int) -> None:
    """Load both models and serve until SIGINT or SIGTERM.

    Raises:
        MissingModelsError: the extra ``local`` is not installed.
        OSError: the port is taken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with _listening(create_app(ChatEngine(), EmbeddingEngine()), host, port):
        await stop.wait()


@asynccontextmanager
async def _listening(app: web.Application, host: str, port: int) -> AsyncGenerator[None]:
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


async def _resources(app: web.Application) -> AsyncGenerator[None]:
    timeout = aiohttp.ClientTimeout(total=None, connect=10)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as client:
        app[_CLIENT] = client
        with ThreadPoolExecutor(1, "embedding") as executor:
            app[_EXECUTOR] = executor
            yield


async def _health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _models(_request: web.Request) -> web.Response:
    created = int(time.time())
    common = {"object": "model", "created": created, "owned_by": "daapu"}
    return web.json_response(
        {
            "object": "list",
            "data": [
                {"id": CHAT_MODEL, **common, "meta": {"n_ctx": CONTEXT_LENGTH, "n_ctx_train": CONTEXT_LENGTH, "demo": True}},
                {"id": EMBEDDING_MODEL, **common, "meta": {"n_embd": DIMENSIONS}},
            ],
        }
    )


async def _embeddings(request: web.Request) -> web.Response:
    try:
        wanted = msgspec.json.decode(await request.read(), type=EmbeddingRequest)
    except msgspec.DecodeError as error:
        return _refused(400, str(error))
    if wanted.dimensions not in {None, DIMENSIONS}:
        return _refused(400, f"{EMBEDDING_MODEL} has {DIMENSIONS} dimensions")
    texts = [wanted.input] if isinstance(wanted.input, str) else wanted.input
    is_query = wanted.input_type in {"query", "search_query"}
    engine = request.app[_EMBEDDING]
    vectors, tokens = await asyncio.get_running_loop().run_in_executor(
        request.app[_EXECUTOR],
        lambda: engine.embed(texts, is_query=is_query),
    )
    body = {
        "object": "list",
        "model": EMBEDDING_MODEL,
        "data": [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, wanted.encoding_format)}
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _encoded(vector: list[float], encoding: str) -> list[float] | str:
    return vector if encoding == "float" else base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _forward(request: web.Request) -> web.StreamResponse:
    """Pass a chat request to llama.cpp and its answer back as it comes; a client that goes away ends it there too."""
    body = await request.read()
    try:
        model = msgspec.json.decode(body, type=_ChatHead).model
        body = msgspec.json.encode({**REQUEST_DEFAULTS, **msgspec.json.decode(body, type=dict[str, msgspec.Raw])})
    except msgspec.DecodeError as error:
        return _refused(400, str(error))
    if model != CHAT_MODEL:
        return _refused(404, f"model {model!r} is not served here; there are {CHAT_MODEL} and {EMBEDDING_MODEL}")
    upstream = request.app[_CHAT].address + request.path
    headers = {"content-type": "application/json"}
    async with request.app[_CLIENT].post(upstream, data=body, headers=headers) as answer:
        response = web.StreamResponse(status=answer.status, headers={"content-type": answer.content_type})
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status=status)
