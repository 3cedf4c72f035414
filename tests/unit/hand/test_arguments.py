"""Section 11.4: arguments as models write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hand.arguments import is_complete, read_arguments

ONE = [
    ("", "{}"),
    ("  \n", "{}"),
    ('{"a":1}', '{"a":1}'),
    (' {"a" : 1.0, "b": 123456789012345678901234567890} ', '{"a":1.0,"b":123456789012345678901234567890}'),
    ("null", "{}"),
    ("[1]", "{}"),
    ("3", "{}"),
    ("true", "{}"),
    ('"text"', "{}"),
    ('"{\\"a\\":1}"', '{"a":1}'),
    (json.dumps(json.dumps(json.dumps({"a": 1}))), '{"a":1}'),
    (json.dumps(json.dumps(json.dumps(json.dumps({"a": 1})))), "{}"),
    ('{"a":"line\nbreak\tand \x01"}', '{"a":"line\\u000abreak\\u0009and \\u0001"}'),
    ('{"re":"\\d+\\.py"}', '{"re":"\\\\d+\\\\.py"}'),
    ('{"p":"C:\\users"}', '{"p":"C:\\\\users"}'),
    ('{}{"a":1}', '{"a":1}'),
    ('{"a":1}{"a":1}', '{"a":1}'),
    ("{}{}", "{}"),
    ('{"a":[1,2', '{"a":[1,2]}'),
    ('{"a":{"b":[1,', '{"a":{"b":[1]}}'),
    ('{"a":1,', '{"a":1}'),
    ('{"a":"cut', "{}"),
    ('{"a":"x","b":"cu\\', "{}"),
    ('{"a":', "{}"),
    ('{"a"', "{}"),
    ('{"a":1]', "{}"),
    ('{"a":NaN}', "{}"),
    ("ls -la", "{}"),
    ("{'a': 1}", "{}"),
    ('{"a":"\\ud83d!"}', '{"a":"!"}'),
    ('{"a":"\\u0000x"}', '{"a":"x"}'),
    ('{"a":"\ud83d\ude00 \ude00"}', '{"a":"😀 "}'),
    ('{"a":"\\ud83d\\ude00"}', '{"a":"\\ud83d\\ude00"}'),
    ('{"a":"\\\\ud83d"}', '{"a":"\\\\ud83d"}'),
]


@pytest.mark.parametrize(("written", "expected"), ONE)
def test_arguments_become_one_object(written: str, expected: str) -> None:
    assert read_arguments(written) == [expected.encode()]


def test_several_different_objects_become_several_calls() -> None:
    assert read_arguments('{"a":1} {}\n{"b":2}{"a":1}') == [b'{"a":1}', b'{"b":2}']


@pytest.mark.parametrize(
    "text", ['{"a":1}', "{}", "null", "[]", "3", '"{\\"a\\":1}"', '{"a":"\\d"}', '{"a":1}{"b":2}', ' {"a":1}\n']
)
def test_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", ["", " ", "{", '{"a":1', '{"a":[1,2]', '{"a":"}', '"text"', '{"a":NaN}', "x"])
def test_incomplete(text: str) -> None:
    assert not is_complete(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


def without_nul(value: object) -> object:
    """What may be stored: U+0000 is removed, of keys that fall together the last one wins."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    if isinstance(value, dict):
        return {str(without_nul(key)): without_nul(item) for key, item in value.items()}
    return value


@given(OBJECTS)
def test_any_object_survives_unchanged_but_for_nul(value: dict[str, object]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert is_complete(text)
        assert [json.loads(item) for item in read_arguments(text)] == [without_nul(value)]


@given(OBJECTS, st.data())
def test_a_cut_never_yields_half_a_string(value: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text)))]
    (item,) = read_arguments(cut)
    assert isinstance(json.loads(item), dict)
    strings = set(strings_of(without_nul(value)))
    assert set(strings_of(json.loads(item))) <= strings


def strings_of(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in (key, *strings_of(item))]
    return [found for item in value for found in strings_of(item)] if isinstance(value, list) else []


@given(st.text())
def test_any_text_at_all_gives_objects(text: str) -> None:
    for item in read_arguments(text):
        assert isinstance(json.loads(item), dict)
    is_complete(text)
