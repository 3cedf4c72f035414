"""Runs a command and signals it when standard input ends: what the kernel does on Linux, for other systems."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def main(arguments: list[str]) -> int:
    """Run ``arguments[1:]``; send it the signal ``arguments[0]`` at the end of input, pass other signals on, return its code."""
    orphan_signal = signal.Signals(int(arguments[0]))
    child = subprocess.Popen(arguments[1:], stdin=subprocess.DEVNULL)  # noqa: S603 - the command is the parent's

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, pass_on)

    def watch() -> None:
        while os.read(0, 1):
            pass
        child.send_signal(orphan_signal)

    threading.Thread(target=watch, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
