"""Sections 10.3, 10.4 and 12: what a chunk says, wherever a gateway puts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hand.deltas import RoundCollector
from hand.frames import FrameDecoder
from hand.usage import TokenUsage, read_usage


def collect(*chunks: dict[str, Any]) -> tuple[str, str, RoundCollector]:
    collector = RoundCollector(lambda _channel, _text: None)
    decoder = FrameDecoder(collector)
    for chunk in chunks:
        decoder.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        collector.flush()
    decoder.finish()
    collector.finish()
    return collector.text_of("reasoning"), collector.text_of("text"), collector


def delta(**keys: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": keys}]}


REASONING: list[tuple[dict[str, object], str]] = [
    ({"reasoning_content": "a"}, "a"),
    ({"reasoning": "a"}, "a"),
    ({"reasoning_text": "a"}, "a"),
    ({"thinking": "a"}, "a"),
    ({"reasoning_content": "a", "reasoning": "a", "thinking": "b"}, "a"),
    ({"reasoning_content": "", "reasoning": "b"}, "b"),
    ({"reasoning_content": None, "reasoning_text": "b"}, "b"),
    ({"reasoning_content": {"text": "a"}}, "a"),
    ({"reasoning": {"content": "a"}}, "a"),
    ({"reasoning": {"summary": "a"}}, ""),
    ({"reasoning": 3, "thinking": "x"}, "x"),
    ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.summary", "summary": "b"}]}, "ab"),
    ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "a"}]}, ""),
    ({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, "a"),
    ({"thinking_blocks": [{"thinking": "a"}]}, ""),
]


@pytest.mark.parametrize(("keys", "expected"), REASONING)
def test_reasoning_fields(keys: dict[str, object], expected: str) -> None:
    assert collect(delta(**keys))[0] == expected


CONTENT: list[tuple[object, str, str]] = [
    ("a", "", "a"),
    (None, "", ""),
    ([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, {"text": "c"}, "d"], "", "abcd"),
    ({"type": "text", "text": "a"}, "", "a"),
    ([{"type": "thinking", "thinking": "a"}, {"type": "reasoning", "text": "b"}], "ab", ""),
    (
        [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"text": "b"}]}, {"type": "text", "text": "c"}],
        "ab",
        "c",
    ),
    ([{"type": "reference", "text": "a"}, {"type": "image_url"}, 3, None, {"type": ["x"]}, {"type": "text", "text": 3}], "", ""),
    (3, "", ""),
]


@pytest.mark.parametrize(("content", "reasoning", "text"), CONTENT)
def test_content_forms(content: object, reasoning: str, text: str) -> None:
    assert collect(delta(content=content))[:2] == (reasoning, text)


def test_order_within_one_delta_is_reasoning_content_refusal_calls() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "t", "arguments": "{}"}}
    _, text, collector = collect(delta(tool_calls=[call], refusal=" no", content="a", reasoning="r"))
    assert (collector.order, text) == (["reasoning", "text", *collector.calls.calls], "a no")


def test_a_refusal_is_answer_text_and_not_run_through_the_tag_filter() -> None:
    assert collect(delta(refusal="<think>a</think>"))[:2] == ("", "<think>a</think>")
    assert collect(delta(content=" <thi"), delta(refusal="no"), delta(content="nk>x"))[:2] == ("", " <thinonk>x")


def test_the_first_choice_index_seen_is_followed() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "x"}}, {"index": 0, "delta": {"content": "y"}}]}
    assert collect(other, delta(content="z"), other)[1] == "xx"
    assert collect({"choices": [None, {"index": 0, "delta": {"content": "x"}}]})[1] == "x"


@pytest.mark.parametrize("reason", ["", "  ", "null", "NULL", "none", "None", None, 3, {}])
def test_what_is_no_finish_reason(reason: object) -> None:
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    again = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    assert collect(chunk, again)[2].finish_reason == "stop"


def test_the_last_finish_reason_wins() -> None:
    chunks = [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]} for reason in ("stop", " tool_calls ")]
    assert collect(*chunks)[2].finish_reason == "tool_calls"


def test_message_counts_as_delta_only_while_nothing_has_come() -> None:
    message = {"choices": [{"index": 0, "message": {"content": "whole"}}]}
    assert collect(message)[1] == "whole"
    assert collect(delta(content="a"), message)[1] == "a"
    assert collect({"choices": [{"index": 0, "delta": None, "message": {"content": "whole"}}]})[1] == "whole"


def test_text_of_a_choice_counts_only_without_a_delta_key() -> None:
    assert collect({"choices": [{"index": 0, "text": "a"}]})[1] == "a"
    assert collect({"choices": [{"index": 0, "text": "a", "delta": None}]})[1] == ""
    assert collect({"choices": [{"index": 0, "text": "a", "delta": {"content": "b"}}]})[1] == "b"


USAGES: list[tuple[dict[str, object], TokenUsage]] = [
    ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 99}, TokenUsage(3, 2, 0)),
    ({"prompt_tokens": "3", "completion_tokens": 2.9}, TokenUsage(3, 2, 0)),
    ({"prompt_tokens": None, "completion_tokens": True}, TokenUsage(0, 0, 0)),
    ({"prompt_tokens": -1, "completion_tokens": "x"}, TokenUsage(0, 0, 0)),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}, TokenUsage(10, 0, 4)),
    ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 5, "cached_tokens": 6}, TokenUsage(10, 0, 5)),
    ({"prompt_tokens": 10, "cached_tokens": 6}, TokenUsage(10, 0, 6)),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5}}, TokenUsage(45, 0, 40)),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 9}, TokenUsage(10, 0, 0)),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_values(usage: dict[str, object], expected: TokenUsage) -> None:
    assert read_usage(usage) == expected


def test_places_of_usage_and_which_report_wins() -> None:
    def usage(prompt: int) -> dict[str, object]:
        return {"prompt_tokens": prompt, "completion_tokens": 0}

    assert collect({"choices": [{"index": 0, "delta": {}, "usage": usage(4)}]})[2].usage.input == 4
    assert collect({"choices": [], "x_groq": {"usage": usage(5)}})[2].usage.input == 5
    assert collect({"usage": usage(3), "choices": [{"index": 0, "delta": {}, "usage": usage(4)}]})[2].usage.input == 3
    assert (
        collect({"usage": usage(3)}, {"usage": usage(7)}, {"usage": usage(0)}, {"usage": None}, {"usage": [1]})[2].usage.input
        == 7
    )
