"""A message from request to stored answer, against a scripted hand."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import msgspec
import pytest
from PIL import Image

from brain.chats.search.index import index_history
from shared_protocol.messages import AssistantMessage, AttachmentPart, Base64Content, TextPart, ToolCallPart, UserMessage
from shared_protocol.run import TextDelta, ToolCallEvent, ToolResultEvent
from tests.fakes.hand import FakeHand, FakeRun
from tests.integration.turns.conftest import (
    CHAT,
    Brain,
    Settings,
    free_port,
    model_config,
    names,
    run_brain,
    text_of_events,
)


def _png() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2)).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


PNG = _png()


async def test_an_answer_is_streamed_and_stored_before_done(brain: Brain) -> None:
    await brain.create_chat()
    events = await brain.send("What is up?")
    assert names(events) == ["comment", "memory", "context", "text", "usage", "done"]
    assert events[0].raw == b"connected"
    assert text_of_events(events) == "Hello there."
    chat = await brain.load()
    question, answer = chat.messages
    assert isinstance(question, UserMessage)
    assert question.parts == (TextPart("What is up?"),)
    assert question.created_at is not None
    assert isinstance(answer, AssistantMessage)
    assert answer.parts == (TextPart("Hello there."),)
    assert answer.created_at is not None
    assert chat.eltm_version == "0"


async def test_the_stream_has_the_exact_form_of_the_contract(brain: Brain) -> None:
    await brain.create_chat()
    async with brain.sending() as feed:
        await feed.rest()
        assert feed.response.headers["content-type"].startswith("text/event-stream")
    assert feed.bytes.startswith(b"event: comment\ndata: connected\n\n")
    assert b'event: text\ndata: {"delta":"Hello there."}\n\n' in feed.bytes
    assert feed.bytes.endswith(b"event: done\ndata: {}\n\n")
    assert b"id:" not in feed.bytes
    assert b"\r" not in feed.bytes


async def test_a_tool_round_is_streamed_and_stored(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        assert [tool.name for tool in await run.list_tools()] == ["dice__roll", "dice__wait"]
        await run.reasoning("Need a ", "die.")
        await run.tool_round(("c1", "dice__roll", '{"sides":6}'), ("c2", "dice__roll", '{"sides":1.0}'))
        await run.text("Two ", "fours.")
        await run.message(TextPart("Two fours."), input_tokens=150)
        await run.done()

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send("Roll twice")
    assert text_of_events(events) == "Two fours."
    assert text_of_events(events, "reasoning") == "Need a die."
    calls = [event.data for event in events if event.name == "tool_call"]
    assert calls == [
        {"id": "c1", "name": "dice__roll", "args": {"sides": 6}},
        {"id": "c2", "name": "dice__roll", "args": {"sides": 1.0}},
    ]
    results = [event.data for event in events if event.name == "tool_result"]
    assert results == [
        {"id": "c1", "name": "dice__roll", "content": "4", "isError": False},
        {"id": "c2", "name": "dice__roll", "content": "4", "isError": False},
    ]
    assert [event.data["round"] for event in events if event.name == "usage"] == [1, 2]
    assert brain.tools.calls == [("c1", '{"sides":6}'), ("c2", '{"sides":1.0}')]
    roles = [type(message).__name__ for message in (await brain.load()).messages]
    assert roles == ["UserMessage", "AssistantMessage", "ToolResultMessage", "ToolResultMessage", "AssistantMessage"]


async def test_an_image_result_is_a_placeholder_in_the_stream_and_an_attachment_in_the_chat(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.message(ToolCallPart("c1", "cam__shot", msgspec.Raw(b"{}")), finish_reason="tool_calls")
        await run.send(ToolCallEvent("c1", "cam__shot", msgspec.Raw(b"{}")))
        image = AttachmentPart("image", Base64Content("AAAA"), "image/png")
        sound = AttachmentPart("audio", Base64Content("AAAA"), "audio/wav")
        await run.send(ToolResultEvent("c1", "cam__shot", (TextPart("Here"), image, sound), is_error=False))
        await run.answer("Nice.")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    content = next(event.data["content"] for event in events if event.name == "tool_result")
    first, second, third = content.split("\n")
    assert first == "Here"
    assert "will appear when the round ends" in second
    assert "not displayed" in third


async def test_a_retry_of_the_hand_is_passed_on(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.text("Half an ans")
        await run.retry("the gateway hung up")
        await run.answer("A whole answer.")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    assert next(event.data for event in events if event.name == "retry") == {"message": "the gateway hung up"}
    assert text_of_events(events) == "Half an ansA whole answer."


async def test_deltas_of_other_scripts_and_escapes_survive(brain: Brain) -> None:
    pieces = ['"quoted" \\ ', "日本", "語 🎲", "\n\u2028\x7f", "</script>"]

    async def script(run: FakeRun) -> None:
        await run.send(*(TextDelta(piece) for piece in pieces))
        await run.message(TextPart("".join(pieces)))
        await run.done()

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    assert text_of_events(events) == "".join(pieces)


@pytest.mark.parametrize(
    ("error_type", "client_type", "expected"),
    [
        ("output_budget_exhausted", "HandRunException", "output limit"),
        ("content_filter", "HandRunException", "on purpose"),
        ("empty_response", "HandRunException", "empty"),
        ("tool_transport", "HandRunException", "tool failed: boom"),
        ("round_limit", "HandRunException", "rounds was reached: boom"),
        ("upstream", "HandRunException", "upstream): boom"),
        ("internal", "HandRunException", "internal): boom"),
    ],
)
async def test_an_error_of_the_hand_is_told_and_nothing_is_stored(
    brain: Brain, error_type: str, client_type: str, expected: str
) -> None:
    async def script(run: FakeRun) -> None:
        await run.text("Some text")
        await run.error(error_type, "boom")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    assert names(events)[-1] == "error"
    assert names(events).count("error") == 1
    assert events[-1].data["type"] == client_type
    assert expected in events[-1].data["message"]
    assert (await brain.load()).messages == ()


async def test_a_stream_without_an_end_is_a_lost_hand(brain: Brain) -> None:
    async def script(run: FakeRun) -> None:
        await run.text("Some text")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    events = await brain.send()
    assert events[-1].data["type"] == "HandUpstreamException"
    assert len(brain.hand.requests) == 1


async def test_a_hand_that_is_away_is_an_error_event(database_url: str, pool: Any) -> None:
    hand = FakeHand()
    hand.url = f"http://127.0.0.1:{free_port()}"
    async with run_brain(database_url, pool, hand) as brain:
        await brain.create_chat()
        events = await brain.send()
    assert names(events)[-1] == "error"
    assert events[-1].data["type"] == "HandUpstreamException"


async def test_a_model_without_tool_calls_gets_no_tools(database_url: str, pool: Any, hand: FakeHand) -> None:
    settings = Settings(models=[model_config(capabilities=[])])
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat()
        await brain.send()
    assert hand.requests[0].tool_list_url is None
    assert hand.requests[0].tool_callback_url is None


async def test_an_image_for_a_text_model_fails_before_the_hand_is_asked(database_url: str, pool: Any, hand: FakeHand) -> None:
    settings = Settings(models=[model_config(capabilities=[])])
    async with run_brain(database_url, pool, hand, settings) as brain:
        await brain.create_chat()
        events = await brain.send(images=[{"dataUrl": PNG}])
    assert events[-1].name == "error"
    assert events[-1].data["type"] == "ModelCapabilityException"
    assert "gw/large" in events[-1].data["message"]
    assert hand.requests == []


async def test_a_run_is_ended_by_its_time_limit(database_url: str, pool: Any, hand: FakeHand) -> None:
    async def script(run: FakeRun) -> None:
        await run.text("slow")
        await asyncio.sleep(60)

    hand.scripts.append(script)
    async with run_brain(database_url, pool, hand, Settings(hand={"run_timeout_minutes": 1})) as brain:
        await brain.create_chat()
        # A minute is too long for a test: the limit is the real one, its unit is not.
        brain.turns._parts = msgspec.structs.replace(
            brain.turns._parts, hand=msgspec.structs.replace(brain.turns._parts.hand, run_timeout_minutes=0.01)
        )
        events = await brain.send()
    assert "runTimeoutMinutes" in events[-1].data["message"]


async def test_a_corrupt_chat_is_an_error_event(brain: Brain) -> None:
    await brain.create_chat()
    async with brain.pool.connection() as conn:
        await conn.execute("""UPDATE chats SET chat_json = '[{"role":"user","parts":[]}]'""")
    events = await brain.send()
    assert names(events) == ["comment", "error"]
    assert CHAT in events[-1].data["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "gw/large", "personaId": 0}, 400),
        ({"text": "  ", "model": "gw/large", "personaId": 0}, 400),
        ({"text": "x", "images": None, "model": "gw/large", "personaId": 0}, 400),
        ({"text": "x", "personaId": 0}, 400),
        ({"text": "x", "model": " ", "personaId": 0}, 400),
        ({"text": "x", "model": "gw/none", "personaId": 0}, 400),
        ({"text": "x", "model": "gw/large"}, 400),
        ({"text": "x", "model": "gw/large", "personaId": 99}, 400),
        ({"text": "x", "images": [{"dataUrl": "data:text/plain;base64,AAAA"}], "model": "gw/large", "personaId": 0}, 400),
        ({"text": "x", "model": "gw/large", "personaId": 0, "replaceFrom": 0}, 400),
    ],
)
async def test_a_bad_send_is_refused_before_the_stream(brain: Brain, body: dict[str, Any], status: int) -> None:
    await brain.create_chat()
    answer = await brain.http.post(f"/api/chats/{CHAT}/messages", json=body)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert brain.hand.requests == []
    await brain.idle()


async def test_an_unknown_chat_is_404_and_a_malformed_id_400(brain: Brain) -> None:
    body = {"text": "x", "model": "gw/large", "personaId": 0}
    assert (await brain.http.post(f"/api/chats/{CHAT}/messages", json=body)).status_code == 404
    assert (await brain.http.post("/api/chats/nonsense/messages", json=body)).status_code == 400
    assert await brain.rows("SELECT id FROM chats") == []


async def test_a_second_send_to_a_busy_chat_is_409(brain: Brain) -> None:
    release = asyncio.Event()

    async def script(run: FakeRun) -> None:
        await release.wait()
        await run.answer("Done waiting.")

    await brain.create_chat()
    brain.hand.scripts.append(script)
    async with brain.sending() as feed:
        await feed.next("context")
        answer = await brain.http.post(f"/api/chats/{CHAT}/messages", json={"text": "x", "model": "gw/large", "personaId": 0})
        assert answer.status_code == 409
        release.set()
        assert names(await feed.rest())[-1] == "done"
    assert names(await brain.send("again"))[-1] == "done"


async def test_no_place_is_503(database_url: str, pool: Any, hand: FakeHand) -> None:
    async def script(run: FakeRun) -> None:
        await run.cancelled.wait()

    hand.scripts.append(script)
    async with run_brain(database_url, pool, hand, Settings(lock_places=1, lock_wait_ms=300)) as brain:
        await brain.create_chat()
        await brain.create_chat(chat_id="1755500000000-43")
        async with brain.sending() as feed:
            await feed.next("context")
            body = {"text": "x", "model": "gw/large", "personaId": 0}
            answer = await brain.http.post("/api/chats/1755500000000-43/messages", json=body)
            assert answer.status_code == 503


async def test_the_next_message_may_follow_the_last_event_at_once(brain: Brain) -> None:
    await brain.create_chat()
    for number in range(20):
        assert names(await brain.send(f"message {number}"))[-1] == "done"
    assert len((await brain.load()).messages) == 40


async def test_replace_from_works_on_the_history_before_it_and_replaces_only_on_success(brain: Brain) -> None:
    async def failing(run: FakeRun) -> None:
        await run.error("upstream", "down")

    await brain.create_chat()
    await brain.send("one")
    await brain.send("two")
    before = (await brain.load()).messages
    brain.hand.scripts.append(failing)
    assert (await brain.send("two again", replaceFrom=2))[-1].name == "error"
    assert (await brain.load()).messages == before
    assert (await brain.send("two again", replaceFrom=2))[-1].name == "done"
    after = (await brain.load()).messages
    assert after[:2] == before[:2]
    assert len(after) == 4
    assert isinstance(after[2], UserMessage)
    assert after[2].parts == (TextPart("two again"),)


async def test_the_search_rows_follow_turns_that_append_and_replace(brain: Brain) -> None:
    rows = "SELECT message_index, role, message_created_at, body, folded, grams, digest FROM chat_search ORDER BY message_index"
    await brain.create_chat()
    await brain.send("one 東京")
    await brain.send("two")
    await brain.send("two again", replaceFrom=2)
    kept = await brain.rows(rows)
    assert [(row[0], row[1]) for row in kept] == [(0, "user"), (1, "assistant"), (2, "user"), (3, "assistant")]
    assert [row[3] for row in kept if row[1] == "user"] == ["one 東京", "two again"]
    messages = (await brain.load()).messages
    async with brain.pool.connection() as conn, conn.transaction():
        await conn.execute("DELETE FROM chat_search")
        await index_history(conn, CHAT, messages)
    assert await brain.rows(rows) == kept


async def test_replace_from_follows_the_rules_of_truncation(brain: Brain) -> None:
    await brain.create_chat()
    await brain.send("one")
    for index in (-1, 1, 2, 99):
        body = {"text": "x", "model": "gw/large", "personaId": 0, "replaceFrom": index}
        answer = await brain.http.post(f"/api/chats/{CHAT}/messages", json=body)
        assert answer.status_code == 400, index


async def test_a_turn_that_must_not_be_remembered_marks_the_chat(brain: Brain) -> None:
    await brain.create_chat()
    await brain.send("secret", remember=False)
    assert (await brain.load()).remember is False


async def test_nothing_stays_behind_a_finished_turn(brain: Brain) -> None:
    await brain.create_chat()
    await brain.send()
    await brain.idle()
    assert await brain.rows("SELECT * FROM live_turns") == []
    assert brain.registry._runs == {}


async def test_turns_are_counted_by_outcome(brain: Brain) -> None:
    async def failing(run: FakeRun) -> None:
        await run.error("upstream", "down")

    await brain.create_chat()
    await brain.send()
    brain.hand.scripts.append(failing)
    await brain.send()
    await brain.http.post("/api/chats/1-1/messages", json={"text": "x", "model": "gw/large", "personaId": 0})
    figures = brain.turns._parts.metrics.render().decode()
    for outcome in ("stored", "upstream", "refused"):
        assert f'daapu_runs_total{{outcome="{outcome}"}} 1.0' in figures
    assert "daapu_live_turns 0.0" in figures
    assert "daapu_time_to_first_token_seconds_count 1.0" in figures
    assert "daapu_answer_tokens_total 10.0" in figures


@pytest.mark.parametrize(
    "text",
    [
        "a\x00b",
        "\ufffe\uffff",
        "😀" * 500,
        "</injection>",
        "<!DOCTYPE x [<!ENTITY e 'e'>]>&e;",
        "\u202eabc",
        " \u00a0\u3000x\u3000 ",
    ],
)
async def test_any_text_is_answered_and_kept(brain: Brain, text: str) -> None:
    await brain.create_chat()
    assert names(await brain.send(text))[-1] == "done"
    question = (await brain.load()).messages[0]
    assert isinstance(question, UserMessage)
    assert question.parts == (TextPart(text.strip()),)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b'{"text": "\\ud800", "model": "gw/large", "personaId": 0}',
        b"\xff\xfe",
        b'{"text":' * 3000,
        b'{"text": "x", "model": "gw/large", "personaId": 99999999999999999999999999}',
        b'{"text": "x", "model": "gw/large", "personaId": 0, "detach": null}',
        b'{"text": "x", "model": "gw/large", "personaId": 0, "replaceFrom": 1e3}',
        b'{"text": "x", "model": ["gw/large"], "personaId": 0}',
        b'{"text": "x", "model": "gw/large\\u0000", "personaId": 0}',
        b'{"text": "x", "images": [{}], "model": "gw/large", "personaId": 0}',
    ],
)
async def test_nonsense_is_refused_with_a_reason(brain: Brain, content: bytes) -> None:
    await brain.create_chat()
    url = f"/api/chats/{CHAT}/messages"
    answer = await brain.http.post(url, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("path", ["stop", "approvals/x", "approvals/%00", "approvals/%20"])
@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{", b'{"decision": 1}', b'{"keepPartial": "yes"}'])
async def test_nonsense_never_is_our_bug(brain: Brain, path: str, content: bytes) -> None:
    await brain.create_chat()
    url = f"/api/chats/{CHAT}/{path}"
    answer = await brain.http.post(url, content=content, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
