"""From nothing to a remembered conversation: the real model, all processes, and a restart after the worst end."""

from __future__ import annotations

import http.client
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.conversation import Event, history, new_chat, send, streamed_text
from tests.e2e.system import RunningSystem, running_system
from tests.processes import is_alive, wait_until

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


def test_a_conversation_survives_a_killed_supervisor(data_home: Path) -> None:
    with running_system(data_home) as system:
        chat = new_chat(system)
        events = send(system, chat, "Say hello.")
        assert events[0] == ("comment", "connected")
        assert events[-1][0] == "done", events[-1]
        answer = streamed_text(events)
        assert answer.strip()
        stored = history(system, chat)
        assert [message["role"] for message in stored] == ["user", "assistant"]
        assert answer in "".join(str(part.get("text", "")) for part in stored[1]["parts"])
        parts = system.parts()
        system.end(signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in parts.values()), within_s=20, what="the end of every part")
    with running_system(data_home) as system:
        assert history(system, chat) == stored
        assert send(system, chat, "And goodbye.")[-1][0] == "done"
        assert len(history(system, chat)) == 4


@pytest.mark.parametrize("part", ["hand", "models"])
def test_a_part_killed_in_mid_answer_ends_it_with_an_error_and_stores_nothing(data_home: Path, part: str) -> None:
    with running_system(data_home, environ={"HAND__MAX_RETRIES": "1"}) as system:
        chat = new_chat(system)
        victim = system.parts()[part]

        def kill(event: Event) -> None:
            if event[0] == "text" and is_alive(victim):
                os.kill(victim, signal.SIGKILL)

        events = send(system, chat, "Write a long story about the sea, a ship and a storm.", on_event=kill)
        assert events[-1][0] == "error", events[-1]
        assert set(events[-1][1]) == {"message", "type"}
        assert history(system, chat) == []
        wait_until(lambda: system.parts().get(part, victim) != victim, within_s=20, what=f"another {part}")
        wait_until(lambda: send(system, chat, "Are you back?")[-1][0] == "done", within_s=60, what="an answer")


def test_a_brain_killed_in_mid_answer_leaves_the_last_good_state(data_home: Path) -> None:
    with running_system(data_home) as system:
        chat = new_chat(system)
        send(system, chat, "Say hello.")
        before = history(system, chat)
        victim = system.parts()["brain"]

        def kill(event: Event) -> None:
            if event[0] == "text" and is_alive(victim):
                os.kill(victim, signal.SIGKILL)

        seen: list[Event] = []

        def watch(event: Event) -> None:
            seen.append(event)
            kill(event)

        with suppress(OSError, http.client.HTTPException):  # the connection breaks in one of several ways
            send(system, chat, "Write a long story about the sea.", on_event=watch)
        assert "text" in [name for name, _ in seen]
        assert seen[-1][0] not in {"done", "error"}
        wait_until(lambda: system.parts().get("brain", victim) != victim, within_s=20, what="another brain")
        wait_until(lambda: _answers(system), within_s=30, what="a live brain")
        assert history(system, chat) == before
        wait_until(lambda: send(system, chat, "Go on.")[-1][0] == "done", within_s=60, what="an answer")


def _answers(system: RunningSystem) -> bool:
    try:
        return system.request("GET", "/api/health/ready")[0] == 200
    except OSError:
        return False
