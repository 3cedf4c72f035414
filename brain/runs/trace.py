"""The opt-in trace of collected runs: whole transcripts under a logger of its own, attachments as size placeholders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from shared_protocol.messages import AttachmentPart, ContentPart, Message, ToolResultPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_protocol.run import ErrorEvent, RunRequest

logger = structlog.get_logger("brain.oneshot_trace")


class RunTrace:
    """Logs collected runs when ``observability.oneShotTrace`` is on. A failing trace never fails the run."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def record(
        self, stage: str, request: RunRequest, transcript: Sequence[Message], error: ErrorEvent | BaseException | None
    ) -> None:
        """Log one run: system prompt, input, transcript, and what ended it if it failed."""
        if not self._enabled:
            return
        try:
            logger.info(
                "collected run",
                stage=stage,
                run_id=request.run_id,
                model=request.model.model_id,
                system_prompt=request.system_prompt,
                input=[_readable(message) for message in request.messages],
                transcript=[_readable(message) for message in transcript],
                error=_reason(error),
            )
        except Exception:
            logger.exception("the trace of a run failed", stage=stage)


def _reason(error: ErrorEvent | BaseException | None) -> str | None:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"
    return None if error is None else f"{error.type}: {error.message}"


def _readable(message: Message) -> dict[str, Any]:
    return {"role": type(message).__name__, "parts": [_readable_part(part) for part in message.parts]}


def _readable_part(part: object) -> object:
    match part:
        case AttachmentPart():
            return f"[{part.kind} {part.mime_type}, {len(part.content.base64)} base64 characters]"
        case ToolResultPart():
            inner: tuple[ContentPart, ...] = part.parts
            return {"tool": part.tool, "isError": part.is_error, "parts": [_readable_part(piece) for piece in inner]}
        case _:
            return repr(part)
