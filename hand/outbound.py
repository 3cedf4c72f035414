"""Neutral messages to the chat-completions request of one gateway (section 9).

Every message is converted once, when it arrives, to the bytes that are sent; later rounds append. So a request begins with the
bytes of the one before it, and a long history exists once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeAlias

import msgspec
from msgspec import Raw

from hand.errors import RunError
from hand.quirks import quirk_of
from hand.textio import compact, without_surrogates
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


# One struct for each kind: keys that belong to another kind are unknown ones and ignored.
class _Text(msgspec.Struct, tag="text", tag_field="type"):
    text: str


class _Reasoning(msgspec.Struct, tag="reasoning", tag_field="type"):
    content: str


class _ToolCall(msgspec.Struct, tag="tool_call", tag_field="type"):
    id: str
    tool: str
    args: Raw = Raw(b"{}")


class _Attachment(msgspec.Struct, tag="attachment", tag_field="type", rename="camel"):
    kind: str
    content: Raw = Raw(b"")
    mime_type: Raw = Raw(b"")


class _ToolResult(msgspec.Struct, tag="tool_result", tag_field="type"):
    id: str
    parts: list[_Text | _Attachment]


_Part: TypeAlias = _Text | _Reasoning | _ToolCall | _Attachment | _ToolResult


class _Message(msgspec.Struct):
    role: str
    parts: list[_Part]


_message_decoder = msgspec.json.Decoder(_Message)
_parts_decoder = msgspec.json.Decoder(list[_Text | _Attachment])
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
        self._images: list[_Attachment] = []
        if system_prompt is not None:
            developer = self._quirk.developer_role and model.reasoning
            self._append({"role": "developer" if developer else "system", "content": system_prompt})

    def add_all(self, messages: Iterable[Raw]) -> None:
        """Convert messages of the request.

        Raises:
            RunError: one has a shape or a part that its role cannot hold.
        """
        try:
            for raw in messages:
                self._add(_decode_message(raw))
        except RecursionError:
            _refuse("it is nested too deeply")

    def add_encoded(self, message: bytes) -> None:
        """Convert an assistant message of ours."""
        self._add(_decode_message(message))

    def add_tool_result(self, call_id: str, parts: bytes) -> None:
        """Convert the brain's answer to a call.

        Raises:
            RunError: a part is of another kind than text and image.
        """
        self._add_result(_ToolResult(call_id, _decode_parts(parts)))

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
            content = self._content_of(message.parts)
            if content:
                self._append_user(content)
        elif message.role == "assistant":
            self._close_results()
            self._add_assistant(message.parts)
        elif message.role == "tool_result":
            if not message.parts:
                _refuse("the first part of a tool_result message must be a tool_result")
            for part in message.parts:
                if not isinstance(part, _ToolResult):
                    _refuse_part(part, "tool_result")
                self._add_result(part)
        else:
            _refuse(f"a message cannot have the role {message.role!r}")

    def _add_assistant(self, parts: Sequence[_Part]) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[object] = []
        for part in parts:
            if isinstance(part, _Text):
                texts.append(without_surrogates(part.text))
            elif isinstance(part, _Reasoning):
                thoughts.append(without_surrogates(part.content))
            elif isinstance(part, _ToolCall):
                calls.append(self._call_of(part))
            else:
                _refuse_part(part, "assistant")
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

    def _call_of(self, part: _ToolCall) -> object:
        self.call_ids.add(part.id)
        self._unanswered[part.id] = None
        arguments = compact(bytes(part.args)).decode()
        return {"id": part.id, "type": "function", "function": {"name": part.tool, "arguments": arguments}}

    def _add_result(self, part: _ToolResult) -> None:
        texts: list[str] = []
        images: list[_Attachment] = []
        after_image = False
        for item in part.parts:
            if isinstance(item, _Text):
                after_image = False
                texts.append(without_surrogates(item.text))
                continue
            _check_image(item)
            if self._model.takes_images:
                images.append(item)
            elif not after_image:
                texts.append(TOOL_IMAGE_OMITTED)
            after_image = True
        text = "\n".join(texts)
        if not text.strip():
            text = SEE_IMAGE if images else NO_OUTPUT
        self._append({"role": "tool", "tool_call_id": part.id, "content": text})
        self._images.extend(images)
        _ = self._unanswered.pop(part.id, None)

    def _close_results(self) -> None:
        """End a run of tool results: answer what nobody answered, then show the images."""
        for call_id in self._unanswered:
            self._append({"role": "tool", "tool_call_id": call_id, "content": NO_RESULT})
        self._unanswered.clear()
        if self._images:
            self._append_user([_text_item(IMAGES_FROM_TOOL), *map(_image_item, self._images)])
            self._images = []

    def _content_of(self, parts: Sequence[_Part]) -> list[Sequence[Piece]]:
        content: list[Sequence[Piece]] = []
        after_image = False
        for part in parts:
            if isinstance(part, _Text):
                after_image = False
                if text := without_surrogates(part.text):
                    content.append(_text_item(text))
                continue
            if not isinstance(part, _Attachment):
                _refuse_part(part, "user")
            _check_image(part)
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


def _decode_parts(raw: bytes) -> list[_Text | _Attachment]:
    try:
        return _parts_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise RunError("invalid_request", f"a tool result cannot be converted: {problem}") from problem


def _refuse(reason: str) -> NoReturn:
    raise RunError("invalid_request", f"a message cannot be converted: {reason}")


def _refuse_part(part: _Part, role: str) -> NoReturn:
    _refuse(f"a part of type {part.__struct_config__.tag!r} cannot stand in a message of role {role!r}")


def _check_image(part: _Attachment) -> None:
    if part.kind != "image":
        _refuse(f"attachments of kind {part.kind!r} are not supported, only images")


def _text_item(text: str) -> Sequence[Piece]:
    return (_encode({"type": "text", "text": text}),)


def _image_item(part: _Attachment) -> Sequence[Piece]:
    try:
        content = _content_decoder.decode(part.content)
    except msgspec.DecodeError:
        _refuse("an image needs base64 content")
    data = memoryview(content.base64)
    if bytes(data[:1]) != b'"':
        _refuse("an image needs base64 content")
    try:
        mime_type = _encode(without_surrogates(_text_decoder.decode(part.mime_type)))[1:-1]
    except msgspec.DecodeError:
        _refuse("an image needs a mimeType")
    # What stands between the quotes is JSON text already and stays as it is.
    return (b'{"type":"image_url","image_url":{"url":"data:%b;base64,' % mime_type, data[1:-1], b'"}}')
