"""Finish reasons and failures to outcomes: tables of what servers write, and the rules that read them (section 13)."""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from functools import cache

import msgspec

from hand.errors import RunError, TransientError
from hand.failures import InBandFailure
from hand.jsonvalues import as_object

_LONGEST_MESSAGE = 4000


class FinishClass(Enum):
    """What a finish reason means."""

    FILTER = auto()
    STOP = auto()
    TOOL = auto()
    LENGTH = auto()
    CONTEXT = auto()
    BROKEN = auto()
    UNKNOWN = auto()


FINISH_REASONS: tuple[tuple[FinishClass, tuple[str, ...]], ...] = (
    (
        FinishClass.FILTER,
        (
            "content_filter",  # OpenAI, Azure
            "content_filtered",  # Bedrock relays
            "safety",  # Gemini
            "sensitive",  # z.ai
            "recitation",  # Gemini
            "prohibited_content",  # Gemini
            "blocklist",  # Gemini
            "spii",  # Gemini
            "image_safety",  # Gemini
            "refusal",  # Anthropic relays
            "guardrail_intervened",  # Bedrock
            "guardrails",  # Cloudflare
            "error_toxic",  # Cohere
        ),
    ),
    (
        FinishClass.STOP,
        (
            "stop",  # OpenAI
            "end",  # some relays
            "end_turn",  # Anthropic relays
            "eos",  # Together
            "eos_token",  # TGI
            "stop_sequence",  # Anthropic, TGI
            "complete",  # Cohere
            "completed",  # responses-style relays
            "done",  # Ollama
            "finished",
            "finish",
        ),
    ),
    (
        FinishClass.TOOL,
        (
            "tool_calls",  # OpenAI
            "tool_call",  # Cohere
            "tool_use",  # Anthropic relays
            "function_call",  # OpenAI, before tools
            "function_calls",
        ),
    ),
    (
        FinishClass.LENGTH,
        (
            "length",  # OpenAI
            "max_tokens",  # Anthropic, Gemini (upper case)
            "max_output_tokens",
            "max_completion_tokens",
            "max_length",
            "model_length",  # Mistral
            "token_limit",
        ),
    ),
    (
        FinishClass.CONTEXT,
        (
            "model_context_window_exceeded",  # Anthropic, z.ai
            "context_length_exceeded",
            "context_window_exceeded",
        ),
    ),
    (
        FinishClass.BROKEN,
        (
            "abort",  # vLLM
            "aborted",
            "cancelled",
            "canceled",
            "timeout",
            "overloaded",
            "insufficient_system_resource",  # DeepSeek
            "malformed_function_call",  # Gemini
            "unexpected_tool_call",  # Gemini
            "load",  # Ollama: the model was only loaded
        ),
    ),
)

_BY_REASON = {reason: kind for kind, reasons in FINISH_REASONS for reason in reasons}


def class_of_reason(reason: str) -> FinishClass:
    """Return the class of a finish reason; anything that contains ``error`` and is no filter is broken."""
    reason = reason.strip().lower()
    found = _BY_REASON.get(reason)
    if found is not None:
        return found
    return FinishClass.BROKEN if "error" in reason else FinishClass.UNKNOWN


class Pattern(msgspec.Struct, frozen=True):
    """A fragment of a gateway's words, the words themselves, and who writes them."""

    expression: str
    specimen: str
    seen_at: str


CONTENT_FILTER_PATTERNS: tuple[Pattern, ...] = (
    Pattern("ResponsibleAIPolicyViolation", '"innererror":{"code":"ResponsibleAIPolicyViolation"}', "Azure"),
    Pattern("content_policy_violation", '"code":"content_policy_violation"', "OpenAI, LiteLLM"),
    Pattern("data_inspection_failed|DataInspectionFailed", '"code":"data_inspection_failed"', "DashScope"),
    Pattern(
        r"""\\*["']code\\*["']\s*:\s*\\*["']content_filter\\*["']""",
        '"code":"content_filter"',
        "Azure, also quoted inside the message of a relay",
    ),
)

_NUMBER = r"\d[\d,._]*"

OVERFLOW_PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        r"prompt (?:is )?too long", "prompt is too long: 213462 tokens > 200000 maximum", "Anthropic, Fireworks, Ollama, z.ai"
    ),
    Pattern(r"prompt exceeds max length", "Prompt exceeds max length", "z.ai"),
    Pattern(r"request_too_large", '{"type":"request_too_large","message":"Request exceeds the maximum size"}', "Anthropic"),
    Pattern(r"input is too long", "Input is too long for requested model.", "Bedrock"),
    Pattern(r"exceeds the context window", "Your input exceeds the context window of this model.", "OpenAI"),
    Pattern(r"context ?window ?exceed", "litellm.ContextWindowExceededError", "LiteLLM"),
    Pattern(r"context window exceeds limit", "invalid params, context window exceeds limit (2013)", "MiniMax"),
    Pattern(
        rf"maximum context length(?:\W+[a-z]+){{0,5}}\W+{_NUMBER}|exceed\w*(?:\W+\w+){{0,8}}\W+maximum context length",
        "This model's maximum context length is 128000 tokens.",
        "OpenAI, Azure, DeepSeek, vLLM, SGLang, OpenRouter",
    ),
    Pattern(rf"maximum prompt length is {_NUMBER}", "This model's maximum prompt length is 131072", "xAI"),
    Pattern(
        r"input token count.{0,80}exceeds the maximum",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "Gemini",
    ),
    Pattern(
        r"reduce the length of (?:the|your) (?:messages|input|prompt)",
        "Please reduce the length of the messages or completion.",
        "Groq, Cerebras",
    ),
    Pattern(rf"maximum allowed input length of {_NUMBER}", "exceeds the maximum allowed input length of 131072", "Poolside"),
    Pattern(r"longer than the model'?s context length", "Input is longer than the model's context length", "Together"),
    Pattern(
        rf"token count of {_NUMBER} exceeds the limit of {_NUMBER}",
        "prompt token count of 135000 exceeds the limit of 128000",
        "Copilot",
    ),
    Pattern(
        r"exceeds the available context size|exceed_context_size",
        "request (19185 tokens) exceeds the available context size (16384 tokens)",
        "llama.cpp",
    ),
    Pattern(
        r"greater than the context length|n_keep.{0,120}n_ctx|context (?:the )?overflows",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "LM Studio",
    ),
    Pattern(r"exceeded model token limit", "Invalid request: Your request exceeded model token limit: 262144", "Kimi"),
    Pattern(
        rf"too large for model with {_NUMBER} maximum context length",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Mistral",
    ),
    Pattern(rf"configured context size is {_NUMBER}", "the configured context size is 32768", "DS4"),
    Pattern(r"range of input length should be", "Range of input length should be [1, 98304]", "DashScope"),
    Pattern(
        r"context_length_exceeded|context length exceeded|model_context_window_exceeded",
        '"code":"context_length_exceeded"',
        "several, as code",
    ),
    Pattern(r"exceeds? context limit", "input length and max_tokens exceed context limit", "Claude proxies"),
    Pattern(rf"model'?s context length is only {_NUMBER}", "the model's context length is only 8192", "private gateways"),
    Pattern(
        r"inputs` tokens \+ `max_new_tokens` must be (?:<|\\u003c)=",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "TGI",
    ),
    Pattern(
        rf"tokens in the prompt cannot exceed|exceeds the model'?s max of {_NUMBER}",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        "Cohere",
    ),
    Pattern(r"too many tokens|token limit exceeded", "too many tokens", "generic"),
)

THROTTLE_PATTERNS: tuple[Pattern, ...] = (
    Pattern(r"rate[ _-]?limit", "Rate limit reached for gpt-4o", "OpenAI"),
    Pattern(r"too many requests", "Too many requests", "Bedrock"),
    Pattern(r"throttl", "ThrottlingException", "Bedrock"),
    Pattern(r"please wait before", "Too many tokens, please wait before trying again.", "Bedrock"),
    Pattern(r"tokens?[\W_]{0,3}per[\W_](?:minute|hour|day|second)", "tokens per minute (TPM): Limit 12000", "Groq"),
    Pattern(r"tokens processed", "maximum number of tokens processed", "Bedrock"),
)

_NEVER_OVERFLOW = frozenset({401, 403, 404, 429})
_RETRIED_IN_BAND = frozenset({408, 409, 425, 429})


@cache
def _any_of(patterns: tuple[Pattern, ...], flags: int = 0) -> re.Pattern[str]:
    # Compiled with the first failure: it takes longer than most of our start.
    return re.compile("|".join(f"(?:{pattern.expression})" for pattern in patterns), flags | re.DOTALL)


_ascii_escape = re.compile(r"\\u00([2-7][0-9a-fA-F])")


def _readable(text: str) -> str:
    r"""Return the text with its ASCII escapes undone behind it: some gateways write an apostrophe as ``\u0027``."""
    if "\\u00" not in text:
        return text
    return text + "\n" + _ascii_escape.sub(lambda match: chr(int(match.group(1), 16)), text)


def is_content_filter(text: str) -> bool:
    """Whether an error text means that a filter refused the prompt or the answer."""
    return _any_of(CONTENT_FILTER_PATTERNS).search(text) is not None


def is_overflow(code: int | None, text: str, *, is_http: bool) -> bool:
    """Whether a failure means that the prompt does not fit the model's window (13.4)."""
    text = _readable(text)
    if code in _NEVER_OVERFLOW or not text.strip() or _any_of(THROTTLE_PATTERNS, re.IGNORECASE).search(text):
        return False
    return (is_http and code == 413) or _any_of(OVERFLOW_PATTERNS, re.IGNORECASE).search(text) is not None


def judge_http_failure(status: int, body: str) -> RunError | TransientError:
    """Classify an HTTP failure by status and body."""
    message = http_message(status, body)
    if is_content_filter(body):
        return RunError("content_filter", message)
    if is_overflow(status, body, is_http=True):
        return RunError("context_exhausted", message)
    if 400 <= status <= 499:
        return RunError("upstream", message)
    return TransientError("http", message)


def judge_in_band_failure(failure: InBandFailure) -> RunError | TransientError:
    """Classify a failure inside the stream."""
    message = failure.message[:_LONGEST_MESSAGE]
    if is_content_filter(failure.text):
        return RunError("content_filter", message)
    if is_overflow(failure.code, failure.text, is_http=False):
        return RunError("context_exhausted", message)
    if failure.code is not None and failure.code < 500 and failure.code not in _RETRIED_IN_BAND:
        return RunError("upstream", message)
    return TransientError("in_band", message)


def http_message(status: int, body: str) -> str:
    """Return the message of an HTTP failure: the error object, else the body, cut."""
    text = body.strip()
    if not text:
        return f"{status} status code (no body)"
    try:
        document = as_object(json.loads(text))
    except (ValueError, RecursionError):
        document = None
    error = document.get("error") if document else None
    if error:
        text = json.dumps(error, ensure_ascii=False, separators=(",", ":"))
    return f"{status}: {text}"[:_LONGEST_MESSAGE]
