"""Metrics: named once, separate registries, pool figures."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

import brain
from brain.observability.metrics import Metrics


async def test_figures_appear_in_the_text_format(pool: AsyncConnectionPool[AsyncConnection]) -> None:
    metrics = Metrics()
    metrics.runs.labels("stored").inc()
    metrics.first_token.observe(0.2)
    metrics.observe_pool(pool)
    text = metrics.render().decode()
    assert 'daapu_runs_total{outcome="stored"} 1.0' in text
    assert "daapu_time_to_first_token_seconds_count 1.0" in text
    assert f'daapu_pool_size{{pool="{pool.name}"}}' in text


def test_the_queue_is_told_by_state() -> None:
    metrics = Metrics()
    metrics.observe_queue({"waiting": 3, "parked": 1}, 12.5)
    text = metrics.render().decode()
    assert 'daapu_queue_depth{state="waiting"} 3.0' in text
    assert 'daapu_queue_depth{state="parked"} 1.0' in text
    assert "daapu_queue_oldest_age_seconds 12.5" in text


def test_every_figure_is_set_somewhere() -> None:
    """A figure that nobody sets says that all is quiet."""
    source = "\n".join(path.read_text() for path in Path(brain.__file__).parent.rglob("*.py"))
    for name, value in vars(Metrics()).items():
        if isinstance(value, Counter | Gauge | Histogram):
            assert re.search(rf"\b{name}(\.labels\([^\n]*\))?\.(inc|dec|set|observe)\(", source), name


def test_two_brains_in_one_process_do_not_share_figures() -> None:
    first, second = Metrics(), Metrics()
    first.runs.labels("stored").inc()
    assert 'outcome="stored"' not in second.render().decode()
