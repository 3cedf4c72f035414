"""``daapu serve-local``: an ordinary OpenAI-compatible server around the bundled models."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.system import free_port
from tests.processes import wait_until

pytestmark = [pytest.mark.real_model, pytest.mark.slow]
CHAT = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "brain", "serve-local", "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        root = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            try:
                return call(f"{root}/health")[0] == 200
            except OSError:
                return process.poll() is not None

        try:
            wait_until(ready, within_s=60, what="the start of the models")
            yield f"{root}/v1"
        finally:
            process.terminate()
            assert process.wait(20) == 0


def call(url: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def ask(text: str, **extra: Any) -> dict[str, Any]:
    return {"model": CHAT, "messages": [{"role": "user", "content": text}], "max_tokens": 40, **extra}


def test_the_list_names_both_models_and_the_window(address: str) -> None:
    _, listed = call(f"{address}/models")
    assert {model["id"] for model in listed["data"]} == {CHAT, "multilingual-e5-small"}
    assert listed["data"][0]["meta"]["n_ctx"] == 8192


def test_an_answer_streams_and_ends_with_usage(address: str) -> None:
    _, text = call(f"{address}/chat/completions", ask("Say hello.", stream=True, stream_options={"include_usage": True}))
    frames = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")]
    assert text.rstrip().endswith("data: [DONE]")
    assert sum(bool(frame["choices"] and frame["choices"][0]["delta"].get("content")) for frame in frames) > 1
    assert frames[-1]["usage"]["completion_tokens"] >= 1


def test_an_answer_keeps_a_json_schema(address: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    _, answer = call(f"{address}/chat/completions", ask("The capital of France?", response_format=form))
    assert set(json.loads(answer["choices"][0]["message"]["content"])) == {"city"}


def test_two_windows_are_served_each_of_full_size(address: str) -> None:
    status, answer = call(f"{address}/chat/completions", ask("word " * 9000))
    assert (status, answer["error"]["type"], answer["error"]["n_ctx"]) == (400, "exceed_context_size_error", 8192)


def test_questions_find_their_passage_across_languages(address: str) -> None:
    def vectors(texts: list[str], kind: str) -> list[list[float]]:
        _, answer = call(f"{address}/embeddings", {"model": "multilingual-e5-small", "input": texts, "input_type": kind})
        return [entry["embedding"] for entry in answer["data"]]

    [question] = vectors(["When is my sister's birthday?"], "query")
    right, wrong = vectors(["妹の誕生日は五月三日です。", "The printer is out of toner."], "passage")
    assert len(question) == 384
    assert _dot(question, question) == pytest.approx(1, abs=1e-3)
    assert _dot(question, right) > _dot(question, wrong)
    assert vectors(["same words"], "query") != vectors(["same words"], "passage")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("chat/completions", {"model": "gpt-9", "messages": []}, 404),
        ("chat/completions", b"{broken", 400),
        ("embeddings", {"input": []}, 400),
        ("embeddings", {"input": ["x"], "dimensions": 7}, 400),
        ("embeddings", {"model": "x"}, 400),
    ],
)
def test_a_wrong_request_is_refused_with_an_error_body(address: str, path: str, body: Any, status: int) -> None:
    found, answer = call(f"{address}/{path}", body)
    assert found == status
    assert answer["error"]["message"]


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
