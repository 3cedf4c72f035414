"""Log lines of section 15: JSON, one line each, ``[hand]`` first, never content or secrets.

Ordinary lines go to the standard output, refusals and unexpected exceptions to the error stream.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, BinaryIO

import msgspec

# structlog's renderer for terminals loads rich where it is installed: 50 modules, 4 MB and half of our start, for nothing.
_without_rich = "rich" not in sys.modules
if _without_rich and not TYPE_CHECKING:
    sys.modules["rich"] = None
import structlog  # noqa: E402  # see above
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger  # noqa: E402  # see above

if _without_rich:
    del sys.modules["rich"]

PREFIX = "[hand] "


def _as_json(_: WrappedLogger, __: str, event: EventDict) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=str)
    except UnicodeEncodeError:
        # Bytes of a request that are no UTF-8 arrive as halves of surrogate pairs.
        return json.dumps(event, default=str).encode()


def _logger(stream: BinaryIO) -> FilteringBoundLogger:
    return structlog.wrap_logger(  # pyright: ignore[reportAny]  # structlog types its factories as Any
        structlog.BytesLogger(stream),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            _as_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )


class Log:
    """The two streams the hand writes to, and nothing but the forms of section 15."""

    def __init__(self, ordinary: BinaryIO | None = None, problems: BinaryIO | None = None) -> None:
        self._ordinary = _logger(ordinary or sys.stdout.buffer)
        self._problems = _logger(problems or sys.stderr.buffer)

    def started(self, host: str, port: int) -> None:
        """Say where the hand listens."""
        self._ordinary.info(f"{PREFIX}listening on {host}:{port}", host=host, port=port)

    def stopping(self, open_runs: int, drain_seconds: float) -> None:
        """Say that no new run is taken."""
        self._ordinary.info(f"{PREFIX}stopping openRuns={open_runs}", openRuns=open_runs, drainSeconds=drain_seconds)

    def run_started(self, run_id: str, model_id: str) -> None:
        """Log the start of a run."""
        self._ordinary.info(f"{PREFIX}run start runId={run_id} model={model_id}", runId=run_id, model=model_id)

    def run_ended(self, run_id: str, model_id: str, rounds: int, outcome: str, input_tokens: int, output_tokens: int) -> None:
        """Log the end of a run, aborts included; tokens are sums over the accepted rounds."""
        self._ordinary.info(
            f"{PREFIX}run end runId={run_id} model={model_id} rounds={rounds} outcome={outcome} "
            f"inputTokens={input_tokens} outputTokens={output_tokens}",
            runId=run_id,
            model=model_id,
            rounds=rounds,
            outcome=outcome,
            inputTokens=input_tokens,
            outputTokens=output_tokens,
        )

    def embed_started(self, model_id: str, items: int) -> None:
        """Log the start of an embedding request."""
        self._ordinary.info(f"{PREFIX}embed start model={model_id} items={items}", model=model_id, items=items)

    def embed_ended(self, model_id: str, dimensions: int, vectors: int) -> None:
        """Log an answered embedding request."""
        self._ordinary.info(
            f"{PREFIX}embed end model={model_id} dimensions={dimensions} vectors={vectors}",
            model=model_id,
            dimensions=dimensions,
            vectors=vectors,
        )

    def embed_failed(self, model_id: str, outcome: str) -> None:
        """Log a failed or aborted embedding request."""
        self._ordinary.info(f"{PREFIX}embed end model={model_id} outcome={outcome}", model=model_id, outcome=outcome)

    def rejected(self, error_type: str, message: str) -> None:
        """Log a refused request."""
        self._problems.warning(f"{PREFIX}request rejected error={error_type}: {message}", error=error_type)

    def unexpected(self, run_id: str, problem: BaseException) -> None:
        """Log an unexpected exception of a run with its stack, which names code and no content."""
        self._problems.error(
            f"{PREFIX}unexpected exception runId={run_id}: {type(problem).__name__}: {str(problem)[:200]}",
            runId=run_id,
            stack=_frames(problem),
        )


def _frames(problem: BaseException) -> list[str]:
    """Return file, line and function of each frame; local values stay out, they may hold content."""
    frames: list[str] = []
    traceback = problem.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename}:{traceback.tb_lineno} {code.co_qualname}")
        traceback = traceback.tb_next
    return frames
