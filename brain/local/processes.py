"""Child processes that never outlive their parent, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_PR_SET_PDEATHSIG: Final = 1


def spawn(
    command: Sequence[str | Path],
    *,
    output: IO[bytes] | int,
    orphan_signal: signal.Signals,
    env: Mapping[str, str] | None = None,
    account: tuple[str, int] | None = None,
    cwd: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that gets ``orphan_signal`` when this process ends, even by ``kill -9``.

    On Linux the kernel sends it, when the *thread* that called this function ends; elsewhere a small companion process waits
    for the end of a pipe. The child has a session of its own: Ctrl-C reaches the parent only, which stops its parts in order.
    ``account`` is the user name and group id to run as.
    """
    on_linux = sys.platform == "linux"
    words = [os.fspath(word) for word in command]
    if not on_linux:
        words = [sys.executable, "-m", "brain.local.lifeline", str(int(orphan_signal)), *words]
    return subprocess.Popen(  # noqa: S603 - our own programs with our own arguments
        words,
        env=None if env is None else dict(env),
        user=None if account is None else account[0],
        group=None if account is None else account[1],
        extra_groups=None if account is None else [],
        stdin=subprocess.DEVNULL if on_linux else subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=_die_with_parent(orphan_signal) if on_linux else None,  # noqa: PLW1509 - two system calls, no lock, no allocation
    )


def _die_with_parent(orphan_signal: signal.Signals) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()
    number = int(orphan_signal)

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it ended between the fork and the request
            os._exit(1)

    return ask_kernel


def stop(process: subprocess.Popen[bytes], *, polite: signal.Signals, patience_s: float) -> None:
    """Ask a child to end, wait, and kill it if it does not; harmless when it has ended already."""
    if process.poll() is not None:
        return
    process.send_signal(polite)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
