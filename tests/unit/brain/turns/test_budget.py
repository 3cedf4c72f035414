"""Token counts, and where the window goes."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest
from msgspec import Raw

from brain.turns import tokens
from brain.turns.budget import estimate_messages, estimate_parts, estimate_prompt, measure_context
from brain.turns.tokens import IMAGE_TOKENS, count_tokens, estimate_tokens
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
)
from tests.integration.turns.test_compaction import rounds
from tests.unit.brain.turns.test_compacting import model


@pytest.fixture
def without_vocabulary(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(tokens, "find_spec", lambda _name: None)
    tokens._load_counter.cache_clear()
    yield
    tokens._load_counter.cache_clear()


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ä" * 4, 2), ("\ud800", 1)])
def test_the_estimate_is_a_quarter_of_the_bytes(text: str, count: int) -> None:
    assert estimate_tokens(text) == count


@pytest.mark.parametrize(("text", "count"), [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("東京タワー", 7)])
def test_texts_are_counted_by_the_vocabulary(text: str, count: int) -> None:
    assert count_tokens(text) == count


@pytest.mark.usefixtures("without_vocabulary")
def test_without_the_vocabulary_tokens_are_estimated() -> None:
    assert count_tokens("hello world") == 3


def test_a_very_long_text_is_counted_by_its_beginning() -> None:
    text = "one two three four five six " * 400_000
    begin = time.monotonic()
    count = count_tokens(text)
    assert time.monotonic() - begin < 1
    assert abs(count / (6 * 400_000) - 1) < 0.05


def test_every_part_has_its_share() -> None:
    picture = AttachmentPart("image", Base64Content("AAAA" * 1000), "image/png")
    result = ToolResultPart("c", "t", (TextPart("hello world"), picture))
    assert IMAGE_TOKENS == 1000
    assert estimate_parts((TextPart("hello world"), ReasoningPart("hello world"))) == 4
    assert estimate_parts((result,)) == 2 + IMAGE_TOKENS
    assert estimate_parts((ToolCallPart("c", "roll", Raw(b'{"a":1}')),)) > 3
    assert estimate_messages([ToolResultMessage((result,))]) == 4 + 2 + IMAGE_TOKENS
    with pytest.raises(TypeError):
        estimate_parts((object(),))


def test_the_counts_of_the_last_answer_are_used_where_there_are_any() -> None:
    chat = rounds(2, input_tokens=500)
    assert estimate_prompt(chat) == 500 + 5
    assert estimate_prompt([*chat, *rounds(1)[:1]]) == 505 + estimate_messages(rounds(1)[:1])
    assert estimate_prompt(rounds(2, input_tokens=0)) == estimate_messages(rounds(2))


def test_the_parts_of_the_window_add_up() -> None:
    chat = rounds(2, input_tokens=600)
    told = measure_context(
        model(max_output_tokens=100),
        system_prompt="hello world",
        tool_tokens=50,
        injection="hello world",
        messages=chat,
        counts_hold=True,
    )
    assert (told.context_length, told.persona, told.tools, told.memory, told.answer) == (1000, 2, 50, 2, 100)
    assert told.history == 605 - 2 - 50
    assert told.persona + told.tools + told.memory + told.history + told.answer + told.free == 1000
    assert told.estimated


def test_a_full_window_has_nothing_free_and_counts_before_a_compaction_do_not_hold() -> None:
    chat = rounds(2, input_tokens=90_000)
    asked = {"system_prompt": "x", "tool_tokens": 0, "injection": None, "messages": chat}
    assert measure_context(model(), counts_hold=True, **asked).free == 0  # type: ignore[arg-type]
    told = measure_context(model(max_output_tokens=5000), counts_hold=False, **asked)  # type: ignore[arg-type]
    assert told.history == estimate_messages(chat)
    assert told.answer == 1000
