"""Metrics of the brain: one registry, one place that names them. Labels never hold ids or text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOKEN_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Every figure that the brain publishes."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.runs: Final = Counter("daapu_runs", "Chat runs by outcome.", ["outcome"], registry=self.registry)
        """Outcomes: ``stored``, ``stopped``, or the error type of the hand."""
        self.first_token: Final = Histogram(
            "daapu_time_to_first_token_seconds",
            "From the request to the first delta of the answer.",
            buckets=_TOKEN_BUCKETS_S,
            registry=self.registry,
        )
        self.prompt_tokens: Final = Counter(
            "daapu_prompt_tokens",
            "Prompt tokens of chat runs: new, or found in the gateway's cache.",
            ["kind"],
            registry=self.registry,
        )
        """Kinds: ``new``, ``cached``."""
        self.answer_tokens: Final = Counter("daapu_answer_tokens", "Generated tokens of chat runs.", registry=self.registry)
        self.live_turns: Final = Gauge("daapu_live_turns", "Turns running in this process.", registry=self.registry)
        self.queue_depth: Final = Gauge("daapu_queue_depth", "Extraction jobs by state.", ["state"], registry=self.registry)
        """States: ``waiting``, ``running``, ``retrying``, ``parked``."""
        self.queue_oldest_age: Final = Gauge(
            "daapu_queue_oldest_age_seconds", "Age of the oldest extraction job.", registry=self.registry
        )
        self.tool_calls: Final = Counter(
            "daapu_tool_calls", "Tool calls by namespace and outcome.", ["namespace", "outcome"], registry=self.registry
        )
        """Tool calls of chats. Outcomes: ``ok``, ``error``; a name that no tool has counts under ``unknown``."""
        self.degraded: Final = Counter(
            "daapu_memory_degraded",
            "Turns that were answered without some memory, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self._pool_waiting: Final = Gauge(
            "daapu_pool_requests_waiting", "Requests that wait for a connection now.", ["pool"], registry=self.registry
        )
        self._pool_size: Final = Gauge("daapu_pool_size", "Open database connections.", ["pool"], registry=self.registry)

    def observe_pool(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        """Take the figures of a pool over; called before the metrics are read."""
        stats = pool.get_stats()
        self._pool_waiting.labels(pool.name).set(stats.get("requests_waiting", 0))
        self._pool_size.labels(pool.name).set(stats.get("pool_size", 0))

    def observe_queue(self, jobs: Mapping[str, int], oldest_age_seconds: float) -> None:
        """Take the figures of the extraction queue over: jobs by state, and the age of the oldest."""
        for state, count in jobs.items():
            self.queue_depth.labels(state).set(count)
        self.queue_oldest_age.set(oldest_age_seconds)

    def render(self) -> bytes:
        """Return all figures in the text format of Prometheus."""
        return generate_latest(self.registry)
