from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from brain.tools.arguments import ArgumentError, Arguments, LenientArguments, StrictArguments


def lenient(text: str) -> LenientArguments:
    return LenientArguments(Raw(text.encode()))


def strict(text: str) -> StrictArguments:
    return StrictArguments(Raw(text.encode()))


@pytest.mark.parametrize("read", [lenient, strict])
@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "{", "", '{"a":1}{}', '{"a":"\\ud800"}', '{"a":["\\udc00"]}'])
def test_arguments_must_be_one_object(read: type[Arguments], text: str) -> None:
    with pytest.raises(ArgumentError):
        read(text)


@pytest.mark.parametrize("read", [lenient, strict])
@pytest.mark.parametrize("text", ["{}", '{"a":null}', '{"a": null }', '{"a":""}', '{"a":" \\t\\n "}'])
def test_missing_null_and_blank_are_absent(read: type[Arguments], text: str) -> None:
    assert read(text).text("a") is None
    with pytest.raises(ArgumentError, match="'a'"):
        read(text).required_text("a")


@pytest.mark.parametrize("read", [lenient, strict])
def test_strings_are_trimmed_and_blank_entries_dropped(read: type[Arguments]) -> None:
    assert read('{"a":"  b  "}').text("a") == "b"
    assert read('{"a":[" x ","","  ",null,"y"]}' if read is lenient else '{"a":[" x ","","  ","y"]}').texts("a") == ["x", "y"]
    assert read('{"a":["", " "]}').texts("a") is None
    assert read('{"a":[]}').texts("a") is None


@pytest.mark.parametrize("value", ["1", "1.50", "true", "{}", "[]"])
def test_strict_text_refuses_other_types(value: str) -> None:
    with pytest.raises(ArgumentError, match="'a'"):
        strict(f'{{"a":{value}}}').text("a")


@pytest.mark.parametrize("value", ['"3"', "3.0", "1e2", "true", "[3]", "{}"])
def test_strict_integer_takes_whole_numbers_only(value: str) -> None:
    with pytest.raises(ArgumentError, match="'a'"):
        strict(f'{{"a":{value}}}').integer("a")


def test_strict_integer_has_a_minimum() -> None:
    assert strict('{"a":1}').integer("a", minimum=1) == 1
    with pytest.raises(ArgumentError, match="at least 1"):
        strict('{"a":0}').integer("a", minimum=1)


@pytest.mark.parametrize("value", ['"x"', "1", '{"x":1}'])
def test_strict_array_refuses_other_types(value: str) -> None:
    with pytest.raises(ArgumentError, match="'a'"):
        strict(f'{{"a":{value}}}').texts("a")


def test_strict_array_refuses_entries_of_other_types() -> None:
    with pytest.raises(ArgumentError, match=r"'a\[1\]'"):
        strict('{"a":["x",2]}').texts("a")


@pytest.mark.parametrize(("value", "expected"), [("1.50", "1.50"), ("true", "true"), ("-3", "-3"), ("{}", None), ('["x"]', None)])
def test_lenient_text_is_the_literal_of_a_primitive(value: str, expected: str | None) -> None:
    assert lenient(f'{{"a":{value}}}').text("a") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3),
        ('" 3 "', 3),
        ("3.0", 3),
        ('"x"', None),
        ("3.5", None),
        ("true", None),
        ("[]", None),
        ("1" * 400, None),
        ('""', None),
    ],
)
def test_lenient_integer_reads_what_it_can(value: str, expected: int | None) -> None:
    assert lenient(f'{{"a":{value}}}').integer("a") == expected


@pytest.mark.parametrize(("value", "expected"), [("true", True), ('"False"', False), ("1", None), ('"yes"', None), ("[]", None)])
def test_lenient_boolean_reads_what_it_can(value: str, expected: bool | None) -> None:
    assert lenient(f'{{"a":{value}}}').boolean("a") is expected


def test_lenient_array_takes_a_single_value_and_numbers() -> None:
    assert lenient('{"a":"x"}').texts("a") == ["x"]
    assert lenient('{"a":[1,{"b":2},"y"]}').texts("a") == ["1", "y"]


@given(
    st.dictionaries(
        st.sampled_from("ab"),
        st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists),
    )
)
def test_lenient_reading_never_fails(values: dict[str, object]) -> None:
    import json

    arguments = lenient(json.dumps(values))
    for name in "ab":
        arguments.text(name)
        arguments.integer(name)
        arguments.boolean(name)
        arguments.texts(name)
