"""Requests of ``/v1/run`` and ``/v1/embed`` as the wire allows them: first violation wins, the field is named (sections 2, 14).

This is not the job of a schema: an explicit ``null`` is no absence, ``64.0`` is an integer, and the shapes inside messages are
trusted until they are converted.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import NoReturn

import msgspec
from msgspec import Raw

from hand.errors import invalid_request
from hand.quirks import MaxTokensField, quirk_of
from hand.textio import clean_document, without_surrogates


class ModelOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which model at which gateway."""

    base_url: str
    api_key: str
    model_id: str
    context_window: int
    reasoning: bool
    reasoning_effort: str | None
    takes_images: bool
    max_tokens_field: MaxTokensField | None
    additional_properties: Mapping[str, Raw]


class ToolAddresses(msgspec.Struct, frozen=True):
    """Where tools are listed and executed."""

    list_url: str
    callback_url: str


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A valid run request; ``messages`` are JSON texts of unknown shape."""

    model: ModelOrder
    messages: list[Raw]
    system_prompt: str | None
    max_tokens: int
    run_id: str
    tools: ToolAddresses | None
    max_rounds: int
    max_retries: int
    stream_idle_timeout_ms: int
    response_format: bytes | None
    """Ready JSON for the gateway."""


class EmbedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A valid embedding request."""

    base_url: str
    api_key: str
    model_id: str
    dimensions: int
    input: list[str]
    max_retries: int
    timeout_ms: int
    additional_properties: Mapping[str, Raw]


_object_decoder = msgspec.json.Decoder(dict[str, Raw])
_list_decoder = msgspec.json.Decoder(list[Raw])

_NOTHING = Raw(b"")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PIECE = 1_048_576
_LARGEST = 10**12
"""Far beyond any sensible limit, and small enough for every clock."""
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)

EMBED_MANAGED = frozenset({"model", "input", "dimensions"})
RUN_MANAGED = frozenset(
    {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools", "response_format"}
)


class Fields:
    """The keys of one JSON object; each question raises a ``RefusedError`` that names the field."""

    def __init__(self, values: Mapping[str, Raw], path: str = "") -> None:
        self._values = values
        self._path = path

    def has(self, name: str) -> bool:
        """Whether the key is present, ``null`` included."""
        return name in self._values

    def refuse(self, name: str, rule: str) -> NoReturn:
        """Refuse the request because of this field."""
        raise invalid_request(f"{self._path}{name} {rule}")

    def object(self, name: str) -> Fields:
        """Return a required object."""
        return Fields(self.entries(name), f"{self._path}{name}.")

    def entries(self, name: str) -> dict[str, Raw]:
        """Return the entries of a required object."""
        raw = self._raw(name)
        if bytes(raw[:1]) != b"{":
            self.refuse(name, "must be an object")
        try:
            return _object_decoder.decode(raw)
        except _UNREADABLE:
            self.refuse(name, "must be an object")

    def value(self, name: str) -> object:
        """Return the decoded value, or ``None`` if it is missing."""
        raw = self._raw(name)
        try:
            return msgspec.json.decode(raw) if raw else None  # pyright: ignore[reportAny]  # narrowed by the callers
        except _UNREADABLE:
            return None

    def text(self, name: str) -> str:
        """Return a required non-blank string, without surrogate halves."""
        value = self.value(name)
        if not isinstance(value, str) or not (cleaned := without_surrogates(value)).strip():
            self.refuse(name, "must be a non-blank string")
        return cleaned

    def optional_text(self, name: str) -> str | None:
        """Return a non-blank string if the key is present."""
        return self.text(name) if self.has(name) else None

    def integer(self, name: str, *, positive: bool) -> int:
        """Return a required integer; an integral float counts as one, a boolean does not."""
        value = self.value(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < (1 if positive else 0):
            self.refuse(name, "must be a positive integer" if positive else "must be a non-negative integer")
        return min(value, _LARGEST)

    def boolean(self, name: str) -> bool:
        """Return a required boolean."""
        value = self.value(name)
        if not isinstance(value, bool):
            self.refuse(name, "must be a boolean")
        return value

    def url(self, name: str) -> str:
        """Return a required ``http(s)`` address."""
        value = self.value(name)
        if not isinstance(value, str) or not value.startswith(("http://", "https://")):
            self.refuse(name, "must be an http(s) URL")
        return without_surrogates(value)

    def items(self, name: str) -> list[Raw]:
        """Return a required non-empty array."""
        raw = self._raw(name)
        if bytes(raw[:1]) == b"[":
            try:
                items = _list_decoder.decode(raw)
            except _UNREADABLE:
                items = []
            if items:
                return items
        return self.refuse(name, "must be a non-empty array")

    def additional(self, name: str, managed: frozenset[str]) -> dict[str, Raw]:
        """Return the optional extra keys of the gateway's request, as copies that do not hold the request body."""
        if not self.has(name):
            return {}
        entries = self.entries(name)
        for key in entries:
            if key in managed:
                self.refuse(name, f"must not contain {key!r}: the hand sets it")
        return {key: Raw(bytes(value)) for key, value in entries.items()}

    def _raw(self, name: str) -> memoryview:
        # A view: the messages of a request may be nearly all of its 50 MB.
        return memoryview(self._values.get(name, _NOTHING))


def read_object(body: bytes | bytearray) -> Fields:
    """Read the request body.

    Raises:
        RefusedError: it is no JSON object.
    """
    try:
        return Fields(_object_decoder.decode(_mended(body)))
    except msgspec.ValidationError as problem:
        raise invalid_request("the request body must be a JSON object") from problem
    except (*_UNREADABLE, ValueError) as problem:
        raise invalid_request("the request body is not valid JSON") from problem


def _mended(body: bytes | bytearray) -> bytes | bytearray:
    """Return the body without what strict decoders would refuse later, deep inside; usually the body itself."""
    has_surrogates = (b"\\ud" in body or b"\\uD" in body) and _LONE_SURROGATE.search(body) is not None
    if not has_surrogates and (body.isascii() or _is_utf8(body)):
        return body
    return clean_document(bytes(body))


def _is_utf8(body: bytes | bytearray) -> bool:
    # In pieces: decoding 50 MB at once would take up to four times as much.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _PIECE):
            _ = decoder.decode(body[start : start + _PIECE])
        _ = decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def read_run_order(body: bytes | bytearray) -> RunOrder:
    """Validate the body of ``POST /v1/run``.

    Raises:
        RefusedError: the first rule that it breaks.
    """
    fields = read_object(body)
    model = _read_model(fields.object("model"))
    messages = fields.items("messages")
    system_prompt = fields.optional_text("systemPrompt")
    max_tokens = fields.integer("maxTokens", positive=True)
    run_id = fields.text("runId")
    tools = None
    if fields.has("toolListUrl"):
        tools = ToolAddresses(fields.url("toolListUrl"), fields.url("toolCallbackUrl"))
    return RunOrder(
        model=model,
        messages=messages,
        system_prompt=system_prompt,
        max_tokens=max_tokens,
        run_id=run_id,
        tools=tools,
        max_rounds=fields.integer("maxRounds", positive=False),
        max_retries=fields.integer("maxRetries", positive=False),
        stream_idle_timeout_ms=fields.integer("streamIdleTimeoutMs", positive=False),
        response_format=_read_response_format(fields.object("responseFormat")) if fields.has("responseFormat") else None,
    )


def _read_model(fields: Fields) -> ModelOrder:
    base_url = fields.text("baseUrl")
    api_key = fields.text("apiKey")
    model_id = fields.text("modelId")
    context_window = fields.integer("contextWindow", positive=True)
    _ = fields.integer("maxOutputTokens", positive=True)
    return ModelOrder(
        base_url=base_url.strip(),
        api_key=api_key.strip(),
        model_id=model_id,
        context_window=context_window,
        reasoning=fields.boolean("reasoning"),
        reasoning_effort=fields.optional_text("reasoningEffort"),
        takes_images="image" in _read_input(fields),
        max_tokens_field=_read_max_tokens_field(fields),
        additional_properties=fields.additional("additionalProperties", RUN_MANAGED | quirk_of(base_url).managed_keys),
    )


def _read_input(fields: Fields) -> list[str]:
    value = fields.value("input")
    if isinstance(value, list) and value and all(item in ("text", "image") for item in value):  # pyright: ignore[reportUnknownVariableType]  # any JSON
        return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # checked above
    return fields.refuse("input", 'must be a non-empty array of "text" and "image"')


def _read_max_tokens_field(fields: Fields) -> MaxTokensField | None:
    if not fields.has("maxTokensField"):
        return None
    value = fields.value("maxTokensField")
    if value == "max_tokens":
        return "max_tokens"
    if value == "max_completion_tokens":
        return "max_completion_tokens"
    return fields.refuse("maxTokensField", 'must be "max_tokens" or "max_completion_tokens"')


def _read_response_format(fields: Fields) -> bytes:
    kind = fields.value("type")
    if kind == "json_object":
        return b'{"type":"json_object"}'
    if kind != "json_schema":
        fields.refuse("type", 'must be "json_schema" or "json_object"')
    schema = {"name": fields.text("name"), "strict": True, "schema": fields.entries("schema")}
    return msgspec.json.encode({"type": "json_schema", "json_schema": schema})


def read_embed_order(body: bytes | bytearray) -> EmbedOrder:
    """Validate the body of ``POST /v1/embed``.

    Raises:
        RefusedError: the first rule that it breaks.
    """
    fields = read_object(body)
    model = fields.object("model")
    base_url = model.url("baseUrl")
    api_key = model.text("apiKey")
    model_id = model.text("modelId")
    return EmbedOrder(
        base_url=base_url,
        api_key=api_key.strip(),
        model_id=model_id,
        dimensions=fields.integer("dimensions", positive=True),
        input=_read_texts(fields),
        max_retries=fields.integer("maxRetries", positive=False),
        timeout_ms=fields.integer("timeoutMs", positive=False),
        additional_properties=fields.additional("additionalProperties", EMBED_MANAGED),
    )


def _read_texts(fields: Fields) -> list[str]:
    texts: list[str] = []
    for position, raw in enumerate(fields.items("input")):
        entry = Fields({"input": raw})
        value = entry.value("input")
        if not isinstance(value, str) or not value.strip():
            fields.refuse(f"input[{position}]", "must be a non-blank string")
        texts.append(without_surrogates(value))
    return texts
