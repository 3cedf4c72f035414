"""When to compact, and how much to keep (chat-domain sections 11, 12 and 22)."""

from __future__ import annotations

from typing import Any

import pytest

from brain.catalog import ChatModel, ModelId
from brain.config.models import ProviderConfig
from brain.context.rounds import count_rounds, last_rounds, split_for_compaction
from brain.turns.compacting import MAX_REACTIVE, needs_compaction, next_keep_rounds
from shared_protocol.messages import TextPart
from tests.integration.turns.conftest import model_config
from tests.integration.turns.test_compaction import rounds

HI = (TextPart("Hi"),)


def model(**changes: Any) -> ChatModel:
    config = model_config(**{"context_length": 1000, **changes})
    return ChatModel(ModelId("gw/large"), ProviderConfig(api_key="k", base_url="http://x/v1"), config, None)


@pytest.mark.parametrize(
    ("tokens", "fraction", "expected"), [(800, 0.8, False), (801, 0.8, True), (1, 0.001, False), (2, 0.001, True)]
)
def test_the_last_prompt_is_compared_strictly_with_the_fraction(tokens: int, fraction: float, expected: bool) -> None:
    chat = rounds(2, input_tokens=tokens)
    assert needs_compaction(model(compaction_trigger_fraction=fraction), chat, HI) is expected


def test_a_fraction_of_0_switches_it_off_whatever_comes() -> None:
    off = model(compaction_trigger_fraction=0)
    assert not needs_compaction(off, rounds(2, input_tokens=5000), (TextPart("word " * 5000),))


def test_an_empty_chat_has_nothing_to_compact() -> None:
    assert not needs_compaction(model(), [], (TextPart("word " * 5000),))


def test_new_input_counts_where_it_would_not_fit() -> None:
    chat = rounds(2, input_tokens=500)
    assert not needs_compaction(model(), chat, (TextPart("word " * 400),))
    assert needs_compaction(model(), chat, (TextPart("word " * 600),))


def test_a_smaller_model_is_measured_with_its_own_window() -> None:
    chat = rounds(2, input_tokens=5000)
    assert not needs_compaction(model(context_length=10_000), chat, HI)
    assert needs_compaction(model(context_length=5000), chat, HI)


def test_a_history_without_counts_is_estimated() -> None:
    chat = rounds(3, input_tokens=0, words=600)
    assert not needs_compaction(model(context_length=4000), chat, HI)
    assert needs_compaction(model(context_length=1500), chat, HI)


def test_each_attempt_keeps_fewer_rounds_than_the_one_before() -> None:
    assert MAX_REACTIVE == 3
    kept = [next_keep_rounds(5, None), next_keep_rounds(5, 5), next_keep_rounds(5, 1)]
    assert kept == [5, 1, 0]
    assert [next_keep_rounds(1, None), next_keep_rounds(1, 1), next_keep_rounds(1, 0)] == [1, 0, 0]
    # Five are configured, but only one was there beside the summary.
    assert next_keep_rounds(5, 1) == 0


@pytest.mark.parametrize(
    ("count", "keep", "dropped"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (3, 2, 1), (3, 3, 1), (3, 9, 1), (3, 0, 3)]
)
def test_at_least_the_oldest_round_is_dropped(count: int, keep: int, dropped: int) -> None:
    chat = rounds(count)
    gone, preserved = split_for_compaction(chat, keep)
    assert (count_rounds(gone), count_rounds(preserved)) == (dropped, count - dropped)
    assert [*gone, *preserved] == chat


def test_the_prologue_belongs_to_no_round_and_goes_first() -> None:
    chat = [rounds(1)[1], *rounds(2)]
    gone, preserved = split_for_compaction(chat, 1)
    assert len(gone) == 3
    assert preserved == tuple(chat[3:])
    assert last_rounds(chat, 9) == tuple(chat[1:])
    assert last_rounds(chat, 0) == last_rounds(chat[:1], 2) == ()
