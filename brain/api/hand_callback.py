"""The two routes that the hand calls back: list the tools of a run, execute one (brain-api §10, chat-domain §19.3)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from litestar import Controller, Request, Response, Router, get, post
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.middleware import DefineMiddleware

from brain.catalog import KIND_CAPABILITY
from brain.errors import BrainError, InvalidInputError, NotFoundError, UnauthorizedError
from brain.runs.registry import LiveRun, RunEndedError, RunRegistry
from brain.tools.budget import execute_within_budget
from brain.tools.provider import ToolOutcome, ToolTransportError, error_outcome
from shared_protocol.codec import tool_request_decoder
from shared_protocol.headers import AUTH_HEADER
from shared_protocol.messages import AttachmentPart
from shared_protocol.tools import Fatal, FatalAnswer, ToolAnswer, ToolListing, ToolRequest

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

logger = structlog.get_logger(__name__)

_JSON_OBJECT_START: Final = b"{"


class ToolListingError(BrainError):
    """A tool server behind a run is down: the hand ends the run with ``tool_transport``."""


class HandCallbackController(Controller):
    """Routes under ``/api/hand``; mount them with ``hand_callback_router``. Never blocked by maintenance."""

    path = "/"
    tags = ("hand",)

    @get("/tools", operation_id="listRunTools", summary="Tools of a live run")
    async def list_tools(self, request: Request[object, object, State], registry: NamedDependency[RunRegistry]) -> ToolListing:
        """Called before every model call of a run."""
        run_id = request.query_params.get("runId", "").strip()
        if not run_id:
            raise InvalidInputError("runId is missing")
        run = registry.find(run_id)
        if run is None:
            raise NotFoundError("run", run_id)
        try:
            return ToolListing(tuple(await run.tools.list_tools()))
        except ToolTransportError as problem:
            raise ToolListingError(f"the tools cannot be listed: {problem}") from problem

    @post(
        "/tool",
        operation_id="executeRunTool",
        status_code=200,
        summary="Execute one tool call of a live run",
        json_body=True,
        body_limit="message_body_bytes",
    )
    async def execute(
        self,
        request: Request[object, object, State],
        registry: NamedDependency[RunRegistry],
    ) -> Response[ToolAnswer | FatalAnswer]:
        """Always 200: what the model may repair is an answer with ``isError``, what ends the run is ``fatal``."""
        call = _decode_call(await request.body())
        run = registry.find(call.run_id)
        if run is None:
            return Response(_fatal(f"run {call.run_id!r} is not live in this brain"))
        return Response(await execute_call(run, call))


def _decode_call(body: bytes) -> ToolRequest:
    # By hand: the framework would decode to dicts first, and the arguments have to stay verbatim.
    try:
        # As text: what stays verbatim is not looked at by the decoder, so this is where it proves to be UTF-8.
        call = tool_request_decoder.decode(body.decode())
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidInputError(f"the tool call cannot be read: {problem}") from problem
    except RecursionError as problem:
        raise InvalidInputError("the tool call is nested too deeply") from problem
    if not bytes(call.args).lstrip().startswith(_JSON_OBJECT_START):
        raise InvalidInputError("args must be a JSON object")
    return call


async def execute_call(run: LiveRun, call: ToolRequest) -> ToolAnswer | FatalAnswer:
    """Execute a call within its budget and check that the run's model can read the result."""
    try:
        outcome = await run.perform(execute_within_budget(run.tools, call.id, call.name, call.args))
    except RunEndedError as problem:
        return _fatal(str(problem))
    except ToolTransportError as problem:
        return _fatal(f"the tool {call.name!r} cannot be reached: {problem}")
    except Exception as problem:  # the edge: a bug in one tool must not end the answer
        logger.exception("a tool failed unexpectedly", tool=call.name, run_id=run.run_id)
        outcome = error_outcome(f"the tool '{call.name}' failed unexpectedly ({type(problem).__name__})")
    return _checked(run, call, outcome)


def _checked(run: LiveRun, call: ToolRequest, outcome: ToolOutcome) -> ToolAnswer | FatalAnswer:
    for part in outcome.parts:
        if isinstance(part, AttachmentPart) and not run.model.can(KIND_CAPABILITY[part.kind]):
            return _fatal(
                f"model {run.model.id!r} cannot process content of kind {part.kind!r}, which the tool {call.name!r} returned",
            )
    return ToolAnswer(outcome.parts, outcome.is_error)


def _fatal(message: str) -> FatalAnswer:
    return FatalAnswer(is_error=False, fatal=Fatal(message))


class HandTokenMiddleware:
    """Refuses whoever does not know the shared secret, before anything else is looked at."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if its token is right.

        Raises:
            UnauthorizedError: it is missing or wrong.
        """
        given = next((value for name, value in scope["headers"] if name.lower() == AUTH_HEADER.encode()), b"")
        if not hmac.compare_digest(given, self._token):
            raise UnauthorizedError(f"{AUTH_HEADER} is missing or wrong")
        await self._app(scope, receive, send)


def hand_callback_router(token: str) -> Router:
    """Return the routes of the hand behind their token (``hand.token``)."""
    return Router(
        path="/api/hand",
        route_handlers=[HandCallbackController],
        middleware=[DefineMiddleware(HandTokenMiddleware, token=token)],
    )
