"""Where the hand listens and whom it lets in, read from the environment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared_protocol.sse import HEARTBEAT_SECONDS

DEFAULT_PORT = 3100
DEFAULT_HOST = "127.0.0.1"
DEFAULT_DRAIN_SECONDS = 20.0


class SettingsError(Exception):
    """A variable is missing or unusable; the message names it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Environment of one hand; see the table in ``hand/README.md``."""

    token: str
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    metrics_public: bool = False
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """Not a variable: tests shorten it."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the ``HAND_*`` variables; a blank one counts as missing.

    Raises:
        SettingsError: ``HAND_TOKEN`` is missing or another variable has no usable value.
    """

    def text(name: str, default: str) -> str:
        return environment.get(name, "").strip() or default

    token = text("HAND_TOKEN", "")
    if not token:
        raise SettingsError("HAND_TOKEN is not set: the hand does not start without the token that its brain presents")
    return Settings(
        token=token,
        host=text("HAND_HOST", DEFAULT_HOST),
        port=_port(text("HAND_PORT", str(DEFAULT_PORT))),
        metrics_public=text("HAND_METRICS_PUBLIC", "0") == "1",
        drain_seconds=_seconds(text("HAND_DRAIN_SECONDS", str(DEFAULT_DRAIN_SECONDS))),
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise SettingsError(f"HAND_PORT must be a port number from 0 to 65535, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as problem:
        raise SettingsError(f"HAND_DRAIN_SECONDS must be a number of seconds, not {text!r}") from problem
    if not 0 <= seconds < 86_400:
        raise SettingsError(f"HAND_DRAIN_SECONDS must lie between 0 and 86400, not {text!r}")
    return seconds
