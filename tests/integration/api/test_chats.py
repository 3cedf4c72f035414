"""The chat routes: success, and every refusal in the order of the contract."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from brain.chats.locks import lock_key, open_chat_locks
from shared_protocol.messages import TextPart
from tests.integration.api.conftest import Api, assistant, call, image_part, open_api, png, result, user

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

UNKNOWN = "1755500000000-42"
HISTORY = [user(), assistant(), user("And then?", "2026-03-01T08:05:00Z"), assistant("Porto.")]
TOOL_HISTORY = [user(), assistant("", call(), finish="tool_calls"), result(), assistant("You got a 4.")]


def error_of(answer: Any) -> str:
    body = answer.json()
    assert list(body) == ["error"]
    assert isinstance(body["error"], str)
    assert body["error"]
    return body["error"]


@asynccontextmanager
async def held_elsewhere(database_url: str, chat_id: str) -> AsyncGenerator[None]:
    """Hold the lock of a chat as another brain would."""
    async with open_chat_locks(database_url, capacity=1, wait_ms=3000) as locks, locks.hold(chat_id):
        yield


class TestList:
    async def test_newest_first_with_all_fields(self, api: Api) -> None:
        first = await api.create_chat()
        second = await api.create_chat()
        body = (await api.http.get("/api/chats")).json()
        assert [chat["id"] for chat in body["chats"]] == sorted([first, second], reverse=True)
        assert "nextCursor" not in body
        chat = body["chats"][0]
        assert set(chat) == {
            "id", "title", "personaId", "createdAt", "updatedAt", "pinned", "archived", "temporary", "remember", "live",
        }  # fmt: skip
        assert (chat["title"], chat["personaId"], chat["live"]) == ("New chat", 0, False)

    async def test_pages_of_200_that_end_without_a_cursor(self, api: Api) -> None:
        await api.run_sql("INSERT INTO chats (id) SELECT (1755500000000 + n) || '-7' FROM generate_series(1, 401) AS n")
        seen: list[str] = []
        cursor = None
        sizes = []
        while True:
            page = (await api.http.get("/api/chats", params={"cursor": cursor} if cursor else {})).json()
            seen += [chat["id"] for chat in page["chats"]]
            sizes.append(len(page["chats"]))
            if "nextCursor" not in page:
                break
            cursor = page["nextCursor"]
            assert cursor == page["chats"][-1]["id"]
        assert sizes == [200, 200, 1]
        assert seen == sorted(seen, reverse=True)
        assert len(set(seen)) == 401

    @pytest.mark.parametrize("cursor", ["", "null", "abc", "1", "1-", "1-2-3", "1-2\n", "١-٢", " 1-2", "1-2\x00"])
    async def test_a_cursor_of_another_form_is_400(self, api: Api, cursor: str) -> None:
        answer = await api.http.get("/api/chats", params={"cursor": cursor})
        assert answer.status_code == 400
        error_of(answer)

    async def test_archived_and_temporary_chats_are_left_out_unless_asked_for(self, api: Api) -> None:
        plain = await api.create_chat()
        archived = await api.create_chat()
        await api.http.put(f"/api/chats/{archived}", json={"archived": True})
        temporary = (await api.http.post("/api/chats?temporary=true")).json()["id"]

        async def ids(query: str) -> set[str]:
            return {chat["id"] for chat in (await api.http.get(f"/api/chats{query}")).json()["chats"]}

        assert await ids("") == {plain}
        assert await ids("?include=archived") == {plain, archived}
        assert await ids("?include=all") == {plain, archived, temporary}
        assert (await api.http.get("/api/chats?include=nonsense")).status_code == 400


class TestCreate:
    async def test_any_body_is_ignored(self, api: Api) -> None:
        for headers, content in (({}, b""), ({"content-type": "text/plain"}, b"{"), ({"content-type": "application/json"}, b"{")):
            answer = await api.http.post("/api/chats", headers=headers, content=content)
            assert answer.status_code == 201
            assert list(answer.json()) == ["id"]

    async def test_ids_are_milliseconds_and_a_number(self, api: Api) -> None:
        millis, _, number = (await api.create_chat()).partition("-")
        assert len(millis) == 13
        assert 0 <= int(number) < 2**31 - 1

    async def test_a_flag_is_exactly_true_or_false(self, api: Api) -> None:
        assert (await api.http.post("/api/chats?temporary=True")).status_code == 400
        assert (await api.http.post("/api/chats?temporary=1")).status_code == 400


class TestRename:
    async def test_the_title_is_trimmed_and_other_keys_ignored(self, api: Api) -> None:
        chat = await api.create_chat()
        await api.run_sql("UPDATE chats SET persona_id = 7")
        answer = await api.http.put(f"/api/chats/{chat}", json={"title": "  Trip plan\n", "extra": {"deep": 1}})
        assert answer.status_code == 200
        assert answer.json()["title"] == "Trip plan"
        assert answer.json()["personaId"] == 7

    async def test_flags_change_without_the_title(self, api: Api) -> None:
        chat = await api.create_chat()
        body = (await api.http.put(f"/api/chats/{chat}", json={"pinned": True, "remember": False})).json()
        assert (body["title"], body["pinned"], body["remember"], body["archived"]) == ("New chat", True, False, False)

    async def test_checks_come_in_order(self, api: Api) -> None:
        chat = await api.create_chat()
        json_type = {"content-type": "application/json"}
        blank = await api.http.put("/api/chats/%20", content=b"x", headers={"content-type": "text/plain"})
        assert blank.status_code == 400  # the id before the body
        for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/jsonp"}):
            answer = await api.http.put(f"/api/chats/{UNKNOWN}", content=b"{", headers=headers)
            assert answer.status_code == 415  # the type before the content
            error_of(answer)
        huge = b'{"title":"' + b"a" * 2**20 + b'"}'
        over = await api.http.put(f"/api/chats/{UNKNOWN}", content=huge, headers=json_type)
        assert over.status_code == 413
        assert "limits.jsonBodyBytes" in error_of(over)
        for content in (b"", b"{", b"[]", b"{}", b'{"title":null}', b'{"title":5}', b'{"title":"  "}', b'{"title":"a\\u0000b"}'):
            answer = await api.http.put(f"/api/chats/{UNKNOWN}", content=content, headers=json_type)
            assert answer.status_code == 400, content  # the content before the existence
            error_of(answer)
        assert (await api.http.put(f"/api/chats/{UNKNOWN}", json={"title": "x"})).status_code == 404
        assert (await api.http.put("/api/chats/whatever", json={"title": "x"})).status_code == 404
        assert (await api.http.get(f"/api/chats/{chat}/chat")).json() == []

    async def test_charset_and_case_of_the_content_type_are_allowed(self, api: Api) -> None:
        chat = await api.create_chat()
        answer = await api.http.put(
            f"/api/chats/{chat}", content='{"title":"ü"}'.encode(), headers={"content-type": "Application/JSON; charset=utf-8"}
        )
        assert answer.status_code == 200
        assert '"ü"' in answer.text


class TestDelete:
    async def test_the_history_goes_into_the_queue_and_the_chat_away(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        answer = await api.http.delete(f"/api/chats/{chat}")
        assert (answer.status_code, answer.content) == (204, b"")
        jobs = await api.run_sql("SELECT chat_id, chat_title, message_count FROM pending_extractions")
        assert jobs == [(chat, "Imported", 4)]
        assert await api.run_sql("SELECT count(*) FROM chats") == [(0,)]
        assert await api.run_sql("SELECT count(*) FROM chat_search") == [(0,)]

    @pytest.mark.parametrize("why", ["empty", "flag", "query", "corrupt", "persona"])
    async def test_nothing_is_queued_where_nothing_may_be_remembered(self, api: Api, why: str) -> None:
        chat = await api.import_chat([] if why == "empty" else HISTORY)
        if why == "flag":
            await api.http.put(f"/api/chats/{chat}", json={"remember": False})
        if why == "corrupt":
            await api.run_sql("UPDATE chats SET chat_json = '{'")
        if why == "persona":
            await api.run_sql("INSERT INTO personas (id, name, system_prompt, remember) VALUES (7, 'Private', 'x', false)")
            await api.run_sql("UPDATE chats SET persona_id = 7")
        answer = await api.http.delete(f"/api/chats/{chat}", params={"remember": "false"} if why == "query" else {})
        assert answer.status_code == 204
        assert await api.run_sql("SELECT count(*) FROM pending_extractions") == [(0,)]
        assert await api.run_sql("SELECT count(*) FROM chats") == [(0,)]

    async def test_a_corrupt_chat_with_a_missing_attachment_can_be_deleted(self, api: Api) -> None:
        chat = await api.import_chat([{**user(), "parts": [image_part(png())]}, assistant()])
        await api.run_sql("DELETE FROM attachment_links")
        await api.run_sql("DELETE FROM attachments")
        assert (await api.http.get(f"/api/chats/{chat}/chat")).status_code == 500
        assert (await api.http.delete(f"/api/chats/{chat}")).status_code == 204

    async def test_checks_come_in_order(self, api: Api, database_url: str) -> None:
        chat = await api.import_chat(HISTORY)
        api.maintenance.on = True
        assert (await api.http.delete("/api/chats/%20")).status_code == 503  # maintenance before the id
        api.maintenance.on = False
        assert (await api.http.delete("/api/chats/%20")).status_code == 400
        async with held_elsewhere(database_url, UNKNOWN):
            assert (await api.http.delete(f"/api/chats/{UNKNOWN}")).status_code == 409  # the lock before the existence
        assert (await api.http.delete(f"/api/chats/{UNKNOWN}")).status_code == 404
        assert (await api.http.delete(f"/api/chats/{chat}?remember=no")).status_code == 400
        async with held_elsewhere(database_url, chat):
            answer = await api.http.delete(f"/api/chats/{chat}")
            assert answer.status_code == 409
            error_of(answer)
        assert (await api.http.delete(f"/api/chats/{chat}")).status_code == 204

    async def test_no_free_place_is_503(self, database_url: str) -> None:
        async with open_api(database_url, database={"lockPoolSize": 1, "lockConnectionTimeout": 100}) as api:
            chat = await api.create_chat()
            async with api.services.locks.hold(UNKNOWN):
                answer = await api.http.delete(f"/api/chats/{chat}")
            assert answer.status_code == 503
            assert "lockPoolSize" in error_of(answer)

    async def test_two_deletes_at_once_make_one_job(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        answers = await asyncio.gather(*(api.http.delete(f"/api/chats/{chat}") for _ in range(5)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses[0] == 204
        assert set(statuses[1:]) <= {404, 409}
        assert await api.run_sql("SELECT count(*) FROM pending_extractions") == [(1,)]


class TestTruncate:
    async def test_the_tail_goes_and_the_fingerprint_with_it(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        await api.run_sql("UPDATE chats SET eltm_version = '9', persona_id = 3")
        answer = await api.http.delete(f"/api/chats/{chat}/messages/2")
        assert (answer.status_code, answer.content) == (204, b"")
        assert (await api.http.get(f"/api/chats/{chat}/chat")).json() == HISTORY[:2]
        assert await api.run_sql("SELECT eltm_version, persona_id FROM chats") == [("", 3)]
        assert await api.run_sql("SELECT count(*) FROM pending_extractions") == [(0,)]

    async def test_index_0_empties_the_chat(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        assert (await api.http.delete(f"/api/chats/{chat}/messages/0")).status_code == 204
        assert (await api.http.get(f"/api/chats/{chat}/chat")).content == b"[]"

    @pytest.mark.parametrize("index", ["-1", "1", "4", "99", "2147483647"])
    async def test_an_index_where_nothing_may_be_cut_is_400(self, api: Api, index: str) -> None:
        chat = await api.import_chat(HISTORY)
        answer = await api.http.delete(f"/api/chats/{chat}/messages/{index}")
        assert answer.status_code == 400
        error_of(answer)

    async def test_after_a_summary_nothing_may_be_cut(self, api: Api) -> None:
        summary = user("CONTEXT COMPACTION: earlier", "2026-03-01T07:00:00Z")
        chat = await api.import_chat([summary, *HISTORY])
        assert (await api.http.delete(f"/api/chats/{chat}/messages/1")).status_code == 400
        assert (await api.http.delete(f"/api/chats/{chat}/messages/3")).status_code == 204

    async def test_checks_come_in_order(self, api: Api, database_url: str) -> None:
        chat = await api.import_chat(HISTORY)
        for index in ("x", "1.5", "%20", "2147483648", "1e3", "٣"):
            async with held_elsewhere(database_url, UNKNOWN):
                answer = await api.http.delete(f"/api/chats/{UNKNOWN}/messages/{index}")
            assert answer.status_code == 400, index  # the index before the lock
        async with held_elsewhere(database_url, UNKNOWN):
            assert (await api.http.delete(f"/api/chats/{UNKNOWN}/messages/0")).status_code == 409
        assert (await api.http.delete(f"/api/chats/{UNKNOWN}/messages/99")).status_code == 404
        stale = await api.http.delete(f"/api/chats/{chat}/messages/99?expectedLength=3")
        assert stale.status_code == 409
        assert (await api.http.delete(f"/api/chats/{chat}/messages/99?expectedLength=4")).status_code == 400
        assert (await api.http.delete(f"/api/chats/{chat}/messages/2?expectedLength=x")).status_code == 400
        assert (await api.http.delete(f"/api/chats/{chat}/messages/2?expectedLength=4")).status_code == 204

    async def test_maintenance_does_not_block_it(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        api.maintenance.on = True
        assert (await api.http.delete(f"/api/chats/{chat}/messages/2")).status_code == 204


class TestFork:
    async def test_a_fork_has_the_messages_up_to_the_index_and_a_numbered_title(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY, "Trip")
        await api.run_sql("UPDATE chats SET eltm_version = '9', persona_id = 3")
        titles = []
        for _ in range(2):
            answer = await api.http.post(f"/api/chats/{chat}/fork/1")
            assert answer.status_code == 201
            titles.append(answer.json()["title"])
        again = await api.http.post(f"/api/chats/{answer.json()['id']}/fork/1")
        assert [*titles, again.json()["title"]] == ["Trip (2)", "Trip (3)", "Trip (4)"]
        assert answer.json()["personaId"] == 3
        assert (await api.http.get(f"/api/chats/{answer.json()['id']}/chat")).json() == HISTORY[:2]
        assert (await api.http.get(f"/api/chats/{chat}/chat")).json() == HISTORY
        assert await api.run_sql("SELECT eltm_version FROM chats WHERE title = 'Trip (2)'") == [("",)]

    async def test_the_finish_reason_is_compared_without_case(self, api: Api) -> None:
        chat = await api.import_chat([user(), assistant(finish="STOP")])
        assert (await api.http.post(f"/api/chats/{chat}/fork/1")).status_code == 201

    async def test_checks_come_in_order(self, api: Api) -> None:
        chat = await api.import_chat(TOOL_HISTORY)
        assert (await api.http.post(f"/api/chats/{UNKNOWN}/fork/x")).status_code == 400
        assert (await api.http.post("/api/chats/%20/fork/1")).status_code == 400
        assert (await api.http.post(f"/api/chats/{UNKNOWN}/fork/99")).status_code == 404
        assert (await api.http.post(f"/api/chats/{chat}/fork/3?expectedLength=3")).status_code == 409
        for index in ("-1", "4", "0", "1", "2"):
            answer = await api.http.post(f"/api/chats/{chat}/fork/{index}")
            assert answer.status_code == 400, index
            error_of(answer)
        assert (await api.http.post(f"/api/chats/{chat}/fork/3?expectedLength=4")).status_code == 201

    async def test_a_fork_needs_no_lock(self, api: Api, database_url: str) -> None:
        chat = await api.import_chat(HISTORY)
        async with held_elsewhere(database_url, chat):
            assert (await api.http.post(f"/api/chats/{chat}/fork/1")).status_code == 201


class TestRead:
    async def test_an_unknown_chat_has_no_messages(self, api: Api) -> None:
        answer = await api.http.get(f"/api/chats/{UNKNOWN}/chat")
        assert (answer.status_code, answer.content) == (200, b"[]")

    @pytest.mark.parametrize(
        "broken", ["{", "[{}]", '[{"role":"system","parts":[]}]', json.dumps([user()], separators=(",", ":")), "[" * 5000]
    )
    async def test_a_corrupt_chat_is_500_where_it_is_read_and_raw_in_the_export(self, api: Api, broken: str) -> None:
        chat = await api.import_chat(HISTORY)
        await api.run_sql("UPDATE chats SET chat_json = %s", broken)
        for method, path in (
            ("GET", "chat"),
            ("GET", "messages"),
            ("POST", "title"),
            ("POST", "fork/1"),
            ("DELETE", "messages/0"),
        ):
            answer = await api.http.request(method, f"/api/chats/{chat}/{path}")
            assert answer.status_code == 500, path
            assert answer.json() == {"error": "Internal server error"}
        export = await api.http.get(f"/api/chats/{chat}/export")
        assert export.status_code == 200
        content = export.json()["messages"]
        assert (content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))) == broken

    async def test_export_and_import_round_trip_to_the_letter(self, api: Api) -> None:
        history = [
            {**user("ü/ 🎲 \u2028"), "parts": [{"type": "text", "text": "ü/ 🎲 \u2028"}, image_part(png())]},
            assistant("", call(args={"z": 1.0, "a": 10**30}), finish="tool_calls"),
            result(parts=[{"type": "text", "text": ""}, image_part(b"\x00\x01", "application/x-odd", "file")]),
            assistant("done"),
        ]
        chat = await api.import_chat(history, "Trip <&> plan")
        export = await api.http.get(f"/api/chats/{chat}/export")
        assert export.headers["content-disposition"] == f'attachment; filename="{chat}.json"'
        assert export.headers["content-type"] == "application/json"
        assert export.text.startswith('{"title":"Trip <&> plan","messages":[{"role":"user","parts":[{"type":"text","text":"ü/ 🎲')
        second = await api.http.post("/api/chats/import", content=export.content, headers={"content-type": "application/json"})
        assert second.status_code == 201
        again = await api.http.get(f"/api/chats/{second.json()['id']}/export")
        assert again.content == export.content
        assert '"args":{"z":1.0,"a":1000000000000000000000000000000}' in export.text
        assert await api.run_sql("SELECT count(*) FROM attachments") == [(2,)]

    async def test_export_of_an_unknown_chat_is_404(self, api: Api) -> None:
        error_of(await api.http.get(f"/api/chats/{UNKNOWN}/export"))
        assert (await api.http.get(f"/api/chats/{UNKNOWN}/export")).status_code == 404
        assert (await api.http.get("/api/chats/%20/export")).status_code == 400

    async def test_head_is_get_without_the_body(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        for path in (
            f"/api/chats/{chat}/chat",
            f"/api/chats/{chat}/export",
            "/api/chats",
            "/api/models",
            f"/api/chats/{UNKNOWN}/export",
        ):
            got = await api.http.get(path)
            head = await api.http.head(path)
            assert (head.status_code, head.content) == (got.status_code, b"")
            skip = {"x-request-id", "date"}
            assert {k: v for k, v in head.headers.items() if k not in skip} == {
                k: v for k, v in got.headers.items() if k not in skip
            }


class TestPages:
    async def test_pages_come_from_the_end_with_attachments_by_reference(self, api: Api) -> None:
        picture = png()
        history = [
            {**user(), "parts": [image_part(picture, "image/x-custom")]},
            assistant("", call(), finish="tool_calls"),
            result(parts=[image_part(picture)]),
            assistant("nice"),
        ]
        chat = await api.import_chat(history)
        page = (await api.http.get(f"/api/chats/{chat}/messages?limit=2")).json()
        assert (page["firstIndex"], page["total"], len(page["messages"])) == (2, 4, 2)
        first = (await api.http.get(f"/api/chats/{chat}/messages?limit=2&before=2")).json()
        assert (first["firstIndex"], first["total"]) == (0, 4)
        reference = first["messages"][0]["parts"][0]["content"]
        assert first["messages"][0]["parts"][0]["mimeType"] == "image/x-custom"
        assert page["messages"][0]["parts"][0]["parts"][0]["content"] == reference
        assert set(reference) == {"type", "sha256", "url", "bytes"}
        assert (reference["type"], reference["bytes"]) == ("ref", len(picture))
        content = await api.http.get(reference["url"])
        assert content.content == picture
        assert content.headers["content-type"] == "image/png"
        assert "immutable" in content.headers["cache-control"]

    async def test_the_edges_of_paging(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        path = f"/api/chats/{chat}/messages"
        assert (await api.http.get(f"{path}?before=0")).json() == {"messages": [], "firstIndex": 0, "total": 4}
        assert (await api.http.get(f"{path}?before=99")).json()["messages"] == HISTORY
        for query in ("limit=0", "limit=501", "limit=x", "before=-1", "before=x", "before=99999999999999999999"):
            answer = await api.http.get(f"{path}?{query}")
            assert answer.status_code == 400, query
            error_of(answer)
        assert (await api.http.get(f"/api/chats/{UNKNOWN}/messages")).status_code == 404

    async def test_an_attachment_that_is_no_picture_is_downloaded(self, api: Api) -> None:
        svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
        chat = await api.import_chat([{**user(), "parts": [image_part(svg, "image/svg+xml")]}, assistant()])
        page = (await api.http.get(f"/api/chats/{chat}/messages")).json()
        answer = await api.http.get(page["messages"][0]["parts"][0]["content"]["url"])
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        for name, status in (("0" * 64, 404), ("xyz", 400), ("..%2f..", 404), ("A" * 64, 400)):
            assert (await api.http.get(f"/api/attachments/{name}")).status_code == status, name

    async def test_what_a_compaction_dropped_can_be_read(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        row = await _drop(api, chat)
        listed = (await api.http.get(f"/api/chats/{chat}/compactions")).json()
        assert [(drop["id"], drop["droppedMessages"], drop["rounds"]) for drop in listed] == [(row, 2, 1)]
        assert (await api.http.get(f"/api/chats/{chat}/compactions/{row}")).json() == HISTORY[:2]
        assert (await api.http.get(f"/api/chats/{chat}/compactions/2")).status_code == 404
        assert (await api.http.get(f"/api/chats/{chat}/compactions/x")).status_code == 400
        assert (await api.http.get(f"/api/chats/{UNKNOWN}/compactions")).status_code == 404


async def _drop(api: Api, chat_id: str) -> int:
    async with api.services.pool.connection() as conn, conn.transaction():
        chat = await api.services.chat_store.load(conn, chat_id)
        assert chat is not None
        return await api.services.chat_store.add_drop(conn, chat_id, chat.messages[:2])


class TestTitle:
    async def test_a_title_is_generated_sanitised_and_stored(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        api.hand.scripts.append(lambda run: run.answer('\n\n  **"Two  cities\tin Portugal"**  \nbecause'))
        answer = await api.http.post(f"/api/chats/{chat}/title")
        assert answer.status_code == 200
        assert answer.json()["title"] == "Two cities in Portugal"
        request = api.hand.requests[0]
        assert request.tool_list_url is None
        assert request.max_rounds == 0
        texts = [part.text for message in request.messages for part in message.parts if isinstance(part, TextPart)]
        assert texts[:2] == ["And then?", "Porto."]  # lastNRound is 1
        assert len(texts) == 3

    async def test_an_empty_chat_keeps_its_title_without_a_call(self, api: Api) -> None:
        chat = await api.create_chat()
        answer = await api.http.post(f"/api/chats/{chat}/title")
        assert (answer.status_code, answer.json()["title"]) == (200, "New chat")
        assert api.hand.requests == []

    async def test_a_rename_made_meanwhile_wins(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)

        async def rename_then_answer(run: Any) -> None:
            await api.http.put(f"/api/chats/{chat}", json={"title": "Mine"})
            await run.answer("Theirs")

        api.hand.scripts.append(rename_then_answer)
        answer = await api.http.post(f"/api/chats/{chat}/title")
        assert (answer.status_code, answer.json()["title"]) == (200, "Mine")

    async def test_a_chat_deleted_meanwhile_is_404(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)

        async def delete_then_answer(run: Any) -> None:
            await api.http.delete(f"/api/chats/{chat}")
            await run.answer("Theirs")

        api.hand.scripts.append(delete_then_answer)
        assert (await api.http.post(f"/api/chats/{chat}/title")).status_code == 404

    async def test_failures_of_the_model_are_502_with_the_reason(self, api: Api) -> None:
        chat = await api.import_chat(HISTORY)
        api.hand.scripts.append(lambda run: run.error("upstream", "the gateway is on fire"))
        answer = await api.http.post(f"/api/chats/{chat}/title")
        assert answer.status_code == 502
        assert "the gateway is on fire" in error_of(answer)
        assert "\nCaused by: " in answer.json()["error"]
        for text in ("", "   ", '""', "***"):
            api.hand.scripts.append(lambda run, text=text: run.answer(text or " "))
            assert (await api.http.post(f"/api/chats/{chat}/title")).status_code == 502

    async def test_content_the_title_model_cannot_read_is_400(self, api: Api) -> None:
        chat = await api.import_chat([{**user(), "parts": [image_part(png())]}, assistant()])
        answer = await api.http.post(f"/api/chats/{chat}/title")
        assert answer.status_code == 400
        assert "gw/small" in error_of(answer)

    async def test_an_unknown_chat_is_404_and_a_blank_id_400(self, api: Api) -> None:
        assert (await api.http.post(f"/api/chats/{UNKNOWN}/title")).status_code == 404
        assert (await api.http.post("/api/chats/%20/title")).status_code == 400
        assert (await api.http.post("/api/chats//title")).status_code == 400


def test_the_lock_key_of_other_brains() -> None:
    assert lock_key(UNKNOWN) == -2811712383774432382
