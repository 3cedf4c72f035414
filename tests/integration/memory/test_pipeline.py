"""From a region of a chat to records, in each of the three ways of writing."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from brain.catalog import CapabilityError
from brain.errors import BrainError, HandUnavailableError, StageError
from brain.jobs.queries import JobRow, claim_job, delete_job
from brain.jobs.queue import enqueue_snapshot
from brain.memory.embeddings import EmbeddingError
from brain.memory.extraction import Extractor
from brain.memory.pipeline import CorruptSnapshotError, DroppedJobError, Origin
from brain.memory.views import NewNote
from brain.memory.writer import list_facts
from brain.runs.failures import is_outage
from shared_protocol.codec import encode_messages
from shared_protocol.messages import (
    AttachmentPart,
    Base64Content,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from tests.fakes.scripted_model import Call, Fail, Prompt, Reply, Say, chat_model
from tests.integration.memory.pipelines import CHAT, FACTS, TODAY, answered, open_memory, said

ORIGIN = Origin("chat", None, "1755500000000-42", "Moves", 10)
PLAN = "NOTE | 1 | user (person) | 2026-03-01\nRELATIONSHIP | 2 | ada (person) | works_at | northwind (company) |"


class ToolWriter:
    """A writer that does as it is told: looks, creates, notes, and stops."""

    def __call__(self, prompt: Prompt) -> Reply:
        done = len(prompt.results)
        if done == 0:
            return Call([("search_entities", {"query": "user"}), ("ls_entities", {"name": "ada"})])
        if done == 2:
            return Call(
                [
                    ("create_entity", {"name": "user", "category": "person"}),
                    ("create_entity", {"name": "Ada", "category": "person"}),
                ]
            )
        if done == 4:
            user, ada = (int(result.parts[0].text.split("Entity ")[1].split(" ")[0]) for result in prompt.results[2:4])
            return Call(
                [
                    (
                        "add_entity_note",
                        {"entity_id": user, "event_date": "2026-03-01", "note": "The user moved to Lisbon on 2026-03-01."},
                    ),
                    (
                        "add_entity_note",
                        {
                            "entity_id": ada,
                            "event_date": "2026-03-02",
                            "note": "Ada, the user's sister, works at Northwind.",
                            "fact": 2,
                        },
                    ),
                ]
            )
        return "Done."


async def test_tool_loop_records_facts_with_their_sources(store):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [FACTS]
        memory.model.script = ToolWriter()
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.notes() == ["The user moved to Lisbon on 2026-03-01.", "Ada, the user's sister, works at Northwind."]
        sources = await memory.rows(
            "SELECT fact, message_index, excerpt, message_created_at IS NOT NULL FROM eltm_note_sources ORDER BY note_id"
        )
        assert sources == [(1, 10, CHAT[0].parts[0].text, True), (2, 10, CHAT[0].parts[0].text, True)]
        runs = await memory.rows(
            "SELECT job_id, kind, chat_id, chat_title, first_message, last_message, prompt_version, rung, outcome, facts, facts_dropped FROM eltm_extraction_runs"
        )
        assert runs == [(None, "chat", "1755500000000-42", "Moves", 10, 11, "extract-2", "text", "written", 2, 0)]


async def test_compacted_chat_is_named_without_a_position_that_has_moved(store):
    async with store.pool.connection() as conn:
        await conn.execute("INSERT INTO chats (id, title) VALUES ('1755500000000-42', 'Moves')")
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": [PLAN]}
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.rows("SELECT message_index, excerpt <> '' FROM eltm_note_sources") == [(None, True)] * 2


async def test_tool_loop_run_twice_adds_nothing(store):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.script = ToolWriter()
        for _ in range(2):
            memory.model.answers["extraction"] = [FACTS]
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert len(await memory.notes()) == 2
        assert await memory.rows("SELECT count(DISTINCT run_id) FROM eltm_note_sources") == [(2,)]


async def test_writer_gets_todays_date_and_the_facts_in_a_fence(store):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [FACTS]
        memory.model.script = ToolWriter()
        await memory.pipeline.remember(CHAT, ORIGIN)
        (first, *_) = memory.model.asked("writer")
        text = first.user_text
        assert "2026-03-20" in text
        assert "````\n1. The user moved to Lisbon on 2026-03-01.\n2. Ada, the user's sister, works at Northwind.\n````" in text
        assert len(first.messages) == 1
        assert first.request.max_rounds == 20


async def test_note_that_no_fact_states_is_refused(store):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [FACTS]

        def script(prompt: Prompt) -> Reply:
            if not prompt.results:
                return Call([("create_entity", {"name": "user", "category": "person"})])
            if len(prompt.results) == 1:
                return Call(
                    [
                        (
                            "add_entity_note",
                            {"entity_id": 1, "event_date": "2026-03-01", "note": "He enjoys sailing with 48213 friends."},
                        )
                    ]
                )
            assert prompt.results[-1].is_error
            return "Done."

        memory.model.script = script
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.notes() == []


async def test_plan_records_every_fact_once(store):
    async with open_memory(store) as memory:
        for _ in range(2):
            memory.model.answers = {"extraction": [FACTS], "plan": [PLAN]}
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.notes() == ["The user moved to Lisbon on 2026-03-01.", "Ada, the user's sister, works at Northwind."]
        assert await memory.rows("SELECT canonical_name, category FROM eltm_entities ORDER BY id") == [
            ("user", "person"),
            ("ada", "person"),
            ("northwind", "company"),
        ]
        assert await memory.rows("SELECT verb, valid FROM eltm_relationships") == [("works_at", True)]
        assert await memory.rows("SELECT event_date::text FROM eltm_notes ORDER BY id") == [("2026-03-01",), ("2026-03-02",)]


async def test_plan_as_json_when_the_model_can(store):
    plan = {
        "entries": [
            {
                "fact": 2,
                "kind": "attribute",
                "entity": "ada",
                "category": "person",
                "date": None,
                "key": "employer",
                "value": "Northwind",
                "verb": None,
                "other": None,
                "otherCategory": None,
                "ended": None,
            }
        ]
    }
    async with open_memory(store, "structured_output") as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": [json.dumps(plan)]}
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.rows("SELECT key, value FROM eltm_entity_attributes") == [("employer", "Northwind")]
        assert len(await memory.notes()) == 2
        assert memory.model.asked("plan")[0].request.response_format is not None


@pytest.mark.parametrize(
    "line",
    [
        "NOTE | 1 | napoleon (person) | 2026-03-01",
        "NOTE | 9 | user (person) | 2026-03-01",
        "ATTRIBUTE | 1 | user (person) | city = Paris",
        "RELATIONSHIP | 1 | user (person) | rules | france (country) |",
    ],
    ids=["entity that is not named", "fact that is not there", "value that is not said", "end that is not named"],
)
async def test_plan_cannot_bring_in_what_no_fact_says(store, line):
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": [line]}
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.rows("SELECT canonical_name FROM eltm_entities") == [("user",)]
        assert await memory.rows("SELECT key FROM eltm_entity_attributes") == []
        assert len(await memory.notes()) == 2


async def test_edge_is_ended_only_by_a_fact_that_says_so(store):
    async with open_memory(store) as memory:
        line = "RELATIONSHIP | 1 | ada (person) | works_at | northwind (company) | | ended"
        memory.model.answers = {"extraction": ['[1] Ada works at Northwind. | "Ada works"'], "plan": [line]}
        await memory.pipeline.remember((said("Ada works at Northwind."),), ORIGIN)
        assert await memory.rows("SELECT valid FROM eltm_relationships") == [(True,)]
        memory.model.answers = {"extraction": ['[1] Ada left Northwind. | "Ada left"'], "plan": [line]}
        await memory.pipeline.remember((said("Ada left Northwind."),), ORIGIN)
        assert await memory.rows("SELECT valid FROM eltm_relationships") == [(False,)]


async def test_known_entity_is_used_whatever_its_category(store):
    await store.entities.create("ada", "friend")
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": ["NOTE | 2 | Ada (person) |"]}
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert await memory.rows("SELECT canonical_name, category FROM eltm_entities ORDER BY id") == [
            ("ada", "friend"),
            ("user", "person"),
        ]
        assert "- ada (friend)" in memory.model.asked("plan")[0].user_text


async def test_similar_note_with_another_number_is_no_repetition(store):
    async with open_memory(store) as memory:
        for hour in ("15", "16"):
            memory.model.answers = {
                "extraction": [f'[1] The dentist of the user called about the appointment at {hour} o\'clock. | "at {hour}"'],
                "plan": ["NOTE | 1 | user (person) |"],
            }
            await memory.pipeline.remember((said(f"The dentist called about the appointment at {hour} o'clock."),), ORIGIN)
        assert len(await memory.notes()) == 2


async def test_bundled_model_stores_only_sentences_of_the_person(store):
    chat = (
        said("Hello! I moved to Lisbon in March. Can you recommend a bakery? What if I were a dog?"),
        answered("Try the one on Rua Augusta, it has 1200 kinds of bread."),
    )
    async with open_memory(store, demo=True) as memory:
        for _ in range(2):
            await memory.pipeline.remember(chat, ORIGIN)
        assert await memory.notes() == ["I moved to Lisbon in March."]
        assert memory.model.prompts == []


@pytest.mark.parametrize("answer", ["Nothing worth remember.", "NOTHING WORTH REMEMBER", "nothing   worth remember!"])
async def test_sentinel_writes_nothing(store, answer):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [answer]
        await memory.pipeline.remember(CHAT, ORIGIN)
        assert memory.model.asked("writer") == []
        assert await memory.rows("SELECT outcome, facts FROM eltm_extraction_runs") == [("nothing", 0)]


@pytest.mark.parametrize(
    "reply",
    [
        Fail("round_limit"),
        Fail("context_exhausted"),
        Fail("output_budget_exhausted"),
        Fail("content_filter"),
        Fail("upstream"),
        Say("done", finish_reason="length"),
    ],
    ids=["rounds", "context", "output", "filter", "upstream", "cut"],
)
async def test_writer_without_a_clean_end_fails_and_says_so(store, reply):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers = {"extraction": [FACTS], "writer": [reply]}
        with pytest.raises(StageError):
            await memory.pipeline.remember(CHAT, ORIGIN)
        ((outcome, finished),) = await memory.rows("SELECT outcome, finished_at IS NOT NULL FROM eltm_extraction_runs")
        assert "memory writer failed" in outcome
        assert finished


async def test_empty_end_after_thinking_is_retried_without_thinking(store):
    async with open_memory(store, "tool_calls", "reasoning:high") as memory:
        memory.model.answers = {"extraction": [FACTS], "writer": [Fail("empty_response"), "Done."]}
        await memory.pipeline.remember(CHAT, ORIGIN)
        first, second = memory.model.asked("writer")
        assert (first.request.model.reasoning, second.request.model.reasoning) == (True, False)
        assert "chat_template_kwargs" in (second.request.model.additional_properties or {})


async def test_extraction_asks_down_the_ladder_and_names_the_rungs_it_fell_from(store):
    async with open_memory(store, extraction=("structured_output",)) as memory:
        memory.model.answers = {"extraction": [Fail("invalid_request", "no response_format here"), "{", "Well.\nI see.\nIndeed."]}
        with pytest.raises(StageError, match="no message of the conversation says"):
            await memory.pipeline.remember(CHAT, ORIGIN)
        formats = [prompt.request.response_format for prompt in memory.model.asked("extraction")]
        assert [type(kind).__name__ for kind in formats] == ["JsonSchemaFormat", "JsonObjectFormat", "NoneType"]


async def test_outage_is_not_asked_again_on_a_lower_rung(store):
    async with open_memory(store, extraction=("structured_output",)) as memory:
        memory.model.answers = {"extraction": [Fail("upstream", "503")]}
        with pytest.raises(StageError) as caught:
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert is_outage(caught.value)
        assert len(memory.model.asked("extraction")) == 1


async def test_unreachable_hand_is_an_outage(store):
    async with open_memory(store) as memory:
        memory.model.is_down = True
        with pytest.raises(StageError) as caught:
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert is_outage(caught.value)


async def test_writer_whose_embedder_was_away_is_not_done(store, fake_hand):
    async with open_memory(store, "tool_calls") as memory:
        memory.model.answers["extraction"] = [FACTS]
        user = (await store.entities.create("user", "person")).view.entity.id
        fake_hand.is_down = True

        def script(prompt: Prompt) -> Reply:
            if not prompt.results:
                return Call(
                    [("add_entity_note", {"entity_id": user, "event_date": "2026-03-01", "note": "The user moved to Lisbon."})]
                )
            return "I could not record it."

        memory.model.script = script
        with pytest.raises(StageError) as caught:
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert is_outage(caught.value)


async def test_plan_whose_embedder_was_away_is_an_outage(store, fake_hand):
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": [PLAN]}
        fake_hand.is_down = True
        with pytest.raises(BrainError) as caught:
            await memory.pipeline.remember(CHAT, ORIGIN)
        assert is_outage(caught.value)


async def test_job_that_was_dropped_while_the_model_read_it_writes_nothing(store):
    async with store.pool.connection() as conn:
        job_id = await enqueue_snapshot(conn, CHAT, chat_id="a", chat_title="")
        job = await claim_job(conn, lease=uuid4(), lease_seconds=60)
    assert job is not None
    async with open_memory(store) as memory:
        memory.model.answers = {"extraction": [FACTS], "plan": [PLAN]}
        async with store.pool.connection() as conn:
            assert await delete_job(conn, job_id)
        with pytest.raises(DroppedJobError):
            await memory.pipeline.work(job)
        assert await memory.notes() == []
        assert memory.model.asked("plan") == []


async def test_memory_reports_are_replaced_before_the_extraction_sees_them(store):
    chat = (
        said("What is my passport word?"),
        answered("x"),
        said("Find it."),
    )
    call = ToolCallPart("c1", "gsg__investigate", b'{"query":"passport word"}')
    asked = answered("Let me look.")
    asked = type(asked)(parts=(call,), meta=asked.meta, finish_reason="tool_calls")
    result = ToolResultMessage((ToolResultPart("c1", "gsg__investigate", (TextPart("The passport word is Heliotrope."),)),))
    region = (*chat, asked, result, answered("It is Heliotrope."))
    async with open_memory(store) as memory:
        memory.model.answers["extraction"] = ["[6] The user's passport word is Heliotrope."]
        await memory.pipeline.remember(region, ORIGIN)
        (prompt,) = memory.model.asked("extraction")
        assert "Heliotrope" not in json.dumps([encode_messages((message,)).decode() for message in prompt.messages[:5]])
        assert await memory.notes() == []
        assert await memory.rows("SELECT facts_dropped, outcome FROM eltm_extraction_runs") == [(1, "nothing")]


async def test_answer_out_of_an_injected_memory_is_not_remembered_again(store):
    user = (await store.entities.create("user", "person")).view.entity.id
    await store.notes.attach_to_entity(user, [NewNote(TODAY, "The user keeps the spare key under the geranium pot.")])
    region = (said("Where is my spare key?"), answered("You keep the spare key under the geranium pot."))
    async with open_memory(store) as memory:
        memory.model.answers["extraction"] = ["[2] The user keeps the spare key under the geranium pot."]
        await memory.pipeline.remember(region, ORIGIN)
        assert len(await memory.notes()) == 1
        assert await memory.rows("SELECT facts, facts_dropped FROM eltm_extraction_runs") == [(0, 1)]


async def test_extraction_input_is_anchored_numbered_and_asks_at_the_end(store):
    injected = UserMessage(
        (
            TextPart("<injection><real-time-info><localtime>2026-03-02T12:00:00Z</localtime></real-time-info></injection>"),
            TextPart("I moved."),
        ),
        CHAT[0].created_at,
    )
    async with open_memory(store) as memory:
        await memory.pipeline.remember((injected, answered("Where to?")), ORIGIN)
        (prompt,) = memory.model.asked("extraction")
        first, second, last = prompt.messages
        texts = [part.text for part in first.parts]
        assert texts[0].startswith("<meta><sent-at>")
        assert texts[1:] == ["[message 1]", "I moved."]
        assert second.parts[0].text == "[message 2]"
        assert isinstance(last, UserMessage)
        assert last.created_at is None
        assert "<injection>" not in prompt.user_text


async def test_long_region_goes_to_a_small_model_in_pieces(store):
    region = tuple(
        message
        for number in range(30)
        for message in (said(f"I bought item number {number} " + "and so on " * 60), answered("ok " * 50))
    )
    async with open_memory(store) as memory:
        memory.pipeline.extractor = Extractor(memory.collector, chat_model(context_length=4096))
        await memory.pipeline.remember(region, ORIGIN)
        prompts = memory.model.asked("extraction")
        assert len(prompts) > 3
        for number in range(30):
            assert sum(f"item number {number} " in prompt.user_text for prompt in prompts) == 1


async def test_piece_that_is_too_long_after_all_is_halved(store):
    region = tuple(
        message
        for number in range(8)
        for message in (said(f"I bought item number {number} " + "and so on " * 60), answered("ok"))
    )

    def script(prompt: Prompt) -> Reply:
        return Fail("context_exhausted") if len(prompt.user_text) > 3000 else "Nothing worth remember."

    async with open_memory(store) as memory:
        memory.model.script = script
        await memory.pipeline.remember(region, ORIGIN)
        answered_prompts = [prompt for prompt in memory.model.asked("extraction") if len(prompt.user_text) <= 3000]
        assert all(any(f"item number {number} " in prompt.user_text for prompt in answered_prompts) for number in range(8))


async def test_images_need_a_model_that_sees(store):
    image = UserMessage((AttachmentPart("image", Base64Content("AAAA"), "image/png"),), CHAT[0].created_at)
    async with open_memory(store) as memory:
        with pytest.raises(CapabilityError):
            await memory.pipeline.remember((image,), ORIGIN)


@pytest.mark.parametrize("snapshot", ["", "{", "[1]", '[{"role":"user","parts":[]}]', '[{"role":"system"}]'])
async def test_corrupt_snapshot_is_the_contents_fault(store, snapshot):
    async with open_memory(store) as memory:
        with pytest.raises(CorruptSnapshotError) as caught:
            await memory.pipeline.work(JobRow(1, snapshot, "c", "t", 0, 1, 0))
        assert not is_outage(caught.value)


def test_outages_are_told_by_their_cause():
    problem = StageError("x", "y")
    problem.__cause__ = HandUnavailableError("gone")
    assert is_outage(problem)
    assert not is_outage(StageError("x", "y"))
    # An embedder that answers vectors of another width says nothing about the job.
    assert is_outage(EmbeddingError("upstream", "a vector has 8 dimensions"))
    assert not is_outage(EmbeddingError("invalid_request", "too large"))
    assert list_facts([]) == ""
