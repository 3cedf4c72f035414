"""Logging: one configuration, one writer, no secrets.

Secrets stay out by construction: values under a telling key are replaced wherever they appear in an event, and exceptions
are written without the values of local variables. Message text is never logged at info.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping
    from typing import TextIO

    from structlog.typing import Processor, WrappedLogger

LogFormat = Literal["json", "console"]
REDACTED: Final = "[redacted]"
_SECRET_WORDS: Final = ("token", "apikey", "api_key", "password", "secret", "authorization", "cookie")
_COUNTS: Final = "tokens"
"""Keys that count tokens of a model are figures, not secrets."""
_CREDENTIALS: Final = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
_NOISY: Final = ("httpx2", "httpcore2", "httpx", "httpcore", "yoyo", "mcp", "uvicorn.access", "psycopg.pool")


def configure_logs(*, level: str | None = None, form: LogFormat | None = None, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's loggers; calling it again replaces the set-up.

    ``DAAPU_LOG_LEVEL`` and ``DAAPU_LOG_FORMAT`` are read where no argument is given; the format is ``console`` on a terminal,
    ``json`` elsewhere.
    """
    out = sys.stderr if stream is None else stream
    wanted = form or os.environ.get("DAAPU_LOG_FORMAT") or ("console" if out.isatty() else "json")
    threshold = (level or os.environ.get("DAAPU_LOG_LEVEL") or "info").upper()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        redact,
    ]
    final: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if wanted == "console":
        final.append(structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback))
    else:
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        final += [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer(serializer=_to_json)]
    handler = logging.StreamHandler(out)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def redact(_logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what stands under a telling key, at any depth."""
    for key, value in event.items():
        event[key] = _clean(key, value)
    return event


def _clean(key: str, value: object) -> object:
    if _is_secret(key) and value is not None:
        return REDACTED
    if isinstance(value, str) and "://" in value:
        return _CREDENTIALS.sub(rf"\g<1>{REDACTED}@", value)
    if isinstance(value, dict):
        return {inner: _clean(str(inner), content) for inner, content in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean("", content) for content in cast("Iterable[object]", value)]
    return value


def _is_secret(key: str) -> bool:
    plain = key.lower().replace("-", "_")
    return any(word in plain for word in _SECRET_WORDS) and not plain.endswith(_COUNTS)


def _to_json(event: object, **_options: object) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
