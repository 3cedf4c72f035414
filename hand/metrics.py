"""What the hand counts about itself, for ``/metrics``.

The numbers are plain; the exposition library is loaded with the first scrape, as a hand that nobody scrapes should not carry it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hand.errors import RetryCause

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST_DELTA_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, float("inf"))


class Metrics:
    """Counters of one process."""

    def __init__(self) -> None:
        self.open_streams: int = 0
        self._runs: Counter[str] = Counter()
        self._embeds: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter(input=0, output=0)
        self._first_delta: Counter[float] = Counter()
        self._first_delta_seconds = 0.0

    def run_opened(self) -> None:
        """Count a run in flight."""
        self.open_streams += 1

    def run_closed(self, outcome: str, input_tokens: int, output_tokens: int, first_delta_seconds: float | None) -> None:
        """Count a finished run; ``outcome`` as in the log."""
        self.open_streams -= 1
        self._runs[outcome] += 1
        self._tokens["input"] += input_tokens
        self._tokens["output"] += output_tokens
        if first_delta_seconds is not None:
            self._first_delta_seconds += first_delta_seconds
            self._first_delta[next(bound for bound in _FIRST_DELTA_BUCKETS if first_delta_seconds <= bound)] += 1

    def retried(self, cause: RetryCause) -> None:
        """Count an attempt that is made again."""
        self._retries[cause] += 1

    def embedded(self, outcome: str) -> None:
        """Count an embedding request."""
        self._embeds[outcome] += 1

    def render(self) -> bytes:
        """Return the text exposition."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the figures as families (the interface of a ``prometheus_client`` collector)."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for name, text, label, counts in (
            ("hand_runs", "Runs by outcome", "outcome", self._runs),
            ("hand_embeds", "Embedding requests by outcome", "outcome", self._embeds),
            ("hand_retries", "Failed attempts that were made again, by cause", "cause", self._retries),
            ("hand_tokens", "Tokens of accepted rounds", "direction", self._tokens),
        ):
            family = CounterMetricFamily(name, text, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            yield family
        yield GaugeMetricFamily("hand_open_streams", "Runs in flight", value=self.open_streams)
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound in _FIRST_DELTA_BUCKETS:
            total += self._first_delta[bound]
            buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
        text = "From the start of a run to its first delta"
        yield HistogramMetricFamily("hand_first_delta_seconds", text, buckets=buckets, sum_value=self._first_delta_seconds)
