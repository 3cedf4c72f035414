"""Laws of the stored form, of the search's folding, and of snippets, over arbitrary texts."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brain.chats.search.folding import fold, fold_with_positions, grams, query_grams
from brain.chats.search.service import HIT_END, HIT_START, make_snippet, read_terms
from brain.chats.stored_text import from_stored_text, hashes_in, to_stored_text
from brain.errors import InvalidInputError
from shared_protocol.codec import decode_messages, encode_messages

any_text = st.text(max_size=200)
mark_like = st.sampled_from(['"base64": "sha256:' + "0" * 64 + '"', '"base64":"', "sha256:" + "0" * 64, "\\", '"'])
contents = st.binary(max_size=60).map(lambda content: base64.b64encode(content).decode()) | mark_like
attachments = st.builds(
    lambda text: {"type": "attachment", "kind": "file", "content": {"type": "base64", "base64": text}, "mimeType": "a/b"},
    contents,
)
texts = st.builds(lambda text: {"type": "text", "text": text}, any_text | mark_like)
users = st.builds(
    lambda parts: {"role": "user", "parts": parts, "createdAt": "2026-03-01T08:00:00Z"}, st.lists(texts | attachments, max_size=4)
)
calls = st.builds(
    lambda key, value: {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c", "tool": "t", "args": {key: value, "base64": "sha256:" + "0" * 64}}],
        "meta": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "finishReason": "stop",
    },
    any_text | mark_like,
    any_text | mark_like,
)


@given(st.lists(users | calls, max_size=5))
def test_the_stored_form_gives_back_the_same_bytes(messages: list[Any]) -> None:
    decoded = decode_messages(json.dumps(messages))
    stored = to_stored_text(decoded)
    assert hashes_in(stored.text) == set(stored.contents)
    json.loads(stored.text)
    assert from_stored_text(stored.text, stored.contents) == encode_messages(decoded).decode()


@given(any_text)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(fold(fold(text)))


@given(any_text)
def test_positions_agree_with_the_folded_text(text: str) -> None:
    folded, positions = fold_with_positions(text)
    assert folded == fold(text) or text.isascii()
    assert len(positions) == len(folded) + 1
    assert positions == sorted(positions)


@given(st.text(alphabet="東京タワー한국어abcé你好 ", min_size=1, max_size=40), st.data())
def test_the_grams_of_a_part_are_among_those_of_the_whole(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert set(query_grams(fold(text[start:end]))) <= set(grams(fold(text)))


@given(any_text, st.text(min_size=1, max_size=5))
def test_a_snippet_is_the_text_with_marks(body: str, query: str) -> None:
    body = body.replace(HIT_START, "").replace(HIT_END, "")
    try:
        terms = read_terms(query)
    except InvalidInputError:
        return
    snippet = make_snippet(body, terms)
    assert snippet.count(HIT_START) == snippet.count(HIT_END)
    plain = snippet.replace(HIT_START, "").replace(HIT_END, "").strip("…")
    assert (
        plain.strip() in " ".join(body.split())
        or len(plain.split()) == 0
        or plain in "".join(" " if c.isspace() else c for c in body)
    )
