"""Section 9: what is sent to which gateway; expected bodies are written out."""

from __future__ import annotations

from typing import Any

import pytest

from hand.outbound import Conversation, build_body
from hand.validation import RunOrder, read_run_order
from tests.fakes.gateway import running_gateway, says
from tests.fakes.hand_client import HandClient, names_of, run_request, running_hand

HOSTS: list[tuple[str, str, dict[str, object], dict[str, object]]] = [
    ("https://gw.example/v1", "max_completion_tokens", {"reasoning_effort": "high"}, {}),
    ("https://litellm.example/deepseek/v1", "max_completion_tokens", {"reasoning_effort": "high"}, {}),
    (
        "https://api.deepseek.com/v1",
        "max_tokens",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        {"thinking": {"type": "disabled"}},
    ),
    (
        "https://api.z.ai/api/paas/v4",
        "max_tokens",
        {"thinking": {"type": "enabled", "clear_thinking": False}},
        {"thinking": {"type": "disabled"}},
    ),
    (
        "https://open.bigmodel.cn/api/paas/v4",
        "max_tokens",
        {"thinking": {"type": "enabled", "clear_thinking": False}},
        {"thinking": {"type": "disabled"}},
    ),
    (
        "https://openrouter.ai/api/v1",
        "max_completion_tokens",
        {"reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "none"}},
    ),
    ("https://api.together.ai/v1", "max_tokens", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
    ("https://api.together.xyz/v1", "max_tokens", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
    ("https://api.moonshot.ai/v1", "max_tokens", {}, {}),
    ("https://api.moonshot.cn/v1", "max_tokens", {}, {}),
    ("https://integrate.api.nvidia.com/v1", "max_tokens", {}, {}),
    ("https://gateway.ai.cloudflare.com/v1/a/b/compat", "max_tokens", {}, {}),
    ("https://api.ant-ling.com/v1", "max_tokens", {}, {}),
    ("https://llm.chutes.ai/v1", "max_tokens", {"reasoning_effort": "high"}, {}),
    ("https://api.mistral.ai/v1", "max_tokens", {"reasoning_effort": "high"}, {}),
    ("https://api.x.ai/v1", "max_completion_tokens", {}, {}),
    ("https://api.openai.com/v1", "max_completion_tokens", {"reasoning_effort": "high"}, {}),
]


def order_of(base_url: str = "https://gw.example/v1", **changes: Any) -> RunOrder:
    import json

    return read_run_order(json.dumps(run_request(base_url, **changes)).encode())


def body_of(order: RunOrder, tools: bytes | None = None) -> dict[str, Any]:
    import json

    conversation = Conversation(order.model, order.system_prompt)
    conversation.add_all(order.messages)
    return json.loads(build_body(order, conversation.closed(), tools))


def messages_of(messages: list[object], **model: object) -> list[dict[str, Any]]:
    base_url = str(model.pop("baseUrl", "https://gw.example/v1"))
    return body_of(order_of(base_url, messages=messages, model=model))["messages"]


def user(*parts: object) -> dict[str, object]:
    return {"role": "user", "parts": list(parts)}


def assistant(*parts: object, **keys: object) -> dict[str, object]:
    meta = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return {"role": "assistant", "parts": list(parts), "meta": meta, "finishReason": "stop", **keys}


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def thought(value: str) -> dict[str, object]:
    return {"type": "reasoning", "content": value}


def image(data: str = "AAAA", mime: str = "image/png") -> dict[str, object]:
    return {"type": "attachment", "kind": "image", "mimeType": mime, "content": {"type": "base64", "base64": data}}


def call(call_id: str, tool: str = "t", args: object = None) -> dict[str, object]:
    return {"type": "tool_call", "id": call_id, "tool": tool, "args": {} if args is None else args}


def result(call_id: str, *parts: object, tool: str = "t", error: bool = False) -> dict[str, object]:
    part = {"type": "tool_result", "id": call_id, "tool": tool, "parts": list(parts), "isError": error}
    return {"role": "tool_result", "parts": [part]}


@pytest.mark.parametrize(("base_url", "budget", "with_effort", "without"), HOSTS)
def test_request_body_of_a_host(base_url: str, budget: str, with_effort: dict[str, object], without: dict[str, object]) -> None:
    common = {
        "model": "acme/large-1",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
        "stream_options": {"include_usage": True},
        budget: 4000,
    }
    assert body_of(order_of(base_url)) == common
    assert body_of(order_of(base_url, model={"reasoning": True})) == common | without
    assert body_of(order_of(base_url, model={"reasoning": True, "reasoningEffort": "high"})) == common | with_effort
    assert body_of(order_of(base_url, model={"reasoningEffort": "high"})) == common


async def test_path_key_and_nothing_else_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "x-poison: http://127.0.0.1:1")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with running_hand() as hand, running_gateway(says("ok")) as gateway:
        await hand.run(run_request(gateway.base_url))
        await hand.run(run_request(gateway.base_url + "/"))
    for request in gateway.requests:
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        assert request.headers["authorization"] == "Bearer gateway-key-0123456789"
        assert request.headers["content-type"] == "application/json"
        assert not {"openai-organization", "openai-project", "x-poison", "x-daapu-token"} & set(request.headers)
        assert sorted(request.body) == ["max_completion_tokens", "messages", "model", "stream", "stream_options"]


def test_system_prompt_comes_first_under_the_role_system() -> None:
    order = order_of(systemPrompt="Be brief.")
    assert body_of(order)["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("base_url", "reasoning", "role"),
    [
        ("https://api.openai.com/v1", True, "developer"),
        ("https://api.openai.com/v1", False, "system"),
        ("https://gw.example/v1", True, "system"),
    ],
)
def test_developer_role_only_for_openai_with_reasoning(base_url: str, reasoning: bool, role: str) -> None:
    assert body_of(order_of(base_url, systemPrompt="p", model={"reasoning": reasoning}))["messages"][0]["role"] == role


def test_user_parts_keep_their_order_and_empty_texts_are_left_out() -> None:
    sent = messages_of([user(text("a"), image("QQ=="), text(""), text(" "))], input=["text", "image"])
    assert sent == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
                {"type": "text", "text": " "},
            ],
        }
    ]


def test_a_user_message_left_with_nothing_is_skipped() -> None:
    assert messages_of([user(text("")), user(), user(text("x"))]) == [
        {"role": "user", "content": [{"type": "text", "text": "x"}]}
    ]


def test_assistant_texts_are_joined_without_separator_and_blank_ones_left_out() -> None:
    sent = messages_of([user(text("q")), assistant(text("a"), text(" \n"), text("b")), user(text("r"))])
    assert sent[1] == {"role": "assistant", "content": "ab"}


def test_an_assistant_message_with_neither_text_nor_calls_is_skipped() -> None:
    sent = messages_of([user(text("q")), assistant(thought("hm"), text(" ")), user(text("r"))], reasoning=True)
    assert [message["role"] for message in sent] == ["user", "user"]


def test_reasoning_is_replayed_for_reasoning_models_and_dropped_for_others() -> None:
    history = [user(text("q")), assistant(thought("one"), thought("  "), thought("two"), text("a")), user(text("r"))]
    assert messages_of(history, reasoning=True)[1] == {"role": "assistant", "content": "a", "reasoning_content": "one\ntwo"}
    assert messages_of(history)[1] == {"role": "assistant", "content": "a"}


def test_deepseek_wants_reasoning_content_on_every_assistant_message() -> None:
    history = [user(text("q")), assistant(text("a")), user(text("r"))]
    assert messages_of(history, baseUrl="https://api.deepseek.com")[1]["reasoning_content"] == ""


def test_tool_calls_and_results() -> None:
    history = [user(text("q")), assistant(call("c1", "dice__roll", {"sides": 6})), result("c1", text("a"), text("b"), error=True)]
    assert messages_of(history)[1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "dice__roll", "arguments": '{"sides":6}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
    ]


def test_results_without_text() -> None:
    history = [assistant(call("c1"), call("c2")), result("c1", image()), result("c2", text(" "))]
    sent = messages_of(history, input=["text", "image"])
    assert sent[1]["content"] == "(see attached image)"
    assert sent[2]["content"] == "(no tool output)"
    assert messages_of([assistant(call("c1")), result("c1")])[1]["content"] == "(no tool output)"


def test_images_of_consecutive_results_are_collected_after_the_last_of_them() -> None:
    history = [
        assistant(call("c1"), call("c2")),
        result("c1", text("x"), image("AA==")),
        result("c2", image("BB==")),
        user(text("so?")),
    ]
    sent = messages_of(history, input=["text", "image"])
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "user", "user"]
    assert sent[3]["content"] == [
        {"type": "text", "text": "Attached image(s) from tool result:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,BB=="}},
    ]


def test_text_models_get_one_placeholder_per_run_of_images() -> None:
    omitted = {"type": "text", "text": "(image omitted: model does not support images)"}
    sent = messages_of([user(image(), image(), text("x"), image())])
    assert sent[0]["content"] == [omitted, {"type": "text", "text": "x"}, omitted]
    history = [assistant(call("c1")), result("c1", text("x"), image(), image(), text("y"), image())]
    placeholder = "(tool image omitted: model does not support images)"
    assert messages_of(history)[1:] == [{"role": "tool", "tool_call_id": "c1", "content": f"x\n{placeholder}\ny\n{placeholder}"}]


def test_a_tool_text_that_reads_like_the_placeholder_does_not_swallow_an_image() -> None:
    placeholder = "(tool image omitted: model does not support images)"
    sent = messages_of([assistant(call("c1")), result("c1", text(placeholder), image(), image(), text("x"))])
    assert sent[1]["content"] == f"{placeholder}\n{placeholder}\nx"


@pytest.mark.parametrize("following", [[], [user(text("next"))], [assistant(text("next"))]])
def test_unanswered_calls_are_answered_before_whatever_follows(following: list[object]) -> None:
    sent = messages_of([assistant(call("c1"), call("c2")), result("c2", text("two")), *following])
    assert sent[1:3] == [
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "tool", "tool_call_id": "c1", "content": "No result provided"},
    ]
    assert len(sent) == 3 + len(following)


def test_images_follow_the_answers_that_nobody_gave() -> None:
    sent = messages_of([assistant(call("c1"), call("c2")), result("c1", image())], input=["text", "image"])
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "user"]


def test_keys_of_other_kinds_of_parts_are_unknown_ones() -> None:
    odd = {"id": 7, "kind": None, "parts": "x", "mimeType": [], "tool": {}, "content": 3, "args": 1}
    assert messages_of([user({**odd, **text("a")})])[0]["content"] == [{"type": "text", "text": "a"}]
    odd = {"text": None, "kind": 4, "content": {}}
    sent = messages_of(
        [assistant({**odd, **call("c1")}), {"role": "tool_result", "parts": [{**odd, **result("c1", text("r"))["parts"][0]}]}]
    )
    assert [message.get("content") for message in sent] == [None, "r"]


def test_unknown_keys_are_ignored() -> None:
    message = {**user({**text("a"), "cache": True}), "createdAt": "2026-01-01T00:00:00Z", "meta": {"x": 1}, "note": []}
    assert messages_of([message]) == [{"role": "user", "content": [{"type": "text", "text": "a"}]}]


NOT_CONVERTIBLE: list[list[dict[str, object]]] = [
    [user({"type": "attachment", "kind": "file", "mimeType": "a/b", "content": {"type": "base64", "base64": ""}})],
    [user({"type": "attachment", "kind": "audio", "mimeType": "a/b", "content": {"type": "base64", "base64": ""}})],
    [user(thought("x"))],
    [user(call("c1"))],
    [assistant(image())],
    [assistant({"type": "tool_result", "id": "c1", "tool": "t", "parts": []})],
    [{"role": "tool_result", "parts": []}],
    [{"role": "tool_result", "parts": [text("x")]}],
    [result("c1", thought("x"))],
    [result("c1", {"type": "attachment", "kind": "video", "mimeType": "a/b", "content": {"type": "base64", "base64": ""}})],
    [{"role": "system", "parts": [text("x")]}],
]


@pytest.mark.parametrize("messages", NOT_CONVERTIBLE)
async def test_what_cannot_be_converted_is_an_event_not_a_400(hand: HandClient, messages: list[object]) -> None:
    async with running_gateway(says("never")) as gateway:
        events = await hand.run(run_request(gateway.base_url, messages=messages))
        assert gateway.requests == []
    assert [(name, data["type"]) for name, data in events] == [("error", "invalid_request")]


async def test_a_tool_result_that_cannot_be_converted_ends_the_run(hand: HandClient, tool_host) -> None:
    from aiohttp import web

    from tests.fakes.gateway import calls

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"parts": [{"type": "attachment", "kind": "video"}], "isError": False})

    tool_host.on_call = answer
    async with running_gateway(calls(("c1", "t", {}), ("c2", "t", {})), says("never")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
        assert len(gateway.requests) == 1
    # Both results are echoed: it is the next request that cannot be made.
    assert names_of(events) == ["assistant_message", "tool_call", "tool_call", "tool_result", "tool_result", "error"]
    assert events[-1][1]["type"] == "invalid_request"


def test_max_tokens_field_overrides_the_host_table() -> None:
    order = order_of("https://gw.example/v1", model={"maxTokensField": "max_tokens"})
    assert body_of(order)["max_tokens"] == 4000
    assert "max_completion_tokens" not in body_of(order)
    order = order_of("https://api.mistral.ai/v1", model={"maxTokensField": "max_completion_tokens"})
    assert "max_tokens" not in body_of(order)


def test_additional_properties_are_merged_into_the_root() -> None:
    extra = {"temperature": 0.0, "chat_template_kwargs": {"enable_thinking": False}, "provider": {"order": ["a"]}}
    body = body_of(order_of(model={"additionalProperties": extra}))
    assert {key: body[key] for key in extra} == extra


@pytest.mark.parametrize(
    ("base_url", "key", "refused"),
    [
        ("https://gw.example/v1", "reasoning_effort", True),
        ("https://gw.example/v1", "thinking", False),
        ("https://gw.example/v1", "reasoning", False),
        ("https://api.deepseek.com", "thinking", True),
        ("https://api.together.ai/v1", "reasoning", True),
        ("https://openrouter.ai/api/v1", "reasoning", True),
        ("https://openrouter.ai/api/v1", "provider", False),
        ("https://gw.example/v1", "response_format", True),
    ],
)
async def test_reasoning_keys_collide_only_where_the_host_table_sets_them(
    hand: HandClient, base_url: str, key: str, refused: bool
) -> None:
    request = run_request(base_url, model={"additionalProperties": {key: "x"}}, messages=[3])
    status, body = await hand.post("/v1/run", request) if refused else (200, None)
    assert status == (400 if refused else 200)
    if body is not None:
        assert repr(key) in body["error"]["message"]
    else:
        assert order_of(base_url, model={"additionalProperties": {key: "x"}}).model.additional_properties


def test_response_format_is_sent_as_the_gateway_expects_it() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    order = order_of(responseFormat={"type": "json_schema", "name": "numbers", "schema": schema})
    assert body_of(order)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "numbers", "strict": True, "schema": schema},
    }
    assert body_of(order_of(responseFormat={"type": "json_object"}))["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("response_format", "field"),
    [
        ({"type": "json_schema", "schema": {}}, "responseFormat.name"),
        ({"type": "json_schema", "name": " ", "schema": {}}, "responseFormat.name"),
        ({"type": "json_schema", "name": "n"}, "responseFormat.schema"),
        ({"type": "json_schema", "name": "n", "schema": []}, "responseFormat.schema"),
    ],
)
async def test_response_format_is_checked(hand: HandClient, response_format: object, field: str) -> None:
    status, body = await hand.post("/v1/run", run_request("https://gw.example/v1", responseFormat=response_format))
    assert (status, body["error"]["message"].split(" ")[0]) == (400, field)
