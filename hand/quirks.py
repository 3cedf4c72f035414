"""Habits of gateways as data: what each host wants to be sent, and the field names each has been seen to use.

Adding a gateway means adding rows here, and a case beside the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
ReasoningKeys = dict[str, object]


class HostQuirk(msgspec.Struct, frozen=True, kw_only=True):
    """What one host wants; ``hosts`` are looked for anywhere in the base address."""

    hosts: tuple[str, ...]
    budget_field: MaxTokensField = "max_completion_tokens"
    with_effort: Callable[[str], ReasoningKeys] = lambda _: {}
    without_effort: Callable[[], ReasoningKeys] = dict
    needs_reasoning_content: bool = False
    """Every assistant message must carry ``reasoning_content``, if only an empty one."""
    developer_role: bool = False
    """The system prompt travels under the role ``developer`` when the model reasons."""
    source: str

    @property
    def managed_keys(self) -> frozenset[str]:
        """Keys of the request that this row may set."""
        return frozenset({*self.with_effort("x"), *self.without_effort()})


def _effort(effort: str) -> ReasoningKeys:
    return {"reasoning_effort": effort}


ANY_OTHER = HostQuirk(hosts=(), with_effort=_effort, source="OpenAI reference: chat completions")

HOST_QUIRKS: tuple[HostQuirk, ...] = (
    HostQuirk(
        hosts=("deepseek.com",),
        budget_field="max_tokens",
        with_effort=lambda effort: {"thinking": {"type": "enabled"}, "reasoning_effort": effort},
        without_effort=lambda: {"thinking": {"type": "disabled"}},
        needs_reasoning_content=True,
        source="api-docs.deepseek.com: thinking mode, tool calls need reasoning_content replayed",
    ),
    HostQuirk(
        hosts=("api.z.ai", "open.bigmodel.cn"),
        budget_field="max_tokens",
        with_effort=lambda _: {"thinking": {"type": "enabled", "clear_thinking": False}},
        without_effort=lambda: {"thinking": {"type": "disabled"}},
        source="docs.z.ai: deep thinking, preserved thinking",
    ),
    HostQuirk(
        hosts=("openrouter.ai",),
        with_effort=lambda effort: {"reasoning": {"effort": effort}},
        without_effort=lambda: {"reasoning": {"effort": "none"}},
        source="openrouter.ai/docs: reasoning tokens, one object for all providers",
    ),
    HostQuirk(
        hosts=("api.together.ai", "api.together.xyz"),
        budget_field="max_tokens",
        with_effort=lambda _: {"reasoning": {"enabled": True}},
        without_effort=lambda: {"reasoning": {"enabled": False}},
        source="docs.together.ai: reasoning models",
    ),
    HostQuirk(
        hosts=("api.moonshot.", "integrate.api.nvidia.com", "gateway.ai.cloudflare.com", "api.ant-ling.com"),
        budget_field="max_tokens",
        source="their chat completion references: max_tokens only, reasoning is chosen by the model id",
    ),
    HostQuirk(
        hosts=("chutes.ai",),
        budget_field="max_tokens",
        with_effort=_effort,
        source="chutes.ai serves vLLM and SGLang behind max_tokens",
    ),
    HostQuirk(
        hosts=("api.mistral.ai",),
        budget_field="max_tokens",
        with_effort=_effort,
        source="docs.mistral.ai: unknown body keys are refused with 422",
    ),
    HostQuirk(hosts=("api.x.ai",), source="docs.x.ai: reasoning_effort is refused by most models"),
    HostQuirk(
        hosts=("api.openai.com",),
        with_effort=_effort,
        developer_role=True,
        source="OpenAI reference: developer messages replace system messages for reasoning models",
    ),
)


def quirk_of(base_url: str) -> HostQuirk:
    """Return the row for a base address; gateways that front several providers are ``ANY_OTHER``."""
    for quirk in HOST_QUIRKS:
        if any(host in base_url for host in quirk.hosts):
            return quirk
    return ANY_OTHER


REASONING_FIELDS = (
    "reasoning_content",  # DeepSeek, vLLM, llama.cpp, z.ai
    "reasoning",  # OpenRouter, Groq, Ollama
    "reasoning_text",  # GitHub Copilot
    "thinking",  # relays of Anthropic
)
"""Where the thought channel of a delta may be, first non-empty one wins."""

NO_FINISH_REASONS = frozenset({"", "null", "none"})
"""Strings that some servers write where JSON ``null`` is meant (trimmed, lower case)."""
