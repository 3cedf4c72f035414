"""Sending a message to a running system and reading the events of its answer."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.e2e.system import RunningSystem

Event = tuple[str, Any]


def new_chat(system: RunningSystem) -> str:
    """Create a chat, return its id."""
    status, answer = system.request("POST", "/api/chats", {})
    assert status in {200, 201}, answer
    return str(answer["id"])


def model_of(system: RunningSystem) -> str:
    """Return the id of the first chat model."""
    _, models = system.request("GET", "/api/models")
    return str(models[0]["id"])


def send(
    system: RunningSystem, chat: str, text: str, *, on_event: Callable[[Event], None] | None = None, **extra: Any
) -> list[Event]:
    """Send a message with the first model and the default persona, return every event up to the end of the stream."""
    body = {"text": text, "model": model_of(system), "personaId": 0, **extra}
    request = urllib.request.Request(
        f"{system.url}/api/chats/{chat}/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "accept": "text/event-stream"},
    )
    events: list[Event] = []
    with urllib.request.urlopen(request, timeout=120) as answer:
        name = ""
        for raw in answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                payload = line.removeprefix("data: ")
                events.append((name, json.loads(payload) if name != "comment" else payload))
                if on_event is not None:
                    on_event(events[-1])
    return events


def history(system: RunningSystem, chat: str) -> list[dict[str, Any]]:
    """Return the stored messages of a chat."""
    status, messages = system.request("GET", f"/api/chats/{chat}/chat")
    assert status == 200, messages
    return list(messages)


def streamed_text(events: list[Event]) -> str:
    """Return the answer as it was streamed."""
    return "".join(data["delta"] for name, data in events if name == "text")
