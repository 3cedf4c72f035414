"""Asks a model server what its models can do: reachable, window, tool calls, JSON, images, vector length."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import httpx2
import msgspec

if TYPE_CHECKING:
    from brain.catalog import ChatModel, EmbeddingModel
    from brain.config.models import ProviderConfig

PROBE_TIMEOUT_S: Final = 60.0
_WINDOW_KEYS: Final = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length")
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather of a city. Use it for every question about weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "sunny": {"type": "boolean"}},
    "required": ["city", "sunny"],
    "additionalProperties": False,
}


class Measurement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was found; ``None`` where nothing can be said."""

    reachable: bool
    error: str | None = None
    context_length: int | None = None
    """What the server says its window is, in tokens."""
    tool_calls: bool | None = None
    structured_output: bool | None = None
    image: bool | None = None
    dimensions: int | None = None


class _ToolCall(msgspec.Struct, frozen=True):
    function: dict[str, Any] = {}


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice]


class _Vector(msgspec.Struct, frozen=True):
    embedding: list[float]


class _Embeddings(msgspec.Struct, frozen=True):
    data: list[_Vector]


class _Sunny(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    city: str
    sunny: bool


class _ListedModel(msgspec.Struct, frozen=True):
    id: str
    meta: dict[str, Any] | None = None
    max_model_len: int | None = None
    loaded_context_length: int | None = None
    context_length: int | None = None
    context_window: int | None = None
    max_context_length: int | None = None


class _Models(msgspec.Struct, frozen=True):
    data: list[_ListedModel]


class _RefusalDetail(msgspec.Struct, frozen=True):
    message: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: str | _RefusalDetail


class _ProbeError(Exception):
    """The server refused or could not be reached."""


def probe_client() -> httpx2.AsyncClient:
    """Return a client for probes; the caller closes it."""
    return httpx2.AsyncClient(timeout=httpx2.Timeout(PROBE_TIMEOUT_S, connect=5.0), trust_env=False)


async def probe_chat_model(client: httpx2.AsyncClient, model: ChatModel) -> Measurement:
    """Measure one chat model by five small requests. A failing request is a finding, never an exception."""
    try:
        await _complete(client, model, {"messages": [_user("Answer with the word yes.")]})
    except _ProbeError as error:
        return Measurement(reachable=False, error=str(error))
    return Measurement(
        reachable=True,
        context_length=await _reported_window(client, model.provider, model.config.model_id),
        tool_calls=await _calls_tools(client, model),
        structured_output=await _keeps_schema(client, model),
        image=await _reads_images(client, model),
    )


async def probe_embedding_model(client: httpx2.AsyncClient, model: EmbeddingModel) -> Measurement:
    """Measure one embedding model: does it answer, and how long are its vectors."""
    extra = {} if model.config.additional_properties is None else model.config.additional_properties
    body = {"model": model.config.model_id, "input": ["probe"], "dimensions": model.dimensions, **extra}
    try:
        raw = await _post(client, model.provider, "embeddings", body)
        answer = msgspec.json.decode(raw, type=_Embeddings)
    except (_ProbeError, msgspec.DecodeError) as error:
        return Measurement(reachable=False, error=str(error))
    if not answer.data:
        return Measurement(reachable=False, error="the answer holds no vector")
    return Measurement(reachable=True, dimensions=len(answer.data[0].embedding))


async def _calls_tools(client: httpx2.AsyncClient, model: ChatModel) -> bool | None:
    body = {"messages": [_user("What is the weather in Paris? Use the tool.")], "tools": [_TOOL]}
    try:
        message = await _complete(client, model, body)
    except _ProbeError:
        return False
    return any(call.function.get("name") == "get_weather" for call in message.tool_calls or [])


async def _keeps_schema(client: httpx2.AsyncClient, model: ChatModel) -> bool | None:
    schema = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": _SCHEMA}}
    body = {"messages": [_user("It is sunny in Paris. Answer as JSON.")], "response_format": schema}
    try:
        message = await _complete(client, model, body)
        msgspec.json.decode(message.content or "", type=_Sunny)
    except (_ProbeError, msgspec.DecodeError):
        return False
    return True


async def _reads_images(client: httpx2.AsyncClient, model: ChatModel) -> bool | None:
    content = [
        {"type": "text", "text": "Which colour is this picture? One word."},
        {"type": "image_url", "image_url": {"url": _red_picture()}},
    ]
    try:
        message = await _complete(client, model, {"messages": [{"role": "user", "content": content}]})
    except _ProbeError:
        return False
    # A server may drop the picture silently: only the right colour proves that it was seen.
    return True if "red" in (message.content or "").lower() else None


async def _complete(client: httpx2.AsyncClient, model: ChatModel, body: dict[str, Any]) -> _Message:
    field = model.config.max_tokens_field or "max_tokens"
    extra = model.config.additional_properties or {}
    raw = await _post(
        client,
        model.provider,
        "chat/completions",
        {"model": model.config.model_id, field: min(256, model.max_output_tokens), **extra, **body},
    )
    try:
        choices = msgspec.json.decode(raw, type=_Completion).choices
    except msgspec.DecodeError as error:
        raise _ProbeError(f"the answer is no chat completion: {error}") from error
    if not choices:
        raise _ProbeError("the answer holds no choice")
    return choices[0].message


async def _reported_window(client: httpx2.AsyncClient, provider: ProviderConfig, model_id: str) -> int | None:
    try:
        answer = await client.get(f"{provider.base_url.rstrip('/')}/models", headers=_headers(provider))
        listed = msgspec.json.decode(answer.content, type=_Models).data
    except (httpx2.HTTPError, msgspec.DecodeError):
        return None
    mine = [model for model in listed if model.id == model_id] or (listed if len(listed) == 1 else [])
    for model in mine:
        window = (model.meta or {}).get("n_ctx")  # llama.cpp
        if isinstance(window, int):
            return window
        for key in _WINDOW_KEYS:
            if isinstance(value := getattr(model, key), int):
                return value
    return None


async def _post(client: httpx2.AsyncClient, provider: ProviderConfig, path: str, body: dict[str, Any]) -> bytes:
    url = f"{provider.base_url.rstrip('/')}/{path}"
    try:
        answer = await client.post(url, content=msgspec.json.encode(body), headers=_headers(provider))
    except httpx2.HTTPError as error:
        raise _ProbeError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
    if answer.status_code != 200:
        raise _ProbeError(f"HTTP {answer.status_code}: {_gateway_message(answer.content)}")
    return answer.content


def _gateway_message(body: bytes) -> str:
    try:
        error = msgspec.json.decode(body, type=_Refusal).error
    except msgspec.DecodeError:
        return body[:200].decode(errors="replace")
    return (error if isinstance(error, str) else error.message)[:200]


def _headers(provider: ProviderConfig) -> dict[str, str]:
    return {"authorization": f"Bearer {provider.api_key}", "content-type": "application/json"}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _red_picture(side: int = 64) -> str:
    def chunk(kind: bytes, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xe0\x10\x10" * side) * side
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
