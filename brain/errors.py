"""Domain errors of the brain: one small tree, translated to HTTP once, in ``brain.api.errors``.

Four kinds are kept apart: the caller's mistake, an expected state, a failing dependency, and our bug (anything else).
"""

from __future__ import annotations


class BrainError(Exception):
    """Base of everything the brain raises on purpose; the message is meant for the person who asked."""


class InvalidInputError(BrainError):
    """The caller's mistake: what was sent breaks a rule."""


class PayloadTooLargeError(BrainError):
    """The body or a part of it is over a cap; the message names the limit and its setting."""


class UnsupportedMediaTypeError(BrainError):
    """The body has a content type that the route does not take."""


class UnauthorizedError(BrainError):
    """A token is missing or wrong."""


class ForbiddenOriginError(BrainError):
    """A write that came from another site."""


class NotFoundError(BrainError):
    """What the request names does not exist."""

    def __init__(self, what: str, key: object) -> None:
        super().__init__(f"{what} {key!r} does not exist")


class CapabilityError(BrainError):
    """A model cannot process the content it would be given; the caller may choose another model."""


class ConflictError(BrainError):
    """The request fits, the present state does not (an edit of a history that has changed, a decision taken already)."""


class ChatBusyError(ConflictError):
    """Another run or edit holds the chat."""

    def __init__(self, chat_id: str) -> None:
        super().__init__(f"chat {chat_id!r} is busy: another message is being answered or the chat is being changed")


class UnavailableError(BrainError):
    """An expected state in which the request cannot be served now (maintenance, no free lock, database away)."""


class MaintenanceError(UnavailableError):
    """Maintenance mode blocks the operation."""

    def __init__(self) -> None:
        super().__init__("maintenance mode is on: switch it off to continue")


class UpstreamError(BrainError):
    """A dependency failed: the hand, a gateway, a model's answer. The chain of causes tells the story.

    ``error_type`` is one of the closed set in ``shared_protocol.errors``, where it is known; else empty.
    """

    error_type: str = ""


class HandUnavailableError(UpstreamError):
    """The hand could not be reached, refused the request, or dropped the stream without a terminal event."""


class HandRunError(UpstreamError):
    """The hand ended a run with an ``error`` event, or refused a request with an error body."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(f"{error_type}: {message}")
        self.error_type = error_type
        self.reason = message


class StageError(UpstreamError):
    """A one-shot stage (title, compaction, extraction, rewrite, ...) failed; ``__cause__`` says why."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage} failed: {reason}")
        self.stage = stage


class CorruptChatError(BrainError):
    """A stored chat breaks its invariants. A server error: it is never reset, never guessed at."""

    def __init__(self, chat_id: str, reason: str) -> None:
        super().__init__(f"the stored chat {chat_id!r} is not valid: {reason}")


def failure_chain(error: BaseException) -> str:
    """Return the messages of an error and all its causes, outermost first, one per line."""
    lines: list[str] = []
    link: BaseException | None = error
    while link is not None:
        text = str(link) or type(link).__name__
        lines.append(text if not lines else f"Caused by: {text}")
        link = link.__cause__
    return "\n".join(lines)
