"""Logs: one line of JSON per event, ids bound, no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from brain.observability.logs import configure_logs


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs(level="info", form="json", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_an_event_is_one_line_with_time_level_and_bound_ids(output: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1", run_id="u1"):
        structlog.get_logger("brain.turns").info("turn.stored", messages=2)
    [event] = lines(output)
    assert event["event"] == "turn.stored"
    assert (event["request_id"], event["run_id"], event["messages"]) == ("r1", "u1", 2)
    assert (event["level"], event["logger"]) == ("info", "brain.turns")
    assert event["timestamp"].endswith("Z")


def test_the_standard_library_goes_the_same_way(output: io.StringIO) -> None:
    logging.getLogger("some.library").warning("cannot reach %s", "x")
    [event] = lines(output)
    assert (event["event"], event["level"]) == ("cannot reach x", "warning")


def test_secrets_are_replaced_at_any_depth(output: io.StringIO) -> None:
    structlog.get_logger("x").info(
        "call",
        headers={"Authorization": "Bearer hush", "x-daapu-token": "hush", "accept": "json"},
        provider=[{"apiKey": "hush", "api_key": "hush"}],
        password="hush",
        url="postgresql://me:hush@db/x",
        input_tokens=12,
    )
    text = output.getvalue()
    assert "hush" not in text
    [event] = lines(output)
    assert event["input_tokens"] == 12
    assert event["headers"]["accept"] == "json"
    assert event["url"] == "postgresql://me:[redacted]@db/x"


def test_an_exception_is_data_without_local_values(output: io.StringIO) -> None:
    secret_local = "hush-local"
    try:
        int(f"broken {len(secret_local)}")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    [event] = lines(output)
    assert event["exception"][0]["exc_value"].startswith("invalid literal")
    assert secret_local not in output.getvalue()


def test_unusual_values_do_not_break_the_log(output: io.StringIO) -> None:
    structlog.get_logger("x").info("odd", value=object(), raw=b"\xff")
    assert len(lines(output)) == 1


def test_debug_is_silent_by_default(output: io.StringIO) -> None:
    structlog.get_logger("x").debug("chatter")
    assert output.getvalue() == ""
