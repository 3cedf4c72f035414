"""Tells an outage (wait, it will pass) from a failure of the content itself (trying again will not help for ever)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from brain.errors import HandUnavailableError, UnavailableError, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTAGE_TYPES: Final = frozenset({"upstream", "auth", "tool_transport"})
"""Error types of the hand that say nothing about what was sent."""

_OUTAGES: Final = (
    HandUnavailableError,
    UnavailableError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
    OSError,
    TimeoutError,
)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and everything that caused it, outermost first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def is_outage(error: BaseException) -> bool:
    """Whether a gateway, the hand or the database is to blame, and not what was sent to it."""
    return any(
        isinstance(link, _OUTAGES) or (isinstance(link, UpstreamError) and link.error_type in OUTAGE_TYPES)
        for link in causes(error)
    )
