"""A whole daapu on free ports with a data folder of its own, started as a person starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import descendants, is_alive, wait_until

READY_WITHIN_S = 60.0
_READY = re.compile(r"daapu is ready: open (http://\S+)")
_OVERRIDE = re.compile(r"^[A-Z]+__")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RunningSystem:
    """One ``daapu up``, with everything it printed."""

    def __init__(self, home: Path, process: subprocess.Popen[str]) -> None:
        self.home = home
        self.process = process
        self.url = ""
        self.out: list[str] = []
        self.messages: list[str] = []
        self._readers = [
            threading.Thread(target=_collect, args=(process.stdout, self.out), daemon=True),
            threading.Thread(target=_collect, args=(process.stderr, self.messages), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def wait_ready(self) -> None:
        """Wait for the address; fail with what was printed if the system ends before."""

        def ready_or_ended() -> bool:
            return bool(_READY.search("".join(self.out))) or self.process.poll() is not None

        try:
            wait_until(ready_or_ended, within_s=READY_WITHIN_S, what="the start of the system")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{''.join(self.messages)}\n{self.logs()}") from error
        found = _READY.search("".join(self.out))
        if found is None:
            raise AssertionError(f"daapu up ended with {self.process.returncode}:\n{''.join(self.messages)}\n{self.logs()}")
        self.url = found.group(1)

    def parts(self) -> dict[str, int]:
        """Return the pid of each part that runs: ``brain``, ``hand``, ``models``, ``database``."""
        words = {"brain": " serve --config ", "hand": "-m hand", "models": " serve-local ", "database": "bin/postgres -D "}
        running = descendants(self.process.pid)
        return {name: pid for name, word in words.items() for command, pid in running.items() if word in command}

    def end(self, number: signal.Signals = signal.SIGTERM, *, within_s: float = 40.0) -> int:
        """Send a signal, wait for the end, return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(within_s)
        for reader in self._readers:
            reader.join(5)
        return code

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Send one request, return status and the decoded answer (text when it is not JSON)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"content-type": "application/json", **(headers or {})}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _decoded(error.read())

    def logs(self) -> str:
        """Return the end of each log."""
        found = [*(self.home / "logs").glob("*.log"), self.home / "postgres" / "server.log"]
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found if path.exists())


def start_system(home: Path, *, environ: Mapping[str, str] | None = None, config: dict[str, Any] | None = None) -> RunningSystem:
    """Start ``daapu up`` on a data folder; the port is free unless ``environ`` names one."""
    folder = home.parent / f"{home.name}-work"
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.jsonc").write_text(json.dumps(config))
    inherited = {name: value for name, value in os.environ.items() if not _OVERRIDE.match(name)}
    settings = {"SERVER__PORT": str(free_port()), **(environ or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "brain", "up"],
        cwd=folder,
        env={**inherited, "DAAPU_HOME": str(home), **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return RunningSystem(home, process)


@contextmanager
def running_system(
    home: Path, *, environ: Mapping[str, str] | None = None, config: dict[str, Any] | None = None
) -> Iterator[RunningSystem]:
    """Yield a ready system; afterwards it has ended, and nothing of it is left."""
    system = start_system(home, environ=environ, config=config)
    parts: dict[str, int] = {}
    try:
        system.wait_ready()
        parts = system.parts()
        yield system
        if system.process.poll() is None:
            parts |= system.parts()
    finally:
        system.end()
        wait_until(lambda: not any(is_alive(pid) for pid in parts.values()), within_s=30, what="the end of every part")


def _collect(stream: Any, lines: list[str]) -> None:
    with stream:
        lines.extend(stream)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
