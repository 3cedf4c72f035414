"""``/v1/embed``: texts to vectors at one gateway, checked before they are passed on (section 14)."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Raw

from hand.errors import RunError, TransientError
from hand.gateway import Gateway, StatusFailure
from hand.jsonvalues import as_count
from hand.retry import RetryListener, with_retries
from hand.validation import EmbedOrder
from shared_protocol.embed import EmbedAnswer, EmbedUsage

_SHOWN_CHARS = 200


class _Entry(msgspec.Struct):
    embedding: list[float]
    index: int


class _Answer(msgspec.Struct):
    data: list[_Entry]
    usage: Raw = Raw(b"null")


class _Usage(msgspec.Struct):
    prompt_tokens: int | float
    total_tokens: int | float


_answer_decoder = msgspec.json.Decoder(_Answer)
_usage_decoder = msgspec.json.Decoder(_Usage)


async def embed(gateway: Gateway, order: EmbedOrder, on_retry: RetryListener) -> EmbedAnswer:
    """Embed all texts of a request in one call.

    Raises:
        RunError: ``auth``, ``invalid_request`` or ``upstream``.
    """
    body = build_body(order)

    async def attempt() -> EmbedAnswer:
        return await _attempt(gateway, order, body)

    return await with_retries(attempt, order.max_retries, on_retry)


def build_body(order: EmbedOrder) -> bytes:
    """Return the JSON body for the gateway: three keys, then the additional ones."""
    request: dict[str, object] = {"model": order.model_id, "input": order.input, "dimensions": order.dimensions}
    return msgspec.json.encode(request | dict(order.additional_properties))


async def _attempt(gateway: Gateway, order: EmbedOrder, body: bytes) -> EmbedAnswer:
    await gateway.ready()
    try:
        async with asyncio.timeout(order.timeout_ms / 1000 or None):
            answer = await gateway.post_embeddings(order.base_url, order.api_key, body)
    except TimeoutError as problem:
        raise TransientError("idle", f"no answer from the gateway within {order.timeout_ms} ms") from problem
    except StatusFailure as failure:
        raise judge_status(failure.status, failure.body) from failure
    return read_answer(answer, len(order.input))


def judge_status(status: int, body: str) -> RunError | TransientError:
    """Classify a status other than 200."""
    if status in {401, 403}:
        # Bodies of these tend to repeat the key.
        return RunError("auth", f"the gateway refused the key: HTTP {status}")
    shown = body.strip()[:_SHOWN_CHARS]
    message = f"the gateway answered HTTP {status}: {shown}" if shown else f"the gateway answered HTTP {status}"
    if 400 <= status <= 499 and status not in {404, 405, 429}:
        return RunError("invalid_request", message)
    return TransientError("http", message)


def read_answer(body: bytes, expected: int) -> EmbedAnswer:
    """Check a 200 answer and bring its vectors into input order.

    Raises:
        TransientError: it is unusable.
    """
    try:
        answer = _answer_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise _unusable(str(problem)) from problem
    entries = sorted(answer.data, key=lambda entry: entry.index)
    if not entries or len(entries) != expected:
        raise _unusable(f"{len(entries)} vectors for {expected} inputs")
    if [entry.index for entry in entries] != list(range(expected)):
        raise _unusable("the indexes are not 0 to n-1")
    dimensions = len(entries[0].embedding)
    if not dimensions or any(len(entry.embedding) != dimensions for entry in entries):
        raise _unusable("the vectors are empty or differ in length")
    return EmbedAnswer([entry.embedding for entry in entries], dimensions, _read_usage(answer.usage))


def _read_usage(raw: Raw) -> EmbedUsage | None:
    try:
        usage = _usage_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return EmbedUsage(as_count(usage.prompt_tokens), as_count(usage.total_tokens))


def _unusable(reason: str) -> TransientError:
    return TransientError("corrupt", f"the gateway's embedding answer is unusable: {reason}")
