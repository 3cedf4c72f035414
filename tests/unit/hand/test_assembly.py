"""Section 11: fragments of tool calls find their calls, in whatever order they come."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hand.assembly import CallAssembler, Fragment, finish_calls


def assemble(*deltas: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    assembler = CallAssembler()
    for entries in deltas:
        assembler.take([Fragment.read(entry) for entry in entries])
    return [(call.id, call.name, call.arguments) for call in assembler.calls]


def entry(index: object = None, call_id: object = None, name: object = None, arguments: object = None) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {}}
    if index is not None:
        found["index"] = index
    if call_id is not None:
        found["id"] = call_id
    if name is not None:
        found["function"]["name"] = name
    if arguments is not None:
        found["function"]["arguments"] = arguments
    return found


def test_a_known_index_continues_its_call() -> None:
    assert assemble([entry(0, "a", "t", '{"x')], [entry(0, arguments='":1}')]) == [("a", "t", '{"x":1}')]


def test_an_index_may_be_a_string_of_digits() -> None:
    assert assemble([entry("0", "a", "t", "{")], [entry(0, arguments="}")]) == [("a", "t", "{}")]


def test_a_new_id_with_a_name_on_a_known_index_starts_a_call_that_takes_over_the_index() -> None:
    assert assemble([entry(0, "a", "t", "{")], [entry(0, "b", "u", "{")], [entry(0, arguments="}")]) == [
        ("a", "t", "{"),
        ("b", "u", "{}"),
    ]


def test_a_new_id_without_a_name_is_a_regenerated_one() -> None:
    assert assemble([entry(0, "a", "t", "{")], [entry(0, "b", arguments="}")]) == [("a", "t", "{}")]


def test_two_named_entries_of_one_delta_are_two_calls_although_they_share_the_index() -> None:
    assert assemble([entry(0, None, "t", "{}"), entry(0, None, "t", "{}")]) == [("", "t", "{}"), ("", "t", "{}")]


def test_an_unknown_index_finds_a_call_by_id_that_has_no_index_yet() -> None:
    assert assemble([entry(None, "a", "t", "{")], [entry(3, "a", None, '"x"')], [entry(3, arguments=":1}")]) == [
        ("a", "t", '{"x":1}')
    ]


def test_an_unknown_index_with_a_taken_id_is_a_new_call() -> None:
    assert assemble([entry(0, "a", "t", "{}")], [entry(1, "a", "t", "{}")]) == [("a", "t", "{}"), ("a", "t", "{}")]


def test_fragments_without_index_and_name_belong_to_the_latest_call() -> None:
    deltas = [[entry(None, "a", "t", "{")], [entry(arguments='"x":')], [entry(None, "zzz", None, "1}")]]
    assert assemble(*deltas) == [("a", "t", '{"x":1}')]


def test_the_same_name_again_without_id_continues_incomplete_arguments() -> None:
    assert assemble([entry(None, None, "t", '{"x"')], [entry(None, None, "t", ":1}")]) == [("", "t", '{"x":1}')]
    assert assemble([entry(None, None, "t", "{}")], [entry(None, None, "t", '{"y":1}')]) == [
        ("", "t", "{}"),
        ("", "t", '{"y":1}'),
    ]


def test_complete_arguments_end_a_call_when_new_ones_come_under_a_name() -> None:
    assert assemble([entry(0, None, "t", '{"x":1}')], [entry(0, None, "u", '{"x":1}')])[1:] == [("", "u", '{"x":1}')]
    assert assemble([entry(0, None, "t", '{"x":1}')], [entry(0, None, "t", '{"x":2}')])[1:] == [("", "t", '{"x":2}')]
    assert assemble([entry(0, None, "t", '{"x":1}')], [entry(0, None, "t", '{"x":1}')]) == [("", "t", '{"x":1}')]
    assert assemble([entry(0, "a", "t", '{"x":1}')], [entry(0, "a", "t", '{"x":1}')]) == [("a", "t", '{"x":1}')]
    assert assemble([entry(0, "a", "t", "{}")], [entry(0, None, "t", '{"x":2}')]) == [("a", "t", '{}{"x":2}')]
    assert assemble([entry(0, None, "t", '{"x":1}')], [entry(0, None, "u", None)]) == [("", "t", '{"x":1}')]


def test_names() -> None:
    assert assemble([entry(0, "a", "get_")], [entry(0, "a", "weather")], [entry(0, None, None, "{}")]) == [
        ("a", "get_weather", "{}")
    ]
    assert assemble([entry(0, "a", "get")], [entry(0, "a", "get_weather", "{}")]) == [("a", "get_weather", "{}")]
    assert assemble([entry(0, "a", "get", "{")], [entry(0, "a", "other", "}")]) == [("a", "get", "{}")]


def test_an_object_replaces_the_text() -> None:
    assert assemble([entry(0, "a", "t", '{"x"')], [entry(0, None, None, {"y": 1})]) == [("a", "t", '{"y":1}')]


def test_a_repeat_of_complete_arguments_is_ignored() -> None:
    assert assemble([entry(0, "a", "t", '{"x":1}')], [entry(0, None, None, '{"x":1}')]) == [("a", "t", '{"x":1}')]


def test_order_is_that_of_first_appearance_not_of_the_index() -> None:
    assert [call_id for call_id, _, _ in assemble([entry(5, "a", "t", "{}")], [entry(0, "b", "t", "{}")])] == ["a", "b"]


def test_ids_are_unique_in_the_message_and_the_history() -> None:
    assembler = CallAssembler()
    assembler.take([Fragment.read(entry(place, call_id, "t", "{}")) for place, call_id in enumerate(["a", "a", " ", "old", "b"])])
    ids = [call.id for call in finish_calls(assembler.calls, {"old"}, only_complete=False)]
    assert ids[0] == "a"
    assert ids[4] == "b"
    assert len(set(ids)) == 5
    assert not {"old", "", " "} & set(ids)


def test_several_objects_become_several_calls_of_which_the_first_keeps_the_id() -> None:
    assembler = CallAssembler()
    assembler.take([Fragment.read(entry(0, "a", "t", '{"x":1}{"x":2}'))])
    first, second = finish_calls(assembler.calls, (), only_complete=False)
    assert (first.id, first.args, second.args) == ("a", b'{"x":1}', b'{"x":2}')
    assert second.id != "a"


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["t", "fs__read", "dice__roll"]),
        st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=8)),
    ),
    min_size=1,
    max_size=5,
)


@given(CALLS, st.data())
def test_random_interleavings_of_indexed_fragments_reassemble(
    wanted: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    queues: list[list[dict[str, Any]]] = []
    for index, (name, arguments) in enumerate(wanted):
        text = json.dumps(arguments)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        queues.append([entry(index, f"id-{index}", name), *(entry(index, arguments=piece) for piece in pieces)])
    deltas: list[list[dict[str, Any]]] = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        deltas.append([queue.pop(0)])
    found = {call_id: (name, json.loads(arguments)) for call_id, name, arguments in assemble(*deltas)}
    assert found == {f"id-{index}": (name, arguments) for index, (name, arguments) in enumerate(wanted)}


@given(
    st.lists(
        st.lists(
            st.builds(
                entry,
                st.none() | st.integers(-1, 3) | st.text(max_size=2) | st.booleans(),
                st.none() | st.sampled_from(["a", "b", "", " "]) | st.integers(),
                st.none() | st.sampled_from(["t", "u", "tu", ""]) | st.integers(),
                st.none()
                | st.sampled_from(["{", "}", "{}", '{"x":1}', '"', ""])
                | st.dictionaries(st.text(), st.none())
                | st.lists(st.none()),
            ),
            max_size=3,
        ),
        max_size=6,
    )
)
def test_any_fragments_at_all_give_executable_calls_with_unique_ids(deltas: list[list[dict[str, Any]]]) -> None:
    assembler = CallAssembler()
    for entries in deltas:
        assembler.take([Fragment.read(item) for item in entries])
    calls = finish_calls(assembler.calls, {"a"}, only_complete=False)
    assert len({call.id for call in calls}) == len(calls)
    assert all(isinstance(json.loads(call.args), dict) and call.name and call.id not in {"", " ", "a"} for call in calls)
