"""Whatever happens to the parent, nothing it started is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brain.local.postgres import EmbeddedPostgres
from tests.processes import is_alive, wait_until

PARENT = """
import signal, subprocess, sys, time
from brain.local.processes import spawn
child = spawn([sys.executable, "-c", "import time; time.sleep(600)"], output=subprocess.DEVNULL, orphan_signal=signal.SIGTERM)
print(child.pid, flush=True)
time.sleep(600)
"""
DATABASE = """
import pathlib, sys, time
from brain.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(pathlib.Path(sys.argv[1]), settings={"fsync": "off"})
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def _child_of(code: str, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    parent = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_child_ends_with_its_parent(number: signal.Signals) -> None:
    parent, child = _child_of(PARENT)
    with parent:
        assert is_alive(child)
        parent.send_signal(number)
        parent.wait()
        wait_until(lambda: not is_alive(child), what="the end of the child")


def test_the_lifeline_ends_a_child_where_the_kernel_cannot() -> None:
    command = [
        sys.executable,
        "-m",
        "brain.local.lifeline",
        str(int(signal.SIGTERM)),
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
    ]
    lifeline = subprocess.Popen(command, stdin=subprocess.PIPE)
    with lifeline:
        assert lifeline.stdin is not None
        assert lifeline.poll() is None
        lifeline.stdin.close()
        assert lifeline.wait(5) != 0


def test_the_database_stops_when_its_owner_is_killed_and_starts_again_on_the_same_data(data_home: Path) -> None:
    import psycopg

    owner, server_pid = _child_of(DATABASE, str(data_home))
    with owner:
        with psycopg.connect(EmbeddedPostgres(data_home).url(), autocommit=True) as conn:
            conn.execute("CREATE TABLE kept (x int)")
        owner.kill()
        owner.wait()
        wait_until(lambda: not is_alive(server_pid), what="the end of the database")
    server = EmbeddedPostgres(data_home)
    server.start()
    try:
        with psycopg.connect(server.url()) as conn:
            assert conn.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        server.stop()
