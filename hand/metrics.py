"""What the hand counts about itself, for ``/metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from hand.errors import RetryCause

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_FIRST_DELTA_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._runs = Counter("hand_runs", "Runs by outcome", ["outcome"], registry=self._registry)
        self._embeds = Counter("hand_embeds", "Embedding requests by outcome", ["outcome"], registry=self._registry)
        self._retries = Counter(
            "hand_retries", "Failed attempts that were made again, by cause", ["cause"], registry=self._registry
        )
        self._tokens = Counter("hand_tokens", "Tokens of accepted rounds", ["direction"], registry=self._registry)
        self._first_delta = Histogram(
            "hand_first_delta_seconds",
            "From the start of a run to its first delta",
            buckets=_FIRST_DELTA_BUCKETS,
            registry=self._registry,
        )
        self._open = Gauge("hand_open_streams", "Runs in flight", registry=self._registry)

    def run_opened(self) -> None:
        """Count a run in flight."""
        self._open.inc()

    def run_closed(self, outcome: str, input_tokens: int, output_tokens: int, first_delta_seconds: float | None) -> None:
        """Count a finished run; ``outcome`` as in the log."""
        self._open.dec()
        self._runs.labels(outcome).inc()
        self._tokens.labels("input").inc(input_tokens)
        self._tokens.labels("output").inc(output_tokens)
        if first_delta_seconds is not None:
            self._first_delta.observe(first_delta_seconds)

    def retried(self, cause: RetryCause) -> None:
        """Count an attempt that is made again."""
        self._retries.labels(cause).inc()

    def embedded(self, outcome: str) -> None:
        """Count an embedding request."""
        self._embeds.labels(outcome).inc()

    def render(self) -> bytes:
        """Return the text exposition."""
        return generate_latest(self._registry)
