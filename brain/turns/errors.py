"""What a client is told when a turn fails: a message for the person, a class-like type (brain-api §6.3, chat-domain §11)."""

from __future__ import annotations

from typing import Final

from brain.errors import (
    BrainError,
    CapabilityError,
    ConflictError,
    CorruptChatError,
    HandRunError,
    HandUnavailableError,
    InvalidInputError,
    StageError,
)
from brain.turns.events import Failed

_INTERNAL_MESSAGE: Final = "Internal server error"

_RUN_MESSAGES: Final = {
    "output_budget_exhausted": (
        "The output limit was used up without usable content although the context is not full. "
        "Raise maxOutputTokens, lower the reasoning effort, or choose another model."
    ),
    "content_filter": (
        "The provider stopped the answer on purpose and returned nothing usable. "
        "Retrying the same prompt will not help: rephrase it or choose another model."
    ),
    "empty_response": (
        "The model finished normally but its answer is empty. "
        "Retrying the same prompt will probably not help: rephrase it or choose another model."
    ),
}
_RUN_PREFIXES: Final = {
    "tool_transport": "The connection to a tool failed",
    "round_limit": "The limit of tool rounds was reached",
    "context_exhausted": "The context window of the model is full, and compacting the conversation did not free enough of it",
}
# Names that clients of the reference know; new kinds of failures get names in the same manner.
_TYPES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (HandRunError, "HandRunException"),
    (HandUnavailableError, "HandUpstreamException"),
    (CapabilityError, "ModelCapabilityException"),
    (StageError, "IllegalStateException"),
    (CorruptChatError, "IllegalStateException"),
    (InvalidInputError, "IllegalArgumentException"),
)


class TurnError(BrainError):
    """A turn cannot go on for a reason of its own; ``client_type`` is the name that the client gets."""

    def __init__(self, message: str, client_type: str = "TurnException") -> None:
        super().__init__(message)
        self.client_type = client_type


class StoppedError(TurnError, ConflictError):
    """A person stopped the turn and nothing of it is kept (as an answer to a request: 409)."""

    def __init__(self, message: str = "The answer was stopped.") -> None:
        super().__init__(message, "StoppedException")


def describe_failure(error: BaseException) -> Failed:
    """Return the terminal event: the outermost message and that of its first cause; of an unexpected error only its kind."""
    if not isinstance(error, BrainError):
        return Failed(_INTERNAL_MESSAGE, "InternalException")
    message = run_error_message(error) if isinstance(error, HandRunError) else _text(error)
    cause = error.__cause__
    if isinstance(cause, BrainError):
        message += f"\nCaused by: {run_error_message(cause) if isinstance(cause, HandRunError) else _text(cause)}"
    elif cause is not None:
        message += f"\nCaused by: {type(cause).__name__}"
    return Failed(message, _type_of(error))


def run_error_message(error: HandRunError) -> str:
    """Return what an error of the hand means to a person."""
    if (fixed := _RUN_MESSAGES.get(error.error_type)) is not None:
        return f"{fixed}\n({error.reason})" if error.reason else fixed
    if (prefix := _RUN_PREFIXES.get(error.error_type)) is not None:
        return f"{prefix}: {error.reason}"
    return f"The model call failed ({error.error_type}): {error.reason}"


def _type_of(error: BrainError) -> str:
    if isinstance(error, TurnError):
        return error.client_type
    return next((name for kind, name in _TYPES if isinstance(error, kind)), type(error).__name__)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
