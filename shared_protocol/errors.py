"""The closed set of error types that the hand reports, and the body of a refused request."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ErrorType: TypeAlias = Literal[
    "invalid_request",
    "auth",
    "upstream",
    "context_exhausted",
    "output_budget_exhausted",
    "content_filter",
    "empty_response",
    "tool_transport",
    "round_limit",
    "internal",
]


class ErrorInfo(msgspec.Struct, frozen=True):
    """What went wrong: a stable type for programs, a message for people."""

    type: ErrorType
    message: str


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON body of every answer of the hand that is neither 200 nor a stream."""

    ok: Literal[False] = False
    error: ErrorInfo


STATUS_BY_TYPE: dict[ErrorType, int] = {
    "invalid_request": 400,
    "auth": 401,
    "upstream": 502,
    "internal": 500,
}
"""Status of a refused request; types that occur only inside a stream have none."""
