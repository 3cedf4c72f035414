"""``daapu up``: database, local models, hand and brain as children; all of them run, or none is left."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Final

from brain.config.environment import without_overrides
from brain.local import data_folder
from brain.local.children import RESTART_PAUSES_S, START_FAILURES, Child, RestartPolicy
from brain.local.plan import UpError, address, announcement, make_plan, parts_of, refuse_taken_ports

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

READY_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.05


class Supervisor:
    """Starts the parts in order, watches them, restarts what dies, stops all."""

    def __init__(
        self, parts: Sequence[Sequence[Child]], *, messages: IO[str], pauses_s: Sequence[float] = RESTART_PAUSES_S
    ) -> None:
        """``parts`` are groups: a group is started when the one before is ready, and stopped before it."""
        self._groups = parts
        self._messages = messages
        self._stopping = threading.Event()
        self._policies = {child.name: RestartPolicy(time.monotonic, pauses_s) for group in parts for child in group}
        self._restart_at: dict[str, float] = {}

    def request_stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """End ``run`` soon; a signal handler."""
        self._stopping.set()

    def start(self) -> bool:
        """Start everything; false when a stop was asked for meanwhile.

        Raises:
            UpError: a part ended before it was ready, or never became ready.
        """
        for group in self._groups:
            for child in group:
                self._say(f"starting the {child.name} ...")
                self._launch(child)
            for child in group:
                if not self._wait_ready(child):
                    return False
        return True

    def watch(self) -> None:
        """Keep the parts running until a stop is asked for.

        Raises:
            UpError: a part died too often.
        """
        children = [child for group in self._groups for child in group]
        while not self._stopping.wait(_POLL_S):
            for child in children:
                if child.name in self._restart_at:
                    if time.monotonic() >= self._restart_at[child.name]:
                        del self._restart_at[child.name]
                        self._restart(child)
                elif ended := child.ended():
                    self._schedule_restart(child, ended)

    def stop(self) -> None:
        """Stop everything, the last started first; each part is stopped even if another resists."""
        with ExitStack() as stack:
            for group in self._groups:
                for child in group:
                    stack.callback(child.stop)

    def _launch(self, child: Child) -> None:
        try:
            child.start()
        except START_FAILURES as error:
            raise UpError(f"the {child.name} could not be started: {error}") from error

    def _wait_ready(self, child: Child) -> bool:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._stopping.is_set():
            if ended := child.ended():
                self._show_last_words(child)
                raise UpError(f"the {child.name} {ended} during the start{_reason(child)}")
            if child.is_ready():
                return True
            if time.monotonic() > deadline:
                self._show_last_words(child)
                raise UpError(f"the start of the {child.name} took longer than {READY_TIMEOUT_S:.0f} s{_reason(child)}")
            self._stopping.wait(_POLL_S)
        return False

    def _schedule_restart(self, child: Child, ended: str) -> None:
        pause = self._policies[child.name].pause_after_death()
        if pause is None:
            self._show_last_words(child)
            raise UpError(f"the {child.name} {ended} and has died too often{_reason(child)}")
        self._say(f"the {child.name} {ended}; starting it again in {pause:.0f} s")
        self._restart_at[child.name] = time.monotonic() + pause

    def _restart(self, child: Child) -> None:
        try:
            child.start()
        except START_FAILURES as error:
            self._schedule_restart(child, f"could not be started ({error})")

    def _show_last_words(self, child: Child) -> None:
        for line in child.last_words():
            print(f"{child.name:>8} | {line}", file=self._messages, flush=True)

    def _say(self, text: str) -> None:
        print(f"daapu: {text}", file=self._messages, flush=True)


def up(config_file: Path, environ: Mapping[str, str], *, verbose: bool, out: IO[str], messages: IO[str]) -> None:
    """Run the whole system until SIGINT, SIGTERM or SIGHUP.

    Raises:
        ConfigError, DataFolderError, UpError: it could not start, or could not go on; nothing is left running.
    """
    folder = data_folder.data_folder(environ)
    data_folder.prepare(folder)
    with data_folder.hold(folder):
        plan = make_plan(config_file, environ)
        refuse_taken_ports(plan.config)
        for line in announcement(plan, folder):
            print(f"daapu: {line}", file=messages, flush=True)
        groups = parts_of(plan, folder, without_overrides(environ), echo=messages if verbose else None)
        supervisor = Supervisor(groups, messages=messages)
        with _signals_end(supervisor):
            try:
                if supervisor.start():
                    print(f"daapu is ready: open {address(plan.config)}", file=out, flush=True)
                    supervisor.watch()
            finally:
                supervisor.stop()
            print("daapu: stopped; everything is kept", file=messages, flush=True)


@contextmanager
def _signals_end(supervisor: Supervisor) -> Generator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, supervisor.request_stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reason(child: Child) -> str:
    """Return what a part said last, and where the rest of it is."""
    words = [line for line in child.last_words() if line.strip()]
    said = f": {words[-1]}" if words else ""
    return f"{said} (more in {child.log_file})"
