"""What ``daapu up`` is going to start: the effective configuration, the ports, and the parts in their order."""

from __future__ import annotations

import secrets
import signal
import socket
import sys
import time
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from brain.config.environment import apply_environment
from brain.config.load import check, read_file
from brain.local.children import Child, PostgresChild, ProgramChild
from brain.local.postgres import EmbeddedPostgres
from brain.local.profile import complete, needs_local_models

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from brain.config.models import Config
    from brain.config.schema import JsonObject

PORT_PATIENCE_S: Final = 5.0
"""A brain that lost its supervisor a moment ago may still be letting go of the port."""
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HAND_PORT: Final = 3100
_DATABASE_SETTINGS: Final = {
    "maintenance_work_mem": "256MB",  # the graph of 100,000 vectors fits: its index is built in one pass
    "max_parallel_maintenance_workers": "0",  # workers share memory in /dev/shm, of which a container has 64 MB
}


class UpError(Exception):
    """``daapu up`` cannot start or go on; the message is the last line that the person sees."""


class Plan(NamedTuple):
    """What is going to be started."""

    config: Config
    local_profile: bool
    local_models: bool
    models_port: int


def make_plan(config_file: Path, environ: Mapping[str, str]) -> Plan:
    """Read the configuration, filled in by the local profile where it says nothing.

    Raises:
        ConfigError: listing every mistake.
    """
    data: JsonObject = read_file(config_file) if config_file.exists() else {}
    local_profile = not config_file.exists()
    apply_environment(data, environ)  # its mistakes are reported by the check below, which applies it again
    local_models = needs_local_models(data)
    models_port = _free_port()
    full = complete(data, token=secrets.token_urlsafe(24), hand_port=_free_port(_HAND_PORT), models_port=models_port)
    config = check(full, environ, source="the local profile" if local_profile else str(config_file))
    return Plan(config, local_profile, local_models, models_port)


def parts_of(plan: Plan, folder: Path, environ: Mapping[str, str], *, echo: IO[str] | None) -> list[list[Child]]:
    """Return the parts in the groups in which they are started, and write the configuration that they run with."""
    config = plan.config
    groups: list[list[Child]] = [[], []]
    env = {"DAAPU_LOG_FORMAT": "json" if echo is None else "console", **environ, "PYTHONUNBUFFERED": "1"}

    def program(name: str, arguments: list[str], url: str, extra: Mapping[str, str], orphan: signal.Signals) -> ProgramChild:
        return ProgramChild(
            name,
            [sys.executable, "-m", *arguments],
            env={**env, **extra},
            ready_url=url,
            log_file=folder / "logs" / f"{name}.log",
            orphan_signal=orphan,
            polite=signal.SIGTERM,
            patience_s=10,
            echo=echo,
        )

    if plan.local_models:
        port = str(plan.models_port)
        arguments = ["brain", "serve-local", "--port", port]
        groups[0].append(program("models", arguments, f"http://127.0.0.1:{port}/health", {}, signal.SIGKILL))
    if (hand := urlsplit(config.hand.base_url)).hostname in LOOPBACK:
        hand_env = {"HAND_PORT": str(hand.port or 80), "HAND_HOST": str(hand.hostname), "HAND_TOKEN": config.hand.token}
        groups[0].append(program("hand", ["hand"], f"{config.hand.base_url}/v1/health", hand_env, signal.SIGTERM))
    if config.database.url == "embedded":
        server = EmbeddedPostgres(folder / "postgres", settings=_DATABASE_SETTINGS)
        # Last of its group: starting it blocks, and the programs before it load meanwhile.
        groups[0].append(PostgresChild(server))
        config = msgspec.structs.replace(config, database=msgspec.structs.replace(config.database, url=server.url("postgres")))
    effective = _write_effective(config, folder)
    live = f"{address(config)}/api/health/live"
    arguments = ["brain", "serve", "--config", str(effective)]
    groups[1].append(program("brain", arguments, live, {}, signal.SIGTERM))
    return groups


def _write_effective(config: Config, folder: Path) -> Path:
    """Write what the children run with; it holds secrets, so only its owner may read it."""
    path = folder / "run" / "config.json"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config)))
    return path


def announcement(plan: Plan, folder: Path) -> list[str]:
    """Return what a person should know before the address appears."""
    lines = [f"data folder {folder}"]
    if plan.local_profile:
        lines.append("no config.jsonc here: using the local profile (embedded database, bundled models)")
    if plan.local_models:
        lines.append("the bundled chat model is a small demo; docs/how-to/connect-a-model.md says how to use your own")
    return lines


def address(config: Config) -> str:
    """Return the address to open in a browser on this machine."""
    host = "127.0.0.1" if config.server.host in {"0.0.0.0", "::"} else config.server.host  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{config.server.port}"


def refuse_taken_ports(config: Config) -> None:
    """Make sure that the ports which are fixed by the configuration can be used.

    Raises:
        UpError: one cannot; the message names the setting.
    """
    hand = urlsplit(config.hand.base_url)
    wanted = [(config.server.host, config.server.port, f"server.port in config.jsonc or SERVER__PORT={config.server.port + 1}")]
    if hand.hostname in LOOPBACK:
        wanted.append((str(hand.hostname), hand.port or 80, "the port in hand.baseUrl"))
    for host, port, setting in wanted:
        deadline = time.monotonic() + PORT_PATIENCE_S
        while (reason := _bind_failure(host, port)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if reason:
            raise UpError(f"port {port} on {host} cannot be used ({reason}); choose another by {setting}")


def _bind_failure(host: str, port: int) -> str | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror
    return None


def _free_port(preferred: int = 0) -> int:
    if preferred and _bind_failure("127.0.0.1", preferred) is None:
        return preferred
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
