"""The OpenAPI document: built from the routes alone, served at ``/api/openapi.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NewType

import msgspec
from litestar import Controller, Litestar, Response, get
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from brain.api.errors import MEANING
from brain.api.middleware import needs_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from litestar import Router

API_VERSION: Final = "1"
_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
TOKEN_SCHEME: Final = "token"  # noqa: S105 - the name of a scheme, not a secret

OpenApiDocument = NewType("OpenApiDocument", bytes)
"""The document as JSON."""


class OpenApiController(Controller):
    """The description of the API itself."""

    path = "/api/openapi.json"
    include_in_schema = False

    @get("/")
    async def read(self, openapi: NamedDependency[OpenApiDocument]) -> Response[bytes]:
        """Return the document."""
        return Response(openapi, media_type="application/json")


def build_openapi(routes: Sequence[type[Controller] | Router]) -> OpenApiDocument:
    """Return the document of these routes; needs no services."""
    names = {name for route in routes for handler in _handlers(route) for name in _injected(handler)}
    described = Litestar(
        route_handlers=list(routes),
        dependencies={name: Provide(_placeholder(), sync_to_thread=False) for name in sorted(names)},
        openapi_config=OpenAPIConfig(
            title="daapu",
            version=API_VERSION,
            description='The HTTP API of the brain. Every answer that is not a success has the body `{"error": text}`.',
            use_handler_docstrings=True,
            components=Components(
                security_schemes={
                    TOKEN_SCHEME: SecurityScheme(
                        type="http",
                        scheme="bearer",
                        description="Needed only where `server.token` is set; a browser logs in and sends a cookie instead.",
                    ),
                },
            ),
        ),
        logging_config=None,
    )
    optional = {handler.operation_id for route in routes for handler in _handlers(route) if handler.opt.get("optional_body")}
    document = described.openapi_schema.to_schema()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                _complete(path, method, operation)
                if operation["operationId"] in optional:
                    operation["requestBody"]["required"] = False
    return OpenApiDocument(msgspec.json.encode(document))


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add what holds for every route: the answers of the checks in front of it, and that a token may be asked for."""
    answers: dict[str, Any] = operation["responses"]
    common = {400, 500}
    if method != "get":
        common.add(403)
    if "requestBody" in operation:
        common |= {413, 415}
    if needs_token(path):
        common.add(401)
        operation["security"] = [{TOKEN_SCHEME: []}, {}]
    for status in common:
        if "ErrorBody" not in str(answers.get(str(status))):
            answers[str(status)] = {
                "description": MEANING[status],
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
            }


def _placeholder() -> Callable[[], None]:
    # One function for each name: the framework takes the same function under two names for a mistake.
    return lambda: None


def _handlers(route: type[Controller] | Router) -> Iterable[HTTPRouteHandler]:
    if isinstance(route, type):
        # Along the whole inheritance: a controller may be put together from several.
        yield from (value for owner in route.__mro__ for value in vars(owner).values() if isinstance(value, HTTPRouteHandler))
        return
    for inner in route.routes:
        for handler in getattr(inner, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler):
                yield handler


def _injected(handler: HTTPRouteHandler) -> Iterable[str]:
    # As text: the annotations are read before anything of the framework resolves them.
    for name, annotation in handler.fn.__annotations__.items():
        if str(annotation).startswith("NamedDependency["):
            yield name
