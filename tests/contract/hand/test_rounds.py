"""Sections 3 to 7: order of events, tool rounds with real callbacks, listing, the ends of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.gateway import Reply, calls, chunk, refuses, running_gateway, says, sse
from tests.fakes.hand_client import TOKEN, HandClient, events_of, eventually, names_of, run_request, text_of
from tests.fakes.tool_host import DICE, ToolHost

THREE = (("c1", "dice__roll", {"sides": 6}), ("c2", "dice__roll", {"sides": 8}), ("c3", "fs__read", {"path": "a"}))


async def test_text_only_run_streams_deltas_then_message_then_done(hand: HandClient) -> None:
    async with running_gateway(says("Hello", usage=(310, 20))) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert events == [
        ("text_delta", {"text": "Hello"}),
        (
            "assistant_message",
            {
                "message": {
                    "role": "assistant",
                    "parts": [{"type": "text", "text": "Hello"}],
                    "meta": {"inputTokens": 310, "outputTokens": 20, "totalTokens": 330, "modelId": "acme/large-1"},
                    "finishReason": "stop",
                }
            },
        ),
        ("done", {"finishReason": "stop"}),
    ]


async def test_without_tool_urls_the_brain_is_never_called_and_tools_are_omitted(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(says("ok")) as gateway:
        await hand.run(run_request(gateway.base_url, toolCallbackUrl=tool_host.urls["toolCallbackUrl"]))
        assert "tools" not in gateway.requests[0].body
    assert tool_host.listings == []


async def test_tool_round_has_message_then_all_calls_then_all_results_then_the_next_round(
    hand: HandClient, tool_host: ToolHost
) -> None:
    async with running_gateway(calls(*THREE, text="Let me see."), says("Done.")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
        second = gateway.requests[1].body["messages"]
    assert names_of(events) == [
        "text_delta",
        "assistant_message",
        *["tool_call"] * 3,
        *["tool_result"] * 3,
        "text_delta",
        "assistant_message",
        "done",
    ]
    called = [data for name, data in events if name == "tool_call"]
    assert called == [{"id": call_id, "name": name, "args": args} for call_id, name, args in THREE]
    results = [data for name, data in events if name == "tool_result"]
    assert results == [
        {"id": call_id, "name": name, "parts": [{"type": "text", "text": f"result of {call_id}"}], "isError": False}
        for call_id, name, _ in THREE
    ]
    assert [message["role"] for message in second] == ["user", "assistant", "tool", "tool", "tool"]
    assert [message["content"] for message in second[2:]] == ["result of c1", "result of c2", "result of c3"]


async def test_calls_are_posted_at_the_same_time_and_results_stay_in_call_order(hand: HandClient, tool_host: ToolHost) -> None:
    arrived: list[str] = []
    all_here = asyncio.Event()
    finished: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        call: dict[str, Any] = await request.json()
        arrived.append(call["id"])
        if len(arrived) == 3:
            all_here.set()
        await all_here.wait()
        await eventually(lambda: len(finished) == 3 - int(call["id"][1]))
        finished.append(call["id"])
        return web.json_response({"parts": [{"type": "text", "text": call["id"]}], "isError": call["id"] == "c2"})

    tool_host.on_call = answer
    async with running_gateway(calls(*THREE), says("Done.")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
    assert finished == ["c3", "c2", "c1"]
    results = [data for name, data in events if name == "tool_result"]
    assert [(data["id"], data["isError"]) for data in results] == [("c1", False), ("c2", True), ("c3", False)]


async def test_a_callback_carries_run_id_call_and_token(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(calls(("c1", "dice__roll", {"sides": 6})), says("6")) as gateway:
        await hand.run(run_request(gateway.base_url, **tool_host.urls, runId="run-9"))
    assert tool_host.calls == [{"runId": "run-9", "id": "c1", "name": "dice__roll", "args": {"sides": 6}}]
    assert tool_host.call_headers[0]["x-daapu-token"] == TOKEN


async def test_arguments_travel_verbatim(hand: HandClient, tool_host: ToolHost) -> None:
    written = '{"b":1.0,"a":123456789012345678901234567890,"c":1e5}'
    entry = {"index": 0, "id": "c1", "function": {"name": "t", "arguments": written}}
    reply = Reply(sse(chunk({"tool_calls": [entry]}), chunk(finish="tool_calls", usage=(1, 1))))
    async with running_gateway(reply, says("ok")) as gateway:
        request = run_request(gateway.base_url, **tool_host.urls)
        async with hand.open_run(request) as response:
            raw = (await response.read()).decode()
        assert f'"args":{written}' in raw
        assert gateway.requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"] == written


async def test_the_bytes_of_a_stream_with_every_event(hand: HandClient, tool_host: ToolHost) -> None:
    script = (
        refuses(500, ""),
        calls(("c1", "dice__roll", {"sides": 6}), text="<think>Hm.</think>Rolling."),
        says("Six.", usage=(30, 2)),
    )
    async with running_gateway(*script) as gateway:
        request = run_request(gateway.base_url, **tool_host.urls, maxRetries=2)
        async with hand.open_run(request) as response:
            raw = (await response.read()).decode()
    assert raw == (
        ": connected\n\n"
        'event: retry\ndata: {"attempt":1,"delayMs":100,"message":"500 status code (no body)"}\n\n'
        'event: reasoning_delta\ndata: {"text":"Hm."}\n\n'
        'event: text_delta\ndata: {"text":"Rolling."}\n\n'
        'event: assistant_message\ndata: {"message":{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},'
        '{"type":"text","text":"Rolling."},{"type":"tool_call","id":"c1","tool":"dice__roll","args":{"sides":6}}],'
        '"meta":{"inputTokens":20,"outputTokens":7,"totalTokens":27,"modelId":"acme/large-1"},"finishReason":"tool_calls"}}\n\n'
        'event: tool_call\ndata: {"id":"c1","name":"dice__roll","args":{"sides":6}}\n\n'
        'event: tool_result\ndata: {"id":"c1","name":"dice__roll","parts":[{"type":"text","text":"result of c1"}],"isError":false}\n\n'
        'event: text_delta\ndata: {"text":"Six."}\n\n'
        'event: assistant_message\ndata: {"message":{"role":"assistant","parts":[{"type":"text","text":"Six."}],'
        '"meta":{"inputTokens":30,"outputTokens":2,"totalTokens":32,"modelId":"acme/large-1"},"finishReason":"stop"}}\n\n'
        'event: done\ndata: {"finishReason":"stop"}\n\n'
    )


async def test_listing_is_asked_before_every_request_with_run_id_and_token(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(refuses(500, "x"), calls(THREE[0]), says("Done.")) as gateway:
        urls = {**tool_host.urls, "toolListUrl": tool_host.urls["toolListUrl"] + "?a=1&runId=old&b=2"}
        events = await hand.run(run_request(gateway.base_url, **urls, runId="run 9/ä", maxRetries=2))
        assert events[-1][0] == "done"
        assert len(gateway.requests) == 3
        assert gateway.requests[0].body["tools"] == [
            {"type": "function", "function": {"name": "dice__roll", "description": "Roll a die.", "parameters": DICE["schema"]}}
        ]
    assert len(tool_host.listings) == 3
    assert [dict(listing.query) for listing in tool_host.listings] == [{"a": "1", "b": "2", "runId": "run 9/ä"}] * 3
    assert all(listing.query.getall("runId") == ["run 9/ä"] for listing in tool_host.listings)
    assert tool_host.listings[0].headers["x-daapu-token"] == TOKEN


async def test_an_empty_listing_means_a_request_without_tools(hand: HandClient, tool_host: ToolHost) -> None:
    tool_host.tools = []
    async with running_gateway(says("ok")) as gateway:
        await hand.run(run_request(gateway.base_url, **tool_host.urls))
        assert "tools" not in gateway.requests[0].body


LISTING_FAILURES: list[tuple[int, str, str]] = [
    (500, "{}", "tool listing returned HTTP 500"),
    (201, '{"tools": []}', "tool listing returned HTTP 201"),
    (204, "", "tool listing returned HTTP 204"),
    (302, "", "tool listing returned HTTP 302"),
    (401, "{}", "tool listing returned HTTP 401"),
    (200, "nonsense", "tool listing returned invalid tools"),
    (200, "[]", "tool listing returned invalid tools"),
    (200, "{}", "tool listing returned invalid tools"),
    (200, '{"tools": {}}', "tool listing returned invalid tools"),
    (200, '{"tools": [3]}', "tool listing returned invalid tools"),
    (200, '{"tools": [{"name": " ", "description": "d", "schema": {}}]}', "tool listing returned invalid tools"),
    (200, '{"tools": [{"name": "n", "description": "", "schema": {}}]}', "tool listing returned invalid tools"),
    (200, '{"tools": [{"name": "n", "description": "d", "schema": []}]}', "tool listing returned invalid tools"),
    (200, '{"tools": [{"name": "n", "description": "d"}]}', "tool listing returned invalid tools"),
    (200, '{"tools": [{"name": null, "description": "d", "schema": {}}]}', "tool listing returned invalid tools"),
]


@pytest.mark.parametrize(("status", "body", "message"), LISTING_FAILURES)
async def test_a_failed_listing_ends_the_run_without_an_llm_call(
    hand: HandClient, tool_host: ToolHost, status: int, body: str, message: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body, headers={"Location": "/tool"} if status == 302 else None)

    tool_host.on_list = answer
    async with running_gateway(says("never")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls, maxRetries=3))
        assert events == [("error", {"type": "tool_transport", "message": message})]
        assert gateway.requests == []
    assert len(tool_host.listings) == 1


async def test_an_unreachable_listing_is_tool_transport(hand: HandClient) -> None:
    urls = {"toolListUrl": "http://127.0.0.1:1/tools", "toolCallbackUrl": "http://127.0.0.1:1/tool"}
    events = await hand.run(run_request("http://127.0.0.1:1/v1", **urls))
    assert [(name, data["type"]) for name, data in events] == [("error", "tool_transport")]
    assert events[0][1]["message"].startswith("tool listing failed")


CALLBACK_FAILURES: list[tuple[int, str, str]] = [
    (500, "{}", "tool callback returned HTTP 500"),
    (201, '{"parts": [], "isError": false}', "tool callback returned HTTP 201"),
    (200, "nonsense", "tool callback returned no JSON object"),
    (200, "[]", "tool callback returned no JSON object"),
    (200, "{}", "tool callback returned no parts"),
    (200, '{"parts": {}, "isError": false}', "tool callback returned no parts"),
    (200, '{"parts": null}', "tool callback returned no parts"),
    (200, '{"parts": [], "isError": true, "fatal": {"message": "the lock is lost"}}', "the lock is lost"),
    (200, '{"fatal": {}}', "the brain ended the run from a tool"),
    (200, '{"parts": [], "fatal": false}', "the brain ended the run from a tool"),
]


@pytest.mark.parametrize(("status", "body", "message"), CALLBACK_FAILURES)
async def test_a_failed_callback_discards_all_results_and_ends_the_run(
    hand: HandClient, tool_host: ToolHost, status: int, body: str, message: str
) -> None:
    settled: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        call = await request.json()
        if call["id"] == "c2":
            return web.Response(status=status, text=body)
        # The others answer later than the failure: the hand waits for all of them.
        await asyncio.sleep(0.05)
        settled.append(call["id"])
        return web.json_response({"parts": [], "isError": False})

    tool_host.on_call = answer
    async with running_gateway(calls(*THREE), says("never")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
        assert len(gateway.requests) == 1
    assert names_of(events) == ["assistant_message", "tool_call", "tool_call", "tool_call", "error"]
    assert events[-1][1] == {"type": "tool_transport", "message": message}
    assert sorted(settled) == ["c1", "c3"]
    assert len(tool_host.calls) == 3, "a call is never repeated"


async def test_the_first_failure_in_call_order_is_reported(hand: HandClient, tool_host: ToolHost) -> None:
    async def answer(request: web.Request) -> web.Response:
        call = await request.json()
        if call["id"] == "c3":
            return web.Response(status=503)
        await asyncio.sleep(0.05)
        return web.Response(status=502 if call["id"] == "c2" else 200, text='{"parts": []}')

    tool_host.on_call = answer
    async with running_gateway(calls(*THREE)) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
    assert events[-1] == ("error", {"type": "tool_transport", "message": "tool callback returned HTTP 502"})


async def test_fatal_null_counts_as_absent_and_is_error_only_if_exactly_true(hand: HandClient, tool_host: ToolHost) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"parts": [{"type": "text", "text": "x", "extra": [1]}], "isError": "true", "fatal": None})

    tool_host.on_call = answer
    async with running_gateway(calls(THREE[0]), says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
    result = next(data for name, data in events if name == "tool_result")
    assert result == {"id": "c1", "name": "dice__roll", "parts": [{"type": "text", "text": "x", "extra": [1]}], "isError": False}
    assert events[-1][0] == "done"


async def test_images_of_tool_results_follow_in_one_user_message(hand: HandClient, tool_host: ToolHost) -> None:
    image = {"type": "attachment", "kind": "image", "mimeType": "image/png", "content": {"type": "base64", "base64": "AAAA"}}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"parts": [image], "isError": False})

    tool_host.on_call = answer
    async with running_gateway(calls(*THREE), calls(("d1", "t", {})), says("ok")) as gateway:
        request = run_request(gateway.base_url, **tool_host.urls, model={"input": ["text", "image"]})
        await hand.run(request)
        third = gateway.requests[2].body["messages"]
    assert [message["role"] for message in third] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert third[5]["content"][0] == {"type": "text", "text": "Attached image(s) from tool result:"}
    assert len(third[5]["content"]) == 4


async def test_every_request_begins_with_the_bytes_of_the_one_before(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(calls(*THREE), calls(("d1", "t", {"x": 1})), says("ok")) as gateway:
        await hand.run(run_request(gateway.base_url, **tool_host.urls))
        bodies = [request.raw for request in gateway.requests]
    messages = [body[body.index(b'"messages":[') : body.index(b'],"stream"')] for body in bodies]
    assert messages[1].startswith(messages[0])
    assert messages[2].startswith(messages[1])


async def test_round_limit_emits_the_message_and_runs_no_tool(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(calls(THREE[0]), calls(THREE[1])) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls, maxRounds=2))
    assert names_of(events) == ["assistant_message", "tool_call", "tool_result", "assistant_message", "error"]
    assert events[-1][1]["type"] == "round_limit"
    assert "2" in events[-1][1]["message"]
    assert len(tool_host.calls) == 1


async def test_max_rounds_0_is_unlimited(hand: HandClient, tool_host: ToolHost) -> None:
    replies = [calls((f"c{position}", "t", {})) for position in range(12)]
    async with running_gateway(*replies, says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls, maxRounds=0))
    assert events[-1][0] == "done"
    assert len(tool_host.calls) == 12


async def test_tool_calls_without_a_callback_url_are_internal(hand: HandClient) -> None:
    async with running_gateway(calls(THREE[0])) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert names_of(events) == ["assistant_message", "error"]
    assert events[-1][1]["type"] == "internal"


async def test_an_empty_stop_without_usage_is_empty_response_not_internal(hand: HandClient) -> None:
    async with running_gateway(Reply(sse(chunk({"content": " \n"}), chunk(finish="stop")))) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert names_of(events) == ["text_delta", "error"]
    assert events[-1][1]["type"] == "empty_response"


async def test_missing_usage_names_the_gateway_option_and_is_not_retried(hand: HandClient) -> None:
    async with running_gateway(says("answer", usage=None)) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxRetries=5))
        assert len(gateway.requests) == 1
    assert text_of(events) == "answer"
    assert names_of(events) == ["text_delta", "error"]
    assert events[-1][1]["type"] == "internal"
    assert "stream_options.include_usage" in events[-1][1]["message"]


async def test_ids_used_in_an_earlier_round_are_replaced(hand: HandClient, tool_host: ToolHost) -> None:
    async with running_gateway(calls(THREE[0]), calls(THREE[0]), says("ok")) as gateway:
        events = await hand.run(run_request(gateway.base_url, **tool_host.urls))
    ids = [data["id"] for name, data in events if name == "tool_call"]
    assert ids[0] == "c1"
    assert ids[1] not in {"", "c1"}
    assert [call["id"] for call in tool_host.calls] == ids


async def test_cached_tokens_are_reported_when_there_are_any(hand: HandClient) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 64}}
    reply = Reply(sse(chunk({"content": "x"}), {**chunk(finish="stop"), "usage": usage}))
    async with running_gateway(reply) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    meta = next(data for name, data in events if name == "assistant_message")["message"]["meta"]
    assert meta == {"inputTokens": 100, "outputTokens": 2, "totalTokens": 102, "modelId": "acme/large-1", "cachedTokens": 64}


async def test_a_delta_arrives_before_the_gateway_goes_on(hand: HandClient) -> None:
    from tests.fakes.gateway import Gate

    gate = asyncio.Event()
    first, *rest = sse(chunk({"content": "one"}), chunk({"content": "two"}), chunk(finish="stop", usage=(1, 1)))
    async with (
        running_gateway(Reply([first, Gate(gate), *rest])) as gateway,
        hand.open_run(run_request(gateway.base_url)) as response,
    ):
        events = events_of(response)
        async with asyncio.timeout(5):
            assert await anext(events) == ("text_delta", {"text": "one"})
            gate.set()
            assert [name async for name, _ in events] == ["text_delta", "assistant_message", "done"]


async def test_deltas_that_arrive_in_one_read_become_one_event(hand: HandClient) -> None:
    pieces = sse(*(chunk({"content": str(number % 10)}) for number in range(50)), chunk(finish="stop", usage=(1, 1)))
    async with running_gateway(Reply([b"".join(pieces)])) as gateway:
        events = await hand.run(run_request(gateway.base_url))
    assert [data["text"] for name, data in events if name == "text_delta"] == ["0123456789" * 5]


@pytest.mark.parametrize(
    ("usage", "budget", "kind"),
    [
        ((127073, 5), 4000, "context_exhausted"),
        ((127072, 5), 4000, "output_budget_exhausted"),
        (None, 4000, "output_budget_exhausted"),
    ],
)
async def test_length_stop_is_judged_by_the_room_left(
    hand: HandClient, usage: tuple[int, int] | None, budget: int, kind: str
) -> None:
    async with running_gateway(Reply(sse(chunk({"content": "part"}), chunk(finish="length", usage=usage)))) as gateway:
        events = await hand.run(run_request(gateway.base_url, maxTokens=budget, maxRetries=4))
        assert len(gateway.requests) == 1
    tokens = f"inputTokens={usage[0]} outputTokens={usage[1]}" if usage else "inputTokens=0 outputTokens=0"
    assert f"outcome=error:{kind} {tokens}" in hand.log_text
    partial = [data["message"] for name, data in events if name == "assistant_message"]
    assert [message["finishReason"] for message in partial] == (["length"] if usage else [])
    assert events[-1][1]["type"] == kind
