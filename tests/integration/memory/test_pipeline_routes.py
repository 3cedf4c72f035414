"""Digest, replay and the queue over HTTP: order of checks, statuses, bodies."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import date

import httpx2
import msgspec
import pytest
from litestar import Litestar
from litestar.di import Provide
from litestar.middleware import DefineMiddleware

from brain.api.errors import exception_handlers
from brain.api.guards import BodyLimitMiddleware, RequestGuard
from brain.api.memory_pipelines import DigestController, JobController, ReplayController
from brain.config.models import LimitsConfig
from brain.jobs.queue import JobQueue, QueuePolicy, enqueue_snapshot
from brain.jobs.service import JobService
from brain.memory.digest import DigestService
from brain.memory.replay import ReplayService
from shared_protocol.codec import encode_messages
from tests.fakes.scripted_model import Fail, chat_model
from tests.integration.memory.pipelines import CHAT, TODAY, answered, open_memory, said

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DIGEST = "/api/eltm/digest"
REPLAY = "/api/eltm/replay"
JOBS = "/api/eltm/jobs"


class Maintenance:
    def __init__(self) -> None:
        self.on = False

    async def is_enabled(self) -> bool:
        return self.on


@asynccontextmanager
async def open_client(store, *extraction: str):
    async with open_memory(store, extraction=extraction) as memory:
        limits = LimitsConfig()
        gate = Maintenance()
        services = {
            "digests": DigestService(memory.pipeline, limits=limits, today=lambda: TODAY),
            "replays": ReplayService(store.pool, memory.collector, chat_model(), chat_model()),
            "jobs": JobService(store.pool),
        }
        app = Litestar(
            [DigestController, ReplayController, JobController],
            dependencies={name: Provide(always(value), sync_to_thread=False) for name, value in services.items()},
            guards=[RequestGuard(limits, gate)],
            middleware=[DefineMiddleware(BodyLimitMiddleware, limits=limits)],
            exception_handlers=exception_handlers(),
            request_max_body_size=None,
            logging_config=None,
            openapi_config=None,
        )
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test") as client:
            yield client, memory, gate


def always(value):
    return lambda: value


def text(value: str) -> dict:
    return {"type": "text", "text": value}


def image(base64: str = PNG, mime: str = "image/png", kind: str = "image") -> dict:
    return {"type": "attachment", "kind": kind, "mimeType": mime, "content": {"type": "base64", "base64": base64}}


async def test_digest_answers_when_everything_is_recorded(store):
    async with open_client(store) as (client, memory, _):
        memory.model.answers = {
            "digest": ['[1] The user was born on 1990-05-04. | "born on 1990-05-04"'],
            "plan": ["NOTE | 1 | user (person) |"],
        }
        answer = await client.post(DIGEST, json={"parts": [text("I was born on 1990-05-04."), text("  ")], "date": "2026-01-02"})
        assert (answer.status_code, answer.content) == (201, b"")
        assert await memory.notes() == ["The user was born on 1990-05-04."]
        (prompt,) = memory.model.asked("digest")
        assert [part.text for part in prompt.messages[0].parts][1:] == ["[message 1]", "I was born on 1990-05-04."]
        assert "<sent-at>2026-01-02T00:00:00" in prompt.messages[0].parts[0].text
        assert "2026-03-20" in memory.model.asked("plan")[0].user_text


@pytest.mark.parametrize("words", ["Nothing worth remember.", " nothing WORTH  remember!! "])
async def test_digest_of_the_sentinel_does_nothing(store, words):
    async with open_client(store) as (client, memory, _):
        assert (await client.post(DIGEST, json={"parts": [text(words)]})).status_code == 201
        assert memory.model.prompts == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"parts": []},
        {"parts": [text(" \n")]},
        {"parts": [{"type": "reasoning", "content": "x"}]},
        {"parts": [image(kind="video", mime="video/mp4")]},
        {"parts": [image(mime="text/plain")]},
        {"parts": [image(mime="image/png; x")]},
        {"parts": [image("!!!")]},
        {"parts": [image("AAAA")]},
        {
            "parts": [
                {"type": "attachment", "kind": "image", "mimeType": "image/png", "content": {"type": "url", "url": "http://x"}}
            ]
        },
        {"parts": [text("x")], "date": "2026-03-21"},
        {"parts": [text("x")], "date": "2026-02-30"},
        {"parts": [text("x")], "date": "20260301"},
        {"parts": [text("x")], "date": 3},
        {"parts": [image()]},
    ],
)
async def test_digest_refuses_what_breaks_a_rule(store, body):
    async with open_client(store) as (client, memory, _):
        answer = await client.post(DIGEST, json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]
        assert memory.model.prompts == []


async def test_digest_takes_pictures_when_the_model_sees(store):
    async with open_client(store, "image") as (client, memory, _):
        answer = await client.post(DIGEST, json={"parts": [image(PNG[:20] + " \n" + PNG[20:])]})
        assert answer.status_code == 201, answer.text
        assert len(memory.model.asked("digest")) == 1


async def test_digest_tells_the_chain_of_causes(store):
    async with open_client(store) as (client, memory, _):
        memory.model.answers["digest"] = [Fail("content_filter", "the gateway objects")]
        answer = await client.post(DIGEST, json={"parts": [text("x y z")]})
        assert answer.status_code == 502
        assert "\nCaused by: " in answer.json()["error"] or "the gateway objects" in answer.json()["error"]


async def test_other_content_types_are_refused(store):
    async with open_client(store) as (client, _, _):
        for path in (DIGEST, REPLAY):
            assert (await client.post(path, content=b"{}", headers={"content-type": "text/plain"})).status_code == 415


async def test_maintenance_comes_before_everything(store):
    async with open_client(store) as (client, _, gate):
        gate.on = True
        for path in (DIGEST, REPLAY):
            assert (await client.post(path, content=b"\xff", headers={"content-type": "text/plain"})).status_code == 503
        assert (await client.get(REPLAY)).json()["state"] == "idle"
        assert (await client.get(JOBS)).status_code == 200
        assert (await client.post(f"{JOBS}/1/retry")).status_code == 503


def upload(*messages) -> dict:
    return {"title": "", "messages": msgspec.json.decode(encode_messages(messages))}


async def test_replay_starts_and_tells_how_it_stands(store):
    async with open_client(store) as (client, _, _):
        assert (await client.get(REPLAY)).json() == {
            "state": "idle",
            "messagesTotal": 0,
            "windowsCompacted": 0,
            "jobsQueued": 0,
            "error": None,
        }
        answer = await client.post(f"{REPLAY}?compactionRounds=8&contextRounds=3", json=upload(*CHAT))
        assert answer.status_code == 202, answer.text
        assert answer.json() == {"state": "running", "messagesTotal": 0, "windowsCompacted": 0, "jobsQueued": 0, "error": None}
        assert (await client.post(REPLAY, json=upload(*CHAT))).status_code == 409
        assert (await client.post(f"{REPLAY}?contextRounds=0", json=upload(*CHAT))).status_code == 400


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("?compactionRounds=x", upload(*CHAT)),
        ("?contextRounds=1.5", upload(*CHAT)),
        ("", {"messages": []}),
        ("", {"title": None, "messages": upload(*CHAT)["messages"]}),
        ("", upload(*CHAT)["messages"]),
        ("", upload()),
        ("", upload(said("x"))),
        ("", {"title": "x", "messages": [{"role": "system", "parts": []}]}),
    ],
)
async def test_replay_refuses_what_breaks_a_rule(store, query, body):
    async with open_client(store) as (client, _, _):
        answer = await client.post(REPLAY + query, json=body)
        assert answer.status_code == 400, answer.text
        assert (await client.get(REPLAY)).json()["state"] == "idle"


async def test_jobs_can_be_listed_retried_and_dropped(store):
    async with store.pool.connection() as conn:
        first = await enqueue_snapshot(conn, (said("x"), answered("y")), chat_id="1755500000000-42", chat_title="Moves")
        second = await enqueue_snapshot(conn, (said("z"),), chat_id=None, chat_title="")
    queue = JobQueue(store.pool, QueuePolicy(1800, 300))
    await queue.fail(await queue.claim(), "the gateway is away", content=False)
    async with open_client(store) as (client, _, _):
        listed = (await client.get(JOBS)).json()
        assert [
            (job["id"], job["state"], job["chatId"], job["chatTitle"], job["messages"], job["attempts"], job["lastError"])
            for job in listed
        ] == [
            (first, "retrying", "1755500000000-42", "Moves", 2, 1, "the gateway is away"),
            (second, "waiting", None, "", 1, 0, None),
        ]
        assert all(job["createdAt"].endswith("Z") and job["nextAttemptAt"].endswith("Z") for job in listed)
        assert [job["id"] for job in (await client.get(f"{JOBS}?state=waiting")).json()] == [second]
        assert (await client.get(f"{JOBS}?state=lost")).status_code == 400
        assert (await client.get(f"{JOBS}?limit=0")).status_code == 400
        retried = await client.post(f"{JOBS}/{first}/retry")
        assert (retried.status_code, retried.content) == (202, b"")
        assert (await queue.claim()).id == first
        assert (await client.delete(f"{JOBS}/{second}")).status_code == 204
        assert (await client.delete(f"{JOBS}/{second}")).status_code == 404
        assert (await client.post(f"{JOBS}/{second}/retry")).status_code == 404
        assert (await client.post(f"{JOBS}/x/retry")).status_code == 400


def test_today_of_these_tests_is_fixed():
    assert date(2026, 3, 20) == TODAY
