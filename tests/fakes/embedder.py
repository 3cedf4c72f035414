"""A hand that embeds: speaks ``POST /v1/embed`` over real HTTP; vectors are sums of word directions, so that words in common mean
similarity, in any script, the same on every machine."""

from __future__ import annotations

import asyncio
import hashlib
import math
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from brain.catalog import EmbeddingModel, ModelId
from brain.config.models import EmbeddingModelConfig, ProviderConfig
from brain.memory.embeddings import HandEmbedder
from brain.memory.tokens import words_of
from brain.runs.client import open_hand_client
from shared_protocol.embed import EmbedRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

DIMENSIONS = 96
_decoder = msgspec.json.Decoder(EmbedRequest)


class FakeEmbeddingHand:
    """What the fake does and what it was asked; tests set the switches."""

    def __init__(self) -> None:
        self.requests: list[EmbedRequest] = []
        self.refuse_texts_over: int | None = None
        self.fail_next = 0
        self.is_down = False
        self.answer_dimensions: int | None = None
        self.drop_vectors = 0
        self.gate: asyncio.Event | None = None
        self.waiting = asyncio.Event()
        self.url = ""

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request.input]

    async def answer(self, request: web.Request) -> web.Response:
        asked = _decoder.decode(await request.read())
        self.requests.append(asked)
        if self.gate is not None:
            self.waiting.set()
            await self.gate.wait()
        if self.is_down or self.fail_next > 0:
            self.fail_next = max(0, self.fail_next - 1)
            return _error(502, "upstream", "the gateway is away")
        limit = self.refuse_texts_over
        if limit is not None and any(len(text) > limit for text in asked.input):
            return _error(400, "invalid_request", "the input is too large")
        width = self.answer_dimensions or asked.dimensions
        vectors = [fake_vector(text, width, asked.model.model_id) for text in asked.input]
        vectors = vectors[: len(vectors) - self.drop_vectors]
        return web.json_response({"vectors": vectors, "dimensions": width})


def fake_vector(text: str, dimensions: int, model_id: str = "fake") -> list[float]:
    """Return the sum of one fixed direction per word, of unit length."""
    total = [0.0] * dimensions
    for word in words_of(text) or [text]:
        for at, value in enumerate(_direction(word, dimensions, model_id)):
            total[at] += value
    norm = math.sqrt(sum(value * value for value in total)) or 1.0
    return [value / norm for value in total]


def _direction(word: str, dimensions: int, model_id: str) -> list[float]:
    values: list[float] = []
    block = 0
    while len(values) < dimensions:
        digest = hashlib.sha256(f"{model_id}:{block}:{word}".encode()).digest()
        values.extend((number / 2**31) - 1 for number in struct.unpack("<8I", digest))
        block += 1
    return values[:dimensions]


def _error(status: int, kind: str, message: str) -> web.Response:
    return web.json_response({"ok": False, "error": {"type": kind, "message": message}}, status=status)


def embedding_model(model_id: str = "fake", dimensions: int = DIMENSIONS) -> EmbeddingModel:
    """Return a catalog entry of the fake."""
    config = EmbeddingModelConfig(model_id=model_id, dimensions=dimensions)
    provider = ProviderConfig(api_key="none", base_url="http://127.0.0.1:1/v1", embedding=[config])
    return EmbeddingModel(ModelId(f"local/{model_id}"), provider, config)


@asynccontextmanager
async def serve_fake_hand() -> AsyncGenerator[FakeEmbeddingHand]:
    """Serve the fake on a free port of the loopback interface."""
    fake = FakeEmbeddingHand()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/embed", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        if fake.gate is not None:
            fake.gate.set()
        await runner.cleanup()


@asynccontextmanager
async def open_fake_embedder(model_id: str = "fake") -> AsyncGenerator[tuple[HandEmbedder, FakeEmbeddingHand]]:
    """Yield an embedder that asks a fake hand, and the fake."""
    async with serve_fake_hand() as fake, open_hand_client(fake.url, "token") as client:
        yield HandEmbedder(client, embedding_model(model_id)), fake
