"""Sections 10.5 and 10.6: inline thought tags and stray characters, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hand.textio import without_surrogates
from hand.thoughts import TAGS, CharacterFilter, ThoughtFilter

CASES = [
    ("plain", [("text", "plain")]),
    ("<think>a</think>b", [("reasoning", "a"), ("text", "b")]),
    (" \n<think>\n a \n</think>\n\nb ", [("reasoning", "a \n"), ("text", "b ")]),
    ("<think></think>b", [("text", "b")]),
    ("<think>\n\n</think>\n\nb", [("text", "b")]),
    ("<thinking>a</think>b</thinking>c", [("reasoning", "a</think>b"), ("text", "c")]),
    ("<thought>a</thought>c", [("reasoning", "a"), ("text", "c")]),
    ("<reasoning>a</reasoning>c", [("reasoning", "a"), ("text", "c")]),
    ("<Think>a</Think>", [("text", "<Think>a</Think>")]),
    ("x <think>a</think>", [("text", "x <think>a</think>")]),
    ("<think>a</think>b<think>c</think>", [("reasoning", "a"), ("text", "b<think>c</think>")]),
    ("<think>never closed", [("reasoning", "never closed")]),
    ("<think>ends in a prefix </thi", [("reasoning", "ends in a prefix </thi")]),
    ("</think>\n\nb", [("text", "b")]),
    (" </reasoning> b", [("text", "b")]),
    ("  <thin", [("text", "  <thin")]),
    ("  <thinker>x", [("text", "  <thinker>x")]),
    ("   ", [("text", "   ")]),
    ("<think>a</think>   ", [("reasoning", "a")]),
    ("<<think>", [("text", "<<think>")]),
    ("<think>a<</think>b", [("reasoning", "a<"), ("text", "b")]),
    ("```\n<think>\n```", [("text", "```\n<think>\n```")]),
]


def channels(pieces: list[str]) -> list[tuple[str, str]]:
    thoughts = ThoughtFilter()
    out: list[tuple[str, str]] = []
    found = [item for piece in pieces for item in thoughts.feed(piece)]
    for channel, text in [*found, thoughts.finish()]:
        if not text:
            continue
        if out and out[-1][0] == channel:
            out[-1] = (channel, out[-1][1] + text)
        else:
            out.append((channel, text))
    return out


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_channels_of_a_text_however_it_is_cut(text: str, expected: list[tuple[str, str]]) -> None:
    assert channels([text]) == expected
    assert channels(list(text)) == expected
    for cut in range(len(text)):
        assert channels([text[:cut], text[cut:]]) == expected


@given(st.lists(st.sampled_from([*"<>/ \nab", "think", "thinking", "</think>", "<think>", *TAGS]), max_size=12), st.data())
def test_cutting_changes_nothing(tokens: list[str], data: st.DataObject) -> None:
    text = "".join(tokens)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert channels(pieces) == channels([text])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1))
def test_text_without_tags_passes_verbatim(text: str) -> None:
    assert channels(list(text)) == [("text", text)]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.data())
def test_a_surrogate_pair_cut_anywhere_is_joined(text: str, data: st.DataObject) -> None:
    halves = text.encode("utf-16-le", "surrogatepass")
    units = [halves[place : place + 2].decode("utf-16-le", "surrogatepass") for place in range(0, len(halves), 2)]
    characters = CharacterFilter()
    cut = data.draw(st.integers(0, len(units)))
    joined = characters.clean("".join(units[:cut])) + characters.clean("".join(units[cut:]))
    assert joined == text.replace("\0", "")


@given(st.lists(st.sampled_from(["a", "\ud83d", "\ude00", "\U0001f600", "é"])).map("".join))
def test_halves_of_pairs_are_joined_or_dropped(text: str) -> None:
    clean = without_surrogates(text)
    assert clean == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    clean.encode()


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["a\ud83d", "b"], "ab"),
        (["a\ud83d"], "a"),
        (["\ude00b"], "b"),
        (["\ud83d\ud83d\ude00"], "😀"),
        (["\ud83d", "\ud83d", "\ude00!"], "😀!"),
        (["a\0b", "\0"], "ab"),
        (["\ud83d", "\0\ude00"], "😀"),
    ],
)
def test_unpaired_halves_and_nul_are_dropped(pieces: list[str], expected: str) -> None:
    characters = CharacterFilter()
    assert "".join(characters.clean(piece) for piece in pieces) == expected
