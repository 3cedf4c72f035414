"""The API under requests made from its own description: whatever comes in, nothing is answered with 500."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.integration.api.conftest import assistant, open_api, user

if TYPE_CHECKING:
    from collections.abc import Generator

SECONDS = 45
"""How long all operations together may take."""
SKIPPED = {"setMaintenance"}
"""The switch that would block others."""


class Running:
    """The application behind a real listener, on a loop in a thread of its own: the fuzzer is synchronous."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.url = ""
        self.chat_id = ""

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with open_api(self._database_url, listen=True) as api:
            self.url = api.url
            self.chat_id = await api.import_chat([user(), assistant()])
            self._started.set()
            await self._stop.wait()

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


@pytest.fixture
def running(database_url: str) -> Generator[Running]:
    with Running(database_url) as started:
        yield started


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_request_is_answered_with_500(running: Running) -> None:
    schema = schemathesis.openapi.from_url(f"{running.url}/api/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    chosen = [operation for operation in operations if operation.definition.raw.get("operationId") not in SKIPPED]
    assert len(chosen) > 25
    deadline = time.monotonic() + SECONDS
    for number, operation in enumerate(chosen):
        share = (deadline - time.monotonic()) / (len(chosen) - number)
        fuzz(operation, running, until=time.monotonic() + max(share, 0.2))


def fuzz(operation: Any, running: Running, *, until: float) -> None:
    failures: list[str] = []

    @seed(20260301)
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
        real=st.booleans(),
    )
    def one(case: Any, real: bool) -> None:
        if time.monotonic() > until:
            return
        if real and "chat_id" in (case.path_parameters or {}):
            case.path_parameters["chat_id"] = running.chat_id
        answer = case.call(base_url=running.url, timeout=30)
        is_readiness = operation.path == "/api/health/ready"
        if answer.status_code == 500:
            failures.append(f"{case.method} {answer.request.url} {case.body!r:.300}: {answer.status_code} {answer.text}")
        elif answer.status_code >= 400:
            assert list(json.loads(answer.content)) == ["error"] or case.method == "HEAD" or is_readiness

    one()
    assert failures == []
