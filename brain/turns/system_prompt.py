"""The system prompt of a chat run: the persona's text and a fixed introduction, the same bytes every time (chat-domain §9)."""

from __future__ import annotations

from typing import Final

from brain.prompts import read_prompt

MEMORY_NAMESPACE: Final = "gsg"
"""Serving it switches on the investigate tool, the full introduction and the full injection."""


def render_system_prompt(persona_text: str, *, with_memory: bool) -> str:
    """Return ``persona_text`` unchanged, a blank line, and the introduction that fits the persona."""
    name = "introduction_full" if with_memory else "introduction_reduced"
    return f"{persona_text}\n\n{read_prompt('brain.turns', name).text}"
