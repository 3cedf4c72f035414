"""The sub-agent: every way in which its run can end (memory §15.3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import Raw

from brain.memory.investigator import Investigator
from brain.memory.search import EltmSearch
from brain.memory.tools import EltmTools
from brain.memory.views import NewNote
from shared_protocol.messages import text_of
from tests.fakes.scripted_model import Call, Fail, ScriptedModel, chat_model
from tests.integration.memory.pipelines import TODAY


def fixed_time() -> datetime:
    return datetime(2026, 3, 20, 10, 0, tzinfo=UTC)


def investigator(store, collector, *, max_rounds=5):
    tools = EltmTools(store, EltmSearch(store.pool, store.spaces), read_only=True, namespace="eltm")
    return Investigator(collector, chat_model("tool_calls"), tools, max_rounds=max_rounds, now=fixed_time)


async def ask(store, model: ScriptedModel, args=b'{"query":"Where does Ada work?"}', **kwargs):
    async with model.serve() as collector:
        outcome = await investigator(store, collector, **kwargs).execute("c1", "gsg__investigate", Raw(args))
    return text_of(outcome.parts), outcome.is_error


SEARCH = Call([("eltm__search_notes", {"query": "Ada"})], text="I look.")


async def test_report_is_the_last_answer(store):
    ada = (await store.entities.create("ada", "person")).view.entity.id
    await store.notes.attach_to_entity(ada, [NewNote(TODAY, "Ada works at Northwind.")])
    model = ScriptedModel(answers={"investigator": [SEARCH, "Ada works at Northwind (2026-03-20)."]})
    assert await ask(store, model) == ("Ada works at Northwind (2026-03-20).", False)
    first, second = model.asked("investigator")
    assert text_of(first.messages[0].parts).split("\n\n")[1] == "Where does Ada work?"
    assert first.user_text[:10] == "2026-03-20"
    assert "Ada works at Northwind" in text_of(second.results[0].parts)


async def test_round_limit_gives_a_summary_of_the_partial_work(store):
    model = ScriptedModel(script=lambda prompt: "Found so far: nothing." if prompt.stage == "summary" else SEARCH)
    text, is_error = await ask(store, model, max_rounds=2)
    assert not is_error
    assert "limit of 2 rounds" in text
    assert "Found so far: nothing." in text
    assert "narrower" in text
    assert len(model.asked("summary")[0].results) == 2


async def test_failed_summary_falls_back_to_what_was_said(store):
    model = ScriptedModel(script=lambda prompt: Fail("upstream") if prompt.stage == "summary" else SEARCH)
    text, is_error = await ask(store, model, max_rounds=1)
    assert (is_error, "I look." in text) == (False, True)


async def test_failed_summary_of_a_silent_run_says_that_nothing_was_recorded(store):
    silent = Call(SEARCH.calls)
    model = ScriptedModel(script=lambda prompt: Fail("upstream") if prompt.stage == "summary" else silent)
    assert "Nothing was recorded." in (await ask(store, model, max_rounds=1))[0]


async def test_exhausted_context_gives_the_calls_without_another_call(store):
    model = ScriptedModel(answers={"investigator": [SEARCH, Fail("context_exhausted")]})
    text, is_error = await ask(store, model)
    assert not is_error
    assert 'eltm__search_notes({"query":"Ada"})' in text
    assert model.asked("summary") == []


@pytest.mark.parametrize(
    "kind", ["upstream", "auth", "content_filter", "output_budget_exhausted", "empty_response", "internal", "invalid_request"]
)
async def test_other_errors_are_told_with_type_and_message(store, kind):
    text, is_error = await ask(store, ScriptedModel(script=lambda _: Fail(kind, "because")))
    assert is_error
    assert f"{kind}: because" in text


async def test_hand_that_is_away_is_an_error_result(store):
    text, is_error = await ask(store, ScriptedModel(is_down=True))
    assert is_error
    assert "failed" in text


@pytest.mark.parametrize("args", [b"{}", b'{"query":" "}', b'{"query":null}', b'{"question":"x"}'])
async def test_query_is_required(store, args):
    text, is_error = await ask(store, ScriptedModel(), args)
    assert is_error
    assert "query" in text


async def test_only_its_own_tool_is_served(store):
    async with ScriptedModel().serve() as collector:
        agent = investigator(store, collector)
        (spec,) = await agent.list_tools()
        assert (spec.name, agent.namespaces, agent.budget_seconds(spec.name)) == ("gsg__investigate", ("gsg",), 0)
        assert (await agent.execute("c", "gsg__other", Raw(b"{}"))).is_error


async def test_sub_agent_cannot_write(store):
    model = ScriptedModel(answers={"investigator": [Call([("eltm__create_entity", {"name": "x"})]), "Done."]})
    await ask(store, model)
    assert model.asked("investigator")[1].results[0].is_error
