"""What is checked before a handler sees its request, in the order of the contract: maintenance, path ids, body type and size.

A handler says what applies to it with ``opt``: ``maintenance=True`` (blocked while maintenance mode is on) and
``body_limit="..."`` (the field of ``LimitsConfig`` that caps its body, ``json_body_bytes`` if not given) and
``optional_body=True`` (no body at all means the defaults of its type).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from litestar.params import QueryParameter
from msgspec.structs import fields

from brain.config.models import LimitsConfig
from brain.errors import InvalidInputError, MaintenanceError, PayloadTooLargeError, UnsupportedMediaTypeError

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers.base import BaseRouteHandler
    from litestar.types import ASGIApp, HTTPReceiveMessage, Receive, Scope, Send, WebSocketReceiveMessage

DEFAULT_BODY_LIMIT: Final = "json_body_bytes"
INT32: Final = 2**31
INT64: Final = 2**63

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_CHAT_ID: Final = re.compile(r"[0-9]+-[0-9]+")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_TEXT_IDS: Final = frozenset({"chat_id", "call_id", "namespace"})
_INDEXES: Final = frozenset({"index", "n"})
_WIRE_NAMES: Final = {field.name: field.encode_name for field in fields(LimitsConfig)}


class MaintenanceGate(Protocol):
    """Says whether maintenance mode is on."""

    async def is_enabled(self) -> bool:
        """Whether writing the memory is blocked."""
        ...


class RequestGuard:
    """The guard of every route."""

    def __init__(self, limits: LimitsConfig, maintenance: MaintenanceGate | None) -> None:
        self._limits = limits
        self._maintenance = maintenance

    async def __call__(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Refuse what must not reach the handler.

        Raises:
            MaintenanceError: 503, the route is guarded and maintenance mode is on.
            InvalidInputError: 400, a path id is blank or no number.
            UnsupportedMediaTypeError: 415, the route reads a body that is not JSON.
            PayloadTooLargeError: 413, the announced length is over the limit.
            InvalidInputError: 400, a query parameter is no number.
        """
        if handler.opt.get("maintenance") and self._maintenance is not None and await self._maintenance.is_enabled():
            raise MaintenanceError
        # A new dict: the router caches the one it found.
        ids = {
            name: read_path_id(name, value, strict=bool(handler.opt.get("strict_chat_id")))
            for name, value in connection.path_params.items()
        }
        connection.scope["path_params"] = cast("dict[str, str]", ids)  # the framework hands on what it finds
        if reads_body(handler) and not (handler.opt.get("optional_body") and has_no_body(connection)):
            check_content_type(connection)
            check_announced_length(connection, *body_limit(handler, self._limits))
        check_query(connection, handler)


def check_query(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse what the framework would bend into shape: ``1e2`` for a number, ``null`` for a parameter that was not given.

    Raises:
        InvalidInputError: naming the parameter.
    """
    numbers, words = _query_kinds(handler)
    for name, text in connection.query_params.multi_items():
        if name in numbers and not (_INTEGER.fullmatch(text) and -INT64 <= int(text) < INT64):
            raise InvalidInputError(f"{name}: must be an integer, not {text[:40]!r}")
        if name in words and text.lower() == "null":
            raise InvalidInputError(f"{name}: leave it out instead of {text!r}")


@cache
def _query_kinds(handler: BaseRouteHandler) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the query parameters that are integers, and of those that are one of a few words."""
    numbers: set[str] = set()
    words: set[str] = set()
    for field in handler.parsed_fn_signature.parameters.values():
        if isinstance(field.kwarg_definition, QueryParameter):
            kinds = {field.annotation, *(inner.annotation for inner in field.inner_types)}
            if str not in kinds:
                (numbers if int in kinds else words).add(field.kwarg_definition.name or field.name)
    return frozenset(numbers), frozenset(words)


def read_path_id(name: str, value: object, *, strict: bool = False) -> object:
    """Return a path parameter as its handler wants it: texts trimmed, numbers as numbers.

    Raises:
        InvalidInputError: blank, not printable, or no number of the right size.
    """
    text = str(value).strip()
    if name in _TEXT_IDS:
        if not text or _UNPRINTABLE.search(text):
            raise InvalidInputError(f"the {_readable(name)} in the path must not be blank or contain control characters")
        if name == "chat_id" and strict and not _CHAT_ID.fullmatch(text):
            raise InvalidInputError(f"{text!r} is not a chat id such as 1755500000000-42")
        return text
    if name == "sha256":
        if not _SHA256.fullmatch(text):
            raise InvalidInputError("an attachment is named by the 64 hexadecimal digits of its SHA-256")
        return text
    if name.endswith("_id") or name in _INDEXES:
        limit = INT32 if name in _INDEXES else INT64
        if not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
            raise InvalidInputError(f"the {_readable(name)} in the path must be an integer, not {text!r}")
        return int(text)
    return value


def reads_body(handler: BaseRouteHandler) -> bool:
    """Whether the handler takes a JSON body."""
    return "data" in handler.parsed_fn_signature.parameters or bool(handler.opt.get("json_body"))


def body_limit(handler: BaseRouteHandler, limits: LimitsConfig) -> tuple[str, int]:
    """Return name and value of the cap on a handler's body."""
    field = str(handler.opt.get("body_limit", DEFAULT_BODY_LIMIT))
    return f"limits.{_WIRE_NAMES[field]}", int(getattr(limits, field))


def has_no_body(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether a request announces no body."""
    return connection.headers.get("content-length", "0") == "0" and "transfer-encoding" not in connection.headers


def check_content_type(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Refuse a body that is not JSON.

    Raises:
        UnsupportedMediaTypeError: another content type, or none.
    """
    given = connection.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError(f"send the body as application/json, not {given or 'without a content type'!r}")


def check_announced_length(connection: ASGIConnection[Any, Any, Any, Any], name: str, limit: int) -> None:
    """Refuse a body by its announced length, before a byte of it is read.

    Raises:
        PayloadTooLargeError: it is over the limit.
    """
    announced = connection.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(name, limit)


def too_large(name: str, limit: int) -> PayloadTooLargeError:
    """Return the error of a body over its limit."""
    return PayloadTooLargeError(f"the body is larger than {name} ({limit} bytes) allows")


class BodyLimitMiddleware:
    """Counts the bytes of a body while they arrive, for bodies that announce no length or lie about it."""

    def __init__(self, app: ASGIApp, limits: LimitsConfig) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counting ``receive``."""
        if scope["type"] != "http" or not reads_body(scope["route_handler"]):
            await self._app(scope, receive, send)
            return
        name, limit = body_limit(scope["route_handler"], self._limits)
        total = 0
        arrived = False

        async def counting() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal total, arrived
            message = await receive()
            if message["type"] == "http.request":
                total += len(message["body"])
                arrived = not message["more_body"]
                if total > limit:
                    raise too_large(name, limit)
            elif not arrived:
                # Not a failure of ours, which the framework would make of it: nobody reads the answer.
                raise InvalidInputError("the client left before its whole body had arrived")
            return message

        await self._app(scope, counting, send)


def _readable(name: str) -> str:
    return name.replace("_", " ")
