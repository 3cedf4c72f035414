"""The supervisor with small real programs as parts: order, restarts, last words, stop."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brain.local.children import ProgramChild
from brain.local.plan import UpError
from brain.supervisor import Supervisor
from tests.processes import is_alive, wait_until

SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(str(os.getpid()).encode())
    def log_message(self, *args): pass
print("listening soon", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(folder: Path, name: str, code: str = SERVER, port: int | None = None) -> tuple[ProgramChild, str]:
    port = port or free_port()
    url = f"http://127.0.0.1:{port}/"
    child = ProgramChild(
        name,
        [sys.executable, "-c", code, str(port)],
        env=dict(os.environ),
        ready_url=url,
        log_file=folder / f"{name}.log",
        orphan_signal=signal.SIGKILL,
        polite=signal.SIGTERM,
        patience_s=3,
    )
    return child, url


def pid_of(url: str) -> int:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return int(answer.read())


def answers(url: str) -> bool:
    try:
        pid_of(url)
    except OSError:
        return False
    return True


@contextmanager
def watched(supervisor: Supervisor) -> Iterator[list[BaseException]]:
    errors: list[BaseException] = []
    holding = threading.Event()

    def run() -> None:  # the children die with this thread, so it also starts them
        try:
            if supervisor.start():
                holding.set()
                supervisor.watch()
        except UpError as error:
            errors.append(error)
        finally:
            supervisor.stop()
            holding.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert holding.wait(20)
        yield errors
    finally:
        supervisor.request_stop()
        thread.join(20)
        assert not thread.is_alive()


def test_all_parts_run_and_all_end(tmp_path: Path) -> None:
    (first, one), (second, two) = program(tmp_path, "one"), program(tmp_path, "two")
    with watched(Supervisor([[first], [second]], messages=io.StringIO())) as errors:
        pids = [pid_of(one), pid_of(two)]
    assert errors == []
    assert not any(is_alive(pid) for pid in pids)


def test_a_killed_part_is_started_again(tmp_path: Path) -> None:
    child, url = program(tmp_path, "brain")
    messages = io.StringIO()
    with watched(Supervisor([[child]], messages=messages)):
        before = pid_of(url)
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: not is_alive(before))
        wait_until(lambda: answers(url), what="the restart")
        assert pid_of(url) != before
    assert "the brain was killed by signal 9; starting it again in 1 s" in messages.getvalue()


def test_a_part_that_ends_before_it_is_ready_ends_everything_with_its_last_line(tmp_path: Path) -> None:
    good, url = program(tmp_path, "hand")
    bad, _ = program(tmp_path, "brain", "import sys; print('reason: no database'); sys.exit(3)")
    messages = io.StringIO()
    with watched(Supervisor([[good], [bad]], messages=messages)) as errors:
        wait_until(lambda: len(errors) == 1)
        said = "the brain ended with exit code 3 during the start: reason: no database"
        assert str(errors[0]).startswith(f"{said} (more in ")
    assert not answers(url)
    assert "brain | reason: no database" in messages.getvalue()


def test_output_is_kept_in_a_file(tmp_path: Path) -> None:
    child, _ = program(tmp_path, "hand")
    with watched(Supervisor([[child]], messages=io.StringIO())):
        wait_until(lambda: "listening soon" in (tmp_path / "hand.log").read_text())


def test_a_part_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER
    child, url = program(tmp_path, "brain", stubborn)
    with watched(Supervisor([[child]], messages=io.StringIO())):
        pid = pid_of(url)
    assert not is_alive(pid)


def test_the_fourth_death_in_five_minutes_ends_everything(tmp_path: Path) -> None:
    dying = "import os, threading; threading.Timer(0.5, os._exit, [7]).start()\n" + SERVER
    good, url = program(tmp_path, "hand")
    child, _ = program(tmp_path, "brain", dying)
    messages = io.StringIO()
    with watched(Supervisor([[good], [child]], messages=messages, pauses_s=(0.01, 0.02, 0.03))) as errors:
        wait_until(lambda: len(errors) == 1, within_s=20)
        assert "the brain ended with exit code 7 and has died too often" in str(errors[0])
    assert messages.getvalue().count("starting it again") == 3
    assert not answers(url)
