"""What is made of a model's answer before it becomes a title."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.chats.titles import MAX_TITLE_CHARS, last_rounds, read_prompt, sanitise_title
from shared_protocol.codec import decode_messages


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Plain title", "Plain title"),
        ("\n \n  First line\nSecond", "First line"),
        ('"Quoted"', "Quoted"),
        ("“Curly”", "Curly"),
        ("「東京の天気」", "東京の天気"),
        ("**Bold title**", "Bold title"),
        ("# Heading", "Heading"),
        ('- *"All of it"*', "All of it"),
        ("a\tb \u0007 c", "a b c"),
        ("Don't stop", "Don't stop"),
        ('He said "yes"', 'He said "yes"'),
        ("C# and *args", "C# and *args"),
        ("snake_case_name", "snake_case_name"),
        ("🎲", "🎲"),
        ("---\nReal", "Real"),
        ("```\nReal\n```", "Real"),
        ("", ""),
        ('""', ""),
        ("***", ""),
    ],
)
def test_wrapping_and_noise_go_and_content_stays(answer: str, title: str) -> None:
    assert sanitise_title(answer) == title


@given(st.text())
def test_any_answer_gives_one_short_line_or_nothing(answer: str) -> None:
    title = sanitise_title(answer)
    assert len(title) <= MAX_TITLE_CHARS
    assert title == title.strip()
    assert "\n" not in title
    assert "\x00" not in title


def test_the_last_rounds_start_at_a_user_message() -> None:
    roles = ["assistant", "user", "assistant", "user", "assistant"]
    messages = decode_messages(
        "["
        + ",".join(
            '{"role":"user","parts":[],"createdAt":"2026-03-01T08:00:00Z"}'
            if role == "user"
            else '{"role":"assistant","parts":[],"meta":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"finishReason":"stop"}'
            for role in roles
        )
        + "]",
    )
    assert last_rounds(messages, 1) == messages[3:]
    assert last_rounds(messages, 2) == messages
    assert last_rounds(messages, 9) == messages


def test_the_prompt_says_what_a_title_is() -> None:
    prompt = read_prompt()
    assert "15 words" in prompt
    assert not prompt.startswith("version")
