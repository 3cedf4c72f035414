"""The one translation from errors to answers: status, body ``{"error": text}``, and what is worth a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from psycopg_pool import PoolClosed, PoolTimeout

from brain.errors import (
    BrainError,
    CapabilityError,
    ConflictError,
    CorruptChatError,
    ForbiddenOriginError,
    InvalidInputError,
    NotFoundError,
    PayloadTooLargeError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    UpstreamError,
    failure_chain,
)

if TYPE_CHECKING:
    from collections.abc import Callable

logger = structlog.get_logger(__name__)

INTERNAL: Final = "Internal server error"
DATABASE_AWAY: Final = "the database does not answer; try again in a moment"

STATUS: Final[dict[type[BrainError], int]] = {
    InvalidInputError: 400,
    CapabilityError: 400,
    UnauthorizedError: 401,
    ForbiddenOriginError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    PayloadTooLargeError: 413,
    UnsupportedMediaTypeError: 415,
    CorruptChatError: 500,
    UpstreamError: 502,
    UnavailableError: 503,
}


class _Detail(msgspec.Struct, frozen=True):
    """What the framework says about one parameter."""

    message: str
    key: str = ""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success."""

    error: str


MEANING: Final[dict[int, str]] = {
    400: "The request breaks a rule; the message says which.",
    401: "A token is missing or wrong.",
    403: "A write from another origin.",
    404: "What the request names does not exist.",
    409: "The present state does not allow it: the chat is busy, or the history has changed.",
    413: "The body is over a limit; the message names it.",
    415: "The body is not application/json.",
    500: "An unexpected failure, or a stored chat that breaks its rules.",
    502: "A model or gateway failed; the message tells the chain of causes.",
    503: "Not now: maintenance mode, too many running chats, or the database is away.",
}


def error_answers(*statuses: int) -> dict[int, ResponseSpec]:
    """Return the OpenAPI declaration of error answers."""
    return {
        status: ResponseSpec(data_container=ErrorBody, description=MEANING[status], generate_examples=False)
        for status in statuses
    }


def status_of(error: BrainError) -> int:
    """Return the status of a domain error: that of its nearest listed class."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def describe(error: BrainError) -> tuple[int, str]:
    """Return status and message of a domain error, and log what is not an expected state or the caller's mistake."""
    status = status_of(error)
    if status == 502:
        chain = failure_chain(error)
        logger.warning("a dependency failed", reason=chain)
        return status, chain
    if status == 500:
        logger.error("the request failed", reason=str(error))
        return status, INTERNAL
    return status, str(error) or type(error).__name__


def exception_handlers() -> dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[ErrorBody]]]:
    """Return the handlers of the application."""
    return {
        BrainError: _answer_brain_error,
        HTTPException: _answer_http_exception,
        PoolTimeout: _answer_database_away,
        PoolClosed: _answer_database_away,
        psycopg.OperationalError: _answer_database_away,
        Exception: _answer_bug,
    }


def _answer(status: int, message: str, headers: dict[str, str] | None = None) -> Response[ErrorBody]:
    return Response(ErrorBody(message), status_code=status, headers=headers, media_type="application/json")


def _answer_brain_error(_: Request[Any, Any, Any], error: BrainError) -> Response[ErrorBody]:
    status, message = describe(error)
    return _answer(status, message)


def _answer_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorBody]:
    if error.status_code >= 500:
        return _answer_bug(request, error)
    if isinstance(error, NotFoundException):
        return _answer(404, f"there is nothing at {request.scope['path']!r}")
    if isinstance(error, MethodNotAllowedException):
        return _answer(405, f"{request.scope['method']} is not possible here", dict(error.headers or {}))
    message = error.detail or type(error).__name__
    if isinstance(error, ValidationException):
        message = _explain_validation(error) or message
    return _answer(error.status_code, message)


def _explain_validation(error: ValidationException) -> str:
    try:
        details = msgspec.convert(error.extra, list[_Detail])
    except msgspec.ValidationError:
        return ""
    return "; ".join(f"{detail.key}: {detail.message}" if detail.key else detail.message for detail in details)


def _answer_database_away(_: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    logger.warning("the database does not answer", reason=str(error))
    return _answer(503, DATABASE_AWAY)


def _answer_bug(_: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    logger.error("the request failed", exc_info=error)
    return _answer(500, INTERNAL)
