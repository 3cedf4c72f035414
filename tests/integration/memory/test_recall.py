"""What a chat is given: rewrite, search, views; and how it degrades."""

from __future__ import annotations

import pytest

from brain.errors import StageError
from brain.memory.recall import Recaller
from brain.memory.rewrite import Rewriter
from brain.memory.search import EltmSearch
from brain.memory.views import NewNote
from brain.turns.memory_recall import EltmRecall
from shared_protocol.instants import Instant
from shared_protocol.messages import TextPart, UserMessage, text_of
from tests.fakes.scripted_model import Fail, ScriptedModel, chat_model
from tests.integration.memory.pipelines import TODAY, answered, said

NOW = Instant("2026-03-20T10:00:00Z")
CHAT = (
    said("My sister Ada is ill."),
    answered("Sorry to hear that."),
    said("old question"),
    answered("old answer"),
    said("Where does she work?"),
)


async def fill(store) -> None:
    ada = (await store.entities.create("ada", "person")).view.entity.id
    firm = (await store.entities.create("northwind", "company")).view.entity.id
    await store.entities.set_attributes(ada, {"city": "Lisbon"})
    edge = (await store.relationships.create(ada, firm, "works_at")).relationship.id
    await store.notes.attach_to_relationship(edge, [NewNote(TODAY, "Ada works at Northwind as a welder.")])
    await store.notes.attach_to_entity(ada, [NewNote(TODAY, "Ada plays the cello.")])


def recaller(store, collector, *, rounds=2, entities=5, notes=5, demo=False, timeout=60.0):
    rewriter = Rewriter(collector, chat_model(demo=demo), rounds, timeout_seconds=timeout)
    return Recaller(rewriter, EltmSearch(store.pool, store.spaces), entity_limit=entities, note_limit=notes, now=lambda: NOW)


async def test_chat_is_given_what_the_rewritten_question_finds(store):
    await fill(store)
    model = ScriptedModel(script=lambda _: "Where does Ada, the sister of the user, work?")
    async with model.serve() as collector:
        found = await recaller(store, collector).recall(CHAT)
    assert found.degraded is None
    assert ("ada", "person", (("city", "Lisbon"),)) in [
        (entity.name, entity.category, entity.attributes) for entity in found.entities
    ]
    note = next(note for note in found.notes if "welder" in note.note)
    assert (note.date, note.subject.src_name, note.subject.verb, note.subject.dst_name) == (
        TODAY.isoformat(),
        "ada",
        "works_at",
        "northwind",
    )


async def test_rewrite_sees_the_last_rounds_with_anchors_and_the_time_only(store):
    model = ScriptedModel(script=lambda _: "Nothing worth query.")
    async with model.serve() as collector:
        await recaller(store, collector, rounds=2).recall(CHAT)
    (prompt,) = model.asked("rewrite")
    assert [text_of(message.parts)[:60] for message in prompt.messages][1] == "old answer"
    assert len(prompt.messages) == 3
    first, last = prompt.messages[0], prompt.messages[-1]
    assert first.parts[0].text.startswith("<meta><sent-at>")
    assert last.parts[0].text.startswith("<injection><real-time-info><localtime>")
    assert "memories" not in last.parts[0].text
    assert last.parts[1].text == "Where does she work?"


@pytest.mark.parametrize(
    "answer", ["Nothing worth query.", "nothing worth query", "<think>Just hello.</think>Nothing worth query."]
)
async def test_nothing_to_look_up_asks_nothing(store, fake_hand, answer):
    model = ScriptedModel(script=lambda _: answer)
    async with model.serve() as collector:
        found = await recaller(store, collector).recall(CHAT)
    assert (found.entities, found.notes, found.degraded) == ((), (), None)
    assert fake_hand.requests == []


async def test_both_limits_zero_ask_no_model_at_all(store, fake_hand):
    model = ScriptedModel()
    async with model.serve() as collector:
        await recaller(store, collector, entities=0, notes=0).recall(CHAT)
    assert (model.prompts, fake_hand.requests) == ([], [])


@pytest.mark.parametrize("limits", [(0, 5), (5, 0)])
async def test_a_limit_of_zero_leaves_that_half_out(store, limits):
    await fill(store)
    model = ScriptedModel(script=lambda _: "Ada")
    async with model.serve() as collector:
        found = await recaller(store, collector, entities=limits[0], notes=limits[1]).recall(CHAT)
    assert (bool(found.entities), bool(found.notes)) == (limits[0] > 0, limits[1] > 0)


@pytest.mark.parametrize("reply", [Fail("upstream"), Fail("context_exhausted"), Fail("empty_response"), Fail("auth")])
async def test_failed_rewrite_falls_back_to_the_message_and_says_so(store, reply):
    await fill(store)
    model = ScriptedModel(script=lambda _: reply)
    async with model.serve() as collector:
        found = await recaller(store, collector).recall((said("Where does Ada work?"),))
    assert found.degraded == "query rewrite failed"
    assert any("welder" in note.note for note in found.notes)


async def test_hanging_rewrite_is_given_up(store):
    import asyncio

    class Hanging(ScriptedModel):
        async def handle_run(self, http):
            await asyncio.sleep(30)
            return await super().handle_run(http)

    async with Hanging().serve() as collector:
        found = await recaller(store, collector, timeout=0.1).recall((said("Where does Ada work?"),))
        with pytest.raises(StageError, match="no answer within"):
            await Rewriter(collector, chat_model(), 1, timeout_seconds=0.05).rewrite((said("x"),), NOW)
    assert found.degraded == "query rewrite failed"


async def test_without_an_embedder_words_and_names_still_answer(store, fake_hand):
    await fill(store)
    fake_hand.is_down = True
    model = ScriptedModel(script=lambda _: "Where does Ada work?")
    async with model.serve() as collector:
        found = await recaller(store, collector).recall(CHAT)
    assert found.degraded == "embedding unavailable"
    assert any("welder" in note.note for note in found.notes)


async def test_a_database_that_is_away_degrades_too(store):
    model = ScriptedModel(script=lambda _: "Where does Ada work?")
    async with model.serve() as collector:
        parts = recaller(store, collector)
        await store.pool.close()
        found = await parts.recall(CHAT)
    assert found == type(found)(degraded="memory search failed")


async def test_bundled_model_searches_with_the_message_itself(store):
    await fill(store)
    model = ScriptedModel()
    async with model.serve() as collector:
        found = await recaller(store, collector, demo=True).recall((said("Is Ada still a welder at Northwind?"),))
    assert model.prompts == []
    assert found.notes


async def test_chat_without_words_asks_nothing(store):
    async with ScriptedModel().serve() as collector:
        found = await recaller(store, collector, demo=True).recall((UserMessage((TextPart("  "),)),))
    assert found.notes == ()


async def test_turns_get_it_in_their_own_shape(store):
    await fill(store)
    async with ScriptedModel(script=lambda _: "Ada").serve() as collector:
        memory = EltmRecall(store.reads, recaller(store, collector))
        recalled = await memory.recall(CHAT)
        assert recalled.notes
        assert int(await memory.version()) > 0
