"""Metrics: named once, separate registries, pool figures."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

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


def test_two_brains_in_one_process_do_not_share_figures() -> None:
    first, second = Metrics(), Metrics()
    first.runs.labels("stored").inc()
    assert 'outcome="stored"' not in second.render().decode()
