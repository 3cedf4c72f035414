"""The neutral format keeps what it is given, byte for byte, and refuses what breaks a rule."""

from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_protocol.codec import decode_messages, encode_messages
from shared_protocol.instants import datetime_from_instant, instant_from_datetime, parse_instant

GOLDEN = (
    b'[{"role":"user","parts":[{"type":"text","text":"Roll a die \xc3\xa9/\xf0\x9f\x8e\xb2"}],"createdAt":"2026-03-01T08:00:00.123456789Z"},'
    b'{"role":"assistant","parts":[{"type":"reasoning","content":"use the tool"},'
    b'{"type":"tool_call","id":"c1","tool":"dice__roll","args":{"z":1.0,"a":123456789012345678901234567890,"e":1e400,"s":{"q":[]}}}],'
    b'"meta":{"inputTokens":310,"outputTokens":20,"totalTokens":330,"modelId":"acme/large-1"},"finishReason":"tool_calls"},'
    b'{"role":"tool_result","parts":[{"type":"tool_result","id":"c1","tool":"dice__roll",'
    b'"parts":[{"type":"text","text":"4"},{"type":"attachment","kind":"image","content":{"type":"base64","base64":"AA=="},"mimeType":"image/png"}],'
    b'"isError":false}]},'
    b'{"role":"assistant","parts":[{"type":"text","text":"You got a 4."}],'
    b'"meta":{"inputTokens":345,"outputTokens":6,"totalTokens":351},"finishReason":"stop","interrupted":true}]'
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def test_canonical_bytes_survive_a_round_trip():
    assert encode_messages(decode_messages(GOLDEN)) == GOLDEN


@given(st.dictionaries(text, json_values, max_size=4))
def test_args_keep_order_and_literals_whatever_they_hold(args):
    body = msgspec.json.encode(args)
    wire = (
        b'[{"role":"assistant","parts":[{"type":"tool_call","id":"c","tool":"t__x","args":%b}],'
        b'"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"finishReason":"tool_calls"}]' % body
    )
    assert encode_messages(decode_messages(wire)) == wire


@pytest.mark.parametrize(
    "args", [b"[]", b"1", b"null", b'{"a":"\xff"}', b'{"a":"\\x"}', b'{"a":01}', b"{a:1}", b'{"a":1,}', b'{"\xed\xa0\x80":1}']
)
def test_args_that_are_no_json_object_in_utf8_are_refused(args):
    wire = (
        b'[{"role":"assistant","parts":[{"type":"tool_call","id":"c","tool":"t__x","args":%b}],'
        b'"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"finishReason":"tool_calls"}]' % args
    )
    with pytest.raises(msgspec.DecodeError):
        decode_messages(wire)


def test_white_space_and_unknown_keys_are_dropped():
    wire = b'[ {"parts" : [ {"text":"a","type":"text","x":1} ], "role":"user", "y":{} } ]'
    assert encode_messages(decode_messages(wire)) == b'[{"role":"user","parts":[{"type":"text","text":"a"}]}]'


@pytest.mark.parametrize(
    "message",
    [
        '{"role":"system","parts":[]}',
        '{"role":"user","parts":[{"type":"reasoning","content":"x"}]}',
        '{"role":"user","parts":[],"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}',
        '{"role":"user","parts":[],"finishReason":"stop"}',
        '{"role":"user","parts":[],"createdAt":"2026-02-30T00:00:00Z"}',
        '{"role":"user","parts":[],"createdAt":"yesterday"}',
        '{"role":"assistant","parts":[],"finishReason":"stop"}',
        '{"role":"assistant","parts":[],"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}',
        '{"role":"assistant","parts":[],"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"finishReason":" "}',
        '{"role":"assistant","parts":[],"meta":{"inputTokens":-1,"outputTokens":0,"totalTokens":0},"finishReason":"stop"}',
        '{"role":"assistant","parts":[{"type":"tool_call","id":"a","tool":"t","args":[]}],'
        '"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"finishReason":"tool_calls"}',
        '{"role":"assistant","parts":[{"type":"tool_call","id":" ","tool":"t","args":{}}],'
        '"meta":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"finishReason":"tool_calls"}',
        '{"role":"tool_result","parts":[]}',
        '{"role":"tool_result","parts":[{"type":"tool_result","id":"a","tool":"t","parts":[]},{"type":"tool_result","id":"b","tool":"t","parts":[]}]}',
        '{"role":"tool_result","parts":[{"type":"tool_result","id":"a","tool":"t","parts":[]}],"createdAt":"2026-03-01T08:00:00Z"}',
        '{"role":"user","parts":[{"type":"attachment","kind":"hologram","content":{"type":"base64","base64":""},"mimeType":"x"}]}',
        '{"role":"user","parts":[{"type":"attachment","kind":"image","content":{"type":"url","url":""},"mimeType":"x"}]}',
    ],
)
def test_a_message_that_breaks_a_rule_is_refused(message):
    with pytest.raises(msgspec.ValidationError):
        decode_messages(f"[{message}]")


@pytest.mark.parametrize(
    ("given_text", "canonical"),
    [
        ("2026-03-01T08:00:00Z", "2026-03-01T08:00:00Z"),
        ("2026-03-01T08:00:00.100Z", "2026-03-01T08:00:00.100Z"),
        ("2026-03-01T08:00:00.1Z", "2026-03-01T08:00:00.100Z"),
        ("2026-03-01T08:00:00.000Z", "2026-03-01T08:00:00Z"),
        ("2026-03-01T08:00:00.1234Z", "2026-03-01T08:00:00.123400Z"),
        ("2026-03-01T08:00:00.123456789Z", "2026-03-01T08:00:00.123456789Z"),
        ("2026-03-01T01:00:00.5+02:00", "2026-02-28T23:00:00.500Z"),
    ],
)
def test_instants_are_written_in_utc_with_three_six_or_nine_digits(given_text, canonical):
    assert parse_instant(given_text) == canonical


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_made_from_a_datetime_reads_back_as_the_same_moment(moment):
    assert datetime_from_instant(instant_from_datetime(moment)) == moment
