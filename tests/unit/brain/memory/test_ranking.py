"""The order of what was found."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from brain.memory.query_dates import find_spans
from brain.memory.ranking import NoteFeatures, Question, fuse, rank_notes

DAY = date(2026, 5, 3)


def _note(
    note_id: int, meaning: float = 0.0, words: float = 0.0, subjects: tuple[int, ...] = (), day: date = DAY
) -> NoteFeatures:
    return NoteFeatures(note_id, day, subjects, (meaning,) if meaning else (), words)


def _order(notes: list[NoteFeatures], question: Question | None = None) -> list[int]:
    return [ranked.id for ranked in rank_notes(notes, question or Question())]


def test_agreement_of_meaning_and_words_comes_first() -> None:
    assert _order([_note(10, 0.9), _note(20, 0.8, 3.0), _note(30, words=2.0)]) == [20, 10, 30]


def test_the_named_subject_decides_between_neighbours_in_rank() -> None:
    fillers = [_note(100 + 10 * at, 0.9 + at / 100) for at in range(3)]
    notes = [*fillers, _note(10, 0.80, subjects=(1,)), _note(20, 0.81, subjects=(2,))]
    without, named = _order(notes), _order(notes, Question(subjects={1}))
    assert without.index(20) < without.index(10)
    assert named.index(10) < named.index(20)


def test_a_named_day_pushes_and_does_not_hide() -> None:
    notes = [_note(10, 0.9, day=date(2020, 1, 1)), *(_note(20 + 10 * at, 0.8 - at / 100) for at in range(6))]
    ranked = _order(notes, Question(spans=find_spans("What happened in May 2026?")))
    assert ranked[0] == 20
    assert 10 in ranked


def test_what_stands_beside_a_good_hit_comes_along() -> None:
    fillers = [_note(100 + 10 * at, 0.85 - at / 100) for at in range(8)]
    beside = _order([_note(11, 0.9), *fillers, _note(12, 0.5)])
    apart = _order([_note(11, 0.9), *fillers, _note(62, 0.5)])
    assert beside.index(12) < apart.index(62)


def test_ranks_say_where_a_hit_comes_from() -> None:
    first, second = rank_notes([_note(10, 0.9, 1.0), _note(20, words=2.0)], Question())
    assert (first.id, first.ranks.semantic, first.ranks.lexical) == (10, 1, 2)
    assert (second.id, second.ranks.semantic, second.ranks.lexical) == (20, None, 1)


def test_three_lists_fuse_and_keep_their_places() -> None:
    fused = fuse([1, 2], [2, 3], [4])
    assert fused[0].id == 2
    assert {ranked.id: ranked.ranks.name for ranked in fused}[4] == 1


_features = st.lists(
    st.builds(
        NoteFeatures,
        id=st.integers(1, 40),
        event_date=st.dates(date(2025, 1, 1), date(2026, 12, 31)),
        subjects=st.lists(st.integers(1, 3), max_size=2).map(tuple),
        meaning=st.one_of(st.just(()), st.tuples(st.floats(0, 1), st.floats(0, 1))),
        words=st.floats(0, 20),
    ),
    unique_by=lambda note: note.id,
)


@given(_features, st.randoms())
def test_the_order_does_not_depend_on_the_order_of_the_candidates(notes: list[NoteFeatures], chance: object) -> None:
    question = Question({1}, find_spans("in May"))
    ranked = rank_notes(notes, question)
    assert sorted(hit.id for hit in ranked) == sorted(note.id for note in notes)
    shuffled = list(notes)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [hit.id for hit in rank_notes(shuffled, question)] == [hit.id for hit in ranked]
