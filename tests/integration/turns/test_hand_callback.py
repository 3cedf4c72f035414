"""The two routes that the hand calls back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared_protocol.headers import AUTH_HEADER
from shared_protocol.messages import TextPart
from shared_protocol.tools import FatalAnswer, ToolAnswer
from tests.fakes.hand import TOKEN, FakeRun
from tests.integration.turns.conftest import Brain, names, until

AUTH = {AUTH_HEADER: TOKEN}


@pytest.mark.parametrize("headers", [{}, {AUTH_HEADER: "wrong"}, {AUTH_HEADER: ""}])
async def test_the_token_is_checked_before_anything_else(brain: Brain, headers: dict[str, str]) -> None:
    assert (await brain.http.get("/api/hand/tools", headers=headers)).status_code == 401
    assert (await brain.http.post("/api/hand/tool", content=b"nonsense", headers=headers)).status_code == 401


async def test_listing_needs_a_live_run(brain: Brain) -> None:
    assert (await brain.http.get("/api/hand/tools", headers=AUTH)).status_code == 400
    assert (await brain.http.get("/api/hand/tools?runId=%20", headers=AUTH)).status_code == 400
    assert (await brain.http.get("/api/hand/tools?runId=gone", headers=AUTH)).status_code == 404


async def test_a_call_that_cannot_be_read_is_refused(brain: Brain) -> None:
    assert (await brain.http.post("/api/hand/tool", content=b"{}", headers=AUTH)).status_code == 415
    assert (await brain.http.post("/api/hand/tool", json={"runId": "x"}, headers=AUTH)).status_code == 400
    body = {"runId": "x", "id": "c", "name": "dice__roll", "args": [1]}
    assert (await brain.http.post("/api/hand/tool", json=body, headers=AUTH)).status_code == 400
    json_type = {**AUTH, "content-type": "application/json"}
    for args in (b'{"a":"\xff"}', b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"a":NaN}'):
        content = b'{"runId":"x","id":"c","name":"dice__roll","args":%b}' % args
        answer = await brain.http.post("/api/hand/tool", content=content, headers=json_type)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])


async def test_an_unknown_run_is_fatal(brain: Brain) -> None:
    body = {"runId": "gone", "id": "c", "name": "dice__roll", "args": {}}
    answer = await brain.http.post("/api/hand/tool", json=body, headers=AUTH)
    assert answer.status_code == 200
    assert answer.json()["isError"] is False
    assert "gone" in answer.json()["fatal"]["message"]
    assert "parts" not in answer.json()


async def call_in_a_run(brain: Brain, name: str) -> ToolAnswer | FatalAnswer:
    answers: list[Any] = []

    async def script(run: FakeRun) -> None:
        answers.append(await run.call("c1", name))
        await run.answer("ok")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    assert names(await brain.send())[-1] == "done"
    return answers[0]


async def test_tools_that_cannot_be_listed_are_500_with_the_usual_body(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        brain.tools.is_down = True
        answer = await brain.http.get(f"/api/hand/tools?runId={run.request.run_id}", headers=AUTH)
        assert (answer.status_code, answer.json()) == (500, {"error": "Internal server error"})
        await run.answer("ok")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    assert names(await brain.send())[-1] == "done"


async def test_a_dead_tool_server_ends_the_run(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        brain.tools.is_down = True
        await run.tool_round(("c1", "dice__roll", "{}"))

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    assert names(events)[-1] == "error"
    assert "the dice are gone" in events[-1].data["message"]
    assert (await brain.load()).messages == ()


async def test_a_tool_that_fails_unexpectedly_is_an_error_the_model_sees(brain: Brain) -> None:
    answer = await call_in_a_run(brain, "dice__broken")
    assert isinstance(answer, ToolAnswer)
    assert answer.is_error
    assert isinstance(answer.parts[0], TextPart)
    assert answer.parts[0].text.startswith("Error: ")


async def test_a_call_over_its_budget_is_cancelled_and_told(brain: Brain) -> None:
    brain.tools.budget = 1
    answer = await call_in_a_run(brain, "dice__wait")
    assert isinstance(answer, ToolAnswer)
    assert answer.is_error
    assert isinstance(answer.parts[0], TextPart)
    assert "dice__wait" in answer.parts[0].text
    assert "timed out after 1 seconds" in answer.parts[0].text


async def test_an_attachment_the_model_cannot_read_ends_the_run(brain: Brain) -> None:
    answer = await call_in_a_run(brain, "dice__film")
    assert isinstance(answer, FatalAnswer)
    for word in ("gw/large", "video", "dice__film"):
        assert word in answer.fatal.message


async def test_several_calls_of_a_run_are_executed_at_once(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        waiting = asyncio.gather(run.call("c1", "dice__wait"), run.call("c2", "dice__wait"))
        await until(lambda: len(brain.tools.calls) == 2)
        brain.tools.release.set()
        await waiting
        await run.answer("ok")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    assert names(await brain.send())[-1] == "done"
