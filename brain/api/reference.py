"""The reference page of the API, made from the OpenAPI document: every route, its parameters, bodies and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTICE: Final = "<!-- Written by `make docs`. Do not edit. -->"
_HEAD: Final = """# HTTP API

Plain HTTP under `/api`, JSON in UTF-8, camel-case keys; unknown keys of a request are ignored. Every answer that is not a success
has the body `{"error": "text"}`; clients may show it as it is. `HEAD` is answered wherever `GET` is. Bodies need
`Content-Type: application/json`. Where `server.token` is set, send `Authorization: Bearer <token>`, or log in for a cookie.

Checks come in this order: Host (400), Origin of writes (403), token (401), maintenance mode (503), ids in the path (400), the
body's type (415), size (413) and form (400), its meaning (400), the lock of the chat (409, 503), existence (404), rules about
indexes (400).
The machine-readable form of this page is at `/api/openapi.json`.
"""
_METHODS: Final = ("get", "post", "put", "patch", "delete")


class _Schema(msgspec.Struct, frozen=True, rename={"ref": "$ref", "one_of": "oneOf"}, kw_only=True):
    ref: str | None = None
    type: str | list[str] | None = None
    title: str | None = None
    description: str | None = None
    one_of: list[_Schema] = []
    items: _Schema | UnsetType = UNSET
    enum: list[Any] = []
    const: Any = UNSET
    default: Any = UNSET
    minimum: float | None = None
    maximum: float | None = None
    properties: dict[str, _Schema] = {}
    required: list[str] = []


class _Content(msgspec.Struct, frozen=True):
    schema: _Schema = _Schema()


class _Parameter(msgspec.Struct, frozen=True, rename={"place": "in"}, kw_only=True):
    name: str
    place: str
    required: bool = False
    description: str = ""
    schema: _Schema = _Schema()


class _Body(msgspec.Struct, frozen=True):
    content: dict[str, _Content] = {}


class _Answer(msgspec.Struct, frozen=True):
    description: str = ""
    content: dict[str, _Content] = {}


class _Operation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    operation_id: str = ""
    summary: str = ""
    description: str = ""
    tags: list[str] = []
    parameters: list[_Parameter] = []
    request_body: _Body | None = None
    responses: dict[str, _Answer] = {}


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct, frozen=True):
    paths: dict[str, dict[str, _Operation]]
    components: _Components


def render_reference(document: bytes) -> str:
    """Return the page as Markdown."""
    read = msgspec.json.decode(document, type=_Document)
    by_tag: dict[str, list[str]] = {}
    for path, operations in read.paths.items():
        for method in _METHODS:
            if (operation := operations.get(method)) is not None:
                section = by_tag.setdefault((operation.tags or ["other"])[0], [])
                section.append("\n".join(_operation_lines(method, path, operation)))
    pieces = [NOTICE, "", _HEAD]
    for tag, sections in by_tag.items():
        pieces += [f"## {tag.capitalize()}", "", *sections]
    pieces += ["## Shapes", ""]
    for name, schema in sorted(read.components.schemas.items()):
        pieces += [*_shape_lines(name, schema), ""]
    return "\n".join(pieces).rstrip() + "\n"


def _operation_lines(method: str, path: str, operation: _Operation) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    yield _sentence(f"**{operation.summary or operation.operation_id}.** {operation.description}")
    yield ""
    if operation.parameters:
        yield "| Parameter | In | Type | |"
        yield "|---|---|---|---|"
        for parameter in operation.parameters:
            note = ["required"] if parameter.required and parameter.place != "path" else []
            note += [parameter.description] if parameter.description else []
            yield f"| `{parameter.name}` | {parameter.place} | {_type(parameter.schema)} | {_cell('; '.join(note))} |"
        yield ""
    if operation.request_body is not None:
        for media_type, content in operation.request_body.content.items():
            yield f"Body (`{media_type}`): {_type(content.schema)}"
            yield ""
    yield "| Answer | Body | |"
    yield "|---|---|---|"
    for status, answer in sorted(operation.responses.items()):
        kinds = ", ".join(_type(content.schema) for content in answer.content.values()) or "none"
        yield f"| {status} | {kinds} | {_cell(answer.description)} |"
    yield ""


def _shape_lines(name: str, schema: _Schema) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if schema.description:
        yield _sentence(schema.description)
        yield ""
    if not schema.properties:
        yield _type(schema)
        return
    yield "| Key | Type | |"
    yield "|---|---|---|"
    for key, child in schema.properties.items():
        note = [] if key in schema.required else ["optional"]
        note += [child.description] if child.description else []
        yield f"| `{key}` | {_type(child)} | {_cell('; '.join(note))} |"


def _type(schema: _Schema) -> str:
    if schema.ref is not None:
        name = schema.ref.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if schema.one_of:
        return " or ".join(dict.fromkeys(_type(option) for option in schema.one_of))
    if schema.const is not UNSET:
        return f"`{_json(schema.const)}`"
    if schema.enum:
        return ", ".join(f"`{_json(value)}`" for value in schema.enum)
    if schema.items is not UNSET:
        return f"array of {_type(schema.items)}"
    kind = " or ".join(schema.type) if isinstance(schema.type, list) else schema.type or "any value"
    if schema.minimum is not None or schema.maximum is not None:
        kind += f" ({_bound(schema.minimum)} … {_bound(schema.maximum)})"
    return kind if schema.default is UNSET else f"{kind}, default `{_json(schema.default)}`"


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if abs(value) < 1e6 else str(int(value))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _sentence(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _cell(text: str) -> str:
    return _sentence(text).replace("|", "\\|")
