"""What a model claims is checked against the transcript."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.evidence import check_facts, contains_quote, excerpt_of
from brain.memory.facts import RawFact, RawFacts
from brain.memory.regions import Source


def source(number: int, text: str, speaker="user", *, recalled=False) -> Source:
    return Source(number, number - 1, speaker, text, None, recalled)


CHAT = [
    source(1, "I moved to Lisbon yesterday, my new badge is 48213."),
    source(2, "Welcome to Lisbon! The weather there is mild.", "assistant"),
    source(3, "My sister Ada works at “Northwind”."),
]


def check(*items: RawFact, sources=CHAT, known=(), plain=False):
    return check_facts(RawFacts(items, plain=plain), sources, known)


@pytest.mark.parametrize(
    "quote",
    ["moved to Lisbon", "MOVED  to\nlisbon", "I moved … my new badge", "“moved to Lisbon”", "moved to Lisbon yesterday,"],
)
def test_quote_is_found_whatever_its_case_spacing_and_marks(quote):
    assert contains_quote(CHAT[0].text, quote)


@pytest.mark.parametrize("quote", ["moved to Porto", "badge … moved", "", "…", '"'])
def test_quote_that_was_not_said_is_not_found(quote):
    assert not contains_quote(CHAT[0].text, quote)


def test_full_width_text_matches_its_narrow_form():
    assert contains_quote("バージョンは１２３です", "バージョンは123です")


def test_fact_with_a_true_quote_is_kept_with_its_source():
    (fact,) = check(RawFact("The user moved to Lisbon.", 1, "I moved to Lisbon")).facts
    assert (fact.number, fact.message_index, fact.excerpt) == (1, 0, CHAT[0].text)


def test_fact_with_a_false_quote_is_dropped_and_counted():
    checked = check(RawFact("The user moved to Porto.", 1, "I moved to Porto"))
    assert (checked.facts, checked.dropped) == ((), {"quote_not_found": 1})


def test_miscounted_message_is_corrected_by_the_quote():
    (fact,) = check(RawFact("Ada works at Northwind.", 1, 'works at "Northwind"')).facts
    assert fact.message_index == 2


def test_fact_without_a_number_is_dropped_and_counted():
    assert check(RawFact("The user moved to Lisbon.")).dropped == {"no_message": 1}


def test_fact_with_an_invented_number_is_dropped_and_counted():
    assert check(RawFact("The user moved to Lisbon.", 99), RawFact("x", 0)).dropped == {"unknown_message": 2}


def test_plain_list_is_attributed_by_its_words():
    checked = check(RawFact("The user moved to Lisbon."), RawFact("The user owns a yacht."), plain=True)
    assert [fact.message_index for fact in checked.facts] == [0]
    assert checked.dropped == {"no_message": 1}


def test_invented_identifier_is_dropped_even_with_a_number():
    assert check(RawFact("The user's badge is 99999.", 1)).dropped == {"unsupported": 1}
    assert len(check(RawFact("The user's badge is 48213.", 1)).facts) == 1


def test_date_that_was_worked_out_is_no_invented_identifier():
    assert len(check(RawFact("The user moved to Lisbon on 2026-03-01.", 1, "moved to Lisbon")).facts) == 1


@pytest.mark.parametrize(
    "fact", ["用户于2026-03-01搬到里斯本。", "用户在2026年3月1日搬到里斯本。", "ユーザーは2026/03/01にリスボンへ引っ越した。"]
)
def test_date_between_characters_is_no_invented_identifier(fact):
    said = [source(1, "昨天我搬到了里斯本。昨日リスボンへ引っ越した。")]
    assert len(check(RawFact(fact, 1), sources=said).facts) == 1
    assert check(RawFact(f"{fact}工号48213", 1), sources=said).dropped == {"unsupported": 1}


def test_fact_that_shares_no_word_with_the_chat_is_dropped():
    assert check(RawFact("Der Benutzer besitzt einen Hund namens Rex.", 1)).dropped == {"unsupported": 1}


RECALL = [
    source(1, "What is my passport word?"),
    source(2, "[report]", "tool", recalled=True),
    source(3, "Your passport word is Heliotrope.", "assistant", recalled=True),
    source(4, "Right. I adopted a cat named Miso."),
]


def test_recalled_memory_is_an_echo_whoever_is_cited():
    assert check(RawFact("The user's passport word is Heliotrope.", 3), sources=RECALL).dropped == {"echo": 1}
    assert check(RawFact("The user's passport word is Heliotrope.", 1), sources=RECALL).dropped == {"echo": 1}


def test_new_fact_beside_a_recall_is_kept():
    assert len(check(RawFact("The user adopted a cat named Miso.", 4), sources=RECALL).facts) == 1


def test_answer_out_of_an_injected_memory_is_an_echo():
    chat = [source(1, "Where do I keep the spare key?"), source(2, "The spare key is under the geranium pot.", "assistant")]
    fact = RawFact("The user's spare key is under the geranium pot.", 2)
    known = ["The user keeps the spare key under the geranium pot."]
    assert check(fact, sources=chat, known=known).dropped == {"echo": 1}
    assert len(check(fact, sources=chat).facts) == 1


def test_person_may_say_again_what_is_known():
    chat = [source(1, "My spare key is under the geranium pot.")]
    fact = RawFact("The user's spare key is under the geranium pot.", 1)
    assert len(check(fact, sources=chat, known=["The spare key is under the geranium pot."]).facts) == 1


def test_long_message_is_kept_around_its_quote():
    text = "a" * 5000 + " the needle " + "b" * 5000
    excerpt = excerpt_of(text, "the needle")
    assert "the needle" in excerpt
    assert len(excerpt) <= 2000


@given(st.text(min_size=2, max_size=200), st.data())
def test_any_cut_of_a_text_is_found_in_it(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = text[start:end]
    if len(piece.strip(" \t.,;:!?…\"'()[]*_。、，！？；：")) >= 8 and "..." not in piece and "…" not in piece:
        contains_quote(text, piece)


@given(st.text(max_size=300), st.one_of(st.none(), st.integers()), st.one_of(st.none(), st.text(max_size=50)))
def test_no_item_breaks_the_check(text, number, quote):
    check(RawFact(text, number, quote))
