"""When a failed attempt is made again, and after how long (section 8.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, stop_after_attempt, stop_never

from hand.errors import RunError, TransientError

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 6400

T = TypeVar("T")
RetryListener = Callable[[int, int, TransientError], None]
"""Called before the wait with attempt number, delay in milliseconds, and the failure."""


def delay_ms(attempt: int) -> int:
    """Return the wait after failed attempt number ``attempt``: 100, 200, 400 … 6400 ms, no jitter."""
    # Unlimited attempts must not make unlimited numbers.
    return min(FIRST_DELAY_MS << min(attempt - 1, 16), LONGEST_DELAY_MS)


async def with_retries(attempt: Callable[[], Awaitable[T]], max_retries: int, listener: RetryListener) -> T:
    """Call ``attempt`` until it succeeds; ``max_retries`` is the total number of attempts, 0 means no limit.

    Raises:
        RunError: ``upstream``, when the attempts are used up; whatever else an attempt raises passes through.
    """

    def before_sleep(state: RetryCallState) -> None:
        failure = _failure_of(state)
        listener(state.attempt_number, delay_ms(state.attempt_number), failure)

    retrying = AsyncRetrying(
        stop=stop_after_attempt(max_retries) if max_retries else stop_never,
        wait=lambda state: delay_ms(state.attempt_number) / 1000,
        retry=retry_if_exception_type(TransientError),
        before_sleep=before_sleep,
        sleep=asyncio.sleep,
    )
    try:
        return await retrying(attempt)
    except RetryError as problem:
        failure = problem.last_attempt.exception()
        raise RunError("upstream", f"maxRetries ({max_retries}) exhausted: {failure}") from failure


def _failure_of(state: RetryCallState) -> TransientError:
    failure = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(failure, TransientError)
    return failure
