"""One supervised program: start, readiness, output, restart policy, stop."""

from __future__ import annotations

import collections
import threading
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Final, Protocol

from brain.local import processes
from brain.local.postgres import EmbeddedPostgres, PostgresFailedError

if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

RESTART_WINDOW_S: Final = 300.0
RESTART_PAUSES_S: Final = (1.0, 5.0, 15.0)
_LOG_LIMIT_BYTES: Final = 10 * 1024 * 1024
_TAIL_LINES: Final = 15


class Child(Protocol):
    """What the supervisor needs to know about a part."""

    name: str

    @property
    def log_file(self) -> Path:
        """Where its output is kept."""
        ...

    def start(self) -> None:
        """Start it; it may be ready later.

        Raises:
            OSError, PostgresFailedError: it did not even start.
        """

    def is_ready(self) -> bool:
        """Whether it answers."""
        ...

    def ended(self) -> str | None:
        """Return how it ended, ``None`` while it runs."""

    def stop(self) -> None:
        """End it; harmless when it has ended."""

    def last_words(self) -> list[str]:
        """Return the last lines it wrote."""
        ...


class RestartPolicy:
    """At most three restarts in five minutes, with growing pauses."""

    def __init__(self, clock: Callable[[], float], pauses_s: Sequence[float] = RESTART_PAUSES_S) -> None:
        self._clock = clock
        self._pauses_s = pauses_s
        self._deaths: collections.deque[float] = collections.deque()

    def pause_after_death(self) -> float | None:
        """Count a death; return the seconds to wait before the restart, ``None`` when there have been too many."""
        now = self._clock()
        while self._deaths and now - self._deaths[0] > RESTART_WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(now)
        return None if len(self._deaths) > len(self._pauses_s) else self._pauses_s[len(self._deaths) - 1]


class ProgramChild:
    """A Python program of ours that answers an HTTP address when it is ready."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        ready_url: str,
        log_file: Path,
        orphan_signal: signal.Signals,
        polite: signal.Signals,
        patience_s: float,
        echo: IO[str] | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._env = env
        self._ready_url = ready_url
        self._log_file = log_file
        self._orphan_signal = orphan_signal
        self._polite = polite
        self._patience_s = patience_s
        self._echo = echo
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)

    @property
    def log_file(self) -> Path:
        """Where its output is kept."""
        return self._log_file

    def start(self) -> None:
        """Start the program and a thread that keeps its output."""
        if self._log_file.exists() and self._log_file.stat().st_size > _LOG_LIMIT_BYTES:
            self._log_file.replace(self._log_file.with_suffix(".log.1"))
        self._tail.clear()
        self._process = processes.spawn(self._command, output=-1, orphan_signal=self._orphan_signal, env=self._env)
        self._reader = threading.Thread(
            target=self._keep_output, args=(self._process.stdout,), name=f"{self.name}-output", daemon=True
        )
        self._reader.start()

    def is_ready(self) -> bool:
        """Whether the address answers; an error status is an answer too."""
        try:
            # An opener without proxies: the address is on loopback.
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self._ready_url, timeout=2).close()
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            return False
        return self.ended() is None

    def ended(self) -> str | None:
        """Return how it ended."""
        code = None if self._process is None else self._process.poll()
        return None if code is None else _how(code)

    def stop(self) -> None:
        """Ask politely, then kill."""
        if self._process is not None:
            processes.stop(self._process, polite=self._polite, patience_s=self._patience_s)
        if self._reader is not None:
            self._reader.join(timeout=2)

    def last_words(self) -> list[str]:
        """Return the last lines it wrote."""
        if self._reader is not None and self.ended():
            self._reader.join(timeout=2)
        return list(self._tail)

    def _keep_output(self, stream: IO[bytes]) -> None:
        with stream, self._log_file.open("ab") as log:
            for line in stream:
                try:
                    log.write(line)
                    log.flush()
                except OSError:  # a full disk must not stop the program by a full pipe
                    self._tail.append("(the log cannot be written)")
                text = line.decode(errors="replace").rstrip()
                self._tail.append(text)
                if self._echo is not None:
                    print(f"{self.name:>8} | {text}", file=self._echo, flush=True)


class PostgresChild:
    """The embedded database as a supervised part; it is ready as soon as it has started."""

    name = "database"

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server

    @property
    def log_file(self) -> Path:
        """Where its output is kept."""
        return self._server.log_file

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        self._server.start()

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self.ended() is None

    def ended(self) -> str | None:
        """Return how it ended."""
        code = self._server.poll()
        return None if code is None else _how(code)

    def stop(self) -> None:
        """Shut it down in order."""
        self._server.stop()

    def last_words(self) -> list[str]:
        """Return the end of its log."""
        try:
            return self._server.log_file.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            return []


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


START_FAILURES: Final = (OSError, PostgresFailedError)
