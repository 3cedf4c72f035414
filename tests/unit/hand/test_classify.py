"""Section 13: every row of the tables recognises its own specimen, and the order of the rules holds."""

from __future__ import annotations

import json

import pytest

from hand.classify import (
    CONTENT_FILTER_PATTERNS,
    FINISH_REASONS,
    OVERFLOW_PATTERNS,
    THROTTLE_PATTERNS,
    FinishClass,
    Pattern,
    class_of_reason,
    http_message,
    is_content_filter,
    is_overflow,
    judge_http_failure,
    judge_in_band_failure,
)
from hand.errors import RunError, TransientError
from hand.failures import InBandFailure, failure_of_error_field, find_failure

TABLE = {
    FinishClass.FILTER: (
        "content_filter content_filtered safety sensitive recitation prohibited_content blocklist spii image_safety refusal "
        "guardrail_intervened guardrails error_toxic"
    ),
    FinishClass.STOP: "stop end end_turn eos eos_token stop_sequence complete completed done finished finish",
    FinishClass.TOOL: "tool_calls tool_call tool_use function_call function_calls",
    FinishClass.LENGTH: "length max_tokens max_output_tokens max_completion_tokens max_length model_length token_limit",
    FinishClass.CONTEXT: "model_context_window_exceeded context_length_exceeded context_window_exceeded",
    FinishClass.BROKEN: (
        "error network_error some_error_here abort aborted cancelled canceled timeout overloaded insufficient_system_resource "
        "malformed_function_call unexpected_tool_call load"
    ),
    FinishClass.UNKNOWN: "finish_reason_unspecified other language whatever stopped",
}


@pytest.mark.parametrize(("kind", "reason"), [(kind, reason) for kind, reasons in TABLE.items() for reason in reasons.split()])
def test_class_of_a_finish_reason(kind: FinishClass, reason: str) -> None:
    assert class_of_reason(reason) is kind
    assert class_of_reason(f"  {reason.upper()}\n") is kind


def test_the_table_holds_no_reason_twice() -> None:
    reasons = [reason for _, reasons in FINISH_REASONS for reason in reasons]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("pattern", OVERFLOW_PATTERNS, ids=lambda pattern: pattern.expression[:40])
def test_overflow_row_recognises_its_specimen_in_any_case(pattern: Pattern) -> None:
    assert is_overflow(400, pattern.specimen, is_http=True)
    assert is_overflow(500, pattern.specimen.upper(), is_http=True)
    assert is_overflow(None, json.dumps({"error": {"message": pattern.specimen}}), is_http=False)
    assert not any(is_overflow(code, pattern.specimen, is_http=True) for code in (401, 403, 404, 429))


@pytest.mark.parametrize("pattern", THROTTLE_PATTERNS, ids=lambda pattern: pattern.expression)
def test_a_throttle_is_no_overflow(pattern: Pattern) -> None:
    assert not is_overflow(400, f"too many tokens. {pattern.specimen}", is_http=True)
    assert is_overflow(400, "too many tokens.", is_http=True)


@pytest.mark.parametrize("pattern", CONTENT_FILTER_PATTERNS, ids=lambda pattern: pattern.seen_at)
def test_filter_row_recognises_its_specimen(pattern: Pattern) -> None:
    assert is_content_filter("{" + pattern.specimen + "}")
    assert is_content_filter(json.dumps({"message": "{" + pattern.specimen + "}"}))


OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "This endpoint's maximum context length is 131,072 tokens.",
    "the request exceeds the model's maximum context length",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    "ContextWindowExceededError",
    "The prompt too long; exceeded max context",
    "input length and `max_tokens` exceed context limit: 198 + 20 > 200",
    "the input exceeds context limit",
    "Please reduce the length of your prompt.",
    "prompt token count of 12 exceeds the limit of 10",
    "`inputs` tokens + `max_new_tokens` must be \\u003c= 4096",
    "Input is longer than the model\\u0027s context length",
    "n_keep: 5000 >= n_ctx: 4096",
    "trying to keep tokens when context the overflows",
    "size limit exceeds the model's max of 4096",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_wordings_of_overflow(text: str) -> None:
    assert is_overflow(400, text, is_http=True)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        "image count exceeding a limit of 20",
        "the maximum context length of this model is fixed",
        "Rate limit reached: maximum context length 8192",
        "Too many tokens, please wait before trying again.",
        "",
        "   ",
        "bad request",
    ],
)
def test_wordings_that_are_no_overflow(text: str) -> None:
    assert not is_overflow(400, text, is_http=True)


def test_413_with_a_body_is_an_overflow_and_without_one_is_not() -> None:
    assert is_overflow(413, "Request Entity Too Large", is_http=True)
    assert not is_overflow(413, "", is_http=True)
    assert not is_overflow(413, "tokens per minute", is_http=True)


def test_filter_goes_before_overflow_before_4xx_before_transient() -> None:
    both = '{"error":{"code":"content_filter","message":"maximum context length is 9 tokens"}}'
    assert judged(judge_http_failure(400, both)) == "content_filter"
    assert judged(judge_http_failure(500, "prompt is too long")) == "context_exhausted"
    assert judged(judge_http_failure(429, "prompt is too long")) == "upstream"
    assert judged(judge_http_failure(418, "teapot")) == "upstream"
    assert judged(judge_http_failure(500, "oops")) == "transient"


@pytest.mark.parametrize("code", [400, 401, 402, 403, 404, 405, 413, 418, 422, 451, 499])
def test_permanent_codes_inside_the_stream_are_terminal(code: int) -> None:
    assert judged(judge_in_band_failure(InBandFailure(code, "no", "no"))) == "upstream"


@pytest.mark.parametrize("code", [None, 408, 409, 425, 429, 500, 503, 529, 599])
def test_other_codes_inside_the_stream_are_transient(code: int | None) -> None:
    assert judged(judge_in_band_failure(InBandFailure(code, "no", "no"))) == "transient"


def judged(problem: RunError | TransientError) -> str:
    return problem.type if isinstance(problem, RunError) else "transient"


def test_messages_of_failures_inside_the_stream_are_cut_too() -> None:
    assert judge_in_band_failure(InBandFailure(500, "x", "x" * 9999)).message == "x" * 4000


def test_message_of_an_http_failure() -> None:
    assert http_message(400, ' {"error": {"message": "bad", "code": 1}, "x": 2} ') == '400: {"message":"bad","code":1}'
    assert http_message(400, '{"error": "bad"}') == '400: "bad"'
    assert http_message(400, '{"detail": "bad"}') == '400: {"detail": "bad"}'
    assert http_message(400, '[{"error": {"message": "bad"}}]') == '400: [{"error": {"message": "bad"}}]'
    assert http_message(502, "<html>") == "502: <html>"
    assert http_message(500, " \n") == "500 status code (no body)"
    assert len(http_message(500, "x" * 9999)) == 4000


FAILURES: list[tuple[dict[str, object], str, int | None, str]] = [
    ({"error": "boom"}, "", None, "boom"),
    ({"error": {"message": "boom", "code": 429}}, "", 429, "boom"),
    ({"error": {"message": "boom", "code": "503"}}, "", 503, "boom"),
    ({"error": {"message": "boom", "code": "rate_limited", "http_code": 429}}, "", 429, "boom"),
    ({"error": {"message": "boom", "status": 200, "http_status": 502}}, "", 502, "boom"),
    ({"error": {"message": "boom", "code": 399}}, "", None, "boom"),
    ({"error": {"message": "boom", "code": 400}}, "", 400, "boom"),
    ({"error": {"message": "boom", "code": "599"}}, "", 599, "boom"),
    ({"error": {"message": "boom", "code": 600}}, "", None, "boom"),
    ({"error": {"message": "boom", "code": "4e2", "status": "+42"}}, "", None, "boom"),
    (
        {"error": "Internal Server Error", "message": "CUDA out of memory", "status": 500},
        "",
        500,
        "Internal Server Error: CUDA out of memory",
    ),
    ({"error": "boom", "message": "boom"}, "", None, "boom"),
    ({"choices": [], "message": "boom", "code": 422}, "", 422, "boom"),
    ({"choices": [], "message": "Overloaded"}, "error", None, "Overloaded"),
    ({"status_code": 400, "error": {"message": "boom", "code": 500}}, "", 400, "boom"),
    ({"error": {"error": {"message": "inner", "code": 401}, "message": "outer"}}, "", 401, "inner"),
    ({"error": {"message": "Provider returned error", "metadata": {"raw": "quota"}}}, "", None, "Provider returned error\nquota"),
    ({"error": {"message": "has quota inside", "metadata": {"raw": "quota"}}}, "", None, "has quota inside"),
    ({"object": "error", "message": "boom", "code": 40303}, "", None, "boom"),
    ({"message": "boom", "code": None}, "", None, "boom"),
    ({"message": "boom", "status_code": 500}, "", 500, "boom"),
    ({"type": "overloaded_error", "message": "Overloaded"}, "error", None, "Overloaded"),
    ({"choices": [{"index": 0, "error": {"message": "in choice", "code": 500}}]}, "", 500, "in choice"),
    ({"choices": [], "x_groq": {"error": "in groq"}}, "", None, "in groq"),
]


@pytest.mark.parametrize(("chunk", "event", "code", "message"), FAILURES)
def test_failures_inside_the_stream(chunk: dict[str, object], event: str, code: int | None, message: str) -> None:
    failure = find_failure(chunk, event)
    assert failure is not None
    assert (failure.code, failure.message) == (code, message)
    assert json.loads(failure.text) == chunk


@pytest.mark.parametrize(
    ("chunk", "event"),
    [
        ({"error": None, "choices": []}, ""),
        ({"error": "", "choices": []}, ""),
        ({"error": {}, "choices": []}, ""),
        ({"error": False, "choices": []}, ""),
        ({"choices": [{"delta": {"content": "x"}}]}, "error"),
        ({"message": "hello"}, ""),
        ({"message": {"role": "x"}, "code": 3}, ""),
        ({"choices": [{}], "message": "m", "code": 500}, ""),
        ({"usage": {}}, "message"),
    ],
)
def test_what_is_no_failure(chunk: dict[str, object], event: str) -> None:
    assert find_failure(chunk, event) is None


def test_error_field_of_an_event() -> None:
    failure = failure_of_error_field({"code": 500, "message": "slot"})
    assert failure is not None
    assert (failure.code, failure.message) == (500, "slot")
    for document, words in (("plain words", "plain words"), (500, "500"), ([{"code": 5}], '[{"code": 5}]')):
        failure = failure_of_error_field(document)
        assert failure is not None
        assert failure.message == words
    for document in ("  ", None, "", [], {}, False):
        assert failure_of_error_field(document) is None
