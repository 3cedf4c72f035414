"""Looking at processes from outside: which live, and waiting until they are gone."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def descendants(pid: int) -> dict[str, int]:
    """Return command line and pid of every process below one."""
    found: dict[str, int] = {}
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found[" ".join(process.cmdline())] = process.pid
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until(condition: Callable[[], bool], *, within_s: float = 5.0, what: str = "the condition") -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s} s")
        time.sleep(0.02)
