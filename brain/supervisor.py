"""``daapu up``: database, local models, hand and brain as children; all of them run, or none is left."""

from __future__ import annotations

import secrets
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from brain.config.environment import apply_environment, without_overrides
from brain.config.load import check, read_file
from brain.local import data_folder
from brain.local.children import RESTART_PAUSES_S, START_FAILURES, Child, PostgresChild, ProgramChild, RestartPolicy
from brain.local.postgres import EmbeddedPostgres
from brain.local.profile import complete, needs_local_models

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from brain.config.models import Config
    from brain.config.schema import JsonObject

READY_TIMEOUT_S: Final = 120.0
PORT_PATIENCE_S: Final = 5.0
"""A brain that lost its supervisor a moment ago may still be letting go of the port."""
LOOPBACK: Final = {"127.0.0.1", "localhost", "::1"}
_POLL_S: Final = 0.05
_HAND_PORT: Final = 3100


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
                raise UpError(f"the {child.name} {ended} before it was ready{_last_line(child)}")
            if child.is_ready():
                return True
            if time.monotonic() > deadline:
                self._show_last_words(child)
                raise UpError(f"the {child.name} was not ready within {READY_TIMEOUT_S:.0f} s")
            self._stopping.wait(_POLL_S)
        return False

    def _schedule_restart(self, child: Child, ended: str) -> None:
        pause = self._policies[child.name].pause_after_death()
        if pause is None:
            self._show_last_words(child)
            raise UpError(f"the {child.name} {ended} and has died too often{_last_line(child)}")
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
        _refuse_taken_ports(plan.config)
        _announce(plan, folder, messages)
        groups = _parts(plan, folder, without_overrides(environ), echo=messages if verbose else None)
        supervisor = Supervisor(groups, messages=messages)
        with _signals_end(supervisor):
            try:
                if supervisor.start():
                    print(f"daapu is ready: open {_address(plan.config)}", file=out, flush=True)
                    supervisor.watch()
            finally:
                supervisor.stop()


@contextmanager
def _signals_end(supervisor: Supervisor) -> Generator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, supervisor.request_stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parts(plan: Plan, folder: Path, environ: Mapping[str, str], *, echo: IO[str] | None) -> list[list[Child]]:
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
        server = EmbeddedPostgres(folder / "postgres")
        # Last of its group: starting it blocks, and the programs before it load meanwhile.
        groups[0].append(PostgresChild(server))
        config = msgspec.structs.replace(config, database=msgspec.structs.replace(config.database, url=server.url("postgres")))
    effective = _write_effective(config, folder)
    live = f"{_address(config)}/api/health/live"
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


def _announce(plan: Plan, folder: Path, messages: IO[str]) -> None:
    lines = [f"data folder {folder}"]
    if plan.local_profile:
        lines.append("no config.jsonc here: using the local profile (embedded database, bundled models)")
    if plan.local_models:
        lines.append("the bundled chat model is a small demo; docs/how-to/connect-a-model.md says how to use your own")
    for line in lines:
        print(f"daapu: {line}", file=messages, flush=True)


def _address(config: Config) -> str:
    host = "127.0.0.1" if config.server.host in {"0.0.0.0", "::"} else config.server.host  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{config.server.port}"


def _refuse_taken_ports(config: Config) -> None:
    hand = urlsplit(config.hand.base_url)
    wanted = [(config.server.host, config.server.port, f"server.port in config.jsonc or SERVER__PORT={config.server.port + 1}")]
    if hand.hostname in LOOPBACK:
        wanted.append((str(hand.hostname), hand.port or 80, "the port in hand.baseUrl"))
    for host, port, setting in wanted:
        deadline = time.monotonic() + PORT_PATIENCE_S
        while (reason := _bind_failure(host, port)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
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


def _last_line(child: Child) -> str:
    words = [line for line in child.last_words() if line.strip()]
    return f": {words[-1]}" if words else ""
