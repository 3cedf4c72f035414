"""Words and n-grams of any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.keep_out import same_text_hash
from brain.memory.tokens import MAX_TERM_CHARS, fold, name_candidates, query_terms, stem, terms_of, words_of


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("running studies", ["run", "studi"]),
        ("study run", ["studi", "run"]),
        ("タワー", ["タワ", "ワー"]),
        ("昨天的会议", ["昨天", "天的", "的会", "会议"]),
        ("猫", ["猫"]),
        ("HTTP-404", ["http-404", "http", "404"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("a@b.example", ["a@b.example", "a", "b", "exampl"]),
        ("Café", ["caf"]),
        ("ＡＢＣ", ["abc"]),
        ("...", []),
    ],
)
def test_words(text: str, terms: list[str]) -> None:
    assert words_of(text) == terms


def test_forms_of_a_word_meet() -> None:
    for left, right in (("cities", "city"), ("planned", "planning"), ("dogs", "dog"), ("move", "moving"), ("classes", "class")):
        assert stem(left) == stem(right)


def test_stopwords_are_searched_only_when_there_is_nothing_else() -> None:
    assert query_terms("What did the cat do?") == ["cat"]
    assert query_terms("what did you do") == ["what", "did", "you", "do"]


def test_a_note_of_stopwords_alone_can_be_found() -> None:
    assert terms_of("It is what it is.") == (["is", "it", "what"], 5)


@given(st.text())
def test_any_text_gives_short_terms_without_a_crash(text: str) -> None:
    for term in words_of(text):
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert "\x00" not in term
    assert words_of(fold(text)) == words_of(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "Zs"]), min_size=1))
def test_what_was_written_is_found_by_its_own_text(text: str) -> None:
    indexed, _ = terms_of(text)
    assert set(query_terms(text)) <= set(indexed)


def test_names_are_looked_for_in_every_stretch() -> None:
    assert {"ada lovelace", "ada", "lovelace"} <= set(name_candidates("Where does Ada Lovelace's dog sleep?"))
    assert "山田" in name_candidates("山田さんはどこ")
    assert "the" not in name_candidates("the end")


@given(st.text())
def test_the_list_of_possible_names_is_bounded(text: str) -> None:
    assert len(name_candidates(text * 50)) <= 400


def test_form_does_not_make_a_text_another() -> None:
    assert same_text_hash("Moved to London.") == same_text_hash(" moved,  TO london")
    assert same_text_hash("Moved to London") != same_text_hash("Moved to Londo")
    assert same_text_hash("!!!") != same_text_hash("???")
    assert same_text_hash("東京に行った。") == same_text_hash("東京に行った")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Writes C.", "Writes C++."),
        ("Writes C.", "Writes C#."),
        ("It is 5 degrees", "It is -5 degrees"),
        ("$5", "€5"),
        ("5", "5 %"),
    ],
)
def test_signs_that_change_the_meaning_make_a_text_another(one: str, other: str) -> None:
    assert same_text_hash(one) != same_text_hash(other)
