"""The acceptance list of the memory (memory §26), by its numbers: what shows in chats, their turns and the routes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from brain.memory.recall import Recaller
from brain.memory.rewrite import Rewriter
from brain.memory.search import EltmSearch
from brain.memory.views import NewNote
from brain.turns.memory_recall import EltmRecall
from shared_protocol.messages import TextPart, UserMessage
from tests.fakes.hand import FakeHand, FakeRun
from tests.fakes.scripted_model import ScriptedModel, chat_model
from tests.integration.api.conftest import assistant, open_api, user
from tests.integration.memory.pipelines import TODAY
from tests.integration.turns.conftest import Brain, Settings, names, run_brain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from brain.memory.store import EltmStore

HISTORY = [user(), assistant(), user("And then?"), assistant("Home.")]
ROUTES = (
    ("POST", "/api/chats/1755500000000-1/messages"),
    ("DELETE", "/api/chats/1755500000000-1"),
    ("POST", "/api/eltm/digest"),
    ("POST", "/api/eltm/import"),
    ("POST", "/api/eltm/replay"),
)


@asynccontextmanager
async def open_turns(database_url: str, store: EltmStore) -> AsyncGenerator[tuple[Brain, ScriptedModel]]:
    """Yield a brain whose turns use the real memory, and the model that rewrites their questions."""
    model = ScriptedModel(script=lambda _: "Where does Ada live?")
    async with FakeHand().serve() as hand, model.serve() as collector:
        search = EltmSearch(store.pool, store.spaces)
        recaller = Recaller(Rewriter(collector, chat_model(), 2), search, entity_limit=5, note_limit=5)
        settings = Settings(memory=EltmRecall(store.reads, recaller))
        async with run_brain(database_url, store.pool, hand, settings) as brain:
            await brain.create_chat()
            yield brain, model


async def plant(store: EltmStore) -> int:
    ada = (await store.entities.create("ada", "person")).view.entity.id
    await store.notes.attach_to_entity(ada, [NewNote(TODAY, "Ada lives in Porto.")])
    return ada


def newest_prompt(brain: Brain) -> str:
    """Return the newest user message as the model saw it."""
    asked = [message for message in brain.hand.requests[-1].messages if isinstance(message, UserMessage)][-1]
    return "\n".join(part.text for part in asked.parts if isinstance(part, TextPart))


def is_updated(brain: Brain) -> bool:
    prompt = newest_prompt(brain)
    assert ("<eltm-updated>true<" in prompt) != ("<eltm-updated>false<" in prompt)
    return "<eltm-updated>true<" in prompt


async def fingerprint(brain: Brain) -> str:
    return (await brain.load()).eltm_version


async def test_10_deleting_answers_at_once_with_one_job_and_only_deleting_queues_one(database_url: str) -> None:
    async with open_api(database_url) as api:
        count = "SELECT count(*), coalesce(sum(message_count), 0) FROM pending_extractions"
        full, empty = await api.import_chat(HISTORY), await api.create_chat()
        assert (await api.http.delete(f"/api/chats/{full}/messages/2")).status_code == 204
        assert await api.run_sql(count) == [(0, 0)]
        assert (await api.http.delete(f"/api/chats/{empty}")).status_code == 204
        assert await api.run_sql(count) == [(0, 0)]
        assert (await api.http.delete(f"/api/chats/{full}")).status_code == 204
        assert await api.run_sql(count) == [(1, 2)]
        assert api.hand.requests == []


async def test_11_eltm_updated_is_true_once_for_each_write_and_a_failed_run_does_not_move_it(
    database_url: str, store: EltmStore
) -> None:
    async with open_turns(database_url, store) as (brain, _):
        await plant(store)
        for expected in (True, False):
            await brain.send("Hi")
            assert is_updated(brain) is expected
            assert await fingerprint(brain) == await store.reads.version()

        seen = await fingerprint(brain)
        await store.entities.create("eve", "person")

        async def fail(run: FakeRun) -> None:
            await run.error("content_filter")

        brain.hand.scripts.append(fail)
        assert names(await brain.send("Hi"))[-1] == "error"
        assert is_updated(brain)
        assert await fingerprint(brain) == seen
        for expected in (True, False):
            await brain.send("Hi")
            assert is_updated(brain) is expected

        async def write_meanwhile(run: FakeRun) -> None:
            await store.entities.create("bob", "person")
            await run.answer("Done.")

        brain.hand.scripts.append(write_meanwhile)
        await brain.send("Hi")
        assert not is_updated(brain)
        await brain.send("Hi")
        assert is_updated(brain)


async def test_11_a_chat_without_a_history_of_its_own_starts_anew(database_url: str) -> None:
    async with open_api(database_url) as api:
        chat = await api.import_chat(HISTORY)
        await api.run_sql("UPDATE chats SET eltm_version = '9'")
        fork = (await api.http.post(f"/api/chats/{chat}/fork/1")).json()["id"]
        assert await api.run_sql("SELECT eltm_version FROM chats WHERE id = %s", fork) == [("",)]
        await api.http.delete(f"/api/chats/{chat}/messages/2")
        assert await api.run_sql("SELECT eltm_version FROM chats WHERE id = %s", chat) == [("",)]


async def test_12_a_persona_without_gsg_causes_no_rewrite_no_embedding_and_no_memories(
    database_url: str, store: EltmStore, fake_hand: Any
) -> None:
    async with open_turns(database_url, store) as (brain, model):
        await plant(store)
        fake_hand.requests.clear()
        ((plain,),) = await brain.rows("SELECT id FROM personas WHERE name = 'Plain'")
        await brain.send("Where does Ada live?", personaId=plain)
        assert (model.prompts, fake_hand.requests) == ([], [])
        prompt = brain.hand.requests[-1].system_prompt + newest_prompt(brain)
        assert "memories" not in prompt
        assert "eltm-updated" not in prompt
        assert await fingerprint(brain) == await store.reads.version()

        await brain.send("Where does Ada live?")
        assert (len(model.prompts), len(fake_hand.requests)) == (1, 1)
        assert "Ada lives in Porto." in newest_prompt(brain)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_15_under_maintenance_five_routes_are_503_even_with_an_invalid_body(
    database_url: str, method: str, path: str
) -> None:
    async with open_api(database_url) as api:
        assert (await api.http.put("/api/maintenance", json={"enabled": True})).json() == {"enabled": True}
        answer = await api.http.request(method, path, content=b"\xff", headers={"content-type": "text/plain"})
        assert answer.status_code == 503
        assert answer.json()["error"]
        for open_path in ("/api/eltm/entities", "/api/eltm/export", "/api/eltm/replay", "/api/maintenance/reembed", "/api/chats"):
            assert (await api.http.get(open_path)).status_code == 200
        assert (await api.http.post("/api/chats")).status_code == 201
        assert (await api.http.put("/api/maintenance", json={"enabled": False})).json() == {"enabled": False}
        answer = await api.http.request(method, path, content=b"\xff", headers={"content-type": "text/plain"})
        assert answer.status_code != 503


async def test_17_stored_chats_contain_no_injection_and_no_meta_part(database_url: str, store: EltmStore) -> None:
    async with open_turns(database_url, store) as (brain, _):
        await plant(store)
        for _ in range(3):
            await brain.send("Where does Ada live?")
        sent = brain.hand.requests[-1].messages
        texts = [
            part.text
            for message in sent
            if isinstance(message, UserMessage)
            for part in message.parts
            if isinstance(part, TextPart)
        ]
        assert sum(text.startswith("<meta>") for text in texts) == 2
        assert sum(text.startswith("<injection>") for text in texts) == 1
        for query in (
            "SELECT chat_json FROM chats",
            "SELECT body FROM chat_search",
            "SELECT messages_json FROM chat_drops",
            "SELECT chat_json FROM pending_extractions",
        ):
            for (stored,) in await brain.rows(query):
                assert "<injection>" not in stored
                assert "<meta>" not in stored
