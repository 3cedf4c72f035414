"""Texts to vectors through the hand: batches, the count and width checks, typed failures."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Raw

from brain.errors import HandRunError, UpstreamError
from shared_protocol.embed import EmbedRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brain.catalog import EmbeddingModel
    from brain.runs.client import HandClient

TextKind: TypeAlias = Literal["passage", "query"]
"""Some models embed what is stored and what is asked differently."""

BATCH_SIZE: Final = 64
"""Inputs of one call (memory.md section 4)."""
EMBED_TIMEOUT_MS: Final = 60_000
EMBED_ATTEMPTS: Final = 3
"""A write or a chat waits for it, so it gives up where a run would go on retrying."""
EMBED_GRACE_SECONDS: Final = 30.0
"""Beyond what the hand was told to allow; after that it hangs itself."""
INPUT_TYPE: Final = "input_type"
CHECK_SECONDS: Final = 3.0
CHECK_KEPT_SECONDS: Final = 60.0


class EmbeddingError(UpstreamError):
    """A text could not be embedded; ``error_type`` is one of the closed set of the hand."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(f"embedding failed ({error_type}): {message}")
        self.error_type = error_type

    @property
    def is_refused(self) -> bool:
        """Whether the content is to blame (too large), so that a shorter text may pass."""
        return self.error_type == "invalid_request"


class Embedder(Protocol):
    """Embeds texts with one model."""

    @property
    def model_id(self) -> str:
        """Catalog id of the model."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        ...

    async def embed_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> list[list[float]]:
        """Return one vector per text, in order; no texts, no call.

        Raises:
            EmbeddingError: the model could not be reached, refused, or answered something else.
        """
        ...


class HandEmbedder:
    """An embedding model behind the hand.

    A gateway that tells questions from passages is announced by ``additionalProperties`` with the key ``input_type``; its value
    is then set to ``query`` or ``passage``.
    """

    def __init__(
        self,
        hand: HandClient,
        model: EmbeddingModel,
        *,
        max_retries: int = EMBED_ATTEMPTS,
        timeout_ms: int = EMBED_TIMEOUT_MS,
    ) -> None:
        self._hand = hand
        self._model = model
        self._max_retries = max_retries
        self._timeout_ms = timeout_ms

    @property
    def model_id(self) -> str:
        """Catalog id of the model."""
        return self._model.id

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return self._model.dimensions

    async def embed_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> list[list[float]]:
        """Return one vector per text, in order, in calls of at most 64 inputs.

        Raises:
            EmbeddingError: see the protocol.
        """
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH_SIZE):
            batch = tuple(texts[start : start + BATCH_SIZE])
            vectors.extend(await self._embed_batch(batch, kind))
        return vectors

    async def _embed_batch(self, batch: tuple[str, ...], kind: TextKind) -> list[list[float]]:
        request = EmbedRequest(
            model=self._model.embed_model(),
            dimensions=self.dimensions,
            input=batch,
            max_retries=self._max_retries,
            timeout_ms=self._timeout_ms,
            additional_properties=self._properties(kind),
        )
        limit = self._timeout_ms / 1000 * max(self._max_retries, 1) + EMBED_GRACE_SECONDS
        try:
            async with asyncio.timeout(limit):
                answer = await self._hand.embed(request)
        except TimeoutError as problem:
            raise EmbeddingError("upstream", f"the hand gave no answer within {limit:g} s") from problem
        except HandRunError as problem:
            raise EmbeddingError(problem.error_type, problem.reason) from problem
        except UpstreamError as problem:
            raise EmbeddingError("upstream", str(problem)) from problem
        check_vectors(answer.vectors, len(batch), self.dimensions)
        return answer.vectors

    def _properties(self, kind: TextKind) -> dict[str, Raw] | None:
        properties = self._model.config.additional_properties
        if properties is None or INPUT_TYPE not in properties:
            return properties
        return {**properties, INPUT_TYPE: Raw(msgspec.json.encode(kind))}


class EmbeddingCheck:
    """Whether a model embeds. Orchestrators ask every few seconds, and each answer may cost money: one counts for a while."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._asking = asyncio.Lock()
        self._works = False
        self._asked_at: float | None = None

    async def __call__(self) -> bool:
        """Return what was found, at most ``CHECK_KEPT_SECONDS`` ago."""
        async with self._asking:
            if self._asked_at is None or self._clock() - self._asked_at >= CHECK_KEPT_SECONDS:
                self._works = await self._ask()
                self._asked_at = self._clock()
            return self._works

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._embedder.embed_texts(["ready"], "query")
        except (EmbeddingError, TimeoutError):
            return False
        return True


def check_vectors(vectors: Sequence[Sequence[float]], count: int, dimensions: int) -> None:
    """Refuse an answer that does not fit the question.

    Raises:
        EmbeddingError: another number of vectors, or one of another length.
    """
    if len(vectors) != count:
        raise EmbeddingError("upstream", f"{count} texts gave {len(vectors)} vectors")
    for vector in vectors:
        if len(vector) != dimensions:
            raise EmbeddingError("upstream", f"a vector has {len(vector)} dimensions; the configuration says {dimensions}")
