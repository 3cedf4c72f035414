"""The rule sets over lists of messages (chat-domain section 2): what each one adds, and that they are linear."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from brain.chats.service import new_chat_id
from brain.chats.validation import InvalidHistoryError, check_import, check_snapshot, check_stored_chat
from shared_protocol.codec import decode_messages

USER = {"role": "user", "parts": [{"type": "text", "text": "x"}], "createdAt": "2026-03-01T08:00:00Z"}
META = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


def answer(*calls: str, finish: str = "stop") -> dict[str, Any]:
    parts = [{"type": "tool_call", "id": call, "tool": "t", "args": {}} for call in calls]
    return {"role": "assistant", "parts": parts or [{"type": "text", "text": "y"}], "meta": META, "finishReason": finish}


def result(call: str) -> dict[str, Any]:
    part = {"type": "tool_result", "id": call, "tool": "t", "parts": [{"type": "text", "text": "r"}], "isError": False}
    return {"role": "tool_result", "parts": [part]}


CALL = [USER, answer("a", finish="tool_calls"), result("a")]


@pytest.mark.parametrize(
    ("messages", "snapshot", "stored", "imported"),
    [
        ([], True, True, True),
        ([USER, answer()], True, True, True),
        ([USER, answer(finish="STOP")], True, True, True),
        ([USER, answer(finish="length")], True, False, False),
        (CALL, True, False, False),
        ([*CALL, answer()], True, True, True),
        ([answer()], True, True, True),
        ([USER, answer("a", finish="tool_calls"), USER, result("a"), answer()], True, True, False),
        ([answer("a", finish="tool_calls"), USER, result("a"), answer()], True, True, False),
        ([answer("a", finish="tool_calls"), result("a"), USER, answer()], True, True, True),
        ([USER, result("a"), answer("a", finish="tool_calls"), answer()], True, True, False),
        ([{**USER, "createdAt": None}, answer()], False, False, False),
        ([*CALL, *CALL, answer()], False, False, False),
        ([*CALL, result("a"), answer()], False, False, False),
        ([USER, answer("a", finish="tool_calls"), answer()], False, False, False),
        ([USER, result("a"), answer()], False, False, False),
        ([{**USER, "parts": []}, answer()], True, True, False),
    ],
)
def test_each_rule_set_adds_to_the_one_before(messages: list[Any], snapshot: bool, stored: bool, imported: bool) -> None:
    decoded = decode_messages(msgspec.json.encode(messages))
    for check, passes in ((check_snapshot, snapshot), (check_stored_chat, stored), (check_import, imported)):
        if passes:
            check(decoded)
        else:
            with pytest.raises(InvalidHistoryError):
                check(decoded)


def test_a_long_chat_is_checked_in_linear_time() -> None:
    messages: list[Any] = []
    for number in range(50_000):
        messages += [USER, answer(f"c{number}", finish="tool_calls"), result(f"c{number}"), answer()]
    decoded = decode_messages(msgspec.json.encode(messages))
    begin = time.monotonic()
    check_import(decoded)
    assert time.monotonic() - begin < 5, "comparing every pair would take minutes"


def test_chat_ids_are_milliseconds_and_a_number_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    monkeypatch.setattr("secrets.randbelow", lambda limit: limits.append(limit) or limit - 1)
    millis, _, number = new_chat_id().partition("-")
    assert limits == [2_147_483_647]
    assert number == "2147483646"
    assert abs(int(millis) - time.time() * 1000) < 60_000
    assert len(millis) == 13
