"""Neutral messages to the chat-completions request of one gateway (section 9).

Every message is converted once, when it arrives, to the bytes that are sent; later rounds append. So a request begins with the
bytes of the one before it, and a long history exists once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hand.errors import RunError
from hand.quirks import quirk_of
from hand.textio import clean_document, compact, without_surrogates
from hand.validation import ModelOrder, RunOrder

IMAGE_OMITTED = "(image omitted: model does not support images)"
TOOL_IMAGE_OMITTED = "(tool image omitted: model does not support images)"
SEE_IMAGE = "(see attached image)"
NO_OUTPUT = "(no tool output)"
IMAGES_FROM_TOOL = "Attached image(s) from tool result:"
NO_RESULT = "No result provided"


Piece: TypeAlias = bytes | memoryview


class _Content(msgspec.Struct):
    base64: Raw


class _Part(msgspec.Struct, rename="camel"):
    type: str
    text: str | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
    parts: list[_Part] | UnsetType = UNSET


class _Message(msgspec.Struct):
    role: str
    parts: list[_Part]


_message_decoder = msgspec.json.Decoder(_Message)
_parts_decoder = msgspec.json.Decoder(list[_Part])
_text_decoder = msgspec.json.Decoder(str)
_content_decoder = msgspec.json.Decoder(_Content)
_encode = msgspec.json.Encoder().encode


class Conversation:
    """The message list of a run as the gateway gets it, and the tool call ids it uses."""

    def __init__(self, model: ModelOrder, system_prompt: str | None) -> None:
        self._model = model
        self._quirk = quirk_of(model.base_url)
        # All messages with the commas between them. Images stay views of the request body: they may be most of its 50 MB.
        self._sent: list[Piece] = []
        self.call_ids: set[str] = set()
        # Calls of the latest assistant message that have no result yet, in order.
        self._unanswered: dict[str, None] = {}
        self._images: list[_Part] = []
        if system_prompt is not None:
            developer = self._quirk.developer_role and model.reasoning
            self._append({"role": "developer" if developer else "system", "content": system_prompt})

    def add_all(self, messages: Iterable[Raw]) -> None:
        """Convert messages of the request.

        Raises:
            RunError: one has a shape or a part that its role cannot hold.
        """
        for raw in messages:
            self._add(_decode_message(raw))

    def add_encoded(self, message: bytes) -> None:
        """Convert an assistant message of ours."""
        self._add(_decode_message(message))

    def add_tool_result(self, call_id: str, tool: str, parts: bytes) -> None:
        """Convert the brain's answer to a call.

        Raises:
            RunError: a part is of another kind than text and image.
        """
        self._add_result(_Part(type="tool_result", id=call_id, tool=tool, parts=_decode_parts(parts)))

    def closed(self) -> Sequence[Piece]:
        """Return the pieces of all messages, with every call answered, as one would have to send them now."""
        self._close_results()
        return self._sent

    def _append(self, message: object) -> None:
        if self._sent:
            self._sent.append(b",")
        self._sent.append(_encode(message))

    def _append_user(self, items: Sequence[Sequence[Piece]]) -> None:
        """Append a user message of encoded content items."""
        if self._sent:
            self._sent.append(b",")
        self._sent.append(b'{"role":"user","content":[')
        for position, item in enumerate(items):
            if position:
                self._sent.append(b",")
            self._sent.extend(item)
        self._sent.append(b"]}")

    def _add(self, message: _Message) -> None:
        if message.role == "user":
            self._close_results()
            content = self._content_of(message.parts, "user")
            if content:
                self._append_user(content)
        elif message.role == "assistant":
            self._close_results()
            self._add_assistant(message.parts)
        elif message.role == "tool_result":
            if not message.parts or message.parts[0].type != "tool_result":
                _refuse("the first part of a tool_result message must be a tool_result")
            for part in message.parts:
                if part.type != "tool_result":
                    _refuse(f"a part of type {part.type!r} cannot stand in a tool_result message")
                self._add_result(part)
        else:
            _refuse(f"a message cannot have the role {message.role!r}")

    def _add_assistant(self, parts: Sequence[_Part]) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[object] = []
        for part in parts:
            if part.type == "text":
                texts.append(_text_of(part))
            elif part.type == "reasoning":
                thoughts.append(_reasoning_of(part))
            elif part.type == "tool_call":
                calls.append(self._call_of(part))
            else:
                _refuse(f"a part of type {part.type!r} cannot stand in an assistant message")
        text = "".join(text for text in texts if text.strip())
        if not text and not calls:
            return
        message: dict[str, object] = {"role": "assistant", "content": text or None}
        thought = "\n".join(thought for thought in thoughts if thought.strip()) if self._model.reasoning else ""
        if thought or self._quirk.needs_reasoning_content:
            message["reasoning_content"] = thought
        if calls:
            message["tool_calls"] = calls
        self._append(message)

    def _call_of(self, part: _Part) -> object:
        call_id, tool = part.id, part.tool
        if not isinstance(call_id, str) or not isinstance(tool, str):
            _refuse("a tool_call needs an id and a tool")
        self.call_ids.add(call_id)
        self._unanswered[call_id] = None
        arguments = "{}" if part.args is UNSET else compact(bytes(part.args)).decode()
        return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}

    def _add_result(self, part: _Part) -> None:
        call_id = part.id
        if not isinstance(call_id, str) or part.parts is UNSET:
            _refuse("a tool_result needs an id and parts")
        texts: list[str] = []
        images: list[_Part] = []
        for item in part.parts:
            if item.type == "text":
                texts.append(_text_of(item))
                after_image = False
            else:
                _check_image(item, "tool_result")
                after_image = bool(texts) and texts[-1] == TOOL_IMAGE_OMITTED
                if self._model.takes_images:
                    images.append(item)
                elif not after_image:
                    texts.append(TOOL_IMAGE_OMITTED)
        text = "\n".join(texts)
        if not text.strip():
            text = SEE_IMAGE if images else NO_OUTPUT
        self._append({"role": "tool", "tool_call_id": call_id, "content": text})
        self._images.extend(images)
        _ = self._unanswered.pop(call_id, None)

    def _close_results(self) -> None:
        """End a run of tool results: answer what nobody answered, then show the images."""
        for call_id in self._unanswered:
            self._append({"role": "tool", "tool_call_id": call_id, "content": NO_RESULT})
        self._unanswered.clear()
        if self._images:
            self._append_user([_text_item(IMAGES_FROM_TOOL), *map(_image_item, self._images)])
            self._images = []

    def _content_of(self, parts: Sequence[_Part], role: str) -> list[Sequence[Piece]]:
        content: list[Sequence[Piece]] = []
        after_image = False
        for part in parts:
            if part.type == "text":
                after_image = False
                if text := _text_of(part):
                    content.append(_text_item(text))
                continue
            _check_image(part, role)
            if self._model.takes_images:
                content.append(_image_item(part))
            elif not after_image:
                content.append(_text_item(IMAGE_OMITTED))
            after_image = True
        return content


def build_body(order: RunOrder, messages: Sequence[Piece], tools: bytes | None) -> bytes:
    """Return the JSON body of one request; ``tools`` is a ready array or ``None``."""
    model = order.model
    quirk = quirk_of(model.base_url)
    fields: list[tuple[str, bytes]] = [
        ("stream", b"true"),
        ("stream_options", b'{"include_usage":true}'),
        (model.max_tokens_field or quirk.budget_field, _encode(order.max_tokens)),
    ]
    if tools is not None:
        fields.append(("tools", tools))
    if order.response_format is not None:
        fields.append(("response_format", order.response_format))
    if model.reasoning:
        effort = model.reasoning_effort
        keys = quirk.without_effort() if effort is None else quirk.with_effort(effort)
        fields.extend((key, _encode(value)) for key, value in keys.items())
    fields.extend((key, bytes(value)) for key, value in model.additional_properties.items())
    rest = b",".join(b"%b:%b" % (_encode(key), value) for key, value in fields)
    return b"".join((b'{"model":%b,"messages":[' % _encode(model.model_id), *messages, b"],%b}" % rest))


def _decode_message(raw: bytes | Raw) -> _Message:
    try:
        return _message_decoder.decode(raw)
    except msgspec.ValidationError as problem:
        raise RunError("invalid_request", f"a message cannot be converted: {problem}") from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise RunError("invalid_request", "a message cannot be converted: it is no valid JSON") from problem


def _decode_parts(raw: bytes) -> list[_Part]:
    try:
        return _parts_decoder.decode(raw)
    except msgspec.ValidationError as problem:
        raise RunError("invalid_request", f"a tool result cannot be converted: {problem}") from problem
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _parts_decoder.decode(clean_document(raw))


def _refuse(reason: str) -> NoReturn:
    raise RunError("invalid_request", f"a message cannot be converted: {reason}")


def _text_of(part: _Part) -> str:
    if not isinstance(part.text, str):
        _refuse("a text part needs a text")
    return without_surrogates(part.text)


def _reasoning_of(part: _Part) -> str:
    try:
        return without_surrogates(_text_decoder.decode(b"" if part.content is UNSET else part.content))
    except msgspec.DecodeError:
        _refuse("a reasoning part needs a content")


def _check_image(part: _Part, role: str) -> None:
    if part.type != "attachment":
        _refuse(f"a part of type {part.type!r} cannot stand in a {role} message")
    if part.kind != "image":
        _refuse(f"attachments of kind {part.kind!r} are not supported, only images")


def _text_item(text: str) -> Sequence[Piece]:
    return (_encode({"type": "text", "text": text}),)


def _image_item(part: _Part) -> Sequence[Piece]:
    try:
        content = _content_decoder.decode(b"" if part.content is UNSET else part.content)
    except msgspec.DecodeError:
        _refuse("an image needs base64 content")
    if not isinstance(part.mime_type, str):
        _refuse("an image needs a mimeType")
    data = memoryview(content.base64)
    if bytes(data[:1]) != b'"':
        _refuse("an image needs base64 content")
    mime_type = _encode(without_surrogates(part.mime_type))[1:-1]
    # What stands between the quotes is JSON text already and stays as it is.
    return (b'{"type":"image_url","image_url":{"url":"data:%b;base64,' % mime_type, data[1:-1], b'"}}')
