"""What can go wrong in the hand: a refused request, a run that ends, an attempt that is worth repeating."""

from __future__ import annotations

from typing import Literal

from hand.textio import without_surrogates
from shared_protocol.errors import ErrorType

RetryCause = Literal["http", "in_band", "connection", "truncated", "corrupt", "idle", "finish_reason", "malformed_call"]


class HandError(Exception):
    """Base of all errors the hand reports; the message is for people, valid Unicode, and holds no secret."""

    def __init__(self, error_type: ErrorType, message: str) -> None:
        self.type: ErrorType = error_type
        self.message = without_surrogates(message)
        super().__init__(self.message)


class RefusedError(HandError):
    """The request is refused before anything was contacted; ``status`` only where the type does not settle it."""

    def __init__(self, error_type: ErrorType, message: str, status: int | None = None) -> None:
        super().__init__(error_type, message)
        self.status = status


class RunError(HandError):
    """The run ends with this error event; never retried."""


class TransientError(Exception):
    """The attempt failed in a way that a repetition may cure (section 13.3, last item)."""

    def __init__(self, cause: RetryCause, message: str) -> None:
        self.cause: RetryCause = cause
        self.message = without_surrogates(message)
        super().__init__(self.message)


def invalid_request(message: str) -> RefusedError:
    """Return the refusal of a malformed request."""
    return RefusedError("invalid_request", message)
