"""Tools that ask first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brain.config.models import ApprovalsConfig
from tests.fakes.hand import FakeHand, FakeRun
from tests.integration.turns.conftest import CHAT, Brain, Settings, names, run_brain


async def rolling(run: FakeRun) -> None:
    await run.tool_round(("c1", "dice__roll", '{"sides":6}'))
    await run.answer("Done.")


@pytest.fixture
async def careful(database_url: str, pool: Any, hand: FakeHand) -> Any:
    hand.scripts.extend([rolling, rolling])
    async with run_brain(database_url, pool, hand, Settings(ask=("dice",))) as brain:
        await brain.create_chat()
        yield brain


async def decide(brain: Brain, call_id: str = "c1", **body: str) -> int:
    answer = await brain.http.post(f"/api/chats/{CHAT}/approvals/{call_id}", json=body)
    return answer.status_code


async def test_an_approved_call_runs(careful: Brain) -> None:
    async with careful.sending(approvals=True) as feed:
        asked = await feed.next("tool_approval")
        assert asked.data == {"id": "c1", "name": "dice__roll", "args": {"sides": 6}, "timeoutSeconds": 300}
        state = (await careful.http.get(f"/api/chats/{CHAT}/run")).json()
        assert state["pendingApprovals"] == [asked.data]
        assert careful.tools.calls == []
        assert await decide(careful, "unknown", decision="approve") == 404
        assert await decide(careful, decision="approve") == 204
        assert (await feed.next("tool_approval_result")).data == {"id": "c1", "decision": "approve"}
        assert await decide(careful, decision="deny") == 409
        assert names(await feed.rest())[-1] == "done"
    assert len(careful.tools.calls) == 1


async def test_a_denied_call_is_told_to_the_model(careful: Brain) -> None:
    async with careful.sending(approvals=True) as feed:
        await feed.next("tool_approval")
        assert await decide(careful, decision="deny") == 204
        result = await feed.next("tool_result")
        assert result.data["isError"] is True
        assert names(await feed.rest())[-1] == "done"
    assert careful.tools.calls == []


async def test_an_approval_for_the_chat_is_not_asked_again(careful: Brain) -> None:
    async with careful.sending(approvals=True) as feed:
        await feed.next("tool_approval")
        assert await decide(careful, decision="approve", scope="chat") == 204
        assert names(await feed.rest())[-1] == "done"
    assert "tool_approval" not in names(await careful.send("again", approvals=True))
    assert len(careful.tools.calls) == 2


async def test_a_client_that_cannot_answer_is_not_asked(careful: Brain) -> None:
    assert "tool_approval" not in names(await careful.send())
    assert len(careful.tools.calls) == 1


async def test_nobody_there_can_mean_no(database_url: str, pool: Any, hand: FakeHand) -> None:
    hand.scripts.append(rolling)
    settings = Settings(ask=("dice",), approvals=ApprovalsConfig(unattended="deny"))
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat()
        events = await brain.send()
    assert next(event.data["isError"] for event in events if event.name == "tool_result") is True
    assert brain.tools.calls == []


async def test_silence_is_a_denial(database_url: str, pool: Any, hand: FakeHand) -> None:
    hand.scripts.append(rolling)
    settings = Settings(ask=("dice",), approvals=ApprovalsConfig(timeout_seconds=1))
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat()
        events = await brain.send(approvals=True)
        assert next(event.data for event in events if event.name == "tool_approval_result") == {"id": "c1", "decision": "timeout"}
        assert names(events)[-1] == "done"
        assert await decide(brain, decision="approve") == 404
    assert brain.tools.calls == []


async def test_waiting_for_a_person_does_not_use_up_the_budget(careful: Brain) -> None:
    careful.tools.budget = 1
    async with careful.sending(approvals=True) as feed:
        await feed.next("tool_approval")
        await asyncio.sleep(1.2)  # longer than the budget: the passing of time is what is tested
        assert await decide(careful, decision="approve") == 204
        assert (await feed.next("tool_result")).data["isError"] is False


async def test_a_stop_while_a_call_waits_ends_the_turn(careful: Brain) -> None:
    async with careful.sending(approvals=True) as feed:
        await feed.next("tool_approval")
        await careful.http.post(f"/api/chats/{CHAT}/stop", json={})
        assert names(await feed.rest())[-1] == "error"
    await careful.idle()
    assert careful.tools.calls == []
