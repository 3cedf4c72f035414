"""The ladder: which rungs, which failures, the retry without thinking, what is saved of a cut answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from brain.errors import HandRunError, HandUnavailableError, StageError
from brain.runs.ladder import AnswerForm, Ladder, LadderError, ask_text, rungs_for
from brain.runs.model_json import find_json, looks_like_json, salvage_objects, strip_fences, strip_thinking
from tests.fakes.scripted_model import chat_model

STRUCTURED = chat_model("structured_output")
PLAIN = chat_model()


def read_numbers(value: object) -> list[int]:
    if not isinstance(value, dict) or "numbers" not in value:
        raise ValueError("no numbers")
    if not all("n" in item for item in value["numbers"]):
        raise ValueError("an item without n")
    return [item["n"] for item in value["numbers"]]


def read_lines(text: str) -> list[int]:
    found = [int(line) for line in text.split() if line.isdigit()]
    if not found:
        raise ValueError("no line with a number")
    return found


FORM: AnswerForm[list[int]] = AnswerForm(
    name="numbers",
    schema=Raw(b"{}"),
    list_key="numbers",
    describe_json="Answer in JSON.",
    describe_text="Answer in lines.",
    read_json=read_numbers,
    read_text=read_lines,
)


class Model:
    """Gives answers in order and remembers what it was asked."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict] = []

    async def text(self, **kwargs) -> str:
        self.asked.append(kwargs)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def failed(kind: str) -> StageError:
    problem = StageError("numbers", "the model call failed")
    problem.__cause__ = HandRunError(kind, "because")
    return problem


async def ask(model: Model, *, by=STRUCTURED):
    return await Ladder(model).ask(FORM, stage="numbers", model=by, system_prompt="List.", messages=())


async def test_first_rung_is_enough_when_it_works():
    model = Model('{"numbers": [{"n": 1}]}')
    answer = await ask(model)
    assert (answer.value, answer.rung, answer.failures, answer.salvaged) == ([1], "schema", (), False)
    assert model.asked[0]["response_format"].name == "numbers"
    assert model.asked[0]["system_prompt"] == "List.\n\nAnswer in JSON."


async def test_each_rung_is_tried_in_turn_and_remembered():
    model = Model("no idea", failed("invalid_request"), "1\n2")
    answer = await ask(model)
    assert (answer.value, answer.rung) == ([1, 2], "text")
    assert [failure.rung for failure in answer.failures] == ["schema", "object"]
    assert model.asked[2]["response_format"] is None
    assert model.asked[2]["system_prompt"].endswith("Answer in lines.")


async def test_failure_names_every_rung_and_its_reason():
    with pytest.raises(LadderError) as caught:
        await ask(Model("?", '{"other": 1}', "none"))
    assert (
        str(caught.value)
        == "numbers failed: schema: no complete JSON in the answer; object: no numbers; text: no line with a number"
    )


async def test_model_without_the_capability_is_asked_for_text_only():
    assert rungs_for(PLAIN) == ("text",)
    model = Model("7")
    assert (await ask(model, by=PLAIN)).value == [7]
    assert model.asked[0]["response_format"] is None


@pytest.mark.parametrize("problem", [failed("upstream"), failed("auth"), failed("tool_transport")])
async def test_outage_ends_the_ladder(problem):
    model = Model(problem)
    with pytest.raises(StageError) as caught:
        await ask(model)
    assert caught.value is problem


async def test_lost_hand_ends_the_ladder():
    problem = StageError("numbers", "x")
    problem.__cause__ = HandUnavailableError("gone")
    with pytest.raises(StageError):
        await ask(Model(problem))


async def test_whole_answer_of_a_lower_rung_beats_a_cut_one():
    answer = await ask(Model('{"numbers": [{"n": 1}, {"n"', '{"numbers": [{"n": 1}, {"n": 2}]}'))
    assert (answer.value, answer.rung, answer.salvaged) == ([1, 2], "object", False)


async def test_complete_items_of_a_cut_answer_are_saved_when_nothing_better_comes():
    answer = await ask(Model('{"numbers": [{"n": 1}, {"n"', "?", "?"))
    assert (answer.value, answer.rung, answer.salvaged) == ([1], "schema", True)
    assert len(answer.failures) == 3


async def test_json_is_taken_on_the_text_rung_too():
    assert (await ask(Model('```json\n{"numbers": [{"n": 3}]}\n```'), by=PLAIN)).value == [3]


async def test_brackets_in_a_sentence_are_not_the_answer():
    assert (await ask(Model("see [1] and {}\n42"), by=PLAIN)).value == [42]


async def test_thinking_is_taken_off():
    assert await ask_text(Model("<think>hm</think> yes"), stage="s", model=PLAIN, system_prompt="p", messages=()) == "yes"


@pytest.mark.parametrize("first", ["<think>only thoughts</think>", failed("empty_response")])
async def test_model_that_only_thought_is_asked_once_more_without_thinking(first):
    model = Model(first, "yes")
    thinker = chat_model("reasoning:high")
    assert await ask_text(model, stage="s", model=thinker, system_prompt="p", messages=()) == "yes"
    assert model.asked[1]["model"].reasoning_effort is None
    assert b"enable_thinking" in bytes(model.asked[1]["model_overrides"]["chat_template_kwargs"])


async def test_gateway_that_refuses_the_override_leaves_the_first_failure():
    first = failed("empty_response")
    with pytest.raises(StageError) as caught:
        await ask_text(Model(first, failed("invalid_request")), stage="s", model=PLAIN, system_prompt="p", messages=())
    assert caught.value is first


async def test_cut_answer_of_a_model_that_does_not_think_is_not_asked_again():
    model = Model(failed("output_budget_exhausted"))
    with pytest.raises(StageError):
        await ask_text(model, stage="s", model=PLAIN, system_prompt="p", messages=())
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1} and {"b": 2}', [{"a": 1}, {"b": 2}]),
        ('x ```json\n{"a": 1}\n``` {"b": 2}', [{"b": 2}, {"a": 1}]),
        ('```\n{"a": 1}\n```\n{"b": 2}', [{"a": 1}]),
        ('{"a": {"b": [1]}}', [{"a": {"b": [1]}}]),
        ("no json", []),
        ('{"a": NaN}', [{"a": float("nan")}]),
    ],
)
def test_json_in_answers(text, found):
    assert repr(sorted(find_json(text), key=repr)) == repr(sorted(found, key=repr))


@given(st.text(max_size=400))
def test_no_text_breaks_the_reading(text):
    find_json(text)
    salvage_objects(text)
    strip_fences(strip_thinking(text))
    looks_like_json(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_any_object_is_found_between_sentences(value):
    import json

    assert (
        {"value": value} in find_json(f"Here it is: {json.dumps({'value': value})} - done.")
        or "```" in json.dumps(value)
        or "~~~" in json.dumps(value)
    )
