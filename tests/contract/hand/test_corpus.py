"""The shared dialect corpus against a started hand process: what gateways really send, and what must come out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
DIALECTS = FIXTURES / "dialects"
# Cases of our own, in the same form: the folder above must stay a copy.
FURTHER = FIXTURES / "further_dialects"
TOKEN = "corpus-token"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def hand_url() -> Generator[str]:
    port = free_port()
    environment = {**os.environ, "HAND_TOKEN": TOKEN, "HAND_PORT": str(port), "HAND_HOST": "127.0.0.1"}
    process = subprocess.Popen([sys.executable, "-m", "hand"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for_port(process, port)
        # The first run waits for the SDK to be loaded; on a busy machine that can outlast the idle timeout of the first cases.
        replay(f"http://127.0.0.1:{port}", "--only", "role-only-first-chunk")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        assert process.stderr is not None
        process.stderr.close()


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the hand did not start")


def replay(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DIALECTS / "replay.py"), "--check", url, "--token", TOKEN, *arguments]
    return subprocess.run([*command, str(DIALECTS), str(FURTHER)], capture_output=True, text=True, timeout=110, check=False)


def test_every_case_of_the_corpus_is_valid() -> None:
    command = [sys.executable, str(DIALECTS / "replay.py"), "--validate", str(DIALECTS), str(FURTHER)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("jobs", [8, 32])
def test_the_whole_corpus_passes(hand_url: str, jobs: int) -> None:
    result = replay(hand_url, "--jobs", str(jobs))
    assert result.returncode == 0, result.stdout + result.stderr
