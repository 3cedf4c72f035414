"""The folder that holds everything ``daapu up`` keeps: database, logs, the effective configuration; one start at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

NEEDED_BYTES: Final = 300 * 1024 * 1024
"""A new database with its write-ahead log takes about a third of it."""


class DataFolderError(Exception):
    """The folder cannot be used; the message says why and what to do."""


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder: ``DAAPU_HOME``, else the user's data directory of the system."""
    if home := environ.get("DAAPU_HOME", "").strip():
        return Path(home).expanduser().absolute()
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/daapu").expanduser()
    base = environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
    return Path(base).expanduser().absolute() / "daapu"


def prepare(folder: Path, *, needed_bytes: int = NEEDED_BYTES) -> None:
    """Create the folder and make sure that it can be written and has room.

    Raises:
        DataFolderError: it cannot or has not.
    """
    probe = folder / ".write-test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("logs", "run"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "run").chmod(0o700)
        (folder / "logs").chmod(0o700)
        probe.write_bytes(b"x")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise DataFolderError(
            f"the data folder {str(folder)!r} cannot be written: {error.strerror}; set DAAPU_HOME to a folder that can",
        ) from error
    if free < needed_bytes:
        raise DataFolderError(
            f"only {free // 2**20} MiB are free in the data folder {str(folder)!r}, daapu needs {needed_bytes // 2**20} MiB; "
            "free some space or set DAAPU_HOME to another disk",
        )


def is_held(folder: Path) -> bool:
    """Whether a running daapu holds the folder."""
    try:
        with hold(folder):
            return False
    except DataFolderError:
        return True


@contextmanager
def hold(folder: Path) -> Generator[None]:
    """Hold the folder for this process; the system lets go of it however the process ends.

    Raises:
        DataFolderError: another process holds it.
    """
    with (folder / "run" / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise DataFolderError(
                f"daapu is already running on the data folder {str(folder)!r} (process {owner}); "
                "open the address that it printed, stop it, or set DAAPU_HOME to another folder",
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
