"""Collected runs: the text contract (chat-domain section 19.2), and the trace of them (section 20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import structlog

from brain.catalog import ChatModel, ModelId
from brain.config.models import HandConfig, ProviderConfig
from brain.errors import HandRunError, HandUnavailableError, StageError
from brain.runs import trace
from brain.runs.client import open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from shared_protocol.instants import Instant
from shared_protocol.messages import AttachmentPart, Base64Content, ReasoningPart, TextPart, UserMessage
from tests.fakes.hand import TOKEN, FakeHand, FakeRun
from tests.fakes.tools import FakeTools
from tests.integration.turns.conftest import free_port, model_config

PICTURE = AttachmentPart("image", Base64Content("c2VjcmV0IHBpY3R1cmU="), "image/png")
QUESTION = UserMessage((TextPart("What?"), PICTURE), created_at=Instant("2026-03-01T08:00:00Z"))


@pytest_asyncio.fixture
async def hand() -> AsyncGenerator[FakeHand]:
    async with FakeHand().serve() as fake:
        yield fake


class Stage:
    def __init__(self, collector: RunCollector, registry: RunRegistry) -> None:
        self.collector = collector
        self.registry = registry
        config = model_config()
        self.model = ChatModel(ModelId("gw/large"), ProviderConfig(api_key="k", base_url="http://x/v1"), config, None)

    async def text(self) -> str:
        return await self.collector.text(stage="naming", model=self.model, system_prompt="Be brief.", messages=(QUESTION,))


async def open_stage(base_url: str, *, traced: bool = False) -> AsyncGenerator[Stage]:
    hand_config = HandConfig(
        base_url=base_url, self_base_url="http://brain:1", token=TOKEN, max_retries=3, stream_idle_timeout_ms=7
    )
    async with open_hand_client(base_url, TOKEN) as client:
        registry = RunRegistry()
        yield Stage(RunCollector(client, registry, hand_config, RunTrace(enabled=traced)), registry)


@pytest_asyncio.fixture
async def stage(hand: FakeHand) -> AsyncGenerator[Stage]:
    async for opened in open_stage(hand.url):
        yield opened


@pytest_asyncio.fixture
async def traced(hand: FakeHand) -> AsyncGenerator[Stage]:
    async for opened in open_stage(hand.url, traced=True):
        yield opened


def ending(*parts: Any, finish: str = "stop") -> Any:
    async def script(run: FakeRun) -> None:
        await run.message(*parts, finish_reason=finish)
        await run.done()

    return script


async def failing(run: FakeRun) -> None:
    await run.error("upstream", "no model today")


async def test_the_answer_is_the_text_of_the_last_message(stage: Stage, hand: FakeHand) -> None:
    hand.scripts.append(ending(ReasoningPart("hm"), TextPart(" one "), TextPart("two ")))
    assert await stage.text() == "one \ntwo"
    (request,) = hand.requests
    assert (request.tool_list_url, request.tool_callback_url) == (None, None)
    assert (request.max_rounds, request.max_retries, request.stream_idle_timeout_ms) == (0, 3, 7)


@pytest.mark.parametrize(
    "script",
    [
        ending(TextPart("cut"), finish="length"),
        ending(TextPart("shouted"), finish="STOP"),
        ending(TextPart(" \n")),
        ending(ReasoningPart("only thought")),
    ],
)
async def test_anything_else_than_stop_and_text_is_a_failure_of_the_stage(stage: Stage, hand: FakeHand, script: Any) -> None:
    hand.scripts.append(script)
    with pytest.raises(StageError, match=r"^naming failed"):
        await stage.text()


async def test_a_failure_is_labelled_with_the_stage_and_keeps_its_cause(stage: Stage, hand: FakeHand) -> None:
    hand.scripts.append(failing)
    with pytest.raises(StageError, match=r"^naming failed") as caught:
        await stage.text()
    assert isinstance(caught.value.__cause__, HandRunError)
    assert caught.value.__cause__.error_type == "upstream"


async def test_a_run_is_ended_by_its_time_limit(stage: Stage, hand: FakeHand) -> None:
    async def endless(run: FakeRun) -> None:
        await run.text("slow")
        await run.cancelled.wait()

    hand.scripts.append(endless)
    # A minute is too long for a test: the limit is the real one, its unit is not.
    stage.collector._config = msgspec.structs.replace(stage.collector._config, run_timeout_minutes=0.005)
    with pytest.raises(StageError, match=r"^naming failed") as caught:
        await stage.text()
    assert isinstance(caught.value.__cause__, HandUnavailableError)
    assert "hand.runTimeoutMinutes" in str(caught.value.__cause__)
    async with asyncio.timeout(5):
        await hand.runs[0].cancelled.wait()


async def test_without_a_time_limit_a_run_may_take_its_time(stage: Stage) -> None:
    stage.collector._config = msgspec.structs.replace(stage.collector._config, run_timeout_minutes=0)
    assert await stage.text() == "Hello there."


async def test_a_run_with_tools_is_known_only_while_it_lasts(stage: Stage, hand: FakeHand) -> None:
    seen: list[bool] = []

    async def script(run: FakeRun) -> None:
        seen.append(stage.registry.find(run.request.run_id) is not None)
        await run.error("upstream")

    hand.scripts.append(script)
    run = await stage.collector.collect(
        stage="looking", model=stage.model, system_prompt="Look.", messages=(QUESTION,), tools=FakeTools("fs"), max_rounds=5
    )
    assert run.error is not None
    (request,) = hand.requests
    assert seen == [True]
    assert stage.registry.find(request.run_id) is None
    assert request.tool_list_url == "http://brain:1/api/hand/tools"
    assert request.tool_callback_url == "http://brain:1/api/hand/tool"
    assert request.max_rounds == 5


async def test_the_trace_is_off_unless_asked_for(stage: Stage) -> None:
    with structlog.testing.capture_logs() as logs:
        await stage.text()
    assert logs == []


async def test_the_trace_tells_everything_but_the_attachments(traced: Stage, hand: FakeHand) -> None:
    hand.scripts.extend([ending(TextPart("an answer")), failing])
    with structlog.testing.capture_logs() as logs:
        await traced.text()
        with pytest.raises(StageError):
            await traced.text()
    first, second = logs
    assert (first["stage"], first["system_prompt"], first["error"]) == ("naming", "Be brief.", None)
    assert "What?" in str(first["input"])
    assert "an answer" in str(first["transcript"])
    assert PICTURE.content.base64 not in str(first)
    assert "image/png, 20 base64 characters" in str(first["input"])
    assert second["error"] == "upstream: no model today"


async def test_the_trace_tells_of_a_hand_that_is_away() -> None:
    async for away in open_stage(f"http://127.0.0.1:{free_port()}", traced=True):
        with structlog.testing.capture_logs() as logs, pytest.raises(StageError) as caught:
            await away.text()
        assert isinstance(caught.value.__cause__, HandUnavailableError)
        assert logs[0]["error"].startswith("HandUnavailableError: ")


async def test_a_failing_trace_does_not_fail_the_run(traced: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_message: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(trace, "_readable", broken)
    with structlog.testing.capture_logs() as logs:
        assert await traced.text() == "Hello there."
    assert [entry["event"] for entry in logs] == ["the trace of a run failed"]
