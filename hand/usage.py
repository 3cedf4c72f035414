"""Token counts of one LLM call, wherever the gateway puts them (section 12)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hand.jsonvalues import as_count, as_object


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens of one call; ``input`` is the full prompt, cached part included."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def is_reported(self) -> bool:
        """Whether the gateway said anything: zeros everywhere are a placeholder."""
        return bool(self.input or self.output)


def read_usage(usage: Mapping[str, object]) -> TokenUsage:
    """Read the usage object of a chunk."""
    details = as_object(usage.get("prompt_tokens_details")) or {}
    cached = 0
    for value in (details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens")):
        if value is not None:
            cached = as_count(value)
            break
    return TokenUsage(
        input=max(as_count(usage.get("prompt_tokens")), cached + as_count(details.get("cache_write_tokens"))),
        output=as_count(usage.get("completion_tokens")),
        cached=cached,
    )


def find_usage(chunk: Mapping[str, object], choice: Mapping[str, object] | None) -> TokenUsage | None:
    """Return what this chunk reports: at its root, else in the choice (Moonshot), else under ``x_groq`` (Groq).

    Zeros are a placeholder and never win over numbers.
    """
    groq = as_object(chunk.get("x_groq")) or {}
    for place in (chunk.get("usage"), choice.get("usage") if choice else None, groq.get("usage")):
        found = as_object(place)
        if found is not None and (usage := read_usage(found)).is_reported:
            return usage
    return None
