"""The tier of the evaluation that runs with the tests: recorded answers, a fixed embedder, bars that must hold."""

from __future__ import annotations

import json

from brain.memory.search import EltmSearch
from tests.eval.corpus import load_corpus
from tests.eval.record import RECORDED, record
from tests.eval.remembering import remember_corpus
from tests.eval.report import render
from tests.eval.retrieval import insert_gold, measure
from tests.eval.setups import RecordedModel, bundled_pipeline, recorded_pipeline


def test_corpus_is_what_the_specification_asks_for():
    chats = load_corpus()
    assert len(chats) >= 30
    assert {chat.language for chat in chats} == {"en", "zh", "ja", "code"}
    assert {fact.kind for chat in chats for fact in chat.gold} == {"paraphrase", "name", "code", "temporal", "change"}
    assert sum(len(chat.traps) for chat in chats) >= 8


def test_recorded_answers_belong_to_the_corpus():
    assert json.loads(RECORDED.read_text("utf-8")) == record()


async def test_recorded_answers_are_remembered_once_and_nothing_else_is(store):
    search = EltmSearch(store.pool, store.spaces)
    model = RecordedModel()
    figures = await remember_corpus(load_corpus(), store, search, recorded_pipeline(store, search, model), model.prepare)
    assert figures.kept == figures.facts
    assert figures.dated == figures.with_date
    assert figures.sourced == figures.supported == figures.notes
    assert figures.traps == 0
    assert figures.dropped > 100
    assert figures.added_by_rerun == 0
    async with store.pool.connection() as conn:
        edges = await (await conn.execute("SELECT verb, valid FROM eltm_relationships")).fetchall()
    assert edges == [("works_at", False)]
    assert "Recorded answers" in render({"chats": 31, "facts": 65, "traps": 9}, {"recorded": figures}, {})


async def test_bundled_model_stores_nothing_that_was_not_said(store):
    search = EltmSearch(store.pool, store.spaces)
    figures = await remember_corpus(load_corpus(), store, search, bundled_pipeline(store, search))
    assert figures.verbatim == figures.sourced == figures.notes
    assert figures.traps == 0
    assert figures.added_by_rerun == 0
    assert figures.recall >= 0.85


async def test_gold_facts_are_found_by_name_and_code(store):
    search = EltmSearch(store.pool, store.spaces)
    figures = await measure(await insert_gold(load_corpus(), store), store, search)
    for kind in ("name", "code", "change"):
        assert figures["fused", kind].recall_at_5 >= 0.8
    # The fake embedder only knows words by their hash: what it finds must not push out what shares words with the question.
    assert figures["fused", "all"].recall_at_10 > figures["meaning", "all"].recall_at_10
