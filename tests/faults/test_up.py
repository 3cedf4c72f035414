"""``daapu up`` under adverse conditions: taken ports, taken folders, killed parts, a killed supervisor."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.system import RunningSystem, free_port, running_system, start_system
from tests.processes import is_alive, wait_until

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


def refused(system: RunningSystem) -> str:
    """Return the last line of a start that is meant to fail, having made sure that it did."""
    code = system.end(within_s=60) if system.process.poll() is not None else system.process.wait(60)
    assert code == 1
    system.end()
    assert system.out == []
    return system.messages[-1].strip()


def lives(system: RunningSystem) -> bool:
    try:
        return system.request("GET", "/api/health/live")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("part", ["brain", "hand", "models", "database"])
def test_a_killed_part_comes_back(data_home: Path, part: str) -> None:
    with running_system(data_home) as system:
        before = system.parts()
        os.kill(before[part], signal.SIGKILL)
        wait_until(lambda: system.parts().get(part, before[part]) != before[part], within_s=30, what=f"another {part}")
        wait_until(lambda: lives(system), within_s=30, what="a live brain")
        assert system.process.poll() is None
        others = {name: pid for name, pid in before.items() if name != part}
        assert {name: pid for name, pid in system.parts().items() if name != part} == others


def test_exactly_one_address_is_printed_and_ctrl_c_ends_everything(data_home: Path) -> None:
    with running_system(data_home) as system:
        parts = system.parts()
        assert set(parts) == {"brain", "hand", "models", "database"}
        assert system.end(signal.SIGINT) == 0
        assert not any(is_alive(pid) for pid in parts.values())
        everything = "".join(system.out + system.messages)
        assert everything.count("http://") == 1
        assert system.messages[-1].strip() == "daapu: stopped; everything is kept"
        assert "local profile" in everything


def test_a_killed_supervisor_leaves_nothing_behind_and_the_next_start_works(data_home: Path) -> None:
    port = str(free_port())
    with running_system(data_home, environ={"SERVER__PORT": port}) as system:
        parts = system.parts()
        system.end(signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in parts.values()), within_s=20, what="the end of every part")
    with running_system(data_home, environ={"SERVER__PORT": port}) as system:
        assert lives(system)


def test_a_second_start_on_the_same_folder_is_refused(data_home: Path) -> None:
    with running_system(data_home) as system:
        last = refused(start_system(data_home))
        assert f"process {system.process.pid}" in last
        assert "DAAPU_HOME" in last
        assert lives(system)


def test_a_taken_port_is_named_with_the_setting(data_home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        last = refused(start_system(data_home, environ={"SERVER__PORT": port}))
    assert f"port {port}" in last
    assert "server.port" in last


def test_a_folder_that_cannot_be_written_is_named(data_home: Path) -> None:
    data_home.write_text("a file where the folder should be")
    last = refused(start_system(data_home))
    assert "cannot be written" in last


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"hand": {"maxRounds": "many"}, "titel": {}},
            ["hand.maxRounds: must be a whole number", "titel: unknown key", "2 mistakes"],
        ),
        ({"database": {"url": "postgresql://u:p@127.0.0.1:1/x"}}, ["does not answer", "database.url"]),
    ],
)
def test_a_configuration_that_cannot_work_ends_the_start_with_the_reason(
    data_home: Path, config: dict[str, Any], words: list[str]
) -> None:
    system = start_system(data_home, config=config)
    assert system.process.wait(90) == 1
    system.end()
    text = "".join(system.messages)
    assert [word for word in words if word not in text] == []
    assert "Traceback" not in text
