"""Imports that mean harm, or that no provider would ever accept again."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.integration.api.conftest import Api, assistant, call, image_part, open_api, png, result, user

JSON_TYPE = {"content-type": "application/json"}
SECOND = "2026-03-01T08:05:00Z"


async def refused(api: Api, messages: Any, *, status: int = 400, title: Any = "x") -> str:
    answer = await api.http.post("/api/chats/import", json={"title": title, "messages": messages})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert await api.run_sql("SELECT count(*) FROM chats") == [(0,)]
    return answer.json()["error"]


BROKEN: dict[str, list[Any]] = {
    "no createdAt": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}, assistant()],
    "ends with a user message": [user()],
    "ends with a tool result": [user(), assistant("", call(), finish="tool_calls"), result()],
    "ends with another finish reason": [user(), assistant(finish="length")],
    "a call without a result": [user(), assistant("", call(), finish="tool_calls"), assistant()],
    "a result without a call": [user(), assistant("", finish="tool_calls"), result(), assistant()],
    "two results of a call": [user(), assistant("", call(), finish="tool_calls"), result(), result(), assistant()],
    "an id used twice": [
        user(),
        assistant("", call(), finish="tool_calls"),
        result(),
        assistant("", call(), finish="tool_calls"),
        assistant(),
    ],
    "an id used twice in one message": [user(), assistant("", call(), call(), finish="tool_calls"), result(), assistant()],
    "a pair that straddles a user message": [
        user(),
        assistant("", call(), finish="tool_calls"),
        user("x", SECOND),
        result(),
        assistant(),
    ],
    "a pair that straddles the prologue": [assistant("", call(), finish="tool_calls"), user(), result(), assistant()],
    "a result before its call": [user(), result(), assistant("", call(), finish="tool_calls"), assistant()],
    "a result after the next assistant message": [
        user(),
        assistant("", call(), finish="tool_calls"),
        assistant("between", finish="length"),
        result(),
        assistant(),
    ],
    "a result of another tool": [user(), assistant("", call(), finish="tool_calls"), result(tool="other__tool"), assistant()],
    "a message without parts": [{**user(), "parts": []}, assistant()],
    "an assistant message without parts": [user(), {**assistant(), "parts": []}],
    "a result without parts": [user(), assistant("", call(), finish="tool_calls"), result(parts=[]), assistant()],
    "base64 that does not decode": [{**user(), "parts": [image_part("a$b=")]}, assistant()],
    "base64 without padding": [{**user(), "parts": [image_part("YWJj" + "YQ")]}, assistant()],
    "base64 in the URL alphabet": [{**user(), "parts": [image_part("-_-_")]}, assistant()],
    "broken base64 in a tool result": [
        user(),
        assistant("", call(), finish="tool_calls"),
        result(parts=[image_part("!")]),
        assistant(),
    ],
    "an unknown role": [{"role": "system", "parts": []}],
    "an unknown part": [{**user(), "parts": [{"type": "video_url", "url": "x"}]}, assistant()],
    "reasoning in a user message": [{**user(), "parts": [{"type": "reasoning", "content": "x"}]}, assistant()],
    "an unknown kind": [{**user(), "parts": [image_part("YQ==", kind="hologram")]}, assistant()],
    "a URL as content": [
        {
            **user(),
            "parts": [{"type": "attachment", "kind": "image", "content": {"type": "url", "url": "http://x"}, "mimeType": "a/b"}],
        },
        assistant(),
    ],
    "meta on a user message": [user(meta={"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}), assistant()],
    "no meta": [user(), {key: value for key, value in assistant().items() if key != "meta"}],
    "no finish reason": [user(), {key: value for key, value in assistant().items() if key != "finishReason"}],
    "a blank finish reason": [user(), assistant(finish=" ")],
    "a negative count": [user(), {**assistant(), "meta": {"inputTokens": -1, "outputTokens": 1, "totalTokens": 0}}],
    "a blank call id": [user(), assistant("", call(" "), finish="tool_calls"), result(" "), assistant()],
    "args that are no object": [
        user(),
        assistant("", {**call(), "args": [1]}, finish="tool_calls"),
        result(),
        assistant(),
    ],
    "two results in a message": [
        user(),
        assistant("", call("a"), call("b"), finish="tool_calls"),
        {"role": "tool_result", "parts": [*result("a")["parts"], *result("b")["parts"]]},
        assistant(),
    ],
    "an instant without a zone": [user(created_at="2026-03-01T08:00:00"), assistant()],
    "a day that does not exist": [user(created_at="2026-02-30T08:00:00Z"), assistant()],
}


async def test_what_breaks_a_rule_is_400_and_creates_nothing(api: Api) -> None:
    for name, messages in BROKEN.items():
        answer = await api.http.post("/api/chats/import", json={"title": "x", "messages": messages})
        assert answer.status_code == 400, name
        assert answer.json()["error"], name
    assert await api.run_sql("SELECT count(*) FROM chats") == [(0,)]
    assert await api.run_sql("SELECT count(*) FROM attachments") == [(0,)]


async def test_the_body_is_checked_in_order(api: Api) -> None:
    assert (await api.http.post("/api/chats/import", content=b"{")).status_code == 415
    for content in (
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"title":"x"}',
        b'{"messages":[]}',
        b'{"title":null,"messages":[]}',
        b'{"title":" ","messages":[]}',
        b'{"title":"x","messages":null}',
        b'{"title":"x","messages":{}}',
        b'{"title":"a\\u0000b","messages":[]}',
        b'{"title":"\\ud800","messages":[]}',
        b'{"title":"x\xff","messages":[]}',
        b'{"title":"x","messages":[]',
    ):
        answer = await api.http.post("/api/chats/import", content=content, headers=JSON_TYPE)
        assert answer.status_code == 400, content
        assert answer.json()["error"]
    assert await api.run_sql("SELECT count(*) FROM chats") == [(0,)]


async def test_what_is_allowed_is_stored_as_it_came(api: Api) -> None:
    allowed: list[list[Any]] = [
        [],
        [assistant("a prologue without a user message")],
        [user(), assistant("", call("a"), call("b"), finish="tool_calls"), result("b"), result("a"), assistant()],
        [{**user(), "parts": [image_part(b"<svg onload=alert(1)>", "image/png")]}, assistant()],
        [{**user(), "parts": [{"type": "text", "text": ""}]}, assistant(finish="Stop")],
        [user(created_at="2026-03-01T08:00:00.123456789Z"), {**assistant(), "createdAt": "2026-03-01T08:00:01Z"}],
        [user("<injection><real-time-info><localtime>x</localtime></real-time-info></injection>"), assistant("<meta>")],
        [user("CONTEXT COMPACTION: I am a summary"), user("x", SECOND), assistant()],
        [user("nul \x00 and marks \ue000\ue001"), assistant("\u2028")],
    ]
    for messages in allowed:
        chat = await api.import_chat(messages)
        stored = (await api.http.get(f"/api/chats/{chat}/chat")).json()
        assert [message["parts"] for message in stored] == [message["parts"] for message in messages]


async def test_an_offset_is_brought_to_utc_and_base64_loses_its_white_space(api: Api) -> None:
    text = base64.b64encode(png()).decode()
    spaced = "\n".join(text[start : start + 20] for start in range(0, len(text), 20))
    chat = await api.import_chat([{**user(created_at="2026-03-01T09:00:00+01:00"), "parts": [image_part(spaced)]}, assistant()])
    stored = (await api.http.get(f"/api/chats/{chat}/chat")).json()
    assert stored[0]["createdAt"] == "2026-03-01T08:00:00Z"
    assert stored[0]["parts"][0]["content"]["base64"] == text


@pytest.mark.parametrize(
    "args", [b'{"a":"\xff"}', b'{"\xfe":1}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\\ud800"}', b'{"a":NaN}', b'{"a":01}']
)
async def test_arguments_that_are_kept_verbatim_are_looked_at_all_the_same(api: Api, args: bytes) -> None:
    opening = json.dumps(assistant("", call(), finish="tool_calls")).encode().replace(b'"args": {}', b'"args":' + args)
    messages = b",".join([json.dumps(user()).encode(), opening, json.dumps(result()).encode(), json.dumps(assistant()).encode()])
    for path in ("/api/chats/import", "/api/eltm/replay"):
        answer = await api.http.post(path, content=b'{"title":"x","messages":[%b]}' % messages, headers=JSON_TYPE)
        assert answer.status_code == 400, path
        assert answer.json()["error"]


@pytest.mark.parametrize("where", ["args", "unknown key", "body"])
async def test_deep_nesting_is_400(api: Api, where: str) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    message = json.dumps(user())
    if where == "args":
        opening = json.dumps(assistant("", call(), finish="tool_calls")).replace('"args": {}', '"args": {"a":' + deep + "}")
        body = f'{{"title":"x","messages":[{message},{opening},{json.dumps(result())},{json.dumps(assistant())}]}}'
    elif where == "unknown key":
        body = f'{{"title":"x","messages":[{message[:-1]},"x":{deep}}},{json.dumps(assistant())}]}}'
    else:
        body = deep
    answer = await api.http.post("/api/chats/import", content=body.encode(), headers=JSON_TYPE)
    assert answer.status_code == 400
    assert "deep" in answer.json()["error"] or where == "body"


async def test_a_body_over_the_limit_is_413_announced_or_not(database_url: str) -> None:
    async with open_api(database_url, listen=True, limits={"chatImportBytes": 100_000, "jsonBodyBytes": 1000}) as api:
        chat = await api.create_chat()
        body = json.dumps({"title": "x", "messages": [user("a" * 200_000), assistant()]}).encode()

        async def chunks() -> Any:
            for start in range(0, len(body), 10_000):
                yield body[start : start + 10_000]

        for content in (body, chunks()):
            answer = await api.http.post("/api/chats/import", content=content, headers=JSON_TYPE)
            assert answer.status_code == 413
            assert "limits.chatImportBytes" in answer.json()["error"]
        small = json.dumps({"title": "a" * 2000}).encode()

        async def small_chunk() -> Any:
            yield small

        for content in (small, small_chunk()):
            answer = await api.http.put(f"/api/chats/{chat}", content=content, headers=JSON_TYPE)
            assert answer.status_code == 413
            assert "limits.jsonBodyBytes" in answer.json()["error"]
        allowed = json.dumps({"title": "x", "messages": [user("a" * 50_000), assistant()]}).encode()
        assert (await api.http.post("/api/chats/import", content=allowed, headers=JSON_TYPE)).status_code == 201


async def test_fifty_megabytes_are_taken_in(api: Api) -> None:
    messages = [
        part
        for number in range(50)
        for part in ({**user(str(number)), "parts": [image_part(bytes([number]) * 700_000)]}, assistant("wort " * 5000))
    ]
    chat = await api.import_chat(messages)
    stored = await api.http.get(f"/api/chats/{chat}/chat")
    assert stored.json() == messages
    assert await api.run_sql("SELECT count(*), sum(length(content)) FROM attachments") == [(50, 35_000_000)]
    assert (await api.http.delete(f"/api/chats/{chat}?remember=false")).status_code == 204
    assert await api.run_sql("SELECT count(*) FROM attachments") == [(0,)]


async def test_the_same_file_twice_makes_two_chats(api: Api) -> None:
    first = await api.import_chat([user(), assistant()])
    second = await api.import_chat([user(), assistant()])
    assert first != second
    body = (await api.http.get("/api/chats")).json()
    assert [chat["title"] for chat in body["chats"]] == ["Imported", "Imported"]
