"""Start the hand: ``HAND_TOKEN=... python -m hand``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from hand.settings import SettingsError, read_settings


def main() -> int:
    """Run the hand until it is told to stop; return the exit status."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as problem:
        print(f"[hand] {problem}", file=sys.stderr)
        return 2
    # Loaded only now: a refusal should not take the time of all libraries.
    from hand.app import serve

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(settings))
    except OSError as problem:
        print(f"[hand] cannot listen on {settings.host}:{settings.port}: {problem}", file=sys.stderr)
        return 1
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not made for Windows
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
