"""Section 2 and the request of section 14: first violation wins, the field is named, nothing is contacted."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.fakes.gateway import running_gateway, says
from tests.fakes.hand_client import HandClient, embed_request, run_request

MISSING = object()
RUN_RULES: list[tuple[str, str, list[object]]] = [
    ("model", "must be an object", [MISSING, None, [], "m", 3]),
    ("model.baseUrl", "must be a non-blank string", [MISSING, None, "", "  ", 3]),
    ("model.apiKey", "must be a non-blank string", [MISSING, None, "", "\t", False]),
    ("model.modelId", "must be a non-blank string", [MISSING, None, "", " \n", {}]),
    ("model.contextWindow", "must be a positive integer", [MISSING, None, 0, -1, 1.5, "9", True]),
    ("model.maxOutputTokens", "must be a positive integer", [MISSING, None, 0, -1, 1.5, "9", True]),
    ("model.reasoning", "must be a boolean", [MISSING, None, 0, 1, "true"]),
    ("model.reasoningEffort", "must be a non-blank string", [None, "", "  ", 3]),
    ("model.input", "must be a non-empty array", [MISSING, None, [], "text", ["audio"], ["text", 3], ["text", None]]),
    ("model.maxTokensField", "must be", [None, "", "max", 3]),
    ("model.additionalProperties", "must be an object", [None, [], "x"]),
    ("messages", "must be a non-empty array", [MISSING, None, [], {}, "x"]),
    ("systemPrompt", "must be a non-blank string", [None, "", "   ", 3]),
    ("maxTokens", "must be a positive integer", [MISSING, None, 0, -5, 0.5, "1", True]),
    ("runId", "must be a non-blank string", [MISSING, None, "", "  ", 12]),
    ("toolListUrl", "must be an http(s) URL", [None, "", "ftp://x/", "brain/tools", 3]),
    ("maxRounds", "must be a non-negative integer", [MISSING, None, -1, 1.5, "1", False]),
    ("maxRetries", "must be a non-negative integer", [MISSING, None, -1, 1.5, "1", True]),
    ("streamIdleTimeoutMs", "must be a non-negative integer", [MISSING, None, -1, 0.1, "1", True]),
    ("responseFormat", "must be an object", [None, [], "json"]),
    ("responseFormat.type", "must be", [MISSING, None, "text"]),
]
EMBED_RULES: list[tuple[str, str, list[object]]] = [
    ("model", "must be an object", [MISSING, None, []]),
    ("model.baseUrl", "must be an http(s) URL", [MISSING, None, "", "gw.example/v1", 3]),
    ("model.apiKey", "must be a non-blank string", [MISSING, None, "", " "]),
    ("model.modelId", "must be a non-blank string", [MISSING, None, "", " "]),
    ("dimensions", "must be a positive integer", [MISSING, None, 0, -1, 1.5, "3", True]),
    ("input", "must be a non-empty array", [MISSING, None, [], "text"]),
    ("input[1]", "must be a non-blank string", [None, "", "  ", 3]),
    ("maxRetries", "must be a non-negative integer", [MISSING, None, -1, 1.5, True]),
    ("timeoutMs", "must be a non-negative integer", [MISSING, None, -1, 1.5, True]),
    ("additionalProperties", "must be an object", [None, [], 3]),
]


def rows(rules: list[tuple[str, str, list[object]]]) -> list[Any]:
    return [
        pytest.param(path, rule, value, id=f"{path}={'missing' if value is MISSING else json.dumps(value)}")
        for path, rule, values in rules
        for value in values
    ]


def broken(request: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    request = copy.deepcopy(request)
    if path == "input[1]":
        request["input"][1] = value
        return request
    *parents, key = path.split(".")
    place = request
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is MISSING:
        place.pop(key, None)
    else:
        place[key] = value
    return request


@pytest.mark.parametrize(("path", "rule", "value"), rows(RUN_RULES))
async def test_run_request_is_refused_by_the_first_rule_it_breaks(hand: HandClient, path: str, rule: str, value: object) -> None:
    async with running_gateway(says("never")) as gateway:
        status, body = await hand.post("/v1/run", broken(run_request(gateway.base_url), path, value))
        assert (status, body["error"]["type"]) == (400, "invalid_request")
        assert body["error"]["message"].startswith(f"{path} {rule}")
        assert gateway.requests == []


@pytest.mark.parametrize(("path", "rule", "value"), rows(EMBED_RULES))
async def test_embed_request_is_refused_by_the_first_rule_it_breaks(
    hand: HandClient, path: str, rule: str, value: object
) -> None:
    async with running_gateway(says("never")) as gateway:
        status, body = await hand.post("/v1/embed", broken(embed_request(gateway.base_url), path, value))
        assert (status, body["error"]["type"]) == (400, "invalid_request")
        assert body["error"]["message"].startswith(f"{path} {rule}")
        assert gateway.requests == []


async def test_of_several_violations_the_first_of_the_table_is_named(hand: HandClient) -> None:
    good = run_request("http://127.0.0.1:1/v1", toolListUrl="http://x/", toolCallbackUrl="http://x/")
    order = [path for path, _, _ in RUN_RULES if path not in {"model", "responseFormat.type"}]
    order.insert(order.index("toolListUrl") + 1, "toolCallbackUrl")
    request = good
    for path in order:
        request = broken(request, path, None)
    seen: list[str] = []
    for path in order:
        _, body = await hand.post("/v1/run", request)
        seen.append(body["error"]["message"].split(" ")[0])
        *parents, key = path.split(".")
        original: object = good
        for name in (*parents, key):
            original = original.get(name, MISSING) if isinstance(original, dict) else MISSING
        request = broken(request, path, original)
    assert seen == order


async def test_the_message_reads_as_the_protocol_says(hand: HandClient) -> None:
    request = run_request("http://127.0.0.1:1/v1", maxTokens=0)
    assert (await hand.post("/v1/run", request))[1]["error"]["message"] == "maxTokens must be a positive integer"
    request = run_request("http://127.0.0.1:1/v1", toolListUrl="x")
    assert (await hand.post("/v1/run", request))[1]["error"]["message"] == "toolListUrl must be an http(s) URL"


@pytest.mark.parametrize("value", [None, "", "brain", 3])
async def test_a_callback_url_is_required_with_a_list_url_and_ignored_without(hand: HandClient, value: object) -> None:
    async with running_gateway(says("fine")) as gateway:
        request = run_request(gateway.base_url, toolCallbackUrl=value)
        assert (await hand.run(request))[-1][0] == "done"
        request["toolListUrl"] = "http://127.0.0.1:1/tools"
        status, body = await hand.post("/v1/run", request)
        assert (status, body["error"]["message"]) == (400, "toolCallbackUrl must be an http(s) URL")


async def test_integral_floats_and_unknown_keys_are_accepted(hand: HandClient) -> None:
    async with running_gateway(says("fine")) as gateway:
        request = run_request(
            gateway.base_url, model={"contextWindow": 4096.0, "temperature": 1}, maxTokens=64.0, maxRounds=2.0, extra=[1]
        )
        assert (await hand.run(request))[-1][0] == "done"
        assert gateway.requests[0].body["max_completion_tokens"] == 64


async def test_one_is_a_positive_integer_and_zero_no_negative_one(hand: HandClient) -> None:
    async with running_gateway(says("fine")) as gateway:
        smallest = {"contextWindow": 1, "maxOutputTokens": 1}
        request = run_request(gateway.base_url, model=smallest, maxTokens=1, maxRounds=0, maxRetries=0, streamIdleTimeoutMs=0)
        assert (await hand.run(request))[-1][0] == "done"
        embedding = embed_request("http://127.0.0.1:1/v1", dimensions=1, timeoutMs=0)
        assert (await hand.post("/v1/embed", embedding))[0] == 502


@pytest.mark.parametrize("key", ["model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools"])
async def test_additional_properties_must_not_touch_what_the_hand_sets(hand: HandClient, key: str) -> None:
    async with running_gateway(says("never")) as gateway:
        request = run_request(gateway.base_url, model={"additionalProperties": {"temperature": 0, key: 1}})
        status, body = await hand.post("/v1/run", request)
        assert status == 400
        assert repr(key) in body["error"]["message"]
        assert gateway.requests == []


@pytest.mark.parametrize("key", ["model", "input", "dimensions"])
async def test_additional_properties_of_an_embedding_must_not_touch_its_three_keys(hand: HandClient, key: str) -> None:
    async with running_gateway(says("never")) as gateway:
        status, body = await hand.post("/v1/embed", embed_request(gateway.base_url, additionalProperties={key: 1}))
        assert status == 400
        assert repr(key) in body["error"]["message"]
        assert gateway.requests == []


async def test_lone_surrogates_in_a_request_are_mended_not_refused(hand: HandClient) -> None:
    async with running_gateway(says("fine")) as gateway:
        request = (
            json.dumps(run_request(gateway.base_url, systemPrompt="PROMPT"))
            .replace("PROMPT", "a\\ud83db \\ud83d\\ude00 \\\\ud83d")
            .encode()
        )
        headers = {"x-daapu-token": "test-token-0123456789"}
        async with hand.session.post(f"{hand.url}/v1/run", data=request, headers=headers) as response:
            await response.read()
        assert gateway.requests[0].body["messages"][0]["content"] == "ab 😀 \\ud83d"


async def test_message_shapes_are_trusted_until_they_are_converted(hand: HandClient) -> None:
    async with running_gateway(says("never")) as gateway:
        for messages in (
            [3],
            [{"role": "robot", "parts": []}],
            [{"role": "user"}],
            [{"role": "user", "parts": [{"type": "text"}]}],
        ):
            events = await hand.run(run_request(gateway.base_url, messages=messages))
            assert [(name, data["type"]) for name, data in events] == [("error", "invalid_request")]
        assert gateway.requests == []
