"""``GET /api/search`` over titles and messages in any script, kept current by every change of a chat."""

from __future__ import annotations

from typing import Any

from tests.integration.api.conftest import Api, assistant, call, result, user


async def found(api: Api, q: str, **params: Any) -> list[tuple[str, int | None]]:
    answer = await api.http.get("/api/search", params={"q": q, **params})
    assert answer.status_code == 200, answer.text
    return [(hit["chatId"], hit["messageIndex"]) for hit in answer.json()["hits"]]


async def test_messages_are_found_by_parts_of_words_in_any_script(api: Api) -> None:
    chat = await api.import_chat(
        [
            user("Wo liegt die Käsemühle?"),
            assistant("In der Straße am 東京タワー, 你好世界。"),
            user("ｶﾞﾗｽ and ＦＵＬＬ width, สวัสดีครับ", "2026-03-01T08:05:00Z"),
            assistant("100% sure_thing \\ done; 한국어"),
        ],
    )
    for q, index in (
        ("käse", 0),
        ("KÄSEMÜHLE", 0),
        ("ka\u0308semu\u0308hle", 0),
        ("mühle liegt", 0),
        ("strasse", 1),
        ("東京", 1),
        ("京", 1),
        ("京タ", 1),
        ("你好世", 1),
        ("界", 1),
        ("ガラス", 2),
        ("full", 2),
        ("สวัสดี", 2),
        ("100%", 3),
        ("sure_thing", 3),
        ("\\", 3),
        ("국어", 3),
    ):
        assert await found(api, q) == [(chat, index)], q
    for q in ("käse tokyo", "京東", "sureXthing", "99%", "世好", "\ue000"):
        assert await found(api, q) == [], q


async def test_snippets_mark_every_hit_in_plain_text(api: Api) -> None:
    text = "x " * 100 + "the İstanbul\nferry and the ferry <b>again</b> \ue000 " + "y " * 200
    await api.import_chat([user(text), assistant()])
    hit = (await api.http.get("/api/search", params={"q": "Ferry THE"})).json()["hits"][0]
    assert "\ue000the\ue001 İstanbul \ue000ferry\ue001 and \ue000the\ue001 \ue000ferry\ue001 <b>again</b>" in hit["snippet"]
    assert hit["snippet"].count("\ue000") == hit["snippet"].count("\ue001") == 4
    assert len(hit["snippet"]) < 250
    assert (hit["role"], hit["createdAt"], hit["title"]) == ("user", "2026-03-01T08:00:00Z", "Imported")


async def test_titles_are_found_and_tools_and_temporary_chats_are_not(api: Api) -> None:
    chat = await api.import_chat(
        [user("x"), assistant("y", call(args={"q": "needle"}), finish="tool_calls"), result(), assistant("z")], "Blue Needles"
    )
    hit = (await api.http.get("/api/search", params={"q": "needle"})).json()["hits"]
    assert [(h["chatId"], h["messageIndex"], h["role"], h["createdAt"]) for h in hit] == [(chat, None, None, None)]
    await api.create_chat()
    assert await found(api, "New chat") == []
    await api.run_sql("UPDATE chats SET temporary = true")
    assert await found(api, "needle") == []


async def test_the_index_follows_every_change(api: Api) -> None:
    history = [user("alpha"), assistant("beta"), user("gamma", "2026-03-01T08:05:00Z"), assistant("delta")]
    chat = await api.import_chat(history, "omega")
    fork = (await api.http.post(f"/api/chats/{chat}/fork/1")).json()["id"]
    assert sorted(await found(api, "beta")) == sorted([(chat, 1), (fork, 1)])
    assert await found(api, "gamma") == [(chat, 2)]
    assert sorted(await found(api, "omega")) == sorted([(chat, None), (fork, None)])
    await api.http.delete(f"/api/chats/{chat}/messages/2")
    assert await found(api, "gamma") == []
    await api.http.put(f"/api/chats/{chat}", json={"title": "psi"})
    assert await found(api, "omega") == [(fork, None)]
    assert await found(api, "psi") == [(chat, None)]
    await api.http.delete(f"/api/chats/{fork}")
    assert await found(api, "beta") == [(chat, 1)]


async def test_a_store_rewrites_only_rows_that_changed(api: Api) -> None:
    chat = await api.import_chat([user("alpha"), assistant("beta"), user("gamma", "2026-03-01T08:05:00Z"), assistant("delta")])
    before = await api.run_sql("SELECT message_index, xmin::text FROM chat_search WHERE message_index >= 0 ORDER BY 1")
    await api.http.delete(f"/api/chats/{chat}/messages/2")
    after = await api.run_sql("SELECT message_index, xmin::text FROM chat_search WHERE message_index >= 0 ORDER BY 1")
    assert after == before[:2]


async def test_pages_go_through_all_hits_once(api: Api) -> None:
    for _ in range(3):
        await api.import_chat(
            [user("needle one"), assistant("needle two"), user("needle", "2026-03-01T08:05:00Z"), assistant("x")]
        )
    everything = await found(api, "needle", limit=100)
    assert len(everything) == 9
    assert everything == sorted(everything, key=lambda hit: (hit[0], hit[1]), reverse=True)
    seen: list[tuple[str, int]] = []
    params: dict[str, Any] = {"q": "needle", "limit": 4}
    while True:
        body = (await api.http.get("/api/search", params=params)).json()
        seen += [(hit["chatId"], hit["messageIndex"]) for hit in body["hits"]]
        if "nextCursor" not in body:
            break
        params["cursor"] = body["nextCursor"]
    assert seen == everything


async def test_what_cannot_be_searched_is_400(api: Api) -> None:
    for params in (
        {},
        {"q": ""},
        {"q": " \t"},
        {"q": "\x00"},
        {"q": "a" * 501},
        {"q": " ".join("abcdefghijklm")},
        {"q": "a", "limit": "0"},
        {"q": "a", "limit": "101"},
        {"q": "a", "limit": "x"},
        {"q": "a", "cursor": "x"},
        {"q": "a", "cursor": "1-1"},
        {"q": "a", "cursor": "1-1:99999999999"},
    ):
        answer = await api.http.get("/api/search", params=params)
        assert answer.status_code == 400, params
        assert list(answer.json()) == ["error"]
