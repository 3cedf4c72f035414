from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from msgspec import Raw

from brain.errors import ConflictError, NotFoundError
from brain.tools.approval import ApprovalEvent, ApprovalGate, ApprovalPolicy, ApprovalRequest, ApprovalResult, RunGrants
from brain.tools.provider import ToolOutcome
from shared_protocol.messages import TextPart
from tests.fakes.tools import FakeTools

ARGS = Raw(b'{"command":"ls"}')


class Person:
    """Sees the events of a gate; ``asked`` yields the requests."""

    def __init__(
        self,
        *,
        attended: bool = True,
        unattended: Literal["allow", "deny"] = "allow",
        timeout: int = 30,
        grants: RunGrants | None = None,
    ) -> None:
        self.tools = FakeTools("bash")
        self.events: list[ApprovalEvent] = []
        self.asked: asyncio.Queue[ApprovalRequest] = asyncio.Queue()
        self.gate = ApprovalGate(
            self.tools,
            ApprovalPolicy(frozenset({"bash"}), unattended, timeout),
            attended=attended,
            publish=self._see,
            grants=grants or RunGrants(),
        )

    def _see(self, event: ApprovalEvent) -> None:
        self.events.append(event)
        if isinstance(event, ApprovalRequest):
            self.asked.put_nowait(event)

    def call(self, call_id: str = "c1", name: str = "bash__run") -> asyncio.Task[ToolOutcome]:
        return asyncio.create_task(self.gate.execute(call_id, name, ARGS))

    async def next_request(self) -> ApprovalRequest:
        async with asyncio.timeout(5):
            return await self.asked.get()


def text_of(outcome: ToolOutcome) -> str:
    (part,) = outcome.parts
    assert isinstance(part, TextPart)
    return part.text


async def test_approved_call_runs() -> None:
    person = Person()
    call = person.call()
    request = await person.next_request()
    assert (request.id, request.name, bytes(request.args), request.timeout_seconds) == ("c1", "bash__run", bytes(ARGS), 30)
    assert person.gate.pending == (request,)
    assert person.tools.calls == []
    await person.gate.decide("c1", "approve")
    assert text_of(await call) == "done"
    assert person.events[-1] == ApprovalResult("c1", "approve")
    assert person.gate.pending == ()


async def test_denied_call_does_not_run() -> None:
    person = Person()
    call = person.call()
    await person.next_request()
    await person.gate.decide("c1", "deny")
    outcome = await call
    assert outcome.is_error
    assert "declined" in text_of(outcome)
    assert person.tools.calls == []


async def test_nobody_answers_in_time() -> None:
    person = Person(timeout=0)
    outcome = await person.call()
    assert outcome.is_error
    assert person.tools.calls == []
    assert person.events[-1] == ApprovalResult("c1", "timeout")
    with pytest.raises(ConflictError):
        await person.gate.decide("c1", "approve")


async def test_approval_for_the_chat_answers_waiting_and_later_calls_of_that_tool() -> None:
    grants = RunGrants()
    person = Person(grants=grants)
    person.tools.answers["other"] = person.tools.answers["run"]
    first, second = person.call("c1"), person.call("c2")
    other = person.call("c3", "bash__other")
    for _ in range(3):
        await person.next_request()
    await person.gate.decide("c1", "approve", "chat")
    await asyncio.gather(first, second)
    assert not other.done()
    assert not (await person.call("c4")).is_error
    assert not (await Person(grants=grants).call("c5")).is_error
    assert [request.id for request in person.gate.pending] == ["c3"]
    person.gate.close()
    await other


async def test_a_decision_counts_once() -> None:
    person = Person()
    call = person.call()
    await person.next_request()
    await person.gate.decide("c1", "deny")
    with pytest.raises(ConflictError):
        await person.gate.decide("c1", "approve")
    await call
    with pytest.raises(ConflictError):
        await person.gate.decide("c1", "approve")
    with pytest.raises(NotFoundError):
        await person.gate.decide("c2", "approve")


async def test_call_id_may_be_used_again_in_a_later_round() -> None:
    person = Person()
    for decision, is_error in (("deny", True), ("approve", False)):
        call = person.call()
        await person.next_request()
        await person.gate.decide("c1", decision)  # type: ignore[arg-type] - the loop variable is too wide
        assert (await call).is_error is is_error


async def test_two_waiting_calls_with_one_id_cannot_share_a_decision() -> None:
    person = Person()
    first = person.call()
    await person.next_request()
    assert (await person.call()).is_error
    await person.gate.decide("c1", "approve")
    assert not (await first).is_error


async def test_waiting_does_not_consume_the_budget_of_the_tool() -> None:
    person = Person()
    assert person.gate.budget_seconds("bash__run") == 0
    person.tools.budget = 1
    person.tools.block = asyncio.Event()
    call = person.call()
    await person.next_request()
    await person.gate.decide("c1", "approve")
    outcome = await call
    assert outcome.is_error
    assert "timed out after 1 seconds" in text_of(outcome)


async def test_unmarked_namespace_runs_at_once_with_its_budget() -> None:
    inner = FakeTools("fs")
    gate = ApprovalGate(
        inner, ApprovalPolicy(frozenset({"bash"}), "deny", 5), attended=False, publish=lambda _: None, grants=RunGrants()
    )
    assert gate.budget_seconds("fs__run") == 7
    assert not (await gate.execute("c", "fs__run", ARGS)).is_error


async def test_client_that_cannot_answer_is_allowed_by_default() -> None:
    person = Person(attended=False)
    assert not (await person.call()).is_error
    assert person.events == []
    assert person.gate.budget_seconds("bash__run") == 7


async def test_client_that_cannot_answer_is_refused_where_configured() -> None:
    person = Person(attended=False, unattended="deny")
    assert (await person.call()).is_error
    assert person.tools.calls == []
    assert person.events == []


async def test_closing_denies_what_waits_and_what_comes() -> None:
    person = Person()
    call = person.call()
    await person.next_request()
    person.gate.close()
    assert (await call).is_error
    assert (await person.call("c2")).is_error
    assert person.tools.calls == []


async def test_cancelled_call_leaves_nothing_waiting() -> None:
    person = Person()
    call = person.call()
    await person.next_request()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert person.gate.pending == ()
