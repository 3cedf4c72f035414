"""Section 14: the embedding table."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.fakes.gateway import Pause, Reply, answers_json, refuses, running_gateway
from tests.fakes.hand_client import HandClient, embed_request

GOOD = {
    "data": [{"index": 0, "embedding": [1, 0.5, 0]}, {"index": 1, "embedding": [0, 1, 2.25]}],
    "usage": {"prompt_tokens": 4, "total_tokens": 5},
}


def entries(*vectors: tuple[object, object]) -> dict[str, object]:
    return {"data": [{"index": index, "embedding": vector} for index, vector in vectors]}


async def test_vectors_dimensions_and_usage(hand: HandClient) -> None:
    async with running_gateway(answers_json(GOOD)) as gateway:
        status, body = await hand.embed(embed_request(gateway.base_url))
    assert status == 200
    assert body == {"vectors": [[1, 0.5, 0], [0, 1, 2.25]], "dimensions": 3, "usage": {"promptTokens": 4, "totalTokens": 5}}


async def test_the_gateway_gets_exactly_three_keys_and_the_additional_ones(hand: HandClient) -> None:
    async with running_gateway(answers_json(GOOD)) as gateway:
        await hand.embed(embed_request(gateway.base_url))
        await hand.embed(embed_request(gateway.base_url, additionalProperties={"service_tier": "priority", "x": [1.0]}))
        first, second = gateway.requests
    assert (first.method, first.path) == ("POST", "/v1/embeddings")
    assert first.headers["authorization"] == "Bearer gateway-key-0123456789"
    assert first.body == {"model": "emb-1", "input": ["a", "b"], "dimensions": 3}
    assert second.body == {"model": "emb-1", "input": ["a", "b"], "dimensions": 3, "service_tier": "priority", "x": [1.0]}


async def test_out_of_order_answers_are_realigned(hand: HandClient) -> None:
    async with running_gateway(answers_json(entries((1, [2.0]), (0, [1.0])))) as gateway:
        _, body = await hand.embed(embed_request(gateway.base_url))
    assert body == {"vectors": [[1.0], [2.0]], "dimensions": 1}


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 1}, {"prompt_tokens": "1", "total_tokens": 1}, [], "x"])
async def test_usage_only_if_both_counts_are_numbers(hand: HandClient, usage: object) -> None:
    async with running_gateway(answers_json({**GOOD, "usage": usage})) as gateway:
        status, body = await hand.embed(embed_request(gateway.base_url))
    assert status == 200
    assert "usage" not in body


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"data": []},
        {"data": {}},
        {"data": None},
        entries((0, [1.0])),
        entries((0, [1.0]), (1, [1.0]), (2, [1.0])),
        entries((0, [1.0]), (0, [1.0])),
        entries((0, [1.0]), (2, [1.0])),
        entries((-1, [1.0]), (0, [1.0])),
        entries((None, [1.0]), (1, [1.0])),
        entries(("0", [1.0]), (1, [1.0])),
        entries((0.5, [1.0]), (1, [1.0])),
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
        entries((0, [1.0]), (1, [1.0, 2.0])),
        entries((0, []), (1, [])),
        entries((0, "AACAPw=="), (1, "AACAPw==")),
        entries((0, [1.0, "2"]), (1, [1.0, 2.0])),
        entries((0, [True]), (1, [1.0])),
        entries((0, None), (1, [1.0])),
    ],
)
async def test_an_unusable_200_is_upstream_and_retried(hand: HandClient, answer: object) -> None:
    async with running_gateway(answers_json(answer)) as gateway:
        status, body = await hand.embed(embed_request(gateway.base_url, maxRetries=2))
        assert len(gateway.requests) == 2
    assert (status, body["error"]["type"]) == (502, "upstream")
    assert body["error"]["message"].startswith("maxRetries (2) exhausted: ")


async def test_no_json_with_200_is_retried(hand: HandClient) -> None:
    async with running_gateway(Reply([b"<html>"], framing="length"), answers_json(GOOD)) as gateway:
        status, _ = await hand.embed(embed_request(gateway.base_url, maxRetries=2))
        assert (status, len(gateway.requests)) == (200, 2)


STATUSES = [
    *[(status, 401, "auth", False) for status in (401, 403)],
    *[(status, 400, "invalid_request", False) for status in (400, 402, 406, 408, 409, 413, 415, 422, 499)],
    *[(status, 502, "upstream", True) for status in (201, 204, 302, 404, 405, 429, 500, 502, 503, 529)],
]


@pytest.mark.parametrize(("upstream", "status", "kind", "retried"), STATUSES)
async def test_statuses_of_the_gateway(hand: HandClient, upstream: int, status: int, kind: str, retried: bool) -> None:
    async with running_gateway(refuses(upstream, "because")) as gateway:
        got, body = await hand.embed(embed_request(gateway.base_url, maxRetries=2))
        assert len(gateway.requests) == (2 if retried else 1)
    assert (got, body["error"]["type"]) == (status, kind)
    assert str(upstream) in body["error"]["message"]
    assert body["error"]["message"].startswith("maxRetries (2) exhausted: ") == retried


async def test_messages_carry_200_characters_of_the_body(hand: HandClient) -> None:
    async with running_gateway(refuses(400, "z" * 1000)) as gateway:
        _, body = await hand.embed(embed_request(gateway.base_url))
    assert body["error"]["message"].count("z") == 200


async def test_refused_keys_show_the_status_only(hand: HandClient) -> None:
    async with running_gateway(refuses(401, "your key gateway-key-0123456789 is wrong")) as gateway:
        _, body = await hand.embed(embed_request(gateway.base_url))
    assert body["error"]["message"] == "the gateway refused the key: HTTP 401"


async def test_retries_wait_as_runs_do(hand: HandClient) -> None:
    async with running_gateway(refuses(500), refuses(429), answers_json(GOOD)) as gateway:
        started = time.monotonic()
        status, _ = await hand.embed(embed_request(gateway.base_url, maxRetries=3))
        assert (status, len(gateway.requests)) == (200, 3)
    assert time.monotonic() - started >= 0.3


async def test_max_retries_0_goes_on_until_it_works(hand: HandClient) -> None:
    async with running_gateway(*[refuses(500)] * 3, answers_json(GOOD)) as gateway:
        status, _ = await hand.embed(embed_request(gateway.base_url, maxRetries=0))
    assert status == 200


async def test_an_unreachable_gateway_is_502(hand: HandClient) -> None:
    status, body = await hand.embed(embed_request("http://127.0.0.1:1/v1"))
    assert (status, body["error"]["type"]) == (502, "upstream")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=0, then="stall"),
        Reply([b'{"data":'], then="stall"),
        Reply([piece for _ in range(60) for piece in (b" ", Pause(0.05))]),
    ],
)
async def test_the_timeout_covers_an_attempt_up_to_its_last_byte_and_closes_the_socket(hand: HandClient, reply: Reply) -> None:
    async with running_gateway(reply) as gateway:
        started = time.monotonic()
        status, body = await hand.embed(embed_request(gateway.base_url, timeoutMs=200))
        assert time.monotonic() - started < 2
        await gateway.until_quiet()
    assert (status, body["error"]["type"]) == (502, "upstream")
    assert "200 ms" in body["error"]["message"]


async def test_timeout_0_is_off(hand: HandClient) -> None:
    late = Reply([Pause(0.4), json.dumps(GOOD).encode()])
    async with running_gateway(late) as gateway:
        status, _ = await hand.embed(embed_request(gateway.base_url, timeoutMs=0))
    assert status == 200


async def test_a_disconnect_closes_the_upstream_connection(hand: HandClient) -> None:
    async with running_gateway(Reply(status=0, then="stall")) as gateway:
        task = asyncio.create_task(hand.embed(embed_request(gateway.base_url)))
        await gateway.until(lambda: len(gateway.requests) == 1)
        task.cancel()
        started = time.monotonic()
        await gateway.until_quiet()
        assert time.monotonic() - started < 1
        await asyncio.gather(task, return_exceptions=True)


async def test_many_texts_go_in_one_request(hand: HandClient) -> None:
    answer = entries(*((index, [float(index)]) for index in range(3000)))
    async with running_gateway(answers_json(answer)) as gateway:
        status, body = await hand.embed(embed_request(gateway.base_url, input=["t"] * 3000))
        assert len(gateway.requests) == 1
    assert status == 200
    assert body["vectors"][2999] == [2999.0]


async def test_the_log_has_model_counts_and_outcome_but_no_text(hand: HandClient) -> None:
    async with running_gateway(answers_json(GOOD), refuses(400, "SECRET text")) as gateway:
        await hand.embed(embed_request(gateway.base_url, input=["SECRET one", "SECRET two"]))
        await hand.embed(embed_request(gateway.base_url, input=["SECRET one", "SECRET two"]))
    events = [line["event"] for line in hand.log_lines]
    assert "[hand] embed start model=emb-1 items=2" in events
    assert "[hand] embed end model=emb-1 dimensions=3 vectors=2" in events
    assert "[hand] embed end model=emb-1 outcome=error:invalid_request" in events
    assert "SECRET" not in hand.log_text
