"""Spans through the OpenTelemetry API: they cost next to nothing until an SDK is installed and set up (extra ``otel``)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

_TRACER: Final = trace.get_tracer("daapu.brain")


@contextmanager
def span(name: str, attributes: Mapping[str, AttributeValue] | None = None) -> Generator[Span]:
    """Time a piece of work; an exception that leaves the body is recorded and raised on. No text, no secrets in attributes."""
    with _TRACER.start_as_current_span(name, attributes=attributes) as current:
        yield current
